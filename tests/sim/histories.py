"""Histories told to a `Oracle` by hand, for the tests of checks."""

from __future__ import annotations

from typing import Any

from fencepost.sim.oracle import Entry, NodeView, Oracle
from fencepost.wire.types import Uuid


def disk_of(node_id: int, number: int = 1) -> Uuid:
    return Uuid(bytes(14) + bytes((number, node_id)))


def entry(offset: int, epoch: int = 1, crc: int = 0) -> Entry:
    """One record's batch; by default its content follows from its place."""
    return Entry(offset, offset + 1, epoch, crc or offset * 1_000 + epoch)


def truth_of(*logs: list[Entry], durable: bool = True) -> Oracle:
    """Nodes 1, 2, ... with these logs."""
    oracle = Oracle()
    for node_id, log in enumerate(logs, 1):
        oracle.new_disk(node_id, disk_of(node_id))
        for one in log:
            oracle.appended(node_id, one)
        if durable and log:
            oracle.flushed(node_id, log[-1].next_offset)
    return oracle


def view(node_id: int, **changes: Any) -> NodeView:
    """A follower of node 1 in epoch 1 with an empty log, of three voters, unless said otherwise."""
    values: dict[str, Any] = {
        "node_id": node_id,
        "role": "follower",
        "epoch": 1,
        "leader_id": 1,
        "voted_id": -1,
        "high_watermark": 0,
        "end_offset": 0,
        "voters": tuple((id_, disk_of(id_)) for id_ in (1, 2, 3)),
        **changes,
    }
    return NodeView(**values)


def leader(node_id: int, **changes: Any) -> NodeView:
    """A leader of epoch 1."""
    return view(node_id, **{"role": "leader", "leader_id": node_id, **changes})
