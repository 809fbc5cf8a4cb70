"""A blocking consumer that shares topics with the other members of a classic group.

    with GroupConsumer(cluster, ["orders"]) as consumer:     # group.id is in the cluster's config
        while True:
            for fetched in consumer.poll():
                ...                                          # records of one partition
                consumer.store(fetched.partition, fetched.next_offset, fetched.last_epoch)
            consumer.commit()

At least once: only offsets that the caller has stored are committed, by `commit`, before partitions
are given up in a rebalance, and by `close`. What was read and not committed is read again, by
whichever member has the partition then.

There is no thread: heartbeats leave from `poll`, so whoever does not call it for
`session.timeout.ms` is put out of the group and joins again at the next call. What to send and what
answers mean is decided in `membership`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, Self

from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError, ClientError, ConfigError, OffsetOutOfRange
from fencepost.client.fetcher import Fetched, Fetcher, FetchPosition
from fencepost.client.groups import CommittedOffset, GroupAdmin
from fencepost.client.membership import Membership, MembershipConfig, State
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, list_offsets
from fencepost.client.retry import Deadline
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.errors import ErrorCode, is_retriable

log = logging.getLogger("fencepost.client")

JOIN_MARGIN_MS = 5_000
"""Beyond the rebalance timeout, for which the coordinator may hold a JoinGroup."""
LEAVE_TIMEOUT_MS = 5_000
"""For the last commit and for leaving; the session times out by itself."""
_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class GroupConsumer:
    """One member of the group `group.id`; a context manager that leaves it. One thread.

    `topics` are those it subscribes to. Where the group has committed nothing, or what it has is
    not in the log any more, `auto.offset.reset` says where to read.
    """

    def __init__(self, cluster: Cluster, topics: Iterable[str]) -> None:
        config = cluster.config
        config.check()
        if config.group_id is None:
            raise ConfigError("group.id", None, "a member of a group needs one")
        self.cluster = cluster
        self.group = config.group_id
        self.positions: dict[TopicPartition, FetchPosition] = {}
        """Where each assigned partition is read on."""
        self.rebalances = 0
        """How often partitions were assigned, to notice a new assignment by."""
        self._topics = tuple(sorted(set(topics)))
        self._membership = Membership(
            MembershipConfig(
                self.group,
                self._topics,
                config.session_timeout_ms,
                config.max_poll_interval_ms,
                config.heartbeat_interval_ms,
                config.retry_backoff_ms,
                config.group_instance_id,
                config.assignors,
            )
        )
        self._fetcher = Fetcher(cluster)
        self._stored: dict[TopicPartition, CommittedOffset] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.cluster.close()  # it may have come in the middle of a request
        try:
            self.close()
        except ClientError as error:
            if kind is None:
                raise
            log.warning("leaving group %s: %s", self.group, error)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are this member's now."""
        return self._membership.assignment

    def poll(self, max_wait_ms: float | None = None) -> list[Fetched]:
        """Records of the assigned partitions, if any come within `max_wait_ms` (default
        `fetch.max.wait.ms`); takes part in a rebalance first, however long that takes, and then
        returns nothing, so that the caller can look at the new `assignment`.

        Raises BrokerError for what joining again cannot help, as an authorization that is missing,
        OffsetOutOfRange with `auto.offset.reset=none`, and what `Fetcher.fetch` does.
        """
        self._look_at_partitions()
        self._send_due()
        if self._membership.state is not State.STABLE:
            self._rebalance()
            return []
        limit_ms = self.cluster.config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        limit_ms = min(limit_ms, self._membership.wait_ms(_now_ms()))
        if not self.positions:
            time.sleep(limit_ms / 1000)
            return []
        try:
            found = self._fetcher.fetch(self.positions, max_wait_ms=int(limit_ms))
        except OffsetOutOfRange as error:
            self._reset(error)
            return []
        return [fetched for fetched in found if self._advance(fetched)]

    def store(self, partition: TopicPartition, next_offset: int, leader_epoch: int = -1) -> None:
        """Note that everything before `next_offset` is dealt with, for the next commit.
        `leader_epoch` is that of the last record, -1 if unknown."""
        if partition in self.positions:
            self._stored[partition] = CommittedOffset(next_offset, leader_epoch, "")

    def commit(self) -> None:
        """Commit what was stored since the last commit.

        BrokerError ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or REBALANCE_IN_PROGRESS when the group
        has rebalanced without this member: what was stored is read again.
        """
        if not self._stored:
            return
        stored, self._stored = self._stored, {}
        try:
            GroupAdmin(self.cluster).alter_group_offsets(self.group, stored, self._membership)
        except BrokerError as error:
            if error.code is not None:
                self._membership.on_commit_error(error.code, _now_ms())
            raise

    def close(self) -> None:
        """Commit what is stored and leave the group, so that others get the partitions at once."""
        try:
            if self._membership.may_commit:
                self.commit()
        finally:
            self._leave()
            self.positions, self._stored = {}, {}

    # -- the group -------------------------------------------------------------------------------

    def _send_due(self) -> None:
        request = self._membership.next_request(_now_ms())
        if request is None:
            return
        config = self.cluster.config
        joins = self._membership.state is not State.STABLE  # the coordinator may hold the answer
        held_ms = config.max_poll_interval_ms + JOIN_MARGIN_MS if joins else 0
        response: Any = self.cluster.request_coordinator(
            self.group,
            request,
            lambda answer: answer.error_code if is_retriable(answer.error_code) else 0,
            what=f"{type(request).__name__.removesuffix('Request')} in group {self.group}",
            deadline=Deadline(max(config.api_timeout_ms, held_ms)),
            timeout_ms=max(config.request_timeout_ms, held_ms),
        )
        self._membership.on_response(response, _now_ms())

    def _rebalance(self) -> None:
        """Give up what is assigned, join, and begin to read what is assigned then."""
        log.info("group %s: joining, because %s", self.group, self._membership.reason)
        if self._membership.may_commit:
            try:
                self.commit()
            except BrokerError as error:
                log.warning("group %s: %s; records will be read again", self.group, error)
        self.positions, self._stored = {}, {}
        while self._membership.state is not State.STABLE:
            if self._membership.state is State.ASSIGNING:
                self._membership.assign(self._partition_counts())
            else:
                time.sleep(self._membership.wait_ms(_now_ms()) / 1000)
                self._send_due()
        self.positions = self._starts(self._membership.assignment)
        self.rebalances += 1

    def _partition_counts(self) -> dict[str, int]:
        """How many partitions the subscribed topics have; none for one that does not exist."""
        names = sorted(self._membership.subscribed_topics)
        infos = {info.name: info for info in self.cluster.describe(names)}
        return {name: len(infos[name].partitions) for name in names if name in infos}

    def _look_at_partitions(self) -> None:
        """Have the leader assign again when a topic has got partitions. Metadata are asked anew
        after `metadata.max.age.ms`."""
        if self._membership.is_leader and self._membership.state is State.STABLE:
            names = self._membership.subscribed_topics
            if self.cluster.is_stale(names):
                self._membership.on_partition_counts(self._partition_counts(), _now_ms())

    def _leave(self) -> None:
        membership = self._membership
        try:
            if membership.has_to_leave:
                self.cluster.request_coordinator(
                    self.group,
                    lambda to: membership.leave_request(to.version_for(LeaveGroupRequest)),
                    what=f"leaving group {self.group}",
                    deadline=Deadline(LEAVE_TIMEOUT_MS),
                    timeout_ms=LEAVE_TIMEOUT_MS,
                )
        except ClientError as error:  # the session ends by itself
            log.warning("leaving group %s: %s", self.group, error)
        membership.forget()

    # -- positions -------------------------------------------------------------------------------

    def _starts(self, assigned: tuple[TopicPartition, ...]) -> dict[TopicPartition, FetchPosition]:
        admin = GroupAdmin(self.cluster)
        committed = {}
        if assigned:
            committed = admin.group_offsets(self.group, assigned, require_stable=True)
        without = [partition for partition in assigned if partition not in committed]
        reset = self._reset_offsets(without) if without else {}
        return {
            partition: FetchPosition(committed[partition].offset, committed[partition].leader_epoch)
            if partition in committed
            else FetchPosition(reset[partition])
            for partition in assigned
        }

    def _reset_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        where = _RESETS.get(self.cluster.config.auto_offset_reset)
        if where is None:
            raise BrokerError.of(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"group {self.group} has no offset in the log and auto.offset.reset=none",
                topic=partitions[0].topic,
                partition=partitions[0].partition,
            )
        listed = list_offsets(self.cluster, dict.fromkeys(partitions, where))
        return {partition: found.offset for partition, found in listed.items()}

    def _reset(self, error: OffsetOutOfRange) -> None:
        """Read on where `auto.offset.reset` says: retention has overtaken the group."""
        if error.topic is None or error.partition is None:
            raise error
        partition = TopicPartition(error.topic, error.partition)
        offset = self._reset_offsets([partition])[partition]
        log.warning("group %s: %s; reading on at offset %d", self.group, error, offset)
        self.positions[partition] = FetchPosition(offset)

    def _advance(self, fetched: Fetched) -> bool:
        """Move the position behind what was fetched; False if there are no records.

        Where the leader's log parts from what was read before (KIP-320), reading goes on at the
        first offset that differs, as Kafka's consumer does.
        """
        position = self.positions[fetched.partition]
        if fetched.diverging is not None:
            offset = fetched.diverging.end_offset
            log.warning(
                "group %s: the log of %s was cut below offset %d; reading on at offset %d",
                self.group,
                fetched.partition,
                position.offset,
                offset,
            )
            self.positions[fetched.partition] = FetchPosition(offset)
            return False
        self.positions[fetched.partition] = FetchPosition(fetched.next_offset, fetched.last_epoch)
        return fetched.next_offset > position.offset


def _now_ms() -> float:
    return time.monotonic() * 1000
