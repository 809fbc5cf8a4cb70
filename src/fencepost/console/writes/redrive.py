"""Dead letters produced again to the topics that their records come from.

A letter says by its headers where its record was (`records.dead_letters`). A share group's broker
writes letters without key and value unless the group asks for copies; of those the record itself is
read again, where its log still has it. All records of a redrive are of one transaction: either all
of them are there, or none. Their headers are those of the letter, so the origin stays in them, and
`__redrive.letter`, which says what letter they are of; letters stay where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from fencepost.batch.records import Record
from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.aio.producer import AsyncProducer
from fencepost.client.errors import ClientError, UnknownTopic
from fencepost.client.metadata import TopicPartition
from fencepost.console.about_topic import topic_of
from fencepost.console.asked import Asked, NotThere
from fencepost.console.page import Sentence
from fencepost.console.pages.records import look_at
from fencepost.console.records.cursors import ForwardCursor, Found, LookEnded
from fencepost.console.records.dead_letters import SHARE_GROUP, Origin, origin_of
from fencepost.console.records.decoders import Decoder
from fencepost.console.records.query import (
    BUDGET_BYTES,
    BUDGET_S,
    LookQuery,
    finding_ranges,
)
from fencepost.console.records.row_maker import RowMaker, filter_of
from fencepost.console.records.rows import RecordRow
from fencepost.console.records.scan import Budget, Scan
from fencepost.console.records.topic_decoders import decoders_of
from fencepost.console.session import Session
from fencepost.console.writes.plan import CannotBe, Plan
from fencepost.console.writes.topics import required
from fencepost.views.view import count

LETTERS: Final = 50
LETTERS_MAX: Final = 200
KEPT_BYTES_MAX: Final = 16 << 20
"""Of keys, values and headers that are read for one redrive."""
TOPICS_MAX: Final = 20
NAMED_MAX: Final = 5
"""Letters that are named for each reason to leave letters out."""
LETTER_HEADER: Final = "__redrive.letter"
NOT_THERE: Final = "they have no copy of their records, whose logs have them no more"
NOT_READ: Final = "they have no copy of their records, which were not found within a look's limits"
TRANSACTIONAL_ID: Final = "fencepost-console-redrive"


class _Letter(NamedTuple):
    """A letter, where it is, and the origin that it names."""

    place: TopicPartition
    record: Record
    origin: Origin

    @property
    def name(self) -> str:
        return f"{self.place} at {self.record.offset}"

    @property
    def has_copy(self) -> bool:
        """Whether it has what its record had; a share group's letter without both has not."""
        has_any = self.record.key is not None or self.record.value is not None
        return has_any or self.origin.convention != SHARE_GROUP


class _Again(NamedTuple):
    """What is produced for a letter; without a `partition` its key decides."""

    letter: _Letter
    partition: int | None
    key: bytes | None
    value: bytes | None

    @property
    def line(self) -> str:
        origin, size = self.letter.origin, len(self.key or b"") + len(self.value or b"")
        to = origin.topic if self.partition is None else f"{origin.topic}-{self.partition}"
        what = "null" if self.value is None else count(size, "byte")
        return f"+ {to}: {what}, of letter {self.letter.name}, whose record was {origin.text}"


class _Kept:
    """Records of a look, whole, as long as they are not too many bytes."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.records: dict[tuple[int, int], Record] = {}
        self._left = bytes_max

    def keep(self, found: Found) -> None:
        """Keep a record. LookEnded beyond the bytes."""
        record = found.record
        self._left -= len(record.key or b"") + len(record.value or b"")
        self._left -= sum(len(name) + len(value or b"") for name, value in record.headers)
        if self._left < 0:
            raise LookEnded
        self.records[found.partition, record.offset] = record


async def redrive(session: Session, asked: Asked) -> Plan:
    """The letters of a topic that `from`, `to`, `partitions` and `filter` choose, the oldest
    first, `limit` of them."""
    topic = required(asked, "topic")
    letters, left_out, is_all = await _letters(session, topic, asked)
    originals = await _originals(session, [one for one in letters if not one.has_copy], left_out)
    chosen: list[_Again] = []
    partitions = await _partitions(session, {one.origin.topic for one in letters})
    for one in letters:
        known = partitions[one.origin.topic]
        source = one.record if one.has_copy else originals.get(one.name)
        if known is None:
            left_out[f"there is no topic {one.origin.topic}"].append(one.name)
        elif source is not None:
            partition = one.origin.partition if one.origin.partition in known else None
            chosen.append(_Again(one, partition, source.key, source.value))
    if not chosen:
        raise CannotBe(f"no letter of {topic} can be produced again{_why(left_out)}")

    async def carry_out(session: Session) -> str:
        await _produce(session, chosen)
        return f"Produced {count(len(chosen), 'record')} again; the letters stay in {topic}."

    return Plan(
        topic,
        [one.line for one in chosen],
        carry_out,
        _sentences(topic, chosen, left_out, is_all),
        {"records": len(chosen), "topics": sorted({one.letter.origin.topic for one in chosen})},
    )


async def _letters(
    session: Session, topic: str, asked: Asked
) -> tuple[list[_Letter], dict[str, list[str]], bool]:
    """The letters asked for, those that are left out by the reason why, and whether no more are
    asked for than are there."""
    chosen = {key: asked.text(key) for key in ("from", "to", "partitions")}
    chosen |= {"topic": topic, "order": "oldest", "isolation": "read_committed"}
    limit = asked.number("limit", LETTERS, 1, LETTERS_MAX)
    query = LookQuery.of(Asked(chosen | {"limit": str(limit)}))
    rows = RowMaker(*decoders_of(Asked(), topic, session.schemas), filter_of(asked))
    kept = _Kept()

    def make(found: Found) -> RecordRow | None:
        row = rows(found)
        if row is not None:
            kept.keep(found)
        return row

    try:
        look = await look_at(session, query, make)
    except NotThere as error:
        raise CannotBe(str(error)) from None
    letters, left_out = [], defaultdict(list)
    for row in look.scan.rows:
        record = kept.records[row.partition, row.offset]
        place = TopicPartition(topic, row.partition)
        origin = origin_of(record.headers)
        if origin is None:
            left_out["no header names their origin"].append(f"{place} at {row.offset}")
        elif origin.topic.startswith("__"):
            left_out["their origin is a topic of Kafka's own"].append(f"{place} at {row.offset}")
        elif origin.topic == topic:
            left_out[f"their origin is {topic} itself"].append(f"{place} at {row.offset}")
        else:
            letters.append(_Letter(place, record, origin))
    return letters, left_out, look.scan.is_complete


async def _partitions(session: Session, topics: set[str]) -> dict[str, frozenset[int] | None]:
    """The partitions of each topic, None for one that is not there. CannotBe for too many."""
    if len(topics) > TOPICS_MAX:
        raise CannotBe(f"the letters are of {len(topics)} topics, at most {TOPICS_MAX} are allowed")
    found: dict[str, frozenset[int] | None] = {}
    for name in sorted(topics):
        try:
            found[name] = frozenset((await topic_of(session, name)).partitions)
        except (NotThere, UnknownTopic):
            found[name] = None
    return found


async def _originals(
    session: Session, letters: Sequence[_Letter], left_out: dict[str, list[str]]
) -> dict[str, Record]:
    """The records that letters without a copy are about, by the letters' names."""
    wanted: dict[str, list[_Letter]] = defaultdict(list)
    for one in letters:
        wanted[one.origin.topic].append(one)
    kept, found = _Kept(), {}
    for topic, ones in sorted(wanted.items()):
        try:
            again = [one.origin for one in ones]
            records, is_all = await _read_again(session, topic, again, kept)
        except (NotThere, ClientError) as error:
            left_out[f"their records cannot be read: {error}"] += [one.name for one in ones]
            continue
        for one in ones:
            record = records.get((one.origin.partition, one.origin.offset))
            if record is None:
                left_out[NOT_THERE if is_all else NOT_READ].append(one.name)
            else:
                found[one.name] = record
    return found


async def _read_again(
    session: Session, topic: str, origins: Sequence[Origin], kept: _Kept
) -> tuple[Mapping[tuple[int, int], Record], bool]:
    """Records of a topic at these places, as far as they are there, and whether all were looked
    for: a look has limits."""
    info = await topic_of(session, topic)
    places = {(one.partition, one.offset) for one in origins if one.partition in info.partitions}
    if not places:
        return {}, True
    query = LookQuery.of(Asked({"topic": topic}))
    numbers = sorted({number for number, _ in places})
    logs = await session.run(finding_ranges(session.cluster, query, numbers))
    cursors = []
    for number, log in logs.items():
        offsets = [offset for one, offset in places if one == number]
        start, end = max(min(offsets), log.log_start), min(max(offsets) + 1, log.log_end)
        if start < end:
            cursors.append(ForwardCursor(TopicPartition(topic, number), start, end))
    mine = _Kept()
    rows = RowMaker(Decoder("hex"), Decoder("hex"), None, 1)

    def make(found: Found) -> RecordRow | None:
        if (found.partition, found.record.offset) not in places:
            return None
        kept.keep(found)
        mine.keep(found)
        return rows(found)

    if not cursors:
        return {}, True
    budget = Budget(BUDGET_BYTES, BUDGET_S)
    scan = Scan(session, cursors, make, len(places), False, budget)
    await scan.run()
    return mine.records, scan.is_complete


async def _produce(session: Session, chosen: Sequence[_Again]) -> None:
    """All of them in one transaction. ClientError."""
    config = replace(session.config, transactional_id=TRANSACTIONAL_ID)
    async with (
        AsyncCluster(config=config) as cluster,
        AsyncProducer(cluster) as producer,
        producer.transaction(),
    ):
        for one in chosen:
            letter = one.letter
            own = (LETTER_HEADER, f"{letter.place}:{letter.record.offset}".encode())
            await producer.send(
                letter.origin.topic,
                one.value,
                one.key,
                partition=one.partition,
                headers=[*letter.record.headers, own],
            )


def _why(left_out: Mapping[str, Sequence[str]]) -> str:
    return "".join(
        f"; {count(len(names), 'letter')} left out because {reason}"
        for reason, names in left_out.items()
    )


def _sentences(
    topic: str, chosen: Sequence[_Again], left_out: Mapping[str, Sequence[str]], is_all: bool
) -> list[Sentence]:
    counts: dict[str, int] = defaultdict(int)
    for one in chosen:
        counts[one.letter.origin.topic] += 1
    to = ", ".join(f"{number} to {name}" for name, number in sorted(counts.items()))
    found = [
        Sentence(f"{count(len(chosen), 'record')} would be produced in one transaction: {to}."),
        Sentence(
            f"The letters stay in {topic}: what is produced again twice is there twice.", "warning"
        ),
    ]
    if not is_all:
        found.append(Sentence("More letters follow those of this redrive.", "note"))
    for reason, names in left_out.items():
        named = ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")
        words = f"{count(len(names), 'letter')} left out because {reason}: {named}."
        found.append(Sentence(words, "warning"))
    return found
