"""A broker on which scenes are played, and the transcript of what it answered.

A scene is a function that sends requests to a `Stage`. Topics, groups and members have the names
that the scene gives them, so both brokers get the same requests in the same order; what they answer
is observed as `drawn.comparing` does it, with topic ids by the names of their topics. An expected
error is part of the scene: it fails on Apache Kafka if the scene is wrong, and on ours if we are.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.client.connection import Connection
from fencepost.client.errors import UnsupportedApi
from fencepost.client.protocol.in_flight import Token
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.api.create_topics import CreateTopicsRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message, Request
from fencepost.wire.types import Uuid

from ...waiting import DEADLINE_MS, eventually
from ..drawn.comparing import Side, unlike
from ..topic_words import new, wait_for_leaders

R = TypeVar("R", bound=Message)
SHOWN_MAX = 4
"""So many answers of a scene that differ are reported."""
PROBES = itertools.count()
MAIN = "main"
"""The connection of requests that name none."""
COORDINATOR_ERRORS = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


@dataclass(frozen=True)
class Entry:
    """A request, and what was observed of its answer."""

    request: str
    observed: Any
    expected: str = ""
    """What the scene wanted instead, if it did."""


class SceneFailedError(AssertionError):
    """An answer that the scene did not expect; the transcript ends with it."""


@dataclass
class Stage:
    """One broker during one scene; `scene` is in the names of everything that it makes."""

    side: Side
    scene: str
    entries: list[Entry] = field(default_factory=list)
    _connections: dict[str, Connection] = field(default_factory=dict)
    _sent: dict[tuple[str, int], Request[Any]] = field(default_factory=dict)

    def name(self, label: str) -> str:
        """Name of a topic or group that is this scene's alone."""
        return f"{self.scene}-{label}"

    def member(self, label: str) -> str:
        """A member id that the client chose, which is compared as it is."""
        self.side.recognise("member_id", label, label)
        return label

    def topic(self, label: str, partitions: int = 1, **configs: str) -> str:
        """Make a topic and wait for its leaders; its name."""
        name = self.name(label)
        settings: Mapping[str, str | None] = {k.replace("_", "."): v for k, v in configs.items()}
        wanted = new(name, partitions, configs=dict(settings))
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
        (made,) = self.side.request(request).topics
        assert made.error_code == 0, made
        wait_for_leaders(self.side, name, partitions)
        self.topic_id(name)
        self._wait_for_the_coordinator(name)
        return name

    def _wait_for_the_coordinator(self, topic: str) -> None:
        """Apache Kafka's coordinator hears of a topic a moment after its partitions have leaders.

        There is one partition of groups, so what one group's members see the others see, too.
        """

        def is_assigned() -> bool:
            request = ConsumerGroupHeartbeatRequest(
                group_id="probe",
                member_id=f"{topic}-{next(PROBES)}"[-36:],
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=[topic],
                topic_partitions=[],
            )
            answer = self.side.request(request, 1)
            request.member_epoch = -1
            self.side.request(request, 1)
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        eventually(is_assigned, f"the coordinator to know of {topic}")

    def topic_id(self, name: str) -> Uuid:
        """The topic's id on this broker."""
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        asked.allow_auto_topic_creation = False
        (found,) = self.side.request(asked).topics
        self.side.recognise("topic_id", found.topic_id, f"id of {name}")
        return found.topic_id

    def topic_name(self, topic_id: Uuid) -> str:
        """The name that goes with an id in an answer."""
        return str(self.side.word_for("topic_id", topic_id)).removeprefix("id of ")

    def connection(self, by: str = MAIN) -> Connection:
        """The connection of that name, opened when it is first used."""
        if by not in self._connections or not self._connections[by].is_open:
            self._connections[by] = Connection(
                self.side.host, self.side.port, client_id=by, timeout_ms=DEADLINE_MS
            )
        return self._connections[by]

    def close_connection(self, by: str) -> None:
        """Close a connection, and what belongs to it."""
        self._connections.pop(by).close()

    def ask(
        self,
        request: Request[R],
        version: int | None = None,
        *,
        by: str = MAIN,
        error: int | None = None,
        only: Callable[[Any], Any] | None = None,
    ) -> R:
        """The answer, which becomes part of the transcript.

        SceneFailedError when its error is not the expected one. `only` reduces what is compared.
        """
        return self.receive(self.send(request, version, by=by), by=by, error=error, only=only)

    def send(self, request: Request[R], version: int | None = None, *, by: str = MAIN) -> Token[R]:
        """Send what may be answered late; see `receive`."""
        try:
            token = self.connection(by).send(request, version)
        except UnsupportedApi as unserved:
            self.entries.append(Entry(repr(request), f"not served: {unserved}"))
            raise SceneFailedError(str(unserved)) from None
        self._sent[by, token.correlation_id] = request
        return token

    def receive(
        self,
        token: Token[R],
        *,
        by: str = MAIN,
        error: int | None = None,
        only: Callable[[Any], Any] | None = None,
    ) -> R:
        """The answer to a request that was sent; as `ask`."""
        answer = self.connection(by).receive(token)
        request = self._sent.pop((by, token.correlation_id))
        seen = self.side.observe(answer)
        found = first_error(answer)
        told = f"v{token.version} {request!r}"
        self.entries.append(Entry(told, seen if only is None else only(seen)))
        if error is not None and found != error:
            self.entries[-1] = Entry(told, seen, f"error {ErrorCode(error)!r}")
            raise SceneFailedError(f"{told}\n  answered {seen}\n  instead of {ErrorCode(error)!r}")
        return answer

    def note(self, what: str, value: Any) -> None:
        """Compare a value that was taken from answers."""
        self.entries.append(Entry(what, value))

    def require(self, what: str, found: Any, wanted: Any) -> None:
        """Compare a value, and expect it; SceneFailedError."""
        self.entries.append(Entry(what, found, "" if found == wanted else f"{wanted!r}"))
        if found != wanted:
            raise SceneFailedError(f"{what}: {found!r} instead of {wanted!r}")

    def until(
        self,
        request: Request[R],
        is_wanted: Callable[[R], Any],
        what: str,
        version: int | None = None,
        *,
        by: str = MAIN,
    ) -> R:
        """Ask until the answer is as wanted; only the last one is in the transcript."""
        last: list[R] = []

        def asked() -> bool:
            last[:] = [self.connection(by).request(request, version)]
            return bool(is_wanted(last[0]))

        try:
            eventually(asked, what)
        except UnsupportedApi as unserved:
            raise SceneFailedError(str(unserved)) from None
        finally:
            seen = self.side.observe(last[0]) if last else None
            self.entries.append(Entry(f"until {what}: {request!r}", seen))
        return last[0]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def first_error(answer: Any) -> int:
    """The answer's own error code, or else the first that is not 0 in its rows."""
    found = getattr(answer, "error_code", 0)
    if found:
        return int(found)
    for name in (entry.name for entry in type(answer).fields):
        rows = getattr(answer, name)
        for row in rows if isinstance(rows, list) else ():
            if hasattr(type(row), "fields") and (inner := first_error(row)):
                return inner
    return int(getattr(answer, "acknowledge_error_code", 0))


Scene = Callable[[Stage], None]


class Scenes(dict[str, Scene]):
    """Scenes by name; decorate a function to make it one."""

    def __call__(self, scene: Scene) -> Scene:
        self[scene.__name__.replace("_", "-")] = scene
        return scene


@dataclass(frozen=True)
class Transcript:
    """What one broker answered to a scene, and how the scene ended there."""

    broker: str
    entries: tuple[Entry, ...]
    failure: str = ""

    def last(self, count: int = 8) -> str:
        """The last of its entries, for the report of a failure."""
        lines = (f"  {one.request}\n    {one.observed}" for one in self.entries[-count:])
        return "\n".join(lines)


def play(side: Side, name: str, scene: Scene) -> Transcript:
    """Play a scene on a broker; an unexpected answer ends it."""
    side.start_history()
    stage = Stage(side, name)
    failure = ""
    with contextlib.closing(stage):
        try:
            scene(stage)
        except AssertionError as error:
            failure = str(error) or type(error).__name__
    return Transcript(side.name, tuple(stage.entries), failure)


def differences(apache: Transcript, ours: Transcript) -> Iterator[str]:
    """The answers in which the brokers differ, and failures that only ours had.

    Of an answer the places that differ are named with both values, and then both answers in full.
    """
    found = 0
    for position, (theirs, mine) in enumerate(zip(apache.entries, ours.entries, strict=False)):
        if theirs.observed == mine.observed:
            continue
        found += 1
        if found > SHOWN_MAX:
            return
        expected = f"\n  expected      {mine.expected}" if mine.expected else ""
        places = "\n".join(
            f"  at {path or 'the answer'}: {apache.broker} {first!r}, {ours.broker} {second!r}"
            for path, first, second in unlike("", theirs.observed, mine.observed)
        )
        yield (
            f"answer {position} differs\n{places}\n  request       {mine.request}\n"
            f"  {apache.broker:13} {theirs.observed}\n  {ours.broker:13} {mine.observed}{expected}"
        )
    if bool(ours.failure) != bool(apache.failure):
        yield f"{ours.broker}: {ours.failure or 'no failure'}"
    elif len(ours.entries) != len(apache.entries) and not found:
        yield f"{len(ours.entries)} answers of {ours.broker}, {len(apache.entries)} of Apache Kafka"


def warm_up(side: Side) -> None:
    """Wait until the coordinators of groups and of share state are there."""

    def is_loaded() -> bool:
        found = side.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["warm"]), 4)
        if any(one.error_code for one in found.coordinators):
            return False
        wanted = OffsetFetchRequestGroup(group_id="warm", topics=None)
        (group,) = side.request(OffsetFetchRequest(groups=[wanted]), 9).groups
        return group.error_code not in COORDINATOR_ERRORS

    eventually(is_loaded, "a group coordinator")
