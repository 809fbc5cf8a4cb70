"""The language of scenarios: commands to a world that only moves as it is told to.

A scenario is a text file. Lines that begin with `>` are commands; what follows up to the next is
the output; lines that begin with `#` are for the reader, and those with `#!` name its ablations:

    #! grants-two-votes -> VIOLATION I22

reads: under the ablation `grants-two-votes` (see `fencepost.sim.ablations`) the output contains the
text behind the arrow (in which `\\n` is the end of a line), and otherwise not. Every command is
followed by the nodes that look different now and the messages that are new on their way:

    2 follower   e1 of 1   hw 1   [1 1 | 1]

reads: node 2 follows 1 in epoch 1, knows offset 1 as high watermark, and has three batches, all of
epoch 1, of which two are on its disk. A log that begins behind a snapshot shows it: `[<40 2 | 3]`.

Commands are in `script_*.py`; docs/SIMULATOR.md has them in a table.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fencepost.sim.by_hand import ByHand
from fencepost.sim.calls import Call
from fencepost.sim.disk_snapshots import DiskSnapshot
from fencepost.sim.naming import unknown
from fencepost.sim.node import SimNode
from fencepost.sim.options import MOST_NODES, Options
from fencepost.sim.oracle import Violation
from fencepost.sim.product_log import unforeseen_errors_fail
from fencepost.sim.queue import Event
from fencepost.sim.render import describe, ends_of, kind_of
from fencepost.sim.rules import Rules
from fencepost.sim.world import World

_ABLATION = re.compile(r"#!\s*([a-z0-9-]+)\s*->\s*(.+?)\s*$", re.MULTILINE)


class ScriptError(Exception):
    """A command that makes no sense; the text says in which line, and what would."""


def commands() -> dict[str, Any]:
    """All commands by name."""
    table = importlib.import_module("fencepost.sim.script_table").COMMANDS
    for kind in (
        "commands",
        "trouble",
        "asking",
        "voters",
        "brokers",
        "transactions",
        "compaction",
        "consumer_groups",
        "permissions",
    ):
        importlib.import_module(f"fencepost.sim.script_{kind}")
    return dict(table)


def ablations_of(text: str) -> dict[str, str]:
    """By name of each ablation that a scenario names, what it must bring about."""
    return {name: shown.replace("\\n", "\n") for name, shown in _ABLATION.findall(text)}


def play(text: str, rules: Rules | None = None) -> str:
    """The scenario with the outputs that the product really gives."""
    script = Script(rules or Rules())
    with unforeseen_errors_fail(), script.rules.in_force():
        return "\n".join(script.lines(text)) + "\n"


def without_remarks(text: str) -> str:
    """Commands and outputs of a scenario alone: what an ablation's text is looked for in."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


class Script:
    """One performance of a scenario."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.outcomes: dict[str, str] = {}
        """What became of appends and writes, by name."""
        self.changes: dict[str, str] = {}
        """What became of changes of the voters, by name."""
        self.disk_snapshots: dict[str, DiskSnapshot] = {}
        """Copies of disks, by the words that name their nodes."""
        self._hand: ByHand | None = None
        self._seen: dict[int, str] = {}
        self._shown: set[Event] = set()
        self._is_over = False

    @property
    def world(self) -> World:
        """The world, once it is there."""
        return self.hand.world

    @property
    def hand(self) -> ByHand:
        """What moves the world, once it is there."""
        if self._hand is None:
            raise ScriptError("a scenario begins with `> voters N`")
        return self._hand

    def make_world(self, options: Options) -> None:
        """Begin the world."""
        if self._hand is not None:
            raise ScriptError("there is a world already")
        if not 1 <= options.voters <= MOST_NODES or not 0 <= options.observers <= MOST_NODES:
            raise ScriptError(
                f"a world has 1 to {MOST_NODES} voters, and {MOST_NODES} others at most"
            )
        self._hand = ByHand(options, self.rules)

    def lines(self, text: str) -> Iterator[str]:
        """The lines of the scenario, outputs replaced."""
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("#") or not line.strip():
                yield line
            elif line.startswith(">") and not self._is_over:
                yield line
                try:
                    yield from self._run(line[1:].split())
                except ScriptError as error:
                    raise ScriptError(f"line {number}: {error}") from error

    def _run(self, words: list[str]) -> Iterator[str]:
        name = words[0] if words else ""
        command = commands().get(name)
        if command is None:
            raise ScriptError(unknown("command", name, commands()))
        try:
            output = list(command(self, words[1:]) or ())
            output += self._changes()
        except AttributeError as error:
            if not isinstance(error.obj, SimNode):
                raise
            raise ScriptError(
                f"{' '.join(words)}: node {error.obj.id} was never started"
            ) from error
        except (LookupError, ValueError) as error:
            wrong = "wants more words" if isinstance(error, IndexError) else error
            usage = " ".join(str(command.__doc__).split())
            raise ScriptError(f"{' '.join(words)}: {wrong}; {usage}") from error
        except Violation as error:
            self._is_over = True
            output = [f"VIOLATION {error}"]
        for line in output:
            yield f"  {line}".rstrip()

    # -- for commands --------------------------------------------------------------------------

    def expect(self, name: str) -> Callable[[str], None]:
        """Have `outcomes` say that this waits, until the function returned is given its outcome."""
        self.outcomes[name] = "waits"
        return partial(self.outcomes.__setitem__, name)

    def flights(self) -> list[Event]:
        """The messages on their way, those that were sent first first."""
        return [flight.event for flight in self.hand.flights()]

    def flight(self, words: list[str]) -> Event:
        """The first message on the named way, of the named kind if one is named; or that kind's
        second, and so on."""
        way = f"{words[0]} {words[1]}" if len(words) > 1 else words[0]
        earlier = int(words[2]) - 1 if len(words) > 2 else 0
        for event in self.flights():
            call: Call = event.about
            source, target = ends_of(call, event.kind)
            named = f"{source}->{target} {kind_of(call, event.kind)}"
            if named == way or (len(words) == 1 and named.startswith(f"{way} ")):
                if not earlier:
                    return event
                earlier -= 1
        there = [describe(event.about, event.kind) for event in self.flights()]
        raise Violation("script", f"no message {way}; there are {there}")

    # -- output --------------------------------------------------------------------------------

    def _changes(self) -> Iterator[str]:
        """Nodes that look different from when they were last seen, and new messages."""
        if self._hand is None:
            return
        for id_, node in self.world.nodes.items():
            shown = self.show(id_) if id_ not in self.world.brokers else node.describe_parts()
            if self._seen.get(id_) != shown:
                self._seen[id_] = shown
                yield shown
        for event in self.flights():
            if event not in self._shown:
                yield describe(event.about, event.kind)
        self._shown = set(self.flights())

    def show(self, node_id: int) -> str:
        """A node as one line."""
        node = self.world.nodes[node_id]
        disk = self.world.observer.oracle.disks[node_id]
        log = [f"<{disk.start_offset}"] if disk.start_offset else []
        for entry in disk.entries:
            if entry.base_offset == disk.durable_offset:
                log.append("|")
            log.append(str(entry.epoch))
        shown = f"[{' '.join(log)}]"
        if not node.is_up or node.gave_up is not None:
            reason = f": {node.gave_up}" if node.gave_up else ""
            return f"{node_id} is down{reason}"
        machine = node.machine
        leader = f"of {machine.leader_id}" if machine.leader_id >= 0 else "of ?"
        role = machine.role.value.ljust(11)
        paused = "   paused" if node.is_paused else ""
        if machine.damaged_at is not None:
            shown += f" damaged at {machine.damaged_at}"
        if self.world.options.is_dynamic:
            shown += f"   of {' '.join(map(str, machine.voters)) or 'no voters'}"
        return (
            f"{node_id} {role} e{machine.epoch} {leader}   hw {machine.high_watermark}   "
            f"{shown}{paused}"
        )
