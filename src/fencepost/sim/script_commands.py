"""The commands of scenarios that make a world and move it.

Each says in its docstring how it is written and what it does.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fencepost.sim.by_hand import RUN_MOST_MS, Flight
from fencepost.sim.options import Options
from fencepost.sim.oracle import Violation
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_table import HELD_US, command, node_of, options_of, way_of

_WAIT_MOST_MS = 3_600_000


@command
def voters(script: Script, words: list[str]) -> None:
    """`voters N [observers=M] [dynamic] [controller] [fetch_max_bytes=B] [snapshot_bytes=B]
    [segment_bytes=B] [retention_bytes=B] [fetch_snapshot_max_bytes=B] [brokers=B]
    [committers=N] [members=N] [transactors=N] [transaction_version=V]`: the world; first.
    `controller` has controllers decide and write, too; `brokers` are 101 and so on, `committers`
    commit offsets of groups for them, `members` are those of one group, and `transactors` produce
    in transactions; with them every other consumer reads committed data."""
    given = options_of(words[1:])
    has_controller = given.pop("controller", "0") != "0"
    is_dynamic = given.pop("dynamic", "0") != "0"
    sizes: dict[str, Any] = {key: int(value) for key, value in given.items()}
    unknown = sizes.keys() - {field.name for field in fields(Options)}
    if unknown:
        raise ScriptError(f"a world has no {', '.join(sorted(unknown))}")
    script.make_world(
        Options(
            voters=int(words[0]),
            has_controller=has_controller,
            is_dynamic=is_dynamic,
            **sizes,
        )
    )


@command
def start(script: Script, words: list[str]) -> None:
    """`start N...`: boot nodes, for the first time or again, on what their disks hold."""
    for word in words:
        script.hand.start(node_of(script, word).id)


@command
def settle(script: Script, words: list[str]) -> None:
    """`settle [except A->B...]`: flush and deliver all, until only time could pass; what is on the
    ways that are named stays there."""
    held = set(words[1:])
    script.hand.settle(lambda event: bool(held) and way_of(event) in held)


@command
def wait(script: Script, words: list[str]) -> None:
    """`wait MS`: let time pass, and everything happen that it brings."""
    wait_ms = int(words[0])
    if not 0 <= wait_ms <= _WAIT_MOST_MS:
        raise ScriptError(f"a wait is 0 to {_WAIT_MOST_MS} ms")
    script.hand.wait(wait_ms)


@command
def run(script: Script, words: list[str]) -> list[str]:
    """`run until leader [N] | converged`: let time pass until there is an active leader, or until
    all nodes that are up know all that it has for committed; a minute at most."""
    world = script.world
    what = " ".join(words[1:])
    began_us = world.now_us

    def is_there() -> bool:
        leader = world.leader()
        if leader is None or not leader.machine.is_active_leader:
            return False
        if words[1] == "leader":
            return len(words) < 3 or leader.id == int(words[2])
        offset = leader.machine.end_offset
        return all(node.machine.high_watermark == offset for node in world.alive())

    if words[:1] != ["until"] or words[1] not in ("leader", "converged"):
        raise ScriptError("`run until leader [N]` or `run until converged`")
    limit_us = began_us + RUN_MOST_MS * 1_000
    if not world.run_while(lambda: not is_there(), limit_us):
        raise Violation("liveness", f"no {what} within {RUN_MOST_MS} ms: {world.describe()}")
    return [f"after {(world.now_us - began_us) // 1_000} ms"]


# -- one thing after another -----------------------------------------------------------------------


@command
def deliver(script: Script, words: list[str]) -> None:
    """`deliver A->B [Kind]`: the first such message arrives (Vote, PreVote, Fetch, FetchAnswer,
    FetchFailure, ...)."""
    event = script.flight(words)
    if event.at_us >= HELD_US:
        script.world.queue.move(event, script.world.now_us)
    script.hand.happen(event)


@command
def _pass(script: Script, words: list[str]) -> None:
    """`pass A->B`: whatever is on that way now arrives, if anything is."""
    for event in script.flights():
        if way_of(event) == words[0]:
            script.hand.happen(event)


@command
def drop(script: Script, words: list[str]) -> None:
    """`drop A->B [Kind]`: it is lost, and its sender hears so."""
    script.hand.drop(Flight(script.flight(words)))


@command
def repeat(script: Script, words: list[str]) -> None:
    """`repeat A->B [Kind]`: it arrives, and is still on its way, as a duplicate is."""
    event = script.flight(words)
    held_us = event.at_us
    if held_us >= HELD_US:
        event.at_us = script.world.now_us
    script.world.happen(event)
    event.at_us = held_us


@command
def flush(script: Script, words: list[str]) -> None:
    """`flush N...`: what these nodes have appended is durable."""
    for word in words:
        script.hand.flush(node_of(script, word).id)


@command
def fire(script: Script, words: list[str]) -> None:
    """`fire N TIMER`: let time pass until that timer of N's machine is due (election, fetch, retry,
    fetch-wait, check-quorum, begin-quorum, ...), and have only it fire."""
    script.hand.fire(node_of(script, words[0]).id, words[1])
