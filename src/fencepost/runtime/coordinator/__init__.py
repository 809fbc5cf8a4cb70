"""The one runtime of coordinators: groups, transactions, and later share groups and their like.

A coordinator keeps its state in a partition of an internal topic (`__consumer_offsets`), as
records that it can be loaded from. What is particular to one kind is a machine (`decide`, then
`apply`: `machines.coordinator.CoordinatorMachine`). Everything else is here, once: loading and
unloading by leader epoch (`runtime`, `loader`), appending with a way back, holding answers until
they are committed (`coordinator`, `held`), timers (`timers`), work on other threads (`elsewhere`).

How to drive it
---------------
The broker and the simulator do the same, over a driver that hosts the partition's machine:

    kind = CoordinatorKind(make_machine, codec, write_timeout_ms=5_000)
    runtime = CoordinatorRuntime(kind, ports, scheduler.lane())

`ports` has `timers.at(deadline_ms, callback)`, `now_ms()` (monotonic) and `wall_ms()`, as
`runtime.ports.MachinePorts` has. Partitions are loaded in the lane of a `cooperative.Scheduler`;
`kind.read`, `kind.decompress` and `kind.elsewhere` may use threads; what they are without being
given waits for the disk, decompresses and computes at once.

* When the node leads a partition of the topic, in a new epoch or for the first time:
  `runtime.load(index, LedPartition(driver, key, machine, log), leader_epoch)`, after the machine
  has been given `BecomeLeader`.
* When another leads it: `runtime.unload(index, the epoch of that leader)`; when the partition is
  deleted or its disk has failed: `runtime.unload(index, None)`.
* Whenever the partition's high watermark has moved: `runtime.high_watermark_moved(index)`.
* For a request: `runtime.submit(index, decide, on_reply)`, where `decide(machine, on_reply)`
  returns the machine's `Decision` and `on_reply(error, reply)` is called once it is committed. For
  JoinGroup that is `lambda machine, token: machine.decide_join_group(...)`.
* A crash needs no call: throw the runtime away with everything else that is in memory.
"""

from fencepost.runtime.coordinator.coordinator import (
    Coordinator,
    CoordinatorKind,
    CoordinatorPorts,
    CoordinatorState,
    OnReply,
)
from fencepost.runtime.coordinator.elsewhere import RunElsewhere
from fencepost.runtime.coordinator.loader import Decompress, RecordCodec
from fencepost.runtime.coordinator.partition import LedPartition
from fencepost.runtime.coordinator.runtime import CoordinatorRuntime

__all__ = [
    "Coordinator",
    "CoordinatorKind",
    "CoordinatorPorts",
    "CoordinatorRuntime",
    "CoordinatorState",
    "Decompress",
    "LedPartition",
    "OnReply",
    "RecordCodec",
    "RunElsewhere",
]
