"""Gates in front of controllers: a cluster in which a node can be cut off from the others.

The other nodes reach a controller through its gate, which is what it advertises; it listens behind.
A closed gate breaks the connections there are and answers no new one, as a cable that was pulled.
What the node itself sends still leaves: that is the nastier half of a partition, since it can make
promises and disturb elections, but hears nobody who asks.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from fencepost.testing.quorum_cluster import HOST, LISTENER, QuorumCluster

CHUNK_BYTES = 1 << 16


class Gate:
    """Forwards a port to another one, as long as it is open."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._is_open = True
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut: break everything, and leave new connections without an answer."""
        with self._lock:
            self._is_open = False
            broken, self._sockets = self._sockets, set()
        for sock in broken:
            _shut(sock)

    def open(self) -> None:
        """Heal: connections that came meanwhile are broken, so that they are made again."""
        self.close()
        with self._lock:
            self._is_open = True

    def end(self) -> None:
        """Give the port back."""
        _shut(self._server)
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._server.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.add(inner)
                is_open = self._is_open
            if is_open:
                threading.Thread(target=self._join, args=(inner,), daemon=True).start()

    def _join(self, inner: socket.socket) -> None:
        try:
            outer = socket.create_connection((HOST, self._target_port))
        except OSError:
            _shut(inner)
            return
        with self._lock:
            self._sockets.add(outer)
        for pair in ((inner, outer), (outer, inner)):
            threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                target.sendall(data)
        for sock in (source, target):
            with self._lock:
                self._sockets.discard(sock)
            _shut(sock)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


class GatedCluster(QuorumCluster):
    """A cluster whose controllers are reached through gates."""

    def __init__(self, controllers: int = 3, brokers: int = 1, **options: Any) -> None:
        self.gates: dict[int, Gate] = {}
        super().__init__(controllers, brokers, **options)

    def address_of(self, node_id: int) -> str:
        """The gate of a controller."""
        if node_id in self.controllers and node_id not in self.gates:
            self.gates[node_id] = Gate(self._ports[node_id])
        gate = self.gates.get(node_id)
        return super().address_of(node_id) if gate is None else f"{HOST}:{gate.port}"

    def properties_of(self, id_: int) -> dict[str, str]:
        """Controllers listen behind their gates, and advertise these."""
        entries = super().properties_of(id_)
        if id_ in self.controllers:
            entries["advertised.listeners"] = entries["listeners"]
            entries["listeners"] = f"{LISTENER}://{HOST}:{self._ports[id_]}"
        return entries

    def close(self) -> None:
        """End everything, gates last."""
        try:
            for gate in self.gates.values():
                gate.open()
            super().close()
        finally:
            for gate in self.gates.values():
                gate.end()
