"""Histories of drawn requests, carried out on two brokers, and what differs in their answers.

A history is a list of steps; a step sends one request, or a few, to the broker of a `Side` and
returns what a client can see of the answers. Both sides carry out each step before the next, and a
history ends with its first difference, since the brokers' states may differ from there on. A
history is a function of its seed, which the report names: the budget decides how many are tried,
never what is in one.

What a broker chooses for itself (topic ids, producer ids, member ids, session ids) is compared by
the order in which it appeared: the first producer id of one side stands for the first of the other.
The order of topics, partitions and members in an answer is not compared.

One kind of difference is not a finding: Apache Kafka answers UNKNOWN_SERVER_ERROR where a value
made it fail in a way it did not foresee, and Fencepost names the error, or serves the request. What
else differs on purpose is not drawn, which the drawing says, with the reason.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.batch.errors import BatchError
from fencepost.batch.header import NO_PRODUCER_ID, iter_headers
from fencepost.batch.records import read_payload, read_rows
from fencepost.client.connection import Connection
from fencepost.client.errors import ConnectionFailed, ProtocolError, RequestTimedOut
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.message import Request, Struct
from fencepost.wire.types import Uuid

from ...waiting import DEADLINE_MS, DEADLINE_S

SECONDS = float(os.environ.get("FENCEPOST_COMPARE_SECONDS", "5"))
"""How long each test draws histories."""
SEED, _, ALONE = os.environ.get("FENCEPOST_COMPARE_SEED", "1").partition(":")
"""What the histories are drawn from; `1:298` is one of them alone, as a report names it."""
UNKNOWN_SERVER_ERROR = -1
SHOWN_MAX = 12
SHOWN_CHARS_MAX = 700
CHOSEN_BY_THE_BROKER = frozenset(
    ("topic_id", "producer_id", "member_id", "session_id", "leader_member_id", "cluster_id")
)
ORDERED_BY = (
    *("name", "topic", "topic_name", "topic_id", "index", "partition_index", "partition"),
    *("group_id", "member_id", "subtopology_id"),
)
NOT_COMPARED = frozenset(
    (
        "throttle_time_ms",  # by load
        "error_message",  # compared by the suites of messages
        "acknowledge_error_message",
        "batch_index_error_message",
        "node_endpoints",
        "host",
        "port",
    )
)
ATTRIBUTES_WITH_A_MEANING = 0x7F
CLOSED = "connection closed"
NO_ANSWER = f"no answer within {DEADLINE_MS} ms"

Step = Callable[["Side"], Any]


@dataclass
class Side:
    """One of the two brokers, a connection to it, and what it has chosen so far."""

    name: str
    host: str
    port: int
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """What earlier steps of a history keep for later ones: a producer's id, a member's."""
    _connection: Connection | None = None
    _chosen: dict[tuple[str, Any], str] = field(default_factory=dict)

    def request(self, request: Request[Any], version: int | None = None) -> Any:
        """The answer; `CLOSED` or `NO_ANSWER` if the broker did not send one."""
        if self._connection is None or not self._connection.is_open:
            self._connection = Connection(self.host, self.port, timeout_ms=DEADLINE_MS)
        try:
            return self._connection.request(request, version)
        except (ConnectionFailed, ProtocolError):
            self.close()
            return CLOSED
        except RequestTimedOut:
            self.close()
            return NO_ANSWER

    def topic_id(self, name: str) -> Uuid:
        """Its id on this broker; the zero id when there is no such topic."""
        if name not in self.topic_ids:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            asked.allow_auto_topic_creation = False
            (found,) = self.request(asked).topics
            if found.error_code:
                return found.topic_id
            self.topic_ids[name] = found.topic_id
        return self.topic_ids[name]

    def recognise(self, kind: str, value: Any, word: str) -> None:
        """Observe a value of a kind that a broker or the test has chosen as this word."""
        self._chosen[kind, value] = word

    def word_for(self, kind: str, value: Any) -> Any:
        """What stands for such a value in what is observed."""
        return self._stand_in(kind, value)

    def start_history(self) -> None:
        """Forget what the last history kept, and its connection, whose requests have an order."""
        self.values.clear()
        self._chosen.clear()
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def observe(self, value: Any, name: str = "") -> Any:
        """A message as plain values that both brokers should answer alike."""
        if isinstance(value, Struct):
            names = (entry.name for entry in type(value).fields)
            return {
                one: self.observe(getattr(value, one), one)
                for one in names
                if one not in NOT_COMPARED
            }
        if name == "records":
            return self._batches(value)
        if isinstance(value, list) and _is_a_set(name, value):
            return sorted(value)
        if isinstance(value, list):
            return sorted((self.observe(one, name) for one in value), key=_order)
        if name in CHOSEN_BY_THE_BROKER:
            return self._stand_in(name, value)
        if name == "leader" and isinstance(value, str):
            return self._stand_in("member_id", value)
        return value

    def _stand_in(self, name: str, value: Any) -> Any:
        if value in (None, "", 0, NO_PRODUCER_ID) or value == Uuid(bytes(16)):
            return value
        ordinal = sum(1 for kind, _ in self._chosen if kind == name)
        return self._chosen.setdefault((name, value), f"{name} {ordinal}")

    def _batches(self, records: Any) -> Any:
        if not records:
            return None if records is None else []
        seen = []
        view = memoryview(records)
        for at, header in iter_headers(view):
            # Apache Kafka drops the bits without a meaning when it stamps or compresses a batch.
            attributes = header.attributes & ATTRIBUTES_WITH_A_MEANING
            plain = header._replace(crc=0, batch_length=0, attributes=attributes)
            if header.is_log_append_time:
                plain = plain._replace(max_timestamp=0)
            producer = self._stand_in("producer_id", header.producer_id)
            rows = _rows(view, at, header)
            seen.append((*plain._replace(producer_id=0), producer, rows))
        return seen


def _is_a_set(name: str, value: list[Any]) -> bool:
    """Whether it is names, or numbers of partitions, whose order says nothing."""
    kind = int if name == "partitions" else str
    return all(isinstance(one, kind) for one in value)


def _order(seen: Any) -> tuple[Any, ...]:
    """Topics and partitions by their names and numbers; what has neither stays where it is."""
    if not isinstance(seen, dict):
        return ()
    return tuple(str(seen[name]) for name in ORDERED_BY if name in seen)


def _rows(view: memoryview, at: int, header: Any) -> Any:
    """The records, or the bytes as they are stored where no reader can read them."""
    try:
        payload = read_payload(view, at, header)
        rows = [payload] if header.is_control else read_rows(payload, header)
    except BatchError as error:
        return str(error)
    if header.is_log_append_time and not header.is_control:
        rows = map(_without_time, rows)
    return [_plain(row) for row in rows]


def _without_time(row: Any) -> Any:
    offset, _, *others = row
    return (offset, *others)


def _plain(row: Any) -> Any:
    """A record's parts, for what is not compared as a view."""
    if isinstance(row, memoryview):
        return bytes(row)
    return tuple(map(_plain, row)) if isinstance(row, tuple | list) else row


@dataclass(frozen=True)
class Difference:
    """Two answers to one step that are not alike."""

    seed: str
    step: Step
    position: int
    answers: dict[str, Any]

    def __str__(self) -> str:
        lines = [f"history {self.seed}, step {self.position}: {self.step!r}"]
        lines += [f"    {path}: {a!r:.300} / {b!r:.300}" for path, a, b in self.paths()[:8]]
        return "\n".join(lines)

    def paths(self) -> list[tuple[str, Any, Any]]:
        """Where they differ, and both values there."""
        first, second = self.answers.values()
        return list(unlike("", first, second))

    @property
    def is_unforeseen(self) -> bool:
        """Whether Apache Kafka failed in a way it did not foresee."""
        _, apache = self.answers.values()
        return _has_failed(apache)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What tells this difference from another: the paths without positions, short values."""
        shown = []
        for path, first, second in self.paths()[:2]:
            words = "".join(c for c in path if not c.isdigit())
            shown.append(
                (words, *(one if isinstance(one, int) else "…" for one in (first, second)))
            )
        return (type(self.step).__name__, getattr(self.step, "name", ""), *shown)


def _has_failed(seen: Any) -> bool:
    """Whether an answer has UNKNOWN_SERVER_ERROR anywhere."""
    if isinstance(seen, dict):
        return seen.get("error_code") == UNKNOWN_SERVER_ERROR or any(
            map(_has_failed, seen.values())
        )
    return isinstance(seen, list) and any(map(_has_failed, seen))


def unlike(path: str, first: Any, second: Any) -> list[tuple[str, Any, Any]]:
    """The paths at which two observed answers differ, and both values there."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        parts = [(f"{path}.{key}", first[key], second[key]) for key in first]
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        parts = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(first, second, strict=True))]
    else:
        return [] if first == second else [(path, first, second)]
    return [one for part in parts for one in unlike(*part)]


@dataclass(frozen=True)
class Ask:
    """A step that sends one request, made for the side, and sees its answer."""

    name: str
    make: Callable[[Side], Request[Any]]
    version: int | None = None
    told: str = ""
    keep: Callable[[Side, Any], None] | None = None
    """Takes from the answer what later steps need."""
    only: Callable[[Any], Any] | None = None
    """Reduces what is compared of the answer."""

    def __call__(self, side: Side) -> Any:
        answer = side.request(self.make(side), self.version)
        if self.keep is not None and not isinstance(answer, str):
            self.keep(side, answer)
        seen = side.observe(answer)
        return seen if self.only is None or isinstance(answer, str) else self.only(seen)

    def __repr__(self) -> str:
        return f"{self.name} v{self.version} {self.told}"[:SHOWN_CHARS_MAX]


class Settling(Ask):
    """Asks for what changes a little later on either side, such as the markers of a transaction:
    the answers are compared until they are alike, within `DEADLINE_MS`."""


def compare(
    sides: Sequence[Side],
    draw: Callable[[random.Random], Sequence[Step]],
    seconds: float = SECONDS,
    alone: str = ALONE,
) -> int:
    """Draw histories until the budget is spent; AssertionError with the distinct differences.

    Only the history of that number if one is to run `alone`. Returns how many both sides carried
    out, one at the least.
    """
    found: dict[tuple[Any, ...], Difference] = {}
    tried = 0
    ends = time.monotonic() + seconds
    for number in [int(alone)] if alone else itertools.count():
        difference = _run(sides, draw, f"{SEED}:{number}")
        tried += 1
        if difference is not None and not difference.is_unforeseen:
            found.setdefault(difference.kind, difference)
        if time.monotonic() > ends or len(found) >= SHOWN_MAX:
            break
    told = "\n".join(map(str, found.values()))
    names = " / ".join(side.name for side in sides)
    assert not found, f"{tried} histories, {len(found)} kinds of difference ({names}):\n{told}"
    return tried


def _run(
    sides: Sequence[Side], draw: Callable[[random.Random], Sequence[Step]], seed: str
) -> Difference | None:
    for side in sides:
        side.start_history()
    for position, step in enumerate(draw(random.Random(seed))):
        first, second = answers = [step(side) for side in sides]
        ends = time.monotonic() + DEADLINE_S
        while first != second and isinstance(step, Settling) and time.monotonic() < ends:
            first, second = answers = [step(side) for side in sides]
        if first != second:
            names = (side.name for side in sides)
            return Difference(seed, step, position, dict(zip(names, answers, strict=True)))
    return None
