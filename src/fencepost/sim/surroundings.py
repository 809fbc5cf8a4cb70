"""What the parts of a world may know of the world they are in, and of the node they belong to.

The world makes nodes, the network and the workload, and a node makes its ports; none of these
imports what made it, but the protocol of it that is here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.log.log_dir import LogDir
from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.clock import NodeClocks
from fencepost.sim.disk import SimDisk
from fencepost.sim.observer import Observer
from fencepost.sim.options import Options
from fencepost.sim.queue import Event, EventQueue
from fencepost.sim.rules import Rules
from fencepost.sim.tape import Tape
from fencepost.sim.trace import Trace
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class Process(Protocol):
    """A node, as the network, its ports and its boot see it."""

    id: int
    incarnation: int
    is_up: bool
    is_powered: bool
    is_old: bool
    is_paused: bool
    gave_up: str | None
    silent_until_us: int
    parked: list[Event]
    clocks: NodeClocks
    disk: SimDisk
    directory_id: Uuid
    log_dir: LogDir

    @property
    def world(self) -> Surroundings:
        """The world it is in."""
        ...

    @property
    def ports(self) -> Any:
        """The driver's ports of its present incarnation."""
        ...

    @property
    def timers(self) -> Any:
        """The timers of its present incarnation."""
        ...

    @property
    def machine(self) -> QuorumMachine:
        """The quorum machine of its present incarnation."""
        ...

    @property
    def can_become_voter(self) -> bool:
        """Whether it may ever vote."""
        ...

    def feed(self, input_: Any) -> None:
        """Step the quorum machine."""
        ...

    def receive(
        self, request: Message, reply: Callable[[Any], None], source_id: int, api_version: int
    ) -> bool:
        """A request of that version has arrived; whether the node takes it."""
        ...

    def compose(self, value: Any) -> Message | None:
        """The response that goes with an answer; None if the disk refuses to be read."""
        ...

    def note_answer(self, call: Any, response: Message) -> None:
        """An answer is about to leave."""
        ...

    def draw(self, below: int) -> int:
        """A number in [0, below) for what the node leaves to chance."""
        ...

    def flush_delay_us(self) -> int:
        """How long it takes until a flush that was asked for begins."""
        ...

    def sync_us(self) -> int:
        """How long the flush that now begins takes."""
        ...

    def background_us(self) -> int:
        """How long a thread takes that the node has work in the background."""
        ...

    def sync_done(self) -> None:
        """It has synced something."""
        ...

    def told_committed(self, base_offset: int) -> None:
        """The node has answered that the batch at this offset is committed."""
        ...

    def look(self) -> None:
        """Show the observer what has changed."""
        ...

    def look_at_snapshots(self) -> None:
        """Show the observer where the log starts, and the newest snapshot if it is a new one."""
        ...

    def machine_failed(self, key: Hashable, reason: str) -> None:
        """A machine said that it cannot go on."""
        ...

    def disk_refused(self, reason: str) -> None:
        """A sync failed."""
        ...

    def lose_power(self) -> None:
        """The machine is gone; the disk draws what is left."""
        ...

    def describe(self) -> str:
        """The node in one line."""
        ...


class Surroundings(Protocol):
    """A world, as its parts see it."""

    tape: Tape
    options: Options
    rules: Rules
    observer: Observer
    trace: Trace
    queue: EventQueue
    now_us: int

    @property
    def now_ms(self) -> int:
        """Milliseconds since the world began."""
        ...

    @property
    def nodes(self) -> Mapping[int, Any]:
        """All nodes by id."""
        ...

    @property
    def brokers(self) -> Mapping[int, Any]:
        """The nodes that are brokers."""
        ...

    @property
    def network(self) -> Any:
        """What is between the nodes."""
        ...

    @property
    def workload(self) -> Any:
        """What clients of the controllers ask."""
        ...

    @property
    def administrator(self) -> Any:
        """Who says what guests may do."""
        ...

    def live_controllers(self) -> Sequence[Any]:
        """The controllers whose process runs."""
        ...

    def schedule(
        self,
        at_us: int,
        kind: str,
        act: Callable[[], None],
        node: Any = None,
        *,
        about: Any = None,
        any_incarnation: bool = False,
    ) -> Event:
        """Have `act` happen at that time."""
        ...

    def schedule_in(
        self,
        delay_us: int,
        kind: str,
        act: Callable[[], None],
        node: Any = None,
        *,
        about: Any = None,
        any_incarnation: bool = False,
    ) -> Event:
        """The same, after a delay."""
        ...

    def guard(self, act: Callable[[], None], node: Any) -> None:
        """Do something in which the product's code runs; what it must not do is a Violation."""
        ...

    def tell(self, text: Callable[[], str]) -> None:
        """Add a line to the words of the trace, if they are kept."""
        ...

    def tell_message(self, call: Any, kind: str) -> None:
        """Say that a message has arrived."""
        ...

    def node_died(self, node: Any, is_told: bool) -> None:
        """A process is gone."""
        ...
