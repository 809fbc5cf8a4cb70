"""A directory with live groups of the new types changes hands, both ways: their members go on.

Members heartbeat with the epochs that the broker before told them, own what it gave them, and
administrators see the same groups. A static member that left for a while comes back to its tasks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.groups import CommittedOffset
from fencepost.client.metadata import TopicPartition
from fencepost.testing import Cluster

from ..waiting import eventually
from . import apache
from .drawn.comparing import Side
from .groups import consumer_words as consumers, share_words as shares, streams_words as streams
from .groups.conftest import SETTINGS
from .groups.stage import Stage, warm_up

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

IN = "handed-in"
CONSUMER, SHARE, STREAMS = "handed-consumers", "handed-g", "handed-streams"
MEMBERS = ("c", "i", "m", "s")
LEFT_FOR_A_WHILE = -2


@contextlib.contextmanager
def stage_on(kind: str, place: Path) -> Iterator[Stage]:
    """A broker of the kind on the directory, stopped in order, and the words to ask it."""
    with contextlib.ExitStack() as running:
        if kind == "apache":
            kafka = running.enter_context(apache.apache_broker(place, **SETTINGS))
            servers = kafka.bootstrap_servers
        else:
            ours = Cluster(faults=False, data_dir=place / "data", config=SETTINGS)
            running.enter_context(ours)
            running.callback(ours.stop)
            servers = ours.bootstrap_servers
        host, _, port = servers.rpartition(":")
        side = Side(kind, host, int(port))
        running.callback(side.close)
        for member in MEMBERS:
            side.recognise("member_id", member, member)
        yield running.enter_context(contextlib.closing(Stage(side, "handed")))


def servers_of(stage: Stage) -> str:
    return f"{stage.side.host}:{stage.side.port}"


class Live:
    """What the members of the three groups know."""

    def __init__(self, stage: Stage) -> None:
        """They join, read and commit."""
        warm_up(stage.side)
        self.topic, group = shares.ready_group(stage, "m", partitions=2)
        assert group == SHARE
        stage.topic("in", 2)
        self.consumer = consumers.join(stage, CONSUMER, "c", self.topic).member_epoch
        left = consumers.join(stage, CONSUMER, "i", self.topic, instance_id="one").member_epoch
        assert left
        self.streams = streams.join(
            stage, STREAMS, "s", streams.topology(streams.subtopology(IN))
        ).member_epoch
        self.settle(stage)
        shares.produce(stage, self.topic, b"0", b"1", b"2")
        epoch = shares.fetch_some(stage, SHARE, "m", 0, self.topic)
        shares.acknowledge(stage, SHARE, "m", epoch, {self.topic: {0: [(0, 0, [shares.ACCEPT])]}})
        leaves = consumers.beat(stage, CONSUMER, "i", LEFT_FOR_A_WHILE, instance_id="one")
        assert leaves.member_epoch == LEFT_FOR_A_WHILE
        with Client(servers_of(stage)) as client:
            where = TopicPartition(self.topic, 0)
            Admin(client).alter_group_offsets("handed-simple", {where: CommittedOffset(2, -1, "")})

    def settle(self, stage: Stage) -> None:
        """Heartbeats until the two consumers have a partition each."""
        owned: dict[str, Any] = {"c": {}, "i": {}}
        epochs = {"c": self.consumer, "i": 0}

        def is_settled() -> bool:
            for member, instance in (("c", None), ("i", "one")):
                said = {} if instance is None else {"instance_id": instance}
                epoch = epochs[member] or self._epoch_of(stage, member)
                answer = consumers.beat(stage, CONSUMER, member, epoch, owned=owned[member], **said)
                epochs[member] = answer.member_epoch
                found = consumers.assigned(stage, answer)
                owned[member] = owned[member] if found is None else found
            described = consumers.describe(stage, CONSUMER)
            return described.group_state == "Stable" and all(owned.values())

        assert eventually(is_settled)
        self.consumer, self.owned = epochs["c"], owned["c"]

    def _epoch_of(self, stage: Stage, member_id: str) -> int:
        members = consumers.describe(stage, CONSUMER).members
        return next(one.member_epoch for one in members if one.member_id == member_id)

    def seen(self, stage: Stage) -> list[Any]:
        """What administrators are told of the groups."""
        consumer = consumers.describe(stage, CONSUMER)
        share = shares.describe(stage, SHARE)
        return [
            consumers.states(consumer),
            sorted(
                (one.member_id, one.instance_id, repr(one.assignment)) for one in consumer.members
            ),
            consumers.states(share),
            [repr(one.assignment) for one in share.members],
            streams.describe(stage, STREAMS),
        ]

    def go_on(self, stage: Stage) -> None:
        """Every member's heartbeat is taken in its epoch, and changes nothing."""
        answers = (
            consumers.beat(stage, CONSUMER, "c", self.consumer, owned=self.owned),
            streams.beat(stage, STREAMS, "s", self.streams),
        )
        assert [one.member_epoch for one in answers] == [self.consumer, self.streams]
        share = shares.describe(stage, SHARE).members[0].member_epoch
        assert shares.beat(stage, SHARE, "m", share).member_epoch == share


@pytest.mark.parametrize(("first", "second"), [("fencepost", "apache"), ("apache", "fencepost")])
def test_members_of_all_types_go_on(kafka_jars, tmp_path: Path, first: str, second: str) -> None:
    with stage_on(first, tmp_path) as stage:
        live = Live(stage)
        live.go_on(stage)
        seen = live.seen(stage)
    for kind in (second, first):
        with stage_on(kind, tmp_path) as stage:
            assert eventually(lambda stage=stage: is_there(stage))
            stage.topic_id(live.topic)
            stage.topic_id(IN)
            assert live.seen(stage) == seen, kind
            live.go_on(stage)
            assert live.seen(stage) == seen, kind
            offsets = shares.describe_offsets(stage, SHARE, {live.topic: [0]})
            assert offsets.topics[0].partitions[0].start_offset == 1
            if kind == second:
                records_go_on(stage, live)
    with stage_on(second, tmp_path) as stage:
        assert eventually(lambda: is_there(stage))
        stage.topic_id(live.topic)
        came_back = consumers.join(stage, CONSUMER, "i", live.topic, instance_id="one")
        assert consumers.assigned(stage, came_back), "it has its partition at once"


def is_there(stage: Stage) -> bool:
    """Whether the groups' coordinator has loaded them."""
    return not consumers.describe(stage, CONSUMER, error=None).error_code


def records_go_on(stage: Stage, live: Live) -> None:
    """What was not acknowledged is delivered by the next broker; nothing else is."""
    epoch = shares.fetch_some(stage, SHARE, "m", 0, live.topic)
    shares.acknowledge(stage, SHARE, "m", epoch, {live.topic: {0: [(1, 2, [shares.RELEASE])]}})
