"""Every request to a coordinator is answered, once, and in time.

Members join, sync, leave, rejoin and ask again while an older request of theirs still waits, in any
order and with any idea of the group's generation; the log commits late or not at all. Checked after
every step: a request that has no answer yet is either held until the log is committed or waits in
the coordinator, in one place and not in two. And no member waits longer in JoinGroup or SyncGroup
than the rebalance timeouts allow, with members among them that join and never send SyncGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from fencepost.machines.group.classic.member import GroupState
from fencepost.wire.api.heartbeat import HeartbeatResponse
from fencepost.wire.api.join_group import JoinGroupResponse
from fencepost.wire.api.leave_group import LeaveGroupResponse
from fencepost.wire.api.sync_group import SyncGroupResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from .group_world import GroupWorld, subscription, waiting_tokens

pytestmark = pytest.mark.slow

REBALANCE_MS = (8_000, 20_000)
DELAYS_MS = (0, 100)
LONGEST_WAIT_MS = max(REBALANCE_MS) + max(DELAYS_MS)
FORGETFUL = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class Member:
    """A client and what it believes to be."""

    def __init__(self, number: int) -> None:
        self.instance = f"i{number}" if number >= 4 else None
        self.member_id = ""
        self.generation = -1
        self.roster: list[str] = []


class EveryAnswer(RuleBasedStateMachine):
    """One group of six clients, two of them static, and requests on as many connections."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld()
        self.members = [Member(n) for n in range(6)]
        self.asked: dict[int, tuple[Member, type[Message], int]] = {}  # token: who, what, when

    @initialize(delay_ms=st.sampled_from(DELAYS_MS), max_size=st.sampled_from([2, 4, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.world = GroupWorld(
            committing=False,
            initial_rebalance_delay_ms=delay_ms,
            max_size=max_size,
            offsets_retention_check_ms=10**9,
        )
        self.world.restart()

    def ask(self, member: Member, answer_type: type[Message], send: Callable[[], int]) -> None:
        at_ms = self.world.now
        token = send()
        self.asked[token] = (member, answer_type, at_ms)
        self.hear()

    # What clients do

    @rule(
        n=st.integers(0, 5),
        forgets=st.booleans(),
        favourite=st.sampled_from(["range", "range", "sticky"]),
        version=st.sampled_from([3, 5, 9]),
        rebalance_ms=st.sampled_from(REBALANCE_MS),
    )
    def join(
        self,
        n: int,
        forgets: bool = False,
        favourite: str = "range",
        version: int = 3,
        rebalance_ms: int = REBALANCE_MS[0],
    ) -> None:
        """A first try, a rejoin, or a retry while the last try still waits."""
        member = self.members[n]
        names = dict.fromkeys([favourite, "range", "sticky"])
        self.ask(
            member,
            JoinGroupResponse,
            lambda: self.world.join(
                "" if forgets else member.member_id,
                instance=member.instance,
                protocols=dict.fromkeys(names, subscription("t")),
                session_ms=6_000,
                rebalance_ms=rebalance_ms,
                version=version,
            ),
        )

    @rule(n=st.integers(0, 5), behind=st.sampled_from([0, 0, 0, 1]), times=st.integers(1, 2))
    def sync(self, n: int, behind: int = 0, times: int = 1) -> None:
        """As the group's leader does, from any member; also with an old generation, and again."""
        member = self.members[n]
        for _ in range(times):
            self.ask(
                member,
                SyncGroupResponse,
                lambda: self.world.sync(
                    member.member_id,
                    member.generation - behind,
                    dict.fromkeys(member.roster, b"mine"),
                    instance=member.instance,
                    version=4,
                    protocol=None,
                ),
            )

    @rule(some=st.sets(st.integers(0, 5), min_size=1), forget=st.booleans())
    def several_join(self, some: set[int], forget: bool) -> None:
        """Without this, groups with members would be rare."""
        for n in some:
            self.join(n, forget)
        self.world.advance(max(DELAYS_MS))
        self.commit()

    @rule(some=st.sets(st.integers(0, 5), min_size=1))
    def several_sync(self, some: set[int]) -> None:
        for n in some:
            self.sync(n)

    def heartbeat(self, n: int) -> None:
        member = self.members[n]
        self.ask(
            member,
            HeartbeatResponse,
            lambda: self.world.ask_heartbeat(
                member.member_id, member.generation, instance=member.instance
            ),
        )

    @rule(n=st.integers(0, 5), other=st.integers(0, 5))
    def leave(self, n: int, other: int) -> None:
        """Also two at a time, and one member on behalf of another."""
        who = [(one.member_id, one.instance) for one in (self.members[n], self.members[other])]
        self.ask(self.members[n], LeaveGroupResponse, lambda: self.world.ask_to_leave(*who))

    # What the world does

    @rule()
    def commit(self) -> None:
        self.world.commit()
        self.hear()

    @rule()
    def commit_one(self) -> None:
        self.world.commit(min(self.world.committed + 1, len(self.world.log)))
        self.hear()

    @rule(by_ms=st.sampled_from([1, 100, 5_999, 8_000, 20_000]))
    def time_passes(self, by_ms: int) -> None:
        self.world.advance(by_ms)
        self.hear()

    @rule(some=st.sets(st.integers(0, 5), min_size=1))
    def time_passes_with_heartbeats(self, some: set[int]) -> None:
        """Members that are there and do nothing else."""
        for _ in range(LONGEST_WAIT_MS // 5_000 + 1):
            self.world.advance(5_000)
            for n in some:
                self.heartbeat(n)

    @rule()
    def write_fails(self) -> None:
        """What the shell does then: everybody who waits is told, and the log is loaded again."""
        self.asked.clear()
        self.world.restart()

    def hear(self) -> None:
        for token, response in list(self.world.replies.items()):
            del self.world.replies[token]
            assert token in self.asked, "an answer to a request that is answered already"
            member, answer_type, _ = self.asked.pop(token)
            assert isinstance(response, answer_type)
            if isinstance(response, JoinGroupResponse) and response.member_id:
                member.member_id = response.member_id
                if response.error_code == ErrorCode.NONE:
                    member.generation = response.generation_id
                    member.roster = [one.member_id for one in response.members]
            elif response.error_code in FORGETFUL:
                member.member_id = ""

    # What must hold

    @invariant()
    def everybody_without_an_answer_is_remembered_once(self) -> None:
        held = Counter(token for _, token, _ in self.world.held)
        waiting = Counter(waiting_tokens(self.world.coordinator))
        assert held + waiting == Counter(self.asked.keys())

    @invariant()
    def no_member_waits_for_too_long(self) -> None:
        for token in waiting_tokens(self.world.coordinator):
            _, _, at_ms = self.asked[token]
            assert self.world.now - at_ms <= LONGEST_WAIT_MS

    @invariant()
    def who_waits_waits_for_something(self) -> None:
        """No group stands still with everybody in it."""
        for group in self.world.coordinator.groups.values():
            for member in group.members.values():
                assert not member.awaits_join or group.state is GroupState.PREPARING_REBALANCE
                assert not member.awaits_sync or group.state is GroupState.COMPLETING_REBALANCE
            if group.state is GroupState.PREPARING_REBALANCE and not group.is_initial_rebalance:
                assert not group.has_all_joined

    def teardown(self) -> None:
        """Every request that has no answer yet gets one, and none waits in the coordinator."""
        self.world.commit()
        self.world.advance(LONGEST_WAIT_MS)
        self.world.commit()
        self.hear()
        assert not self.asked


TestEveryAnswer = EveryAnswer.TestCase
QUICK = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestEveryAnswer.settings = QUICK


@pytest.mark.long
def test_every_answer_in_many_histories() -> None:
    run_state_machine_as_test(EveryAnswer, settings=settings(QUICK, max_examples=1000))
