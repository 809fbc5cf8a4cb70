"""What a client may send over TLS that comes to no data: records, on a transport that stands."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.broker.net.handshakes import Handshakes
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.tls_transport import (
    RECORDS_BYTES,
    REPLIES_BYTES_MAX,
    SILENT_BYTES_MAX,
    TlsTransport,
)
from fencepost.broker.security.principal_mapping import NoPrincipalError

HANDSHAKE = 0x16


class Tls:
    """As much of a `ServerTls` as there is to a handshake that comes to nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def principal_of(self, certificate: bytes | None) -> Any:
        raise NoPrincipalError("no rule")


class Above:
    """A connection."""

    closed = False
    waits_s = 0.0

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.received = 0
        self.principals: list[Any] = []
        self.on_received: Callable[[], None] = lambda: None

    def connection_made(self, transport: Any) -> None:
        pass

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(1_000))

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        self.on_received()

    def tls_failed(self, reason: str, is_plain: bool = False) -> None:
        self.failures.append(reason)

    def tls_established(self, principal: Any) -> None:
        self.principals.append(principal)


class Below:
    """A socket's transport."""

    unsent_bytes = 0
    is_reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None:
        pass


class Records:
    """Decrypts: each read gives one of these sizes, and then there is no more."""

    tls_version = "TLSv1.3"

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)

    def version(self) -> str:
        return self.tls_version

    def read(self, most: int, room: memoryview) -> int:
        if not self.sizes:
            raise ssl.SSLWantReadError
        return self.sizes.pop(0)

    def getpeercert(self, binary_form: bool) -> bytes:
        return b"a certificate"


class Ends:
    """A transport with both of its ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.above, self.below = Above(), Below()
        self.scratch = memoryview(bytearray(RECORDS_BYTES))
        self.scratch[0] = HANDSHAKE
        self.transport = TlsTransport(
            self.above,  # type: ignore[arg-type]
            Tls(),  # type: ignore[arg-type]
            Handshakes(loop),
            MemoryBudget(loop, list, 1 << 20),
            self.scratch,
            loop,
        )
        self.transport.connection_made(self.below)  # type: ignore[arg-type]

    def arrive(self, size_bytes: int, *data: int) -> None:
        self.transport._object = Records(*data)  # type: ignore[assignment]
        self.transport.buffer_updated(size_bytes)


@pytest.fixture
def ends() -> Iterator[Ends]:
    loop = asyncio.new_event_loop()
    made = Ends(loop)
    yield made
    made.transport._end()
    loop.close()


def test_a_handshake_has_so_many_bytes(ends: Ends) -> None:
    for _ in range(SILENT_BYTES_MAX // RECORDS_BYTES):
        ends.arrive(RECORDS_BYTES)
    assert not ends.above.failures
    ends.arrive(1)
    (failure,) = ends.above.failures
    assert "of a TLS handshake" in failure


def test_records_without_data_have_so_many_bytes(ends: Ends) -> None:
    ends.transport._is_established = True
    for _ in range(3):
        for _ in range(SILENT_BYTES_MAX // RECORDS_BYTES):
            ends.arrive(RECORDS_BYTES)
        ends.arrive(100, 10)
    assert not ends.above.failures and ends.above.received == 30
    for _ in range(SILENT_BYTES_MAX // RECORDS_BYTES):
        ends.arrive(RECORDS_BYTES)
    assert not ends.above.failures
    ends.arrive(1)
    (failure,) = ends.above.failures
    assert "records without data" in failure


def test_what_has_arrived_is_received_when_the_connection_goes_on(ends: Ends) -> None:
    """In the same turn of the event loop: its share of a later one is another's."""
    ends.transport._is_established = True
    ends.transport.pause_reading()
    ends.arrive(RECORDS_BYTES, 600, 500)
    assert (ends.above.received, ends.below.is_reading) == (0, False)
    ends.transport.resume_reading()
    assert (ends.above.received, ends.below.is_reading) == (1_100, True)


def test_it_is_not_read_on_behind_what_stops_the_connection_again(ends: Ends) -> None:
    ends.transport._is_established = True
    ends.transport.pause_reading()
    ends.arrive(RECORDS_BYTES, 1_000, 500)
    ends.above.on_received = ends.transport.pause_reading
    ends.transport.resume_reading()
    assert (ends.above.received, ends.below.is_reading) == (1_000, False)
    ends.transport.resume_reading()
    assert (ends.above.received, ends.below.is_reading) == (1_500, False)


def test_nothing_is_read_on_a_connection_that_is_over(ends: Ends) -> None:
    ends.transport._is_established = True
    ends.transport.pause_reading()
    ends.arrive(RECORDS_BYTES, 500)
    ends.transport._end()
    ends.transport.resume_reading()
    assert (ends.above.received, ends.below.is_reading) == (0, False)


def test_a_client_takes_what_tls_answers(ends: Ends) -> None:
    ends.transport._is_established = True
    ends.below.unsent_bytes = REPLIES_BYTES_MAX
    ends.arrive(100)
    assert not ends.above.failures
    ends.below.unsent_bytes += 1
    ends.arrive(100)
    assert ends.above.failures == ["the client does not take what TLS answers"]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_what_tls_1_2_answers_is_to_another_handshake(ends: Ends, version: str) -> None:
    """Whether OpenSSL refuses it or not. In TLS 1.3 it answers a request for new keys."""
    ends.transport._is_established = True
    ends.transport._object = records = Records(10)  # type: ignore[assignment]
    records.tls_version = version
    ends.transport._outgoing.write(b"an alert, or a server's hello")
    ends.transport.buffer_updated(100)
    failures = ["the client begins another TLS handshake on the connection"]
    assert ends.above.failures == (failures if version == "TLSv1.2" else [])


def test_a_certificate_that_stands_for_no_principal_lets_nobody_in(ends: Ends) -> None:
    ends.transport._establish(Records())  # type: ignore[arg-type]
    (failure,) = ends.above.failures
    assert "stands for no principal" in failure
    assert not ends.above.principals
