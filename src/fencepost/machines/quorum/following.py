"""Following: learn who leads, fetch from it, append what it has, cut off what it has not.

A follower's fetch is its word that everything below the fetch offset is on its disk: it is sent
after the flush (`SendAfterPersist`). The leader answers with batches, or with the point where the
two logs part. Truncation goes to that point, never below the high watermark: what is committed is
in every leader's log, so a leader that asks for more is not one, and the node stops (I07).

Observers, nodes without a vote, follow in the same way. As long as they know no leader they ask the
bootstrap servers and the voters one after another, with the very same fetch; a node that does not
lead says who does, and where it is reached. Voters ask the bootstrap servers, too: one that was
down while the others left and new ones came may be no voter any more, and know no node that is
there.
"""

from __future__ import annotations

from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc, iter_headers
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.divergence import truncation_target
from fencepost.log.epochs import EpochEndOffset
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Buffer
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.damage import LogDamage
from fencepost.machines.quorum.endpoints import add_leader, endpoints_of, leader_in
from fencepost.machines.quorum.leader_claims import LeaderClaims
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Follower, Role, Unattached
from fencepost.machines.quorum.snapshot_fetching import SnapshotFetching
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api import fetch
from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochResponse
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message


class Following(Part):
    """Handlers of what leaders say; fetching."""

    def __init__(
        self,
        node: QuorumNode,
        roles: RoleChanges,
        claims: LeaderClaims,
        snapshots: SnapshotFetching,
        damage: LogDamage,
    ) -> None:
        super().__init__(node)
        self._roles = roles
        self._claims = claims
        self._snapshots = snapshots
        self._damage = damage
        self.stood_early_in_epoch = -1
        """The latest epoch whose leader was found to be gone."""
        self.invalid_batch_epoch = -1
        """The latest epoch whose leader has sent batches that were not sound; -1 for none.

        They are refused and asked for again: the node's operator should hear of it.
        """

    # -- a leader makes itself known, or resigns -----------------------------------------------

    def step_begin(self, input_: inputs.BeginQuorumEpochReceived) -> None:
        request = input_.request
        response: BeginQuorumEpochResponse
        if not self._node.is_our_cluster(request.cluster_id):
            response = BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif (said := messages.begin_request_of(request)) is None:
            response = BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        else:
            error = self._claims.check(said.leader_id, said.leader_epoch)
            if error is ErrorCode.NONE:
                endpoints = endpoints_of(request.leader_endpoints)
                self._claims.observe(said.leader_epoch, said.leader_id, endpoints, from_leader=True)
                if not self._node.is_me(request.voter_id, said.voter_directory_id):
                    error = ErrorCode.INVALID_VOTER_KEY
            response = messages.begin_response(
                error, self._node.leader_id, self._outbox.state.epoch
            )
            add_leader(response, self._node.leader_id, self._node.leader_endpoint)
        self._outbox.reply(input_.token, response)

    def step_end(self, input_: inputs.EndQuorumEpochReceived) -> None:
        request = input_.request
        response: EndQuorumEpochResponse
        if not self._node.is_our_cluster(request.cluster_id):
            response = EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif (said := messages.end_request_of(request)) is None:
            response = EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        else:
            error = self._claims.check(said.leader_id, said.leader_epoch)
            if error is ErrorCode.NONE:
                endpoints = endpoints_of(request.leader_endpoints)
                self._claims.observe(said.leader_epoch, said.leader_id, endpoints, from_leader=True)
                self._on_end_quorum_epoch(said.leader_id, messages.preferred_candidates_of(said))
            response = messages.end_response(error, self._node.leader_id, self._outbox.state.epoch)
            add_leader(response, self._node.leader_id, self._node.leader_endpoint)
        self._outbox.reply(input_.token, response)

    def _on_end_quorum_epoch(self, leader_id: int, candidates: list[ReplicaKey]) -> None:
        """Our leader resigned: stand for election, sooner or later by our place in its list."""
        follower = self._node.role_state
        if not isinstance(follower, Follower) or follower.leader_id != leader_id:
            return
        follower.has_fetched = False  # others get our pre-vote from now on
        if not self._node.is_electable:
            return
        backoff = self._succession_backoff(candidates)
        if backoff == 0 and self._node.may_stand():
            self._roles.become_prospective()
        else:
            self._timers.set(inputs.FETCH, self._timers.now_ms + backoff)

    def _succession_backoff(self, candidates: list[ReplicaKey]) -> int:
        """Milliseconds to wait: none for the first, then doubling up to the maximum for the last.

        So the voter with the longest log has a head start, and no two stand at the same time.
        """
        most = self._config.election_backoff_max_ms
        us = (self._node.key, ReplicaKey(self._node.id))
        position = next((i for i, key in enumerate(candidates) if key in us), -1)
        if position < 0:
            return most
        if position == 0:
            return 0
        return min(most, (most >> (len(candidates) - 1)) << (position - 1))

    def on_leader_connection_refused(self, peer: int) -> None:
        """Nothing listens where the leader was: its process has ended. It need not be waited for.

        It is as if it had resigned. The other voters stand one after the other, by their ids from
        the leader's on, so that no two stand at the same time, and the next leader is there in
        milliseconds instead of a fetch timeout. Who is wrong about it, because a firewall refuses
        in its name, does no harm: voters that hear from the leader refuse the pre-vote. Once per
        epoch, so that it cannot go on like that. Kafka waits for the fetch timeout.
        """
        follower = self._node.role_state
        if not isinstance(follower, Follower) or follower.leader_id != peer:
            return
        if not self._rules.may_stand_early(self.stood_early_in_epoch == self._outbox.state.epoch):
            return
        probe("quorum.leader.gone")
        self.stood_early_in_epoch = self._outbox.state.epoch
        follower.has_fetched = False  # others get our pre-vote from now on
        if self._node.is_electable:
            due = self._timers.now_ms + self._roles.succession_delay_ms(peer)
            self._timers.set(inputs.FETCH, min(due, self._timers.deadlines.get(inputs.FETCH, due)))

    # -- fetching ------------------------------------------------------------------------------

    def fetch_target(self) -> int | None:
        """The node to fetch from in this role, if any; the log is left alone while a snapshot
        takes its place."""
        body = self._node.role_state
        if self._log.installing is not None:
            return None
        if isinstance(body, Follower):
            others = [peer for peer in self._node.targets_to_probe() if peer != body.leader_id]
            if others and self._rules.asks_around(body.misses):
                return others[(self._node.id + body.misses // 2) % len(others)]
            return body.leader_id
        if isinstance(body, Unattached):
            targets = self._node.targets_to_probe()
            # Nodes begin with different ones.
            return targets[(self._node.id + body.probed) % len(targets)] if targets else None
        return None

    def fetch_request(self) -> Message:
        return messages.fetch_request(
            self._config,
            self._node.id,
            self._outbox.state.epoch,
            self._damage.fetch_position,
            self._log.high_watermark,
        )

    def follower_request(self, follower: Follower) -> Message:
        """What a follower asks next: a piece of a snapshot, or what follows its log.

        A snapshot that was given up is not asked for again, but what to do: its leader does not
        have it, or another node leads, and the snapshot may be gone for good.
        """
        if follower.fetching is not None:
            return self._snapshots.request(follower.fetching)
        return self.fetch_request()

    def step_fetch_answer(self, input_: inputs.FetchAnswered) -> None:
        asked = messages.fetch_request_of(input_.request)
        assert asked is not None, "we ask about the one partition"
        source, response = input_.source, input_.response
        said = messages.fetch_response_of(response)
        unusable = said is None or said.error_code != ErrorCode.NONE
        waits = unusable or not self._has_waited(source)
        is_awaited = self._requests.settle(source, input_.request, retry_later=waits)
        if said is None:
            self.probe_next()
            return
        current = said.current_leader
        if not input_.counts_us and current.leader_epoch == self._outbox.state.epoch:
            probe("quorum.not_counted_as_voter")
            self._node.uncounted_in_epoch = current.leader_epoch
        endpoints = leader_in(response, current.leader_id, self._config.listener)
        if self._claims.observe(current.leader_epoch, current.leader_id, endpoints, source=source):
            return
        if not is_awaited or current.leader_epoch != self._outbox.state.epoch:
            self.probe_next()
            return
        if unusable:
            self._take_fetch_error(said)
            return
        follower = self._node.role_state
        if not isinstance(follower, Follower) or follower.leader_id != source:
            self.probe_next()  # a bootstrap server may be the leader; it is asked by its id next
            return
        if (
            asked.fetch_offset != self._damage.fetch_position[1]
            or asked.current_leader_epoch != self._outbox.state.epoch
        ):
            return  # asked before the log changed under it
        before = self._log.end, self._log.high_watermark, follower.fetching
        self._take_fetched(follower, said)
        if before != (self._log.end, self._log.high_watermark, follower.fetching):
            self._requests.unpause(source)  # there may be more

    def _has_waited(self, source: int) -> bool:
        """Whether the answer took as long as a fetch may wait; if not, and if it says nothing new,
        the next comes after a pause. Otherwise a node that answers at once is asked for ever."""
        sent_ms = self._requests.sent_ms(source)
        if sent_ms is None:
            return False
        return self._timers.now_ms - sent_ms >= self._config.fetch_max_wait_ms

    def _take_fetch_error(self, said: fetch.PartitionData) -> None:
        """An error that says nothing of epochs: ask again, or ask another."""
        if said.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not self._config.can_load_snapshots:
            self._roles.become_failed(self._snapshots.out_of_reach())
        else:
            self.probe_next()

    def _take_fetched(self, follower: Follower, said: fetch.PartitionData) -> None:
        """The answer we waited for: cut, or append and let the high watermark follow."""
        if said.diverging_epoch.epoch >= 0:
            self._cut_to(said.diverging_epoch.epoch, said.diverging_epoch.end_offset)
        elif max(said.snapshot_id.epoch, said.snapshot_id.end_offset) >= 0:
            offered = said.snapshot_id
            self._snapshots.begin(follower, SnapshotId(offered.end_offset, offered.epoch))
        elif self._log.damaged_at is not None:
            self._damage.take_good_copy(follower, said.records)
        elif not self._append_fetched(said.records):
            probe("quorum.fetch.invalid_batch")
            self.invalid_batch_epoch = self._outbox.state.epoch
            self._requests.pause(follower.leader_id, self._config.retry_backoff_ms)
            return
        else:
            self._log.advance_high_watermark(min(said.high_watermark, self._log.end_offset))
        if self._node.role is Role.FOLLOWER:
            follower.has_fetched = True
            follower.misses = 0
            self._roles.await_leader(follower.leader_id)

    def _cut_to(self, epoch: int, end_offset: int) -> None:
        """Truncate to where the logs part, by the leader's word and by our own epochs."""
        log, told = self._log, EpochEndOffset(epoch, end_offset)
        target = truncation_target(log.view.epochs, told, log.end_offset, log.high_watermark)
        reason: str | None = None
        if end_offset < 0:
            reason = f"the leader sees a divergence in epoch {epoch}, and not where"
        elif target >= log.end_offset:
            reason = f"the leader sees a divergence at {end_offset}, past our log's end"
        elif target < log.high_watermark:
            reason = (
                f"truncation to {target} asked for, below the high watermark {log.high_watermark}"
            )
        elif (start := log.view.batch_start(target)) != target:
            # Logs part between batches: what one leader has appended is the same everywhere.
            reason = f"the leader sees a divergence at {target}, inside our batch at {start}"
        if reason is None:
            self._roles.truncate(target)
        else:
            self._roles.become_failed(reason)

    def _append_fetched(self, records: Buffer | None) -> bool:
        """Append what fits behind our log's end; whether the batches were sound.

        A last batch that was cut short by the size limit is left for the next fetch.
        """
        batches: list[RecordBatch] = []
        next_offset, epoch = self._log.end_offset, self._log.last_epoch
        view = memoryview(records or b"")
        try:
            for position, header in iter_headers(view):
                if (
                    header.base_offset != next_offset
                    or not epoch <= header.partition_leader_epoch <= self._outbox.state.epoch
                    or not check_crc(view, position, header)
                ):
                    return False
                batches.append(RecordBatch(header, view[position : position + header.size_bytes]))
                next_offset, epoch = header.next_offset, header.partition_leader_epoch
        except BatchError:
            return False
        if batches:
            try:
                self._roles.append(batches, epoch, as_leader=False)
            except BatchError:
                return False
            except ValueError as error:
                self._roles.become_failed(f"the leader's log cannot be: {error}")
        return True

    def step_fetch_timeout(self) -> None:
        """The leader is silent: voters look for another, observers ask around."""
        if not isinstance(self._node.role_state, Follower):
            return
        if self._node.is_electable and not self._node.may_stand():
            probe("quorum.follower.cannot_stand")
            self._node.role_state.has_fetched = False  # others get our pre-vote from now on
            self._timers.set(inputs.FETCH, self._timers.now_ms + self._config.fetch_timeout_ms)
        elif self._node.is_electable:
            self._roles.become_prospective()
        else:  # the address that an observer has may lead nowhere (KAFKA-19354)
            probe("quorum.observer.leaves.leader")
            self._roles.become_unattached(self._outbox.state.epoch)

    def probe_next(self) -> None:
        """The node that was asked knew nothing, or did not answer."""
        if isinstance(self._node.role_state, Unattached):
            self._node.role_state.probed += 1
        elif isinstance(self._node.role_state, Follower):
            self._node.role_state.misses += 1
