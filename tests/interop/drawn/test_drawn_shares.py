"""Histories of share groups: sessions, acknowledgements of every type, renewals, offsets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.wire.api import share_acknowledge, share_fetch
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.types import Uuid

from ...waiting import eventually
from .comparing import Ask, Settling, Side, Step, compare
from .drawing import INT32_MAX, often, own_name
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

GROUP = 32
MEMBERS = ("m", "n")
RENEW = 4
UNKNOWN_ID = Uuid(b"no topic has it.")


class Shares:
    """Draws the steps of two members of a share group that reads one partition.

    A member's session epoch and the ranges that it has acquired are kept per side, as each broker
    answered; what a step does with them is drawn.
    """

    def __init__(self, rng: random.Random, sides: Sequence[Side]) -> None:
        self.rng = rng
        self.topic, self.group = own_name(rng, "share"), own_name(rng, "share")
        make_topics(sides, {self.topic: {}})
        for side in sides:
            side.start_history()
            for member in MEMBERS:
                side.recognise("member_id", member, member)
            self._set_up(side)

    def _set_up(self, side: Side) -> None:
        """The group reads from the beginning, and both members may fetch."""
        key, earliest = "share.auto.offset.reset", "earliest"
        config = AlterableConfig(name=key, config_operation=0, value=earliest)
        resource = AlterConfigsResource(
            resource_type=GROUP, resource_name=self.group, configs=[config]
        )
        (altered,) = side.request(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert altered.error_code == 0, altered
        asked = DescribeConfigsResource(
            resource_type=GROUP, resource_name=self.group, configuration_keys=[key]
        )

        def is_set() -> bool:
            (found,) = side.request(DescribeConfigsRequest(resources=[asked]), 4).results
            return [one.value for one in found.configs] == [earliest]

        eventually(is_set, "the group's config")
        for member in MEMBERS:
            self._join(side, member)

    def _join(self, side: Side, member: str) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=[self.topic],
        )

        def is_assigned() -> bool:
            answer = side.request(request, 1)
            request.member_epoch = answer.member_epoch
            side.values["member epoch", member] = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        eventually(is_assigned, f"{side.name} assigns the partition")

    # -- steps ---------------------------------------------------------------------------------

    def first_steps(self) -> list[Step]:
        """Records, and a session of each member; the first fetches load the partition's state."""
        return [self.produce(), *(FirstFetch(self, member) for member in MEMBERS)]

    def drawn(self) -> Step:
        kinds = (
            *(self.fetch, self.fetch, self.fetch, self.acknowledge, self.acknowledge),
            *(self.produce, self.offsets, self.heartbeat),
        )
        return self.rng.choice(kinds)()

    def produce(self) -> Step:
        counts = [self.rng.choice((1, 2, 5, 10)) for _ in range(self.rng.choice((1, 2, 3)))]
        batches = [build_batch([(b"k", b"v")] * count, timestamp_ms=1_000) for count in counts]

        def send(side: Side) -> Any:
            for batch in batches:
                data = [PartitionProduceData(index=0, records=batch)]
                request = ProduceRequest(
                    acks=-1,
                    timeout_ms=30_000,
                    topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
                )
                answer = side.request(request, 9)
            return answer.responses[0].partition_responses[0].base_offset

        return send

    def batches(self, is_renewal: bool) -> list[tuple[int, int, int, list[int], bool]]:
        """What acknowledgements to send: which of the acquired ranges, moved at both ends by so
        much, and with which types; or one type for all of it."""
        rng = self.rng
        found = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            kinds = (1, 1, 1, 2, 2, 3, 0) + ((RENEW,) * 3 if is_renewal else ())
            types = [
                often(rng, rng.choice(kinds), (RENEW, 5, -1), 0.97)
                for _ in range(often(rng, 1, (0, 40), 0.6))
            ]
            # Not past what was acquired, of which one broker may say INVALID_REQUEST and the other
            # INVALID_RECORD_STATE.
            first, last = often(rng, 0, (1,), 0.8), often(rng, 0, (-1,), 0.7)
            found.append((rng.randrange(8), first, last, types, rng.random() < 0.1))
        return found

    def ranges(
        self, side: Side, member: str, drawn: list[tuple[int, int, int, list[int], bool]]
    ) -> list[tuple[int, int, list[int]]]:
        """The acknowledgements for a broker, in order of offsets."""
        held = side.values.setdefault(("held", member), [])
        made = []
        for which, first, last, types, is_kept in drawn:
            at = which % len(held) if held else -1
            low, high = held[at] if held else (which, which + 1)
            if held and not is_kept:
                del held[at]
            low, high = low + first, high + last
            one_each = types if len(types) < 2 else types[: max(0, high - low + 1)]
            made.append((low, high, one_each))
        return sorted(made, key=lambda one: one[0])

    def keep(self, member: str) -> Any:
        def keep(side: Side, answer: Any) -> None:
            epoch = side.values.get(("epoch", member), 0)
            if answer.error_code == 0:
                after = 0 if side.values.pop(("last", member), False) else epoch + 1
                side.values["epoch", member] = after
            held = side.values.setdefault(("held", member), [])
            for topic in answer.responses:
                for partition in topic.partitions:
                    rows = side.observe(getattr(partition, "acquired_records", []))
                    held.extend((first, last) for first, last, _ in joined(rows))

        return keep

    def session(self) -> tuple[str, int, bool, int]:
        """The member, how far its epoch is off, whether it ends the session, which topic."""
        rng = self.rng
        member = often(rng, rng.choice(MEMBERS), ("stranger", ""), 0.96)
        return member, often(rng, 0, (1, -1, 7), 0.94), rng.random() < 0.05, rng.randrange(30)

    def epoch(self, side: Side, member: str, shift: int, ends: bool) -> int:
        if ends:
            side.values["last", member] = True
            return -1
        side.values.pop(("last", member), None)
        return max(-2, side.values.get(("epoch", member), 0) + shift)

    def topic_of(self, side: Side, drawn: int) -> Uuid:
        side.recognise("topic_id", UNKNOWN_ID, "unknown")
        return UNKNOWN_ID if drawn == 0 else side.topic_id(self.topic)

    def fetch(self) -> Step:
        rng = self.rng
        member, shift, ends, which = self.session()
        version = rng.randint(1, 2)
        is_renewal = version == 2 and rng.random() < 0.25
        drawn = self.batches(is_renewal)
        index = often(rng, 0, (1, -1), 0.96)
        forgets = rng.random() < 0.05
        limits = {
            # Kafka stores what is released beside the fetch, which gets it only if it waits.
            "max_wait_ms": 100 if drawn else 0,
            "min_bytes": max(rng.choice((0, 1)), bool(drawn)),
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        if is_renewal and rng.random() < 0.9:
            limits = dict.fromkeys(limits, 0)
        if version == 2:
            mode = rng.choice((0, 1))
            limits["share_acquire_mode"] = mode
            # A limit that holds exactly. The others are exceeded as far as a range goes that the
            # broker keeps as one, which are not the same ranges in both.
            if mode == 1 and limits["max_records"]:
                limits["max_records"] = rng.choice((1, 2, 5, 500))

        def make(side: Side) -> share_fetch.ShareFetchRequest:
            epoch = self.epoch(side, member, shift, ends)
            topic_id = self.topic_of(side, which)
            batches = [
                share_fetch.AcknowledgementBatch(
                    first_offset=low, last_offset=high, acknowledge_types=types
                )
                for low, high, types in self.ranges(side, member, drawn)
            ]
            rows = []
            if epoch == 0 or batches or which < 10:
                partition = share_fetch.FetchPartition(
                    partition_index=index, acknowledgement_batches=batches
                )
                rows.append(share_fetch.FetchTopic(topic_id=topic_id, partitions=[partition]))
            gone = [share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[0])]
            request = share_fetch.ShareFetchRequest(
                group_id=self.group,
                member_id=member,
                share_session_epoch=epoch,
                topics=rows,
                forgotten_topics_data=gone if forgets else [],
                **limits,
            )
            if version == 2:
                request.is_renew_ack = is_renewal
            return request

        told = f"{member} {shift} {ends} {which} {index} {forgets} {is_renewal} {drawn} {limits}"
        return Ask("ShareFetch", make, version, told, keep=self.keep(member), only=what_is_said)

    def acknowledge(self) -> Step:
        rng = self.rng
        member, shift, ends, which = self.session()
        version = rng.randint(1, 2)
        is_renewal = version == 2 and rng.random() < 0.3
        drawn = self.batches(is_renewal)

        def make(side: Side) -> share_acknowledge.ShareAcknowledgeRequest:
            partition = share_acknowledge.AcknowledgePartition(
                partition_index=0,
                acknowledgement_batches=[
                    share_acknowledge.AcknowledgementBatch(
                        first_offset=low, last_offset=high, acknowledge_types=types
                    )
                    for low, high, types in self.ranges(side, member, drawn)
                ],
            )
            topic = share_acknowledge.AcknowledgeTopic(
                topic_id=self.topic_of(side, which), partitions=[partition]
            )
            request = share_acknowledge.ShareAcknowledgeRequest(
                group_id=self.group,
                member_id=member,
                share_session_epoch=self.epoch(side, member, shift, ends),
                topics=[topic],
            )
            if version == 2:
                request.is_renew_ack = is_renewal
            return request

        told = f"{member} {shift} {ends} {which} {is_renewal} {drawn}"
        return Ask("ShareAcknowledge", make, version, told, keep=self.keep(member))

    def offsets(self) -> Step:
        # Not of partition 1, which is not there: Apache Kafka sends no answer.
        topic = often(self.rng, self.topic, ("no-such-topic",), 0.95)
        row = DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=[row])
        request = DescribeShareGroupOffsetsRequest(groups=[group])
        version = self.rng.randint(0, 1)
        return Settling(
            "DescribeShareGroupOffsets",
            lambda _: request,
            version,
            topic,
            only=without_start_offset,
        )

    def heartbeat(self) -> Step:
        rng = self.rng
        member = often(rng, rng.choice(MEMBERS), ("stranger", "", "x" * 37), 0.9)
        shift = often(rng, 0, (1, -1, INT32_MAX), 0.9)

        def make(side: Side) -> ShareGroupHeartbeatRequest:
            epoch = min(INT32_MAX, side.values.get(("member epoch", member), 3) + shift)
            return ShareGroupHeartbeatRequest(
                group_id=self.group, member_id=member, member_epoch=max(1, epoch)
            )

        return Ask("ShareGroupHeartbeat", make, 1, f"{member} {shift}")


class FirstFetch:
    """A member opens its session, and fetches until the partition's state has been loaded."""

    def __init__(self, shares: Shares, member: str) -> None:
        self.shares, self.member = shares, member

    def __repr__(self) -> str:
        return f"ShareFetch, the first of {self.member}"

    def __call__(self, side: Side) -> Any:
        epoch = 0
        last: Any = None

        def is_loaded() -> bool:
            nonlocal epoch, last
            partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
            topic_id = side.topic_id(self.shares.topic)
            topic = share_fetch.FetchTopic(topic_id=topic_id, partitions=[partition])
            request = share_fetch.ShareFetchRequest(
                group_id=self.shares.group,
                member_id=self.member,
                share_session_epoch=epoch,
                max_wait_ms=100,
                min_bytes=1,
                max_records=1,
                batch_size=1,
                topics=[] if epoch else [topic],
                forgotten_topics_data=[],
            )
            last = side.request(request, 1)
            assert last.error_code == 0, last
            epoch += 1
            # The second member may find nothing that the first one has not acquired.
            return any(one.partitions for one in last.responses)

        if self.member == MEMBERS[0]:
            eventually(is_loaded, f"{side.name} has records")
        else:
            is_loaded()
        side.values["epoch", self.member] = 0
        side.values.pop(("last", self.member), None)
        self.shares.keep(self.member)(side, last)
        side.values["epoch", self.member] = epoch
        return side.observe(last)


def joined(rows: list[dict]) -> list[list[int]]:
    """What was acquired, whichever ranges a broker keeps as one."""
    found: list[list[int]] = []
    for row in rows:
        first, last, count = row["first_offset"], row["last_offset"], row["delivery_count"]
        if found and found[-1][1] == first - 1 and found[-1][2] == count:
            found[-1][1] = last
        else:
            found.append([first, last, count])
    return found


def what_is_said(seen: dict) -> Any:
    """Without rows that say nothing: in a session that goes on, Kafka once names a partition that
    was added or had an error, though it has nothing to say of it."""
    for topic in seen["responses"]:
        for one in topic["partitions"]:
            one["acquired_records"] = joined(one["acquired_records"])
        topic["partitions"] = [
            one
            for one in topic["partitions"]
            if one["error_code"] or one["acknowledge_error_code"] or one["acquired_records"]
        ]
    seen["responses"] = [topic for topic in seen["responses"] if topic["partitions"]]
    return seen


def without_start_offset(seen: dict) -> Any:
    """What is stored lags behind in Kafka; the lag does not."""
    for group in seen["groups"]:
        for topic in group["topics"]:
            for partition in topic["partitions"]:
                del partition["start_offset"]
    return seen


def test_share_groups(sides: Sequence[Side]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        shares = Shares(rng, sides)
        return [*shares.first_steps(), *(shares.drawn() for _ in range(rng.randint(5, 30)))]

    assert compare(sides, draw) > 0
