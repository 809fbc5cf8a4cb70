"""Looking at a cluster in the background, in a thread with a connection of its own.

List pages are made of the newest sample and ask the cluster nothing. A look is three kinds of
requests: Metadata of all topics, DescribeCluster with the brokers that are fenced, and ListGroups
from each broker; the quorum where it can be had. Looks become rarer where they take long, so that
the console takes no more than a small share of its own time and of the brokers'.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from fencepost.client import asking
from fencepost.client.admin import describing_cluster
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.config import ClientConfig
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.groups import listing_groups
from fencepost.client.metadata import TopicInfo
from fencepost.client.quorum import QuorumLeader, describing_quorum
from fencepost.console.events import Event, events_between
from fencepost.console.sample import Sample
from fencepost.wire.errors import ErrorCode

INTERVAL_S: Final = 5.0
SHARE: Final = 0.05
"""Of the sampler's time that looks may take: a look of one second is followed by a pause of 19."""

EVENTS_KEPT: Final = 1_000
R = TypeVar("R")
Further = Callable[[ClusterView[Any], int], Conversation[None]]


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
        self.error: str | None = None
        """Why the last look failed, None when it did not."""
        self.events: tuple[Event, ...] = ()
        """What changed between samples, the newest last; EVENTS_KEPT of them at most."""
        self._config = config
        self._interval_s = interval_s
        self._listeners: list[Callable[[Sample], Any]] = []
        self._further: list[Further] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console-sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop after the look that is under way."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._config.request_timeout_ms / 1000)

    def on_sample(self, listener: Callable[[Sample], Any]) -> None:
        """Call `listener` with each sample, in the sampler's thread."""
        self._listeners.append(listener)

    def also_look(self, further: Further) -> None:
        """After each look, carry out this conversation as well; it gets the time (ms since 1970)
        and deals with its own errors."""
        self._further.append(further)

    def look(self) -> Sample:
        """One look at once, by the caller's thread. Raises ClientError."""
        with Cluster(config=self._config) as cluster:
            return self._take(cluster, QuorumLeader(asks_controllers=False))

    def _run(self) -> None:
        leader = QuorumLeader(asks_controllers=False)
        with Cluster(config=self._config) as cluster:
            while not self._closed.is_set():
                begun = time.monotonic()
                try:
                    self._take(cluster, leader)
                except ClientError as error:
                    self.error = str(error)
                took_s = time.monotonic() - begun
                self._closed.wait(max(self._interval_s, took_s / SHARE - took_s))

    def _take(self, cluster: Cluster, leader: QuorumLeader) -> Sample:
        sample = Look(cluster, leader).take()
        if self.newest is not None:
            sample = sharing_topics(self.newest, sample)
            seen = events_between(self.newest, sample)
            self.events = (*self.events, *seen)[-EVENTS_KEPT:]
        self.newest, self.error = sample, None
        for listener in self._listeners:
            listener(sample)
        for further in self._further:
            cluster.run(further(cluster, sample.taken_at_ms))
        return sample
