"""Where the exactly-once sink keeps its decisions: in the offsets of a consumer group.

A decision says: this batch is written, and these are its transactions; and up to which version the
sink had decided every other key before (`memory`). It is the commit metadata of
one offset of the group that is named like the sink, committed by TxnOffsetCommit in a transaction
of the sink's driver. So it is as durable as any committed offset, appears as a whole or not at all,
and a driver that was fenced can make none. The offset itself is the decision's number, which grows
by one; the partitions it is "of" are 0 of the batch's topics, because there must be one. It is
there once for each topic, up to TOPICS_MAX, because the offsets of a topic end with it.

Brokers limit metadata (`offset.metadata.max.bytes`, 4096 by default), so a long decision is spread
over several groups, NAME, NAME.1, NAME.2 and so on, all in the same transaction. Each part begins
with "number of parts:"; together they are JSON, compressed, in base 64.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fencepost.client.cluster import Cluster
from fencepost.client.errors import ProducerFenced
from fencepost.client.groups import GroupAdmin
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_queue import Identity
from fencepost.client.transactional import TransactionDriver
from fencepost.spark.memory import DAY_MS, KEYS_MAX, NOTHING, Memory, is_keyed
from fencepost.spark.sink_errors import DecisionError, ExactlyOnceError, SinkFencedError

FORMATS: Final = (1, 2)
REVOKED: Final = -1
TOPICS_MAX: Final = 8
TOPICS_READ_MAX: Final = 1_000
LABEL_CHARS_MAX: Final = 100
PART_CHARS: Final = 3_500
PARTS_MAX: Final = 1_000
NUMBER_MAX: Final = 2**62
"""Of decisions, which are offsets: a number from which none would ever come to the end."""
_INT64_MAX: Final = 2**63 - 1
_INT16_MAX: Final = 2**15 - 1
_NOT_JSON: Final = (ValueError, TypeError, RecursionError)
TRANSACTIONS_MAX: Final = 100_000
"""Of one batch. What is read is counted before it is looked at: metadata of a few kilobytes may be
compressed so that all of it would take long."""
DECISION_BYTES_MAX: Final = 8 * 1024 * 1024
"""What a decision may be decompressed to: so many transactions of tasks, and as many spare ids."""


@dataclass(frozen=True, slots=True)
class Label:
    """What people call the writer of a batch."""

    application: str = ""
    """The Spark application's name."""
    query: str = ""
    """The query's name, if it has one."""

    def shortened(self) -> Label:
        """Bounded, for what is kept."""
        return Label(self.application[:LABEL_CHARS_MAX], self.query[:LABEL_CHARS_MAX])


NO_LABEL: Final = Label()


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch that is written."""

    number: int
    """Grows by one from decision to decision of a sink."""
    query: str
    """The key (`memory`): a query's id, a batch write's key, or empty for one without."""
    batch: int
    """The batch's id in its query, or the key's version; REVOKED when that was taken back."""
    topics: tuple[str, ...]
    """Those of the batch, up to TOPICS_MAX; at least one."""
    maker: Identity
    """Producer id and epoch of the driver that made it."""
    transactions: tuple[OpenTransaction, ...]
    """Those of the batch; each is to be committed."""
    spare: tuple[str, ...] = ()
    """Transactional ids of the decision before, which are free to be used again."""
    label: Label = NO_LABEL
    time_ms: int = 0
    """When it was made, by the driver's clock; 0 where a version made it that did not say."""
    run: str = ""
    """The run of the streaming query that wrote it (`memory.run_digest`)."""
    memory: Memory = NOTHING
    """What was decided before, of this and other keys."""

    def decided(self, key: str) -> int | None:
        """The last version of a key that is decided; None if none is known."""
        found = self.known().find(key) if key else None
        return None if found is None else found.version

    def known(self) -> Memory:
        """What the decision after this one has to remember."""
        if not self.query or self.batch == REVOKED:
            return self.memory
        return self.memory.with_key(self.query, self.batch, self.time_ms // DAY_MS, self.run)


def encode(decision: Decision, sink: str) -> list[str]:
    """A decision as commit metadata, in parts."""
    is_alone = not is_keyed(decision.query) and not decision.memory.knows_others(decision.query)
    content = {
        "format": FORMATS[0] if is_alone else FORMATS[1],
        "number": decision.number,
        "query": decision.query,
        "batch": decision.batch,
        "topic": decision.topics[0],
        "maker": list(decision.maker),
        "transactions": [
            [_tail(one.transactional_id, sink), one.producer_id, one.producer_epoch, one.is_tv2]
            for one in decision.transactions
        ],
        "spare": [_tail(name, sink) for name in decision.spare],
        "topics": list(decision.topics),
        "application": decision.label.application,
        "name": decision.label.query,
        "time": decision.time_ms,
        "run": decision.run,
        "memory": decision.memory.as_json(),
    }
    plain = json.dumps(content, separators=(",", ":")).encode()
    text = base64.b64encode(zlib.compress(plain, 6)).decode()
    pieces = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
    count = len(decision.transactions)
    is_too_long = len(pieces) > PARTS_MAX or len(plain) > DECISION_BYTES_MAX
    if count > TRANSACTIONS_MAX or is_too_long:
        raise ExactlyOnceError(
            "TOO_MANY_TRANSACTIONS",
            f"a batch of {sink} has {count} transactions, which is more than can be decided at "
            "once: let fewer tasks write it (coalesce)",
            {"sink": sink, "batch": decision.batch, "transactions": count},
        )
    return [f"{len(pieces)}:{piece}" for piece in pieces]


def decode(parts: list[str], sink: str) -> Decision:
    """The opposite of `encode`. DecisionError."""
    try:
        packed = base64.b64decode("".join(part.partition(":")[2] for part in parts), validate=True)
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, DECISION_BYTES_MAX)
        if not unpacker.eof:
            raise ValueError("it is cut short, or too long")
        content = json.loads(text)
        if content["format"] not in FORMATS:
            raise ValueError(f"its format is {content['format']!r}, known are {FORMATS}")
        _require_bounded(content)
        producer_id, epoch = content["maker"]
        return Decision(
            number=_within(content["number"], 0, NUMBER_MAX),
            query=_text(content["query"]),
            batch=_within(content["batch"], REVOKED, _INT64_MAX),
            topics=tuple(map(_text, content.get("topics") or [content["topic"]])),
            maker=_identity(producer_id, epoch),
            transactions=tuple(
                OpenTransaction(_text(f"{sink}-{tail}"), *_identity(number, epoch), bool(is_tv2))
                for tail, number, epoch, is_tv2 in content["transactions"]
            ),
            spare=tuple(_text(f"{sink}-{tail}") for tail in content["spare"]),
            label=Label(_text(content.get("application", "")), _text(content.get("name", ""))),
            time_ms=_within(content.get("time", 0), -_INT64_MAX, _INT64_MAX),
            run=_text(content.get("run", "")),
            memory=Memory.from_json(content.get("memory", ())),
        )
    except (binascii.Error, zlib.error, ArithmeticError, LookupError, *_NOT_JSON) as error:
        raise DecisionError(sink, str(error)) from error


def _require_bounded(content: Mapping[str, Any]) -> None:
    """ValueError for lists with more than a decision can have."""
    for name, most in (
        ("transactions", TRANSACTIONS_MAX),
        ("spare", TRANSACTIONS_MAX),
        ("topics", TOPICS_READ_MAX),
        ("memory", KEYS_MAX),
    ):
        found = content.get(name, ())
        if not isinstance(found, list | tuple) or len(found) > most:
            raise ValueError(f"{name} is no list of at most {most}")


def _within(value: Any, least: int, most: int) -> int:
    """A number that can be sent to brokers. ValueError."""
    number = int(value)
    if not least <= number <= most:
        raise ValueError(f"a number is not between {least} and {most}")
    return number


def _identity(producer_id: Any, epoch: Any) -> Identity:
    return Identity(_within(producer_id, -1, _INT64_MAX), _within(epoch, -1, _INT16_MAX))


def _text(value: Any) -> str:
    text = str(value)
    text.encode()  # ValueError for half a surrogate pair, which brokers cannot be sent
    return text


def _tail(transactional_id: str, sink: str) -> str:
    return transactional_id.removeprefix(f"{sink}-")


def groups_of(decision: Decision, sink: str) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """What each group commits to make `decision` known."""
    return {
        _group(sink, number): {
            TopicPartition(topic, 0): CommittedOffset(decision.number, -1, part)
            for topic in decision.topics[:TOPICS_MAX]
        }
        for number, part in enumerate(encode(decision, sink))
    }


def record_decision(
    cluster: Cluster, sink: str, driver: TransactionDriver, decision: Decision
) -> None:
    """Make a decision durable, in a transaction of the driver. SinkFencedError, ClientError."""
    try:
        driver.begin()
        for group, offsets in groups_of(decision, sink).items():
            cluster.run(driver.send_offsets(offsets, group))
        cluster.run(driver.end(commit=True))
    except ProducerFenced as error:
        raise SinkFencedError(
            sink,
            f"another driver has taken over the sink {sink}; what this one wrote is not "
            f"committed: {error}",
        ) from error


def revoked_after(decision: Decision) -> Decision:
    """The decision after one whose batch is to be written again."""
    return replace(decision, number=decision.number + 1, batch=REVOKED, transactions=(), spare=())


def read_decision(cluster: Cluster, sink: str) -> Decision | None:
    """The last decision of a sink; None if there is none. DecisionError, ClientError.

    Certain only for a driver that has fenced those before it.
    """
    groups = GroupAdmin(cluster)
    where, first = _last(groups.group_offsets(sink, require_stable=True))
    if where is None or first is None:
        return None
    parts = [first.metadata]
    for number in range(1, _count(first.metadata, sink)):
        group = _group(sink, number)
        found = groups.group_offsets(group, [where], require_stable=True).get(where)
        if found is None or found.offset != first.offset:
            raise DecisionError(sink, f"number {first.offset} lacks its part in {group}")
        parts.append(found.metadata)
    decision = decode(parts, sink)
    if decision.number != first.offset:
        # Copied to where it is newer than every decision to come, which it would hide.
        raise DecisionError(sink, f"offset {first.offset} is of number {decision.number}")
    return decision


def _last(
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> tuple[TopicPartition | None, CommittedOffset | None]:
    """Batches of other topics have left older ones."""
    found: Any = max(offsets.items(), key=lambda entry: entry[1].offset, default=(None, None))
    where, offset = found
    return where, offset


def _count(part: str, sink: str) -> int:
    text = part.partition(":")[0]
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= PARTS_MAX:
        raise DecisionError(sink, "they do not begin with a number of parts")
    return int(text)


def _group(sink: str, number: int) -> str:
    return sink if number == 0 else f"{sink}.{number}"
