"""Following: learn who leads, fetch from it, append what it has, cut off what it has not.

A follower's fetch is its word that everything below the fetch offset is on its disk: it is sent
after the flush (`SendAfterPersist`). The leader answers with batches, or with the point where the
two logs part. Truncation goes to that point, never below the high watermark: what is committed is
in every leader's log, so a leader that asks for more is not one, and the node stops (I07).

Observers, nodes without a vote, follow in the same way. As long as they know no leader they ask the
bootstrap servers and the voters one after another, with the very same fetch; a node that does not
lead says who does, and where it is reached. Voters ask the bootstrap servers, too: who has slept
while the others left and new ones came may be no voter any more, and know nobody that is there.
"""

from __future__ import annotations

from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader, check_crc, iter_headers
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.divergence import truncation_target
from fencepost.log.epochs import EpochEndOffset
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Buffer
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.endpoints import add_leader, endpoints_of, leader_in
from fencepost.machines.quorum.roles import Follower, Role, Unattached
from fencepost.machines.quorum.snapshots import Snapshots
from fencepost.machines.quorum.state import NOBODY
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api import fetch
from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochResponse
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message


class Following(Snapshots):
    """Handlers of what leaders say."""

    _hurried_in_epoch = -1
    _unsound_in_epoch = -1

    @property
    def unsound_in_epoch(self) -> int:
        """The latest epoch whose leader has sent batches that were not sound; -1 for none.

        They are refused and asked for again: whoever runs the node should hear of it.
        """
        return self._unsound_in_epoch

    # -- a leader makes itself known, or resigns -----------------------------------------------

    def _step_begin(self, input_: inputs.BeginQuorumEpochReceived) -> None:
        request = input_.request
        response: BeginQuorumEpochResponse
        if not self._is_our_cluster(request.cluster_id):
            response = BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif (said := messages.begin_request_of(request)) is None:
            response = BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        else:
            error = self._check_leader(said.leader_id, said.leader_epoch)
            if error is ErrorCode.NONE:
                endpoints = endpoints_of(request.leader_endpoints)
                self._observe(said.leader_epoch, said.leader_id, endpoints, from_leader=True)
                if not self._is_me(request.voter_id, said.voter_directory_id):
                    error = ErrorCode.INVALID_VOTER_KEY
            response = messages.begin_response(error, self.leader_id, self._state.epoch)
            add_leader(response, self.leader_id, self._leader_endpoint)
        self._reply(input_.token, response)

    def _step_end(self, input_: inputs.EndQuorumEpochReceived) -> None:
        request = input_.request
        response: EndQuorumEpochResponse
        if not self._is_our_cluster(request.cluster_id):
            response = EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif (said := messages.end_request_of(request)) is None:
            response = EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        else:
            error = self._check_leader(said.leader_id, said.leader_epoch)
            if error is ErrorCode.NONE:
                endpoints = endpoints_of(request.leader_endpoints)
                self._observe(said.leader_epoch, said.leader_id, endpoints, from_leader=True)
                self._take_leave(said.leader_id, messages.preferred_candidates_of(said))
            response = messages.end_response(error, self.leader_id, self._state.epoch)
            add_leader(response, self.leader_id, self._leader_endpoint)
        self._reply(input_.token, response)

    def _check_leader(self, leader_id: int, epoch: int) -> ErrorCode:
        """The error for a leader's request, or NONE.

        Anybody can send one. A leader that claims an epoch we know another leader of, or one that
        no election can have come to, is refused and otherwise ignored: it cannot have been elected.
        That it is no voter by our log says nothing, for our log may be behind (KIP-853).
        """
        if self.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < self._state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_id < 0 or leader_id == self._node_id or self._epoch_out_of_range(epoch):
            return ErrorCode.INVALID_REQUEST
        if epoch == self._state.epoch and self._state.leader_id not in (NOBODY, leader_id):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _take_leave(self, leader_id: int, candidates: list[ReplicaKey]) -> None:
        """Our leader resigned: stand for election, sooner or later by our place in its list."""
        follower = self._body
        if not isinstance(follower, Follower) or follower.leader_id != leader_id:
            return
        follower.has_fetched = False  # it has said goodbye: others may hope for our pre-vote
        if not self.is_electable:
            return
        backoff = self._succession_backoff(candidates)
        if backoff == 0 and self._may_stand():
            self.become_prospective()
        else:
            self._set_timer(inputs.FETCH, self._now_ms + backoff)

    def _succession_backoff(self, candidates: list[ReplicaKey]) -> int:
        """Milliseconds to wait: none for the first, then doubling up to the maximum for the last.

        So the voter with the longest log has a head start, and no two stand at the same time.
        """
        most = self._config.election_backoff_max_ms
        us = (self.key, ReplicaKey(self._node_id))
        position = next((i for i, key in enumerate(candidates) if key in us), -1)
        if position < 0:
            return most
        if position == 0:
            return 0
        return min(most, (most >> (len(candidates) - 1)) << (position - 1))

    def _note_gone(self, peer: int) -> None:
        """Nothing listens where the leader was: its process has ended, so nobody need wait for it.

        It is as if it had resigned. The other voters stand one after the other, by their ids from
        the leader's on, so that no two stand at the same time, and the next leader is there in
        milliseconds instead of a fetch timeout. Who is wrong about it, because a firewall refuses
        in its name, does no harm: voters that hear from the leader refuse the pre-vote. Once per
        epoch, so that it cannot go on like that. Kafka waits for the fetch timeout.
        """
        follower = self._body
        if not isinstance(follower, Follower) or follower.leader_id != peer:
            return
        if not self._rules.may_stand_early(self._hurried_in_epoch == self._state.epoch):
            return
        probe("quorum.leader.gone")
        self._hurried_in_epoch = self._state.epoch
        follower.has_fetched = False  # others may hope for our pre-vote
        if self.is_electable:
            due = self._now_ms + self._succession_delay_ms(peer)
            self._set_timer(inputs.FETCH, min(due, self._deadlines.get(inputs.FETCH, due)))

    # -- fetching ------------------------------------------------------------------------------

    def _fetch_target(self) -> int | None:
        """Whom to fetch from in this role, if anybody; the log is left alone while a snapshot
        takes its place."""
        body = self._body
        if self._installing is not None:
            return None
        if isinstance(body, Follower):
            others = [peer for peer in self._probe_targets() if peer != body.leader_id]
            if others and self._rules.asks_around(body.misses):
                return others[(self._node_id + body.misses // 2) % len(others)]
            return body.leader_id
        if isinstance(body, Unattached):
            targets = self._probe_targets()
            # Nodes begin with different ones.
            return targets[(self._node_id + body.probed) % len(targets)] if targets else None
        return None

    def _probe_targets(self) -> tuple[int, ...]:
        """Whom to ask who leads: the bootstrap servers under their pseudo ids, then the voters.

        Bootstrap servers come first because voters may be known only by what an old log says. A
        voter hears from other voters when it asks for their votes.
        """
        servers = tuple(-2 - index for index in range(self._config.bootstrap_servers))
        return servers if self.is_voter else servers + self._others

    def _fetch_request(self) -> Message:
        return messages.fetch_request(
            self._config, self._node_id, self._state.epoch, self._fetch_end, self._high_watermark
        )

    def _follower_request(self, follower: Follower) -> Message:
        """What a follower asks next: a piece of a snapshot, or what follows its log."""
        if follower.fetching is None and not self._rules.goes_back_to_fetch():
            follower.fetching = self._begun
        if follower.fetching is not None:
            return self._fetch_snapshot_request(follower.fetching)
        return self._fetch_request()

    def _step_fetch_answer(self, input_: inputs.FetchAnswered) -> None:
        asked = messages.fetch_request_of(input_.request)
        assert asked is not None, "we ask about the one partition"
        self._take_fetch_answer(input_.source, input_.request, asked, input_.response)

    def _take_fetch_answer(
        self,
        source: int,
        request: Message,
        asked: fetch.FetchPartition,
        response: fetch.FetchResponse,
    ) -> None:
        """What `source` says to `request`, which asks for what `asked` says."""
        said = messages.fetch_response_of(response)
        unusable = said is None or said.error_code != ErrorCode.NONE
        waits = unusable or not self._has_waited(source)
        is_awaited = self._settle_request(source, request, retry_later=waits)
        if said is None:
            self._probe_next()
            return
        current = said.current_leader
        endpoints = leader_in(response, current.leader_id, self._config.listener)
        if self._observe(current.leader_epoch, current.leader_id, endpoints, source=source):
            return
        if not is_awaited or current.leader_epoch != self._state.epoch:
            self._probe_next()
            return
        if unusable:
            self._take_fetch_error(said)
            return
        follower = self._body
        if not isinstance(follower, Follower) or follower.leader_id != source:
            self._probe_next()  # a bootstrap server may be the leader; it is asked by its id next
            return
        if asked.fetch_offset != self._fetch_end[1] or asked.current_leader_epoch != self.epoch:
            return  # asked before the log changed under it
        before = self._log_end, self._high_watermark, follower.fetching
        self._take_fetched(follower, said)
        if before != (self._log_end, self._high_watermark, follower.fetching):
            self._not_before.pop(source, None)  # there may be more

    def _has_waited(self, source: int) -> bool:
        """Whether the answer took as long as a fetch may wait; if not, and if it says nothing new,
        the next comes after a pause. Otherwise whoever answers at once is asked for ever."""
        waiting = self._in_flight.get(source)
        if waiting is None:
            return False
        sent_ms = waiting[1] - self._config.request_timeout_ms
        return self._now_ms - sent_ms >= self._config.fetch_max_wait_ms

    def _take_fetch_error(self, said: fetch.PartitionData) -> None:
        """An error that says nothing of epochs: ask again, or ask another."""
        if self._is_out_of_reach(said.error_code):
            self.become_failed(
                f"the leader's log does not reach back to {self._end_offset}, and the draft"
                " FetchQuorumRecords has no snapshots: give this node a copy of a log, or have it"
                " speak Fetch"
            )
            return
        self._probe_next()

    def _is_out_of_reach(self, error: int) -> bool:
        """Whether the leader's log does not reach back to ours, and we cannot load snapshots."""
        return False

    def _take_fetched(self, follower: Follower, said: fetch.PartitionData) -> None:
        """The answer we waited for: cut, or append and let the high watermark follow."""
        if said.diverging_epoch.epoch >= 0:
            self._cut_to(said.diverging_epoch.epoch, said.diverging_epoch.end_offset)
        elif max(said.snapshot_id.epoch, said.snapshot_id.end_offset) >= 0:
            offered = said.snapshot_id
            self._begin_snapshot(follower, SnapshotId(offered.end_offset, offered.epoch))
        elif self.damaged_at is not None:
            self._take_good_copy(follower, said.records)
        elif not self._append_fetched(said.records):
            probe("quorum.fetch.unsound")
            self._unsound_in_epoch = self._state.epoch
            self._wait_for_retry(follower)
            return
        else:
            self._advance_high_watermark(min(said.high_watermark, self._end_offset))
        if self.role is Role.FOLLOWER:
            follower.has_fetched = True
            follower.misses = 0
            self._await_leader(follower.leader_id)

    def _cut_to(self, epoch: int, end_offset: int) -> None:
        """Truncate to where the logs part, by the leader's word and by our own epochs."""
        told = EpochEndOffset(epoch, end_offset)
        target = truncation_target(self._log.epochs, told, self._end_offset, self._high_watermark)
        if end_offset < 0:
            self.become_failed(f"the leader sees a divergence in epoch {epoch}, and not where")
        elif target >= self._end_offset:
            self.become_failed(f"the leader sees a divergence at {end_offset}, past our log's end")
        elif target < self._high_watermark:
            self.become_failed(
                f"truncation to {target} asked for, below the high watermark {self._high_watermark}"
            )
        elif (start := self._log.batch_start(target)) != target:
            # Logs part between batches: what one leader has appended is the same everywhere.
            self.become_failed(
                f"the leader sees a divergence at {target}, inside our batch at {start}"
            )
        else:
            self._truncate(target)

    def _append_fetched(self, records: Buffer | None) -> bool:
        """Append what fits behind our log's end; whether the batches were sound.

        A last batch that was cut short by the size limit is left for the next fetch.
        """
        batches: list[RecordBatch] = []
        next_offset, epoch = self._end_offset, self._last_epoch
        view = memoryview(records or b"")
        try:
            for position, header in iter_headers(view):
                if (
                    header.base_offset != next_offset
                    or not epoch <= header.partition_leader_epoch <= self._state.epoch
                    or not self._is_sound(view, position, header)
                ):
                    return False
                batches.append(RecordBatch(header, view[position : position + header.size_bytes]))
                next_offset, epoch = header.next_offset, header.partition_leader_epoch
        except BatchError:
            return False
        if batches:
            try:
                self._append(batches, epoch, as_leader=False)
            except BatchError:
                return False
            except ValueError as error:
                self.become_failed(f"the leader's log cannot be: {error}")
        return True

    def _is_sound(self, view: memoryview, position: int, header: BatchHeader) -> bool:
        """Whether a batch is what its leader once appended, and has not rotted since."""
        return check_crc(view, position, header)

    def _step_fetch_timeout(self) -> None:
        """The leader is silent: voters look for another, observers ask around."""
        if not isinstance(self._body, Follower):
            return
        if self.is_electable and not self._may_stand():
            probe("quorum.follower.cannot_stand")
            self._body.has_fetched = False  # others may hope for our pre-vote
            self._set_timer(inputs.FETCH, self._now_ms + self._config.fetch_timeout_ms)
        elif self.is_electable:
            self.become_prospective()
        elif self._rules.leaves_silent_leader():
            probe("quorum.observer.leaves.leader")
            self.become_unattached(self._state.epoch)
        else:
            self._set_timer(inputs.FETCH, self._now_ms + self._config.fetch_timeout_ms)

    def _probe_next(self) -> None:
        """Whoever was asked knew nothing, or did not answer."""
        if isinstance(self._body, Unattached):
            self._body.probed += 1
        elif isinstance(self._body, Follower):
            self._body.misses += 1
