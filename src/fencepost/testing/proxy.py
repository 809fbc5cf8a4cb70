"""`Proxy`: faults on demand in front of a Kafka cluster that is there already, of any kind.

    with Proxy("kafka-1:9092,kafka-2:9092") as proxy:
        producer = Producer({"bootstrap.servers": proxy.bootstrap_servers})
        proxy.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=3)

Clients that begin at the proxy stay there: the addresses that brokers tell are replaced by those of
gates in front of them (`faults.addresses`). The cluster itself is not touched, so there is no
`kill` and no `truncate`, and links are cut between clients and brokers only. Plaintext listeners,
with or without SASL; what is encrypted cannot be read.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Self

from fencepost.client.cluster import parse_servers
from fencepost.testing.faults.addresses import Address, AddressRewriter
from fencepost.testing.faults.gate import Gate
from fencepost.testing.faults.injector import FaultInjector
from fencepost.testing.ports import LOOPBACK, free_ports

GATES_MAX: Final = 1_000
"""Addresses that a cluster may tell; further ones are passed on as they are."""


class Proxy(FaultInjector):
    """See the module docstring; a context manager, started on entry."""

    def __init__(self, bootstrap_servers: str, *, port: int | None = None) -> None:
        """`port` is where clients begin, a free one if it is not said. ValueError, OSError."""
        super().__init__()
        servers = parse_servers(bootstrap_servers)
        self._state.rewriter = AddressRewriter(self._gate_for)
        self._gate_at: dict[Address, Gate] = {}
        self._opening: set[asyncio.Task[None]] = set()
        for number, address in enumerate(servers):
            self._gate_at.setdefault(
                address, self._make(None, address, port if not number else None)
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Accept connections. OSError."""
        super().start()
        for gate in list(self._gate_at.values()):
            self.open_gate(gate)

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients to begin at: a gate in front of each server that was named."""
        gates = [gate for gate in self._gate_at.values() if not gate.is_later]
        return ",".join(f"{LOOPBACK}:{gate.port}" for gate in gates)

    @property
    def targets(self) -> dict[str, dict[str, Any]]:
        """The brokers heard of, by the address of the gate in front of each."""
        return {
            f"{LOOPBACK}:{gate.port}": {"node": gate.node, "address": f"{host}:{port}"}
            for (host, port), gate in self._gate_at.items()
        }

    def _make(self, node: int | None, address: Address, port: int | None = None) -> Gate:
        return self.add_gate(node, address, free_ports(1)[0] if port is None else port)

    def _gate_for(self, node: int | None, address: Address) -> Address:
        """The gate in front of an address; a new one if it is new. In the thread of the gates."""
        gate = self._gate_at.get(address)
        if gate is None:
            if len(self._gate_at) >= GATES_MAX:
                return address
            gate = self._gate_at[address] = self._make(node, address)
            gate.is_later = True
            # The socket listens already: a client that connects before this is done waits for it.
            task = asyncio.get_running_loop().create_task(gate.open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        if gate.node is None:
            gate.node = node
        return LOOPBACK, gate.port
