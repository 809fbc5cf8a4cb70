"""Each fault does what it says: tried by hand, in a world in which nothing else goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.log.errors import LogFailedError
from fencepost.log.names import CLEAN_SHUTDOWN_FILE
from fencepost.machines.quorum import QuorumState
from fencepost.machines.quorum.inputs import ImageFailed, RequestFailed
from fencepost.sim import damage
from fencepost.sim.disk_snapshots import DiskSnapshot, content_now, forgets_nothing
from fencepost.sim.faults import Fault, fault_classes
from fencepost.sim.faults.partition import Partition
from fencepost.sim.node import SimNode
from fencepost.sim.options import Options
from fencepost.sim.oracle import Violation
from fencepost.sim.script import play
from fencepost.sim.tape import Tape
from fencepost.sim.world import World

STATE = f"{damage.DIRECTORY}/quorum-state"


def a_world(
    drawn: dict[str, list[int]] | None = None,
    ms: int = 8_000,
    seed: int | None = None,
    **options: Any,
) -> World:
    """A world of three voters that has been well for some time; `drawn` is on its tape, and zeros;
    or else what the seed draws."""
    tape = Tape(recorded=drawn or {}) if seed is None else Tape(seed)
    world = World(tape, Options(faults=(), **options))
    for node in world.nodes.values():
        node.start()
    world.workload.begin()
    world.run_until(ms * 1_000)
    return world


def on(world: World, ms: int) -> None:
    world.run_until(world.now_us + ms * 1_000)


def a_follower(world: World) -> SimNode:
    return next(node for node in world.nodes.values() if not node.leads)


def has_converged(world: World) -> bool:
    watermarks = {node.machine.high_watermark for node in world.alive()}
    return len(world.alive()) == len(world.nodes) and len(watermarks) == 1


def until(world: World, condition: Callable[[], bool], ms: int = 30_000) -> None:
    assert world.run_while(lambda: not condition(), world.now_us + ms * 1_000), world.describe()


def strike(world: World, name: str) -> Fault:
    """Have it act once; its choices are those on the tape, zeros if there are none."""
    fault = fault_classes()[name](world)
    fault.act()
    return fault


# -- damage ----------------------------------------------------------------------------------------


def test_a_misdirected_write_leaves_a_hole_and_stands_over_something_else() -> None:
    world = a_world()
    node = a_follower(world)
    path, position, size = damage._find(node, 3)
    held = world.observer.oracle.disks[node.id].durable_offset
    piece = damage._content(node, path)[position : position + size]
    damage.misplace_batch(node, 3, 9, held)
    other = damage._content(node, path)
    assert other[position : position + size] == bytes(size)
    assert piece in other
    assert node.is_excused
    assert world.observer.oracle.disks[node.id].is_damaged
    node.log_dir.checkpoint_recovery_points()
    node.kill()
    node.start()
    on(world, 20_000)
    sound = [one for one in world.nodes.values() if one is not node]
    assert len({one.machine.high_watermark for one in sound}) == 1
    assert node.gave_up or node.machine.high_watermark == sound[0].machine.high_watermark


def test_a_write_is_not_misplaced_over_what_others_need() -> None:
    world = a_world()
    node = a_follower(world)
    with pytest.raises(LookupError):
        damage.misplace_batch(node, 3, 9, 4)


@pytest.mark.parametrize(
    "name", ["bit-flip", "misdirected-write", "corrupt-snapshot", "corrupt-quorum-state"]
)
def test_damage_strikes_what_can_be_spared_and_more_only_over_budget(name: str) -> None:
    struck = {}
    for over_budget in (False, True):
        world = a_world(seed=1, snapshot_bytes=1_000, over_budget=over_budget)
        fault = fault_classes()[name](world)
        for _ in range(20):
            fault.act()
        struck[over_budget] = sum(disk.is_damaged for disk in world.observer.oracle.disks.values())
    assert struck == {False: 1, True: 3}


def test_a_node_does_not_start_on_a_corrupt_vote() -> None:
    world = a_world()
    strike(world, "corrupt-quorum-state")
    node = world.nodes[1]
    assert "quorum-state" in (node.gave_up or "")


@pytest.mark.parametrize("bit", range(0, 1_200, 37))
def test_no_bit_of_a_vote_changes_unnoticed(bit: int) -> None:
    world = a_world(ms=2_500)
    node = a_follower(world)
    node.kill()
    damage.flip_state(node, bit)
    node.start()
    assert node.gave_up is not None


def test_a_corrupt_snapshot_is_not_loaded() -> None:
    world = a_world(drawn={"fault.corrupt-snapshot": [0, 0, 0, 1]}, snapshot_bytes=1_000)
    node = world.nodes[1]
    strike(world, "corrupt-snapshot")
    assert not node.is_up
    node.start()
    aside = [name for name in node.disk.list(damage.DIRECTORY) if name.endswith(".aside")]
    assert node.gave_up or aside


# -- earlier states --------------------------------------------------------------------------------


def test_a_machine_that_goes_back_has_its_old_log_and_catches_up() -> None:
    world = a_world()
    node = a_follower(world)
    earlier = DiskSnapshot(node)
    end_offset = node.machine.end_offset
    on(world, 3_000)
    until(world, lambda: forgets_nothing(earlier))
    world.workload.unreachable = dict.fromkeys(world.nodes)
    assert node.machine.end_offset > end_offset
    node.kill()
    earlier.put_back()
    node.start()
    assert node.machine.end_offset <= end_offset
    assert not node.is_excused, "it has no reason to give up"
    until(world, lambda: has_converged(world))
    world.observer.at_end()


def test_a_machine_does_not_go_back_behind_a_vote_or_what_it_holds_alone() -> None:
    world = a_world()
    earlier = {id_: DiskSnapshot(node) for id_, node in world.nodes.items()}
    leader = world.leader()
    assert leader is not None
    until(world, lambda: all(map(forgets_nothing, earlier.values())))
    others = [node for node in world.nodes.values() if node is not leader]
    for node in others:
        node.kill()
    until(world, lambda: leader.machine.end_offset > leader.machine.high_watermark)
    on(world, 100)
    assert not forgets_nothing(earlier[leader.id]), "no other node has its last batch"
    for node in others:
        node.start()
    leader.kill()
    until(world, lambda: any(node.leads for node in others))
    on(world, 1_000)
    assert not any(forgets_nothing(earlier[node.id]) for node in others), "they have voted"


def test_a_voter_that_forgot_its_vote_is_seen_to_vote_twice() -> None:
    """No quorum survives this; a check must find it, or `rollback` could hide such a case."""
    story = """
> voters 3
> start 1 2 3
> remember 3
> fire 1 election
> deliver 1->3 PreVote
> deliver 3->1 PreVoteAnswer
> deliver 1->3 Vote
> power-loss 3
> put-back 3
> start 3
> fire 2 election
> deliver 2->3 PreVote
> deliver 3->2 PreVoteAnswer
> deliver 2->3 Vote
"""
    assert "VIOLATION I22: 3 votes for 1 and for 2 in epoch 1" in play(story)


def test_one_file_is_as_it_was_and_the_rest_is_of_now() -> None:
    world = a_world()
    node = world.nodes[1]
    logs = [path for path in DiskSnapshot(node).files() if path.endswith(".log")]
    earlier = DiskSnapshot(node)
    on(world, 3_000)
    state = content_now(node, STATE)
    node.kill()
    assert content_now(node, logs[-1]) != earlier.read(logs[-1])
    node.disk.restore_file(earlier.stored, logs[-1])
    assert content_now(node, logs[-1]) == earlier.read(logs[-1])
    assert content_now(node, STATE) == state


def test_a_stale_file_counts_as_damage() -> None:
    world = a_world(seed=2)
    fault = fault_classes()["stale-file"](world)
    fault.act()
    until(world, lambda: bool(world.fault_counts), 60_000)
    assert [disk.is_damaged for disk in world.observer.oracle.disks.values()].count(True) == 1


# -- processes -------------------------------------------------------------------------------------


def test_an_orderly_stop_hands_over_and_leaves_a_clean_log() -> None:
    world = a_world()
    leader = world.leader()
    assert leader is not None
    epoch = leader.machine.epoch
    fault = fault_classes()["shutdown"](world)
    fault.lane.values.clear()
    fault.a_node = lambda nodes: leader  # type: ignore[method-assign]
    fault.act()
    until(world, lambda: not leader.is_up)
    assert leader.disk.exists(f"/data/{CLEAN_SHUTDOWN_FILE}")
    until(world, lambda: leader.is_up)
    assert not leader.metadata.log.recovery.was_unclean
    until(world, lambda: has_converged(world))
    assert leader.machine.epoch > epoch


def test_who_is_old_speaks_the_lowest_versions_with_everybody() -> None:
    world = a_world()
    old = a_follower(world)
    versions: dict[bool, set[tuple[str, int]]] = {True: set(), False: set()}
    request = world.network._travel.request

    def noted(call: Any) -> Any:
        travelled = request(call)
        is_old = old in (call.source, call.target)
        versions[is_old].add((type(call.request).__name__, call.version))
        return travelled

    world.network._travel.request = noted  # type: ignore[method-assign]
    on(world, 2_000)
    assert versions == {True: set(), False: set()}, "messages of new nodes need no codec here"
    old.is_old = True
    on(world, 5_000)
    assert versions[False] == set()
    assert ("FetchRequest", 15) in versions[True]
    until(world, lambda: has_converged(world))


# -- disks that hang -------------------------------------------------------------------------------


def test_a_stuck_sync_of_the_log_ends_late() -> None:
    world = a_world()
    node = a_follower(world)
    node.stuck_until_us = world.now_us + 6_000_000
    durable = world.observer.oracle.disks[node.id].durable_offset
    on(world, 5_000)
    assert world.observer.oracle.disks[node.id].durable_offset <= durable + 1, (
        "but for one under way"
    )
    on(world, 5_000)
    assert world.observer.oracle.disks[node.id].durable_offset > durable + 5


def test_who_waits_for_a_stuck_sync_is_deaf_and_silent() -> None:
    world = a_world()
    node = a_follower(world)
    until_us = node.stuck_until_us = world.now_us + 3_000_000
    state = node.machine.state
    world.guard(
        lambda: node.ports.write_state(
            "__cluster_metadata-0", QuorumState(state.epoch, state.leader_id, state.voted_id)
        ),
        node,
    )
    assert node.is_paused
    node.resume()
    assert node.is_paused, "resuming a paused process does not end its sync"
    assert node.silent_until_us == until_us
    on(world, 2_900)
    assert node.is_paused
    on(world, 200)
    assert not node.is_paused
    until(world, lambda: has_converged(world))


# -- the network -----------------------------------------------------------------------------------


def test_half_open_connections_say_nothing_until_the_request_times_out() -> None:
    world = a_world()
    follower, leader = a_follower(world), world.leader()
    assert leader is not None
    failed: list[tuple[int, bool]] = []
    feed = follower.feed

    def listening(input_: Any) -> None:
        if isinstance(input_, RequestFailed):
            failed.append((world.now_us, input_.is_refused))
        feed(input_)

    follower.feed = listening  # type: ignore[method-assign]
    began_us = world.now_us
    waiting = [c for c in world.network._open[leader.id] if c.source is follower]
    assert waiting
    world.network.forget(follower.id, leader.id)
    on(world, world.options.request_timeout_ms - 1)
    assert failed == []
    on(world, 100)
    assert len(failed) == len(waiting)
    assert failed[0][0] - began_us >= world.options.request_timeout_ms * 1_000
    assert not failed[0][1]
    until(world, lambda: has_converged(world))


@pytest.mark.parametrize(
    ("how", "refuses"), [("kill", True), ("lose_power", False)], ids=["process", "power"]
)
def test_who_has_no_process_refuses_and_who_has_no_power_is_silent(how: str, refuses: bool) -> None:
    world = a_world()
    follower, leader = a_follower(world), world.leader()
    assert leader is not None
    getattr(leader, how)()
    request = follower.machine.following.fetch_request()
    heard: list[tuple[int, bool]] = []
    fail = world.network._fail

    def noted(call: Any, is_refused: bool) -> None:
        if call.request is request:
            heard.append((world.now_us, is_refused))
        fail(call, is_refused)

    world.network._fail = noted  # type: ignore[method-assign]
    asked_us = world.now_us
    world.network.request(follower, leader.id, request)
    on(world, world.options.request_timeout_ms + 100)
    [(at_us, is_refused)] = heard
    assert is_refused == refuses
    assert (at_us - asked_us < 10_000) == refuses


def test_a_swizzle_clogs_some_nodes_and_lets_them_go_at_different_times() -> None:
    drawn = {"fault.swizzle": [0, 1, 0, 1, 100, 0, 900, 50]}
    world = a_world(drawn)
    strike(world, "swizzle")
    on(world, 60)
    ends = {
        target: link.clogged_until_us
        for (_, target), link in world.network.links.items()
        if link.clogged_until_us > world.now_us
    }
    assert set(ends) == {1, 3}
    assert ends[1] != ends[3]


def test_what_waits_on_a_link_arrives_when_the_network_heals() -> None:
    world = a_world()
    leader = world.leader()
    assert leader is not None
    leader.silent_until_us = world.now_us + 60_000_000
    for link in world.network.links.values():
        link.clogged_until_us = world.now_us + 60_000_000
    on(world, 3_000)
    leader.silent_until_us = 0
    world.network.heal()
    on(world, 5)
    late = [e.at_us for e in world.queue.due() if e.kind in ("request", "response")]
    assert max(late, default=0) < world.now_us + 10_000
    until(world, lambda: has_converged(world), 10_000)


def test_clients_that_are_cut_off_ask_another_node_and_get_no_answer() -> None:
    world = a_world({"fault.clients-cut": [0, 0, 0, 5_000]})
    leader = world.leader()
    assert leader is not None
    strike(world, "clients-cut")
    assert world.workload.unreachable == {leader.id: None}
    acked = world.workload.acked
    asked: list[int] = []
    submit = world.workload.submit

    def noted(node: SimNode, *rest: Any, **named: Any) -> Any:
        asked.append(node.id)
        return submit(node, *rest, **named)

    world.workload.submit = noted  # type: ignore[method-assign]
    on(world, 900)
    assert asked
    assert leader.id not in asked
    assert world.workload.acked == acked
    assert leader.leads, "the quorum does not care"


@pytest.mark.parametrize("count", range(2, 8))
def test_the_shapes_of_partitions(count: int) -> None:
    world = World(Tape(recorded={}), Options(faults=(), voters=min(count, 5), observers=0))
    fault = Partition(world)
    ids = list(range(1, count + 1))

    def seen_by(pairs: list[tuple[int, int]]) -> dict[int, frozenset[int]]:
        cut = {*pairs, *((b, a) for a, b in pairs)}
        return {a: frozenset(b for b in ids if (a, b) not in cut) for a in ids}

    assert sorted(map(len, seen_by(fault._one(ids)).values())) == [1, *[count - 1] * (count - 1)]
    halves = seen_by(fault._halves(ids))
    assert len(set(halves.values())) == 2
    bridge = seen_by(fault._bridge(ids))
    assert len(bridge[ids[0]]) == count
    ring = seen_by(fault._ring(ids))
    assert min(map(len, ring.values())) > count // 2
    if count > 3:
        assert len(set(ring.values())) == count, "no two see the same majority"
    away = [id_ for id_, seen in seen_by(fault._minority_third(ids)).items() if len(seen) == 1]
    assert len(away) == (count - 1) // 3
    assert 3 * len(away) < count


def test_a_node_that_starts_again_has_no_excuse_of_an_earlier_incarnation() -> None:
    world = a_world()
    node = world.nodes[1]
    node.is_excused = True
    node.kill()
    node.start()
    with pytest.raises(Violation, match="gave-up"):
        node.feed(ImageFailed("for no reason"))


def test_a_node_that_has_given_up_may_stumble_over_its_disk_and_nothing_else() -> None:
    world = a_world()
    node = world.nodes[1]
    node.is_excused = True
    node.feed(ImageFailed("its disk is damaged"))
    assert node.gave_up is not None and not node.leads

    def stumble(error: Exception) -> None:
        raise error

    world.guard(lambda: stumble(LogFailedError("closed")), node)
    with pytest.raises(Violation, match="unhandled: KeyError: 'topic'"):
        world.guard(lambda: stumble(KeyError("topic")), node)
