"""Asking a node for its metrics, and reading the answer with Prometheus' own parser."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ...waiting import DEADLINE_S


class Response:
    """An HTTP response, whole."""

    def __init__(self, received: bytes) -> None:
        head, _, self.body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = dict(line.split(": ", 1) for line in lines)

    @property
    def text(self) -> str:
        """The body."""
        return self.body.decode()


def send(port: int, request: bytes) -> socket.socket:
    """A connection on which `request` was sent."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    sock.sendall(request)
    return sock


def receive(sock: socket.socket) -> bytes:
    """Everything until the other end closes."""
    received = bytearray()
    while data := sock.recv(1 << 20):
        received += data
    return bytes(received)


def get(port: int, path: str, method: str = "GET") -> Response:
    """The response to a request."""
    with send(port, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()) as sock:
        return Response(receive(sock))


class Scrape:
    """The samples of a scrape."""

    def __init__(self, text: str) -> None:
        self.families = {one.name: one for one in text_string_to_metric_families(text)}

    def samples(self) -> Iterator[tuple[str, Sample]]:
        """Every sample, with the type of its metric."""
        for family in self.families.values():
            for sample in family.samples:
                yield family.type, sample

    def find(self, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The values of a name by their labels, of those that have `labels` among theirs."""
        return {
            tuple(sorted(sample.labels.items())): sample.value
            for _, sample in self.samples()
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def value(self, name: str, **labels: str) -> float:
        """The value of a name under exactly these labels."""
        return self.find(name)[tuple(sorted(labels.items()))]


def scrape(port: int) -> Scrape:
    """A node's metrics."""
    response = get(port, "/metrics")
    assert response.status == 200, response.text
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return Scrape(response.text)
