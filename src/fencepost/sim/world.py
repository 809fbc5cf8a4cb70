"""One world: nodes, what is between them, what is still to happen, and the observer of it all.

The world moves by events, and `step` lets the next one happen. The ports of the nodes report to
`observer`, which tells the checks; a check that does not hold raises `Violation` out of `step`.

A node that is paused keeps its state and is deaf: what would happen to it waits until it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.sim.administrator import Administrator
from fencepost.sim.brokers.broker import SimBroker
from fencepost.sim.calls import Call, Sender
from fencepost.sim.clients.population import BrokerClients
from fencepost.sim.disk import Crash
from fencepost.sim.network import Network
from fencepost.sim.node import SimNode
from fencepost.sim.observer import Observer
from fencepost.sim.options import Options
from fencepost.sim.oracle import Violation
from fencepost.sim.product_log import FORESEEN
from fencepost.sim.queue import Event, EventQueue
from fencepost.sim.render import describe
from fencepost.sim.rules import Rules
from fencepost.sim.tape import Tape
from fencepost.sim.trace import Trace
from fencepost.sim.workload import Workload

MOST_AT_ONCE = 20_000
"""Events at one time; a node that does something for ever, and at once, makes more of them."""


class World:
    """See the module docstring. `rules` are what the nodes play by."""

    def __init__(
        self,
        tape: Tape,
        options: Options,
        *,
        rules: Rules | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.tape = tape
        self.options = options
        self.rules = rules or Rules()
        self.now_us = 0
        self._still = 0
        """How many events have happened since time last passed."""
        self.queue = EventQueue(tape.lane("schedule"))
        self.trace = Trace(tell)
        self.observer = Observer(self.trace, has_brokers=options.brokers > 0)
        self.nodes: dict[int, SimNode] = {}
        """All nodes: controllers first, then brokers."""
        self.network = Network(self)
        self.controllers = {id_: SimNode(self, id_) for id_ in options.node_ids}
        self.brokers = {id_: SimBroker(self, id_) for id_ in options.broker_ids}
        self.nodes.update(self.controllers)
        self.nodes.update(self.brokers)
        self.workload = Workload(self)
        self.administrator = Administrator(self)
        self.clients = BrokerClients(self)
        self.fault_counts: dict[str, int] = {}
        """How often each kind of fault was done."""

    # -- time and events -----------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Milliseconds since the world began."""
        return self.now_us // 1_000

    def schedule(
        self,
        at_us: int,
        kind: str,
        act: Callable[[], None],
        node: Sender | None = None,
        *,
        about: Any = None,
        any_incarnation: bool = False,
    ) -> Event:
        """Have `act` happen at that time, to `node` if one is named, and only in its present
        incarnation unless `any_incarnation` is said."""
        incarnation = -1 if node is None or any_incarnation else node.incarnation
        return self.queue.push(Event(max(at_us, self.now_us), kind, act, node, incarnation, about))

    def schedule_in(
        self,
        delay_us: int,
        kind: str,
        act: Callable[[], None],
        node: Sender | None = None,
        *,
        about: Any = None,
        any_incarnation: bool = False,
    ) -> Event:
        """The same, after a delay."""
        return self.schedule(
            self.now_us + delay_us, kind, act, node, about=about, any_incarnation=any_incarnation
        )

    def step(self) -> bool:
        """Let the next event happen; False if there is none. Raises Violation."""
        event = self.queue.pop_until(None)
        if event is None:
            return False
        self.happen(event)
        return True

    def happen(self, event: Event) -> None:
        """Let this event, taken out of the queue, happen now. Raises Violation."""
        if event.at_us > self.now_us:
            self.now_us, self._still = event.at_us, 0
        self._still += 1
        if self._still > MOST_AT_ONCE:
            what = f"{event.kind} again and again, and no time passes: {self.describe()}"
            raise Violation("standstill", what)
        node = event.node
        if node is not None and node.is_paused:
            node.parked.append(event)
            return
        self.trace.event(self.now_us, event.kind, 0 if node is None else node.id)
        self.guard(event.act, node)

    def guard(self, act: Callable[[], None], node: SimNode | None) -> None:
        """Do something in which the product's code runs; what it must not do is a Violation."""
        try:
            act()
        except Crash:
            # The power failed between two operations on the disk.
            assert node is not None, "only a node has a disk"
            node.lose_power()
        except AssertionError as error:
            raise Violation("assertion", f"{error} ({self.describe()})") from error
        except Exception as error:  # no caller handles it, as none does in a broker's process
            if isinstance(error, FORESEEN) and node is not None and node.gave_up is not None:
                return  # its process ends for it, which it was excused for
            what = f"{type(error).__name__}: {error} ({self.describe()})"
            raise Violation("unhandled", what) from error

    def run_until(self, at_us: int) -> None:
        """Let everything happen that is due before that time."""
        while (event := self.queue.pop_until(at_us)) is not None:
            self.happen(event)
        self.now_us = max(self.now_us, at_us)

    def run_while(self, condition: Callable[[], bool], limit_us: int) -> bool:
        """Let things happen as long as `condition` holds and the limit is not reached.

        Whether the condition has ceased to hold.
        """
        while condition():
            event = self.queue.pop_until(limit_us)
            if event is None:
                self.now_us = max(self.now_us, limit_us)
                return not condition()
            self.happen(event)
        return True

    # -- looking at it -------------------------------------------------------------------------

    def live_controllers(self) -> list[SimNode]:
        """The controllers whose process runs, paused ones included."""
        return [node for node in self.controllers.values() if node.is_up]

    def alive(self) -> list[SimNode]:
        """The nodes whose process runs, paused ones included."""
        return [node for node in self.nodes.values() if node.is_up]

    def leader(self) -> SimNode | None:
        """The leader of the highest epoch among nodes that are up."""
        newest = self.observer.oracle.newest_leader()
        return None if newest is None else self.nodes[newest.node_id]

    def can_spare(self, node: SimNode) -> bool:
        """Whether every voter set that some node goes by keeps a quorum without this node's disk.

        Always so in a world over its budget, which may lose quorums.
        """
        if self.options.over_budget:
            return True
        oracle = self.observer.oracle
        for voters in oracle.voter_sets():
            lost = sum(oracle.is_lost(*voter) for voter in voters)
            counts = any(id_ == node.id and not oracle.is_lost(id_, d) for id_, d in voters)
            if counts and lost + 1 > (len(voters) - 1) // 2:
                return False
        return True

    def has_lost_a_quorum(self) -> bool:
        """Whether more disks are gone or damaged than some node's voter set can spare."""
        oracle = self.observer.oracle
        return any(
            sum(oracle.is_lost(*voter) for voter in voters) > (len(voters) - 1) // 2
            for voters in oracle.voter_sets()
        )

    def can_remove(self, node_id: int) -> bool:
        """Whether the other voters of every node's voter set are a quorum that works."""
        oracle = self.observer.oracle
        for voters in oracle.voter_sets():
            others = [voter for voter in voters if voter[0] != node_id]
            lost = sum(oracle.is_lost(*voter) for voter in others)
            if not others or lost > (len(others) - 1) // 2:
                return False
        return True

    def describe(self) -> str:
        """All nodes in a line."""
        return "; ".join(node.describe() for node in self.nodes.values())

    # -- words, only if the trace keeps them ---------------------------------------------------

    def tell(self, text: Callable[[], str]) -> None:
        """Add a line to the words of the trace, if they are kept."""
        if self.trace.tell is not None:
            self.trace.tell(f"{self.now_us / 1_000:10.3f}  {text()}")

    def tell_message(self, call: Call, kind: str) -> None:
        """Say that a message has arrived."""
        if self.trace.tell is not None:
            self.tell(lambda: describe(call, kind))

    def did(self, fault: str, what: Callable[[], str]) -> None:
        """A fault was done: count it, and say so."""
        self.fault_counts[fault] = self.fault_counts.get(fault, 0) + 1
        self.trace.note(f"fault {fault}")
        self.tell(lambda: f"** {what()}")

    def node_died(self, node: SimNode, is_told: bool) -> None:
        """A process is gone: requests to it fail, at once if `is_told`, else at their timeout."""
        self.observer.oracle.died(node.id)
        self.network.connections_lost(node.id, is_told)
        self.workload.node_died(node)
