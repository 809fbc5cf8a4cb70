"""Looking at a cluster in the background, in a thread with a connection of its own.

List pages are made of the newest sample and ask the cluster nothing. A look is three kinds of
requests: Metadata of all topics, DescribeCluster with the brokers that are fenced, and ListGroups
from each broker; the quorum where it can be had. Looks become rarer where they take long, so that
the console takes no more than a small share of its own time and of the brokers'. Looks that fail
are repeated with exponential back-off, up to BACKOFF_MAX_S; one that can connect to
no broker fails at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from fencepost.client import asking
from fencepost.client.admin import describing_cluster
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.conversation import (
    Begin,
    Conversation,
    Exchange,
    ExchangeAll,
    Pause,
    Step,
    Where,
)
from fencepost.client.errors import ClientError
from fencepost.client.groups import listing_groups
from fencepost.client.metadata import TopicInfo
from fencepost.client.quorum import QuorumLeader, describing_quorum
from fencepost.console.coordinators import needed_state, requiring_state_topic
from fencepost.console.events import Event, events_between
from fencepost.console.sample import Sample
from fencepost.console.standing import Rate
from fencepost.wire.errors import ErrorCode

INTERVAL_S: Final = 5.0
SHARE: Final = 0.05
"""Of the sampler's time that looks may take: a look of one second is followed by a pause of 19."""

LOOK_TIMEOUT_MS: Final = 5_000
"""For each of a look's questions, and each of their requests."""

BACKOFF_S: Final = 1.0
BACKOFF_MAX_S: Final = 30.0
CLOSING_S: Final = 0.5
"""How long the console waits, when it ends, for a look that is in the middle of a request."""

EVENTS_KEPT: Final = 1_000
R = TypeVar("R")
Further = Callable[[ClusterView[Any], int], Conversation[None]]


class Failing(NamedTuple):
    """Looks fail: since when (ms since 1970), how many did, and why the last one did. `since_ms` is
    the time of the last sample or, where there is none, of the first look's begin."""

    since_ms: int
    failures: int
    error: ClientError


class _Closed(ClientError):
    """The sampler was closed in the middle of a look."""


class _LookedAt(Cluster):
    """A cluster whose conversations end at their next step once `closed` is set; `sent` counts
    their requests. One that is not `patient` does not try again when no broker can be connected to:
    its owner does."""

    def __init__(
        self, config: ClientConfig, closed: threading.Event, sent: Rate, *, patient: bool
    ) -> None:
        super().__init__(config=config)
        self._closed = closed
        self._sent = sent
        self._patient = patient
        self._refused: set[tuple[str, int]] = set()

    def run(self, conversation: Conversation[R]) -> R:
        if self._closed.is_set():
            raise _Closed("the console ends")
        self._refused.clear()
        return super().run(conversation)

    def note_failure(self, error: ClientError) -> None:
        super().note_failure(error)
        known = {(node.host, node.port) for node in self.metadata.nodes.values()}
        if not self._patient and self._refused.issuperset(known.union(self.bootstrap)):
            raise error

    def _connect(self, where: Where) -> Connection:
        try:
            found = super()._connect(where)
        except ClientError:
            self._refused.add((where.host, where.port))
            raise
        self._refused.clear()
        return found

    def _take(self, step: Step[Any]) -> Any:
        if isinstance(step, Pause):
            self._closed.wait(step.pause_ms / 1000)
        if self._closed.is_set():
            raise _Closed("the console ends")
        exchanges: list[Exchange[Any]] = []
        if isinstance(step, Exchange):
            exchanges = [step]
        elif isinstance(step, Begin):
            exchanges = [step.exchange]
        elif isinstance(step, ExchangeAll):
            exchanges = step.exchanges
        for one in exchanges:
            if (needed := needed_state(one)) is not None:
                self.run(requiring_state_topic(one, needed))
            self._sent.add(1)
        return None if isinstance(step, Pause) else super()._take(step)


class Look:
    """One look at a cluster through a connection of its own."""

    def __init__(self, cluster: Cluster, leader: QuorumLeader) -> None:
        self._cluster = cluster
        self._leader = leader
        self._errors: dict[str, str] = {}
        self._requests: dict[str, int] = {}

    def take(self) -> Sample:
        """The cluster as it is now. Raises ClientError where not even metadata can be had."""
        begun = time.monotonic()
        topics = self._cluster.run(asking.describe(self._cluster))
        self._requests["Metadata"] = 1
        known = self._cluster.metadata
        described = self._try(
            "DescribeCluster", 1, describing_cluster(self._cluster, include_fenced=True)
        )
        nodes = known.nodes.values() if described is None else described.brokers
        groups = self._try("ListGroups", len(known.nodes), listing_groups(self._cluster))
        quorum = self._try("DescribeQuorum", 1, describing_quorum(self._cluster, self._leader))
        return Sample(
            time.time_ns() // 1_000_000,
            (time.monotonic() - begun) * 1000,
            known.cluster_id or "",
            known.controller_id,
            {node.node_id: node for node in nodes},
            frozenset() if described is None else described.fenced,
            {topic.name: topic for topic in topics if topic.error_code == ErrorCode.NONE},
            groups,
            quorum,
            self._requests,
            self._errors,
        )

    def _try(self, name: str, requests: int, asking_it: Conversation[R]) -> R | None:
        self._requests[name] = requests
        try:
            return self._cluster.run(asking_it)
        except ClientError as error:
            self._errors[name] = str(error)
            return None


def sharing_topics(before: Sample, after: Sample) -> Sample:
    """`after`, with the very topics and partitions of `before` where they have not changed: samples
    that are kept take little memory, and what has changed is found quickly."""
    topics = {name: _shared(before.topics.get(name), topic) for name, topic in after.topics.items()}
    return msgspec.structs.replace(after, topics=topics)


def _shared(former: TopicInfo | None, topic: TopicInfo) -> TopicInfo:
    if former is None:
        return topic
    if former == topic:
        return former
    known = former.partitions
    partitions = {
        number: known[number] if known.get(number) == one else one
        for number, one in topic.partitions.items()
    }
    return replace(topic, partitions=partitions)


class Sampler:
    """Takes samples until it is closed. `newest` may be read from any thread."""

    def __init__(self, config: ClientConfig, interval_s: float = INTERVAL_S) -> None:
        self.newest: Sample | None = None
        self.failing: Failing | None = None
        """Set while looks fail."""
        self.events: tuple[Event, ...] = ()
        """What changed between samples, the newest last; EVENTS_KEPT of them at most."""
        self.requests, self.looked_s = Rate(), Rate()
        """What looks cost in the last minute: requests, and seconds."""
        self.next_look_at = 0.0
        """When the next look begins, by the monotonic clock."""
        self._config = config.with_settings(
            {
                "api_timeout_ms": min(config.api_timeout_ms, LOOK_TIMEOUT_MS),
                "request_timeout_ms": min(config.request_timeout_ms, LOOK_TIMEOUT_MS),
                "connect_timeout_ms": min(config.connect_timeout_ms, LOOK_TIMEOUT_MS),
            }
        )
        self._interval_s = interval_s
        self._listeners: list[Callable[[Sample], Any]] = []
        self._further: list[Further] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console-sampler", daemon=True)

    @property
    def runs(self) -> bool:
        """Whether looks are taken in the background."""
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop, also in the middle of a look."""
        self._closed.set()
        if self.runs:
            self._thread.join(timeout=CLOSING_S)

    def on_sample(self, listener: Callable[[Sample], Any]) -> None:
        """Call `listener` with each sample, in the sampler's thread."""
        self._listeners.append(listener)

    def also_look(self, further: Further) -> None:
        """After each look, carry out this conversation as well; it gets the time (ms since 1970)
        and deals with its own errors."""
        self._further.append(further)

    def look(self) -> Sample:
        """One look at once, by the caller's thread. Raises ClientError."""
        with _LookedAt(self._config, self._closed, self.requests, patient=True) as cluster:
            return self._take(cluster, QuorumLeader(asks_controllers=False))

    def _run(self) -> None:
        leader = QuorumLeader(asks_controllers=False)
        with _LookedAt(self._config, self._closed, self.requests, patient=False) as cluster:
            while not self._closed.is_set():
                begun, begun_ms = time.monotonic(), time.time_ns() // 1_000_000
                try:
                    self._take(cluster, leader)
                except ClientError as error:
                    self._note_failure(error, begun_ms)
                except Exception as error:  # noqa: BLE001 - pages say so; the next look may succeed
                    fault = f"{type(error).__name__}: {error}"
                    self._note_failure(ClientError(f"a fault of the console: {fault}"), begun_ms)
                took_s = time.monotonic() - begun
                self.looked_s.add(took_s)
                pause_s = self._pause_s(took_s)
                self.next_look_at = time.monotonic() + pause_s
                self._closed.wait(pause_s)

    def _pause_s(self, took_s: float) -> float:
        """Seconds until the next look, after one that took `took_s`."""
        if self.failing is not None:
            return min(BACKOFF_S * 2.0 ** min(self.failing.failures - 1, 10), BACKOFF_MAX_S)
        return max(self._interval_s, took_s / SHARE - took_s)

    def _note_failure(self, error: ClientError, begun_ms: int) -> None:
        if isinstance(error, _Closed):
            return
        former = self.failing
        if former is None:
            since_ms = begun_ms if self.newest is None else self.newest.taken_at_ms
            self.failing = Failing(since_ms, 1, error)
        else:
            self.failing = Failing(former.since_ms, former.failures + 1, error)

    def _take(self, cluster: Cluster, leader: QuorumLeader) -> Sample:
        sample = Look(cluster, leader).take()
        if self.newest is not None:
            sample = sharing_topics(self.newest, sample)
            seen = events_between(self.newest, sample)
            self.events = (*self.events, *seen)[-EVENTS_KEPT:]
        self.newest, self.failing = sample, None
        for listener in self._listeners:
            listener(sample)
        for further in self._further:
            cluster.run(further(cluster, sample.taken_at_ms))
        return sample
