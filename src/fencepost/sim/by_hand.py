"""A world in which nothing happens but what its user picks: scenarios, and tests in Python.

Everything that may happen next lies open: messages on their way, flushes that were asked for,
timers that are armed. Nothing takes time but waiting for a timer. The nodes, their disks and the
checks are those of every world; a check that is not pleased raises `Violation`.

The language of scenarios (`script_*.py`) is this class in words.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from fencepost.batch.records import build_batch
from fencepost.machines.quorum import AppendOutcome, AppendRecords, QuorumMachine, received
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.sim import membership
from fencepost.sim.boot import endpoint_of
from fencepost.sim.calls import Call
from fencepost.sim.node import SimNode
from fencepost.sim.options import Options
from fencepost.sim.oracle import Entry, Violation
from fencepost.sim.queue import Event
from fencepost.sim.render import ends_of
from fencepost.sim.rules import Rules
from fencepost.sim.tape import Tape
from fencepost.sim.world import World
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import ConfigRecord, encode_record

MESSAGES = ("request", "response", "failure")
QUIET = (*MESSAGES, "flush", "flushed", "turn", "exit")
"""Events that need no time to pass."""
SETTLE_MOST = 5_000
RUN_MOST_MS = 60_000


@dataclass(frozen=True)
class Flight:
    """A message on its way: a request, its answer, or that there will be none."""

    event: Event

    @property
    def call(self) -> Call:
        """The request that it belongs to."""
        call: Call = self.event.about
        return call

    @property
    def kind(self) -> str:
        """`request`, `response` or `failure`."""
        return self.event.kind

    @property
    def source(self) -> int:
        """The node that it comes from."""
        return ends_of(self.call, self.kind)[0]

    @property
    def target(self) -> int:
        """The node that it goes to."""
        return ends_of(self.call, self.kind)[1]

    @property
    def request(self) -> Any:
        """What was asked."""
        return self.call.request

    @property
    def message(self) -> Any:
        """What travels; None for a failure."""
        if self.kind == "failure":
            return None
        return self.call.message if self.kind == "request" else self.call.response


@dataclass
class Oddities:
    """What is unusual about nodes of a world, by id; a node has it from its next boot on."""

    endpoints: dict[int, tuple[Endpoint, ...]] = field(default_factory=dict)
    kraft_versions: dict[int, tuple[int, int]] = field(default_factory=dict)


class ByHand:
    """See the module docstring. Nodes are called by their ids."""

    def __init__(self, options: Options, rules: Rules | None = None) -> None:
        """A world of these options; nothing is started yet."""
        played = rules or Rules()
        self.odd = Oddities()
        machine = played.machine

        def make_machine(node_id: int, *parts: Any, rules: QuorumRules) -> QuorumMachine:
            *others, config = parts
            low, high = self.odd.kraft_versions.get(node_id, (0, 1))
            config = structs.replace(
                config,
                endpoints=self.endpoints(node_id),
                min_kraft_version=low,
                max_kraft_version=high,
            )
            return machine(node_id, *others, config, rules=rules)

        rules = replace(played, machine=make_machine)
        self.world = World(Tape(recorded={}), replace(options, by_hand=True), rules=rules)
        self.outcomes: dict[str, AppendOutcome] = {}
        """What became of appends, by the name in them."""
        self.changes: dict[str, ErrorCode] = {}
        """What became of changes of the voters: `add 4`, `remove 3`, `upgrade 1`."""

    # -- looking -------------------------------------------------------------------------------

    @property
    def ids(self) -> list[int]:
        """All nodes."""
        return list(self.world.nodes)

    def node(self, node_id: int) -> SimNode:
        """The node of that id."""
        return self.world.nodes[node_id]

    def machine(self, node_id: int) -> QuorumMachine:
        """The quorum machine of a node that is up."""
        node = self.node(node_id)
        assert node.is_up, f"node {node_id} is down"
        return node.machine

    def alive(self) -> list[int]:
        """The nodes that are up."""
        return [node.id for node in self.world.alive()]

    def leader(self) -> int | None:
        """The leader of the highest epoch among nodes that are up."""
        node = self.world.leader()
        return None if node is None else node.id

    def timers(self, node_id: int) -> dict[str, int]:
        """The machine's armed timers, and how many milliseconds are left to each."""
        node, left = self.node(node_id), {}
        for name in node.ports.timer_names(METADATA_KEY):
            timer = node.ports.timer(METADATA_KEY, name)
            assert timer is not None, "it is armed"
            left[name] = timer.deadline_ms - node.clocks.now_ms()
        return left

    def flights(self) -> list[Flight]:
        """The messages on their way, those that were sent first first."""
        return [Flight(e) for e in self.world.queue.in_order() if e.kind in MESSAGES]

    def batches(self, node_id: int) -> list[Any]:
        """The batches in a node's log, those of control records included."""
        log = self.node(node_id).metadata.log
        if log.start_offset == log.end_offset:
            return []
        return [batch for _, batch in log.read_all_batches(log.start_offset, log.end_offset)]

    def entries(self, node_id: int) -> list[Entry]:
        """The batches in a node's log, as the oracle knows them."""
        return self.world.observer.oracle.disks[node_id].entries

    def check(self) -> None:
        """The invariants that take a look at all logs. Violation."""
        self.world.observer.at_end()

    def endpoints(self, node_id: int) -> tuple[Endpoint, ...]:
        """Where a node says that it is reached."""
        return self.odd.endpoints.get(node_id, (endpoint_of(node_id),))

    def voter(self, node_id: int) -> Voter:
        """A node, with the disk that it has now, as a voter set has it."""
        key = ReplicaKey(node_id, self.node(node_id).directory_id)
        low, high = self.odd.kraft_versions.get(node_id, (0, 1))
        return Voter(key, self.endpoints(node_id), low, high)

    def has_converged(self) -> bool:
        """Whether all that are up know the whole log of an active leader to be committed."""
        leader = self.world.leader()
        if leader is None or not leader.machine.is_active_leader:
            return False
        end = leader.machine.end_offset
        return all(
            node.machine.end_offset == end and node.machine.high_watermark == end
            for node in self.world.alive()
        )

    # -- one thing after another ---------------------------------------------------------------

    def start(self, *node_ids: int) -> None:
        """Boot nodes, or all, for the first time or again, on what their disks hold."""
        for id_ in node_ids or self.ids:
            self.world.guard(self.node(id_).start, self.node(id_))

    def feed(self, node_id: int, input_: Any) -> None:
        """Step a node's quorum machine."""
        self.world.guard(lambda: self.node(node_id).feed(input_), self.node(node_id))

    def happen(self, event: Event) -> None:
        """Let this event happen now."""
        self.world.queue.take(event)
        self.world.happen(event)

    def deliver(self, flight: Flight) -> None:
        """It arrives."""
        self.happen(flight.event)

    def drop(self, flight: Flight, *, told: bool = True) -> None:
        """It is lost; `told` says whether its sender gets a failure."""
        self.world.queue.take(flight.event)
        if told:
            self.world.network.lose(flight.call)

    def drop_all(self) -> None:
        """Everything that is on its way is lost, and no sender gets a failure."""
        for flight in self.flights():
            self.drop(flight, told=False)

    def flush(self, node_id: int) -> None:
        """What the node has appended is durable now, of a broker in all logs that asked for it.

        Violation if it asked for no flush.
        """
        node = self.node(node_id)
        due = [
            event
            for event in self.world.queue.in_order()
            if event.node is node and event.kind == "flush"
        ]
        if not due:
            raise Violation("script", f"node {node_id} has nothing to flush")
        for event in due if node_id in self.world.brokers else due[:1]:
            self.happen(event)

    def fire(self, node_id: int, name: str) -> None:
        """Let time pass until this timer of the machine is due, and only it fire."""
        ports = self.node(node_id).ports
        timer = ports.timer(METADATA_KEY, name)
        if timer is None:
            armed = ", ".join(sorted(ports.timer_names(METADATA_KEY)))
            raise Violation("script", f"no timer {name} of {node_id}; armed are {armed}")
        self.happen(timer.event)

    def settle(self, is_held: Callable[[Event], bool] = lambda event: False) -> None:
        """Flush and deliver all that is not held, until only time could pass."""
        for _ in range(SETTLE_MOST):
            ready = next(self._quiet(is_held), None)
            if ready is None:
                return
            self.happen(ready)
        raise Violation("script", f"messages without end: {self.world.describe()}")

    def _quiet(self, is_held: Callable[[Event], bool]) -> Iterator[Event]:
        for event in self.world.queue.in_order():
            if event.kind in QUIET and not is_held(event):
                yield event

    def tick(self) -> None:
        """The next thing in good order happens."""
        self.world.step()

    def wait(self, ms: int) -> None:
        """Let time pass, and everything happen that it brings."""
        self.world.run_until(self.world.now_us + ms * 1_000)

    def run(self, done: Callable[[], bool]) -> None:
        """Let time pass until `done`. Violation after a minute."""
        limit_us = self.world.now_us + RUN_MOST_MS * 1_000
        if not self.world.run_while(lambda: not done(), limit_us):
            what = f"not done within {RUN_MOST_MS} ms: {self.world.describe()}"
            raise Violation("liveness", what)

    # -- trouble -------------------------------------------------------------------------------

    def crash(self, node_id: int) -> None:
        """The node's machine loses power, and what was not flushed."""
        self.node(node_id).lose_power_keeping(0)

    def wipe(self, node_id: int) -> None:
        """A node that is down gets an empty disk, with another directory id."""
        self.node(node_id).new_disk()

    def cut(self, *links: tuple[int, int]) -> None:
        """Nothing passes any more from the first to the second of each pair."""
        for source, target in links:
            self.world.network.cut(source, target)

    def reconnect(self) -> None:
        """Everything passes again."""
        for source, target in self.world.network.links:
            self.world.network.reconnect(source, target)

    def refuse(self, node_id: int, operation: str, path: str) -> None:
        """The next such operation on a file with that in its path fails, and the node may give up.

        An operation is `sync`, `write`, `read`, `create` or `rename`.
        """
        node = self.node(node_id)
        node.is_excused = True

        node.disk.at_next(
            operation, path, lambda of: OSError(errno.EIO, "the simulated disk refuses", of)
        )

    # -- asking --------------------------------------------------------------------------------

    def append(
        self, node_id: int, name: str, then: Callable[[AppendOutcome], None] | None = None
    ) -> None:
        """Ask a node to append a record that says `name`; see `outcomes`."""
        node = self.node(node_id)
        record = ConfigRecord(resource_type=4, resource_name="", name=name, value=name)
        batch = build_batch([(None, encode_record(record))], timestamp_ms=node.clocks.wall_ms())

        def told(outcome: AppendOutcome) -> None:
            self.outcomes[name] = outcome
            if then is not None:
                then(outcome)

        self.feed(node_id, AppendRecords([batch], told, node.machine.epoch))

    def add_voter(self, leader: int, node_id: int, name: str = "", timeout_ms: int = 0) -> None:
        """Ask `leader` to add a node, with the disk that it has now, to the voters; see `changes`.

        At the address that the node has now.
        """
        membership.add_voter(
            self.node(leader),
            self.node(node_id),
            self._note(name or f"add {node_id}"),
            timeout_ms,
            endpoints=self.endpoints(node_id),
        )

    def remove_voter(self, leader: int, key: ReplicaKey) -> None:
        """Ask `leader` to remove a voter; see `changes`."""
        membership.remove_voter(self.node(leader), key, self._note(f"remove {key.id}"))

    def upgrade(self, leader: int, level: int = 1) -> None:
        """Ask `leader` to raise kraft.version; see `changes`."""
        membership.upgrade(self.node(leader), self._note(f"upgrade {level}"), level)

    def _note(self, name: str) -> membership.OnError:
        return lambda error: self.changes.__setitem__(name, error)

    def ask(self, node_id: int, request: Message) -> list[Any]:
        """What a node's machine answers to a request, now and later."""
        answers: list[Any] = []
        self.feed(node_id, received(answers.append, request))
        return answers
