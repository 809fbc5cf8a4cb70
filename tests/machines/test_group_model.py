"""Groups under whatever order of requests, timeouts, slow commits and crashes there may be.

Clients come, rejoin, sync with an assignment of their own making, heartbeat, commit, leave and
vanish; the log commits when it likes; the coordinator crashes and is loaded again from what was
committed. Checked: a generation has one assignment and it never changes (S80, I42), generations
never go back for who was told of one (I43), a committed offset is the last acknowledged or a later
unanswered one, and never lost (I40, I41), a zombie's commit is refused (S82), and what is durable
is the same live, replayed and replayed compacted (I44).
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fencepost.machines.group.classic.member import GroupState
from fencepost.wire.api.join_group import JoinGroupResponse
from fencepost.wire.api.offset_commit import OffsetCommitResponse
from fencepost.wire.api.sync_group import SyncGroupResponse
from fencepost.wire.errors import ErrorCode

from .group_world import GroupWorld, compact, replay, subscription, waiting_tokens

NONE = ErrorCode.NONE


class Client:
    """A consumer: what it was told last."""

    def __init__(self, number: int, instance: str | None) -> None:
        self.number = number
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.roster: list[str] = []
        self.waiting: int | None = None


class Groups(RuleBasedStateMachine):
    """One group, six clients, two of them static."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld(
            committing=False, initial_rebalance_delay_ms=100, offsets_retention_check_ms=10**9
        )
        self.world.restart()
        self.clients = [Client(n, f"i{n}" if n >= 4 else None) for n in range(6)]
        self.assigned: dict[tuple[int, str], bytes] = {}  # (generation, member) -> assignment
        self.highest_generation = 0
        self.acknowledged: tuple[int, int] | None = None  # (order, offset) of the last commit told
        self.attempts: dict[int, tuple[int, int]] = {}  # token -> (order, offset)
        self.order = 0
        self.offset = 0
        self.tokens: dict[int, Client] = {}
        self.lost: set[int] = set()

    # What clients do

    @rule(n=st.integers(0, 5), topic=st.sampled_from(["t", "t", "u"]))
    def join(self, n: int, topic: str) -> None:
        client = self.clients[n]
        token = self.world.join(
            client.member_id,
            instance=client.instance,
            protocols={"range": subscription(topic)},
            session_ms=10_000,
            rebalance_ms=20_000,
            client=f"c{n}",
        )
        client.waiting = token
        self.tokens[token] = client
        self.hear()

    @rule(n=st.integers(0, 5))
    def sync(self, n: int) -> None:
        client = self.clients[n]
        if client.generation < 0:
            return
        self.order += 1
        given = None
        if client.leads:
            given = {member: f"{member}@{self.order}".encode() for member in client.roster}
        token = self.world.sync(
            client.member_id, client.generation, given, instance=client.instance
        )
        client.waiting = token
        self.tokens[token] = client
        self.hear()

    @rule(n=st.integers(0, 5))
    def heartbeat(self, n: int) -> None:
        client = self.clients[n]
        if client.generation >= 0 and self.world.committed == len(self.world.log):
            error = self.world.heartbeat(
                client.member_id, client.generation, instance=client.instance
            )
            self.note_error(client, error)

    @rule(n=st.integers(0, 5))
    def commit_offset(self, n: int) -> None:
        client = self.clients[n]
        self.order += 1
        self.offset += 1
        token = self.world.offset_commit(
            self.offset,
            member_id=client.member_id,
            generation=client.generation,
            instance=client.instance,
        )
        self.attempts[token] = (self.order, self.offset)
        self.hear()

    @rule(n=st.integers(0, 5))
    def zombie_commits(self, n: int) -> None:
        """A member of an earlier generation commits: that must be refused, now or later."""
        group = self.world.coordinator.groups.get("g")
        client = self.clients[n]
        if group is None or group.generation < 2 or not client.member_id:
            return
        before = len(self.world.log)
        self.world.offset_commit(-99, member_id=client.member_id, generation=group.generation - 1)
        assert len(self.world.log) == before

    @rule(n=st.integers(0, 5))
    def leave(self, n: int) -> None:
        client = self.clients[n]
        if client.member_id and self.world.committed == len(self.world.log):
            self.world.committing = True
            self.world.ask_to_leave((client.member_id, client.instance))
            self.world.committing = False
            client.member_id, client.generation = "", -1
            self.hear()

    @rule(n=st.integers(0, 5))
    def forget(self, n: int) -> None:
        """The client's process dies and another takes its place."""
        self.clients[n] = Client(n, self.clients[n].instance)

    # What the world does

    @rule()
    def commit(self) -> None:
        self.world.commit()
        self.hear()

    @rule()
    def commit_one(self) -> None:
        self.world.commit(min(self.world.committed + 1, len(self.world.log)))
        self.hear()

    @rule(by_ms=st.sampled_from([50, 100, 3_000, 9_000, 25_000]))
    def time_passes(self, by_ms: int) -> None:
        self.world.advance(by_ms)
        self.hear()

    @rule(is_refusing=st.sampled_from([True, False, False]))
    def log_refuses(self, is_refusing: bool) -> None:
        self.world.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_refusing else None

    @rule()
    def crash(self) -> None:
        self.world.refusing = None
        self.world.restart()
        self.lost.update(token for token in self.tokens if token not in self.world.replies)
        self.attempts = {
            token: attempt
            for token, attempt in self.attempts.items()
            if token in self.world.replies
        }

    # What clients hear

    def hear(self) -> None:
        for token in self.world.refused:
            self.attempts.pop(token, None)
            self.tokens.pop(token, None)
        self.world.refused.clear()
        for token, response in list(self.world.replies.items()):
            del self.world.replies[token]
            assert token not in self.lost, "an answer from a coordinator that crashed"
            if isinstance(response, OffsetCommitResponse):
                attempt = self.attempts.pop(token, None)
                error = response.topics[0].partitions[0].error_code
                if attempt is not None and error == NONE:
                    assert self.acknowledged is None or attempt > self.acknowledged
                    self.acknowledged = attempt
                continue
            client = self.tokens.pop(token, None)
            if client is None or client.waiting != token:
                continue
            if isinstance(response, JoinGroupResponse):
                self.hear_join(client, response)
            elif isinstance(response, SyncGroupResponse):
                self.hear_sync(client, response)

    def hear_join(self, client: Client, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code == NONE:
            assert response.generation_id >= client.generation, "generations go up"
            client.member_id = response.member_id
            client.generation = response.generation_id
            client.leads = response.leader == response.member_id and not response.skip_assignment
            client.roster = [member.member_id for member in response.members]
        else:
            self.note_error(client, ErrorCode(response.error_code))

    def hear_sync(self, client: Client, response: SyncGroupResponse) -> None:
        if response.error_code != NONE:
            self.note_error(client, ErrorCode(response.error_code))
            return
        where = (client.generation, client.instance or client.member_id)
        known = self.assigned.setdefault(where, response.assignment)
        assert known == response.assignment, f"two assignments in {where}"
        stamps = {
            assignment.split(b"@")[1]
            for (generation, _), assignment in self.assigned.items()
            if generation == client.generation and assignment
        }
        assert len(stamps) <= 1, f"two leaders assigned generation {client.generation}"
        assert client.generation >= self.highest_generation, "assignments go forward"
        self.highest_generation = client.generation

    @staticmethod
    def note_error(client: Client, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.generation = "", -1
        elif error is ErrorCode.ILLEGAL_GENERATION:
            client.generation = -1

    # What must hold

    @invariant()
    def durable_is_the_same_however_it_is_read(self) -> None:
        live = self.world.coordinator
        replayed = replay(self.world.log)
        assert replayed.durable_view() == live.durable_view()
        compacted = replay(compact(self.world.log))
        assert compacted.durable_view() == live.durable_view()
        assert set(compacted.groups) == set(replayed.groups)

    @invariant()
    def a_settled_group_is_what_is_stored_of_it(self) -> None:
        settled = self.world.coordinator.settled_view()
        replayed = replay(self.world.log).settled_view()
        for group_id, view in settled.items():
            group = self.world.coordinator.groups[group_id]
            if group.state is GroupState.STABLE or group.stored is not None:
                assert replayed[group_id] == view

    @invariant()
    def an_acknowledged_commit_survives(self) -> None:
        if self.acknowledged is None:
            return
        offsets = replay(self.world.log[: self.world.committed])
        _, stored = offsets.durable_view()
        offset = stored["g"]["t", 0][0]
        later = {attempt[1] for attempt in self.attempts.values()}
        assert offset == self.acknowledged[1] or offset in later or offset > self.acknowledged[1]

    @invariant()
    def members_are_accounted_for(self) -> None:
        for group in self.world.coordinator.groups.values():
            assert set(group.static_members.values()) <= set(group.members)
            assert not set(group.pending_members) & set(group.members)
            assert set(group.pending_sync) <= set(group.members)
            assert group.leader_id is None or group.leader_id in group.members
            assert (group.state is GroupState.EMPTY) <= (not group.members)
            for member in group.members.values():
                waits = member.awaits_join or member.awaits_sync
                assert waits or ("classic", "g", "session", member.member_id) in self.world.timers

    @invariant()
    def memory_is_accounted_for(self) -> None:
        coordinator = self.world.coordinator
        for group in coordinator.groups.values():
            counted = group.size_bytes
            group.measure()
            assert counted == group.size_bytes
        with_members = [g for g in coordinator.groups.values() if g.members or g.pending_members]
        needed = sum(group.size_bytes for group in with_members)
        known = sum(group.size_bytes for group in coordinator.groups.values())
        assert needed <= self.world.memory.used_bytes <= known

    def teardown(self) -> None:
        """Peace: everybody is gone in the end, and the group is empty with its offsets kept."""
        self.world.committing = True
        self.world.refusing = None
        self.world.commit()
        self.world.advance(1_000_000)
        self.hear()
        for group in self.world.coordinator.groups.values():
            assert group.state is GroupState.EMPTY and not group.members
        assert not waiting_tokens(self.world.coordinator)
        expected: Any = self.world.coordinator.durable_view()
        self.world.restart()
        assert self.world.coordinator.durable_view() == expected


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
