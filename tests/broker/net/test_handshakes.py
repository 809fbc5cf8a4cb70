"""TLS handshakes in progress: their number, their time, and what waits for them."""

import asyncio
import ssl

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.broker.net.handshakes import Handshakes
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.security.server_tls import server_tls
from fencepost.machines.session import SecurityProtocol, SessionRules
from fencepost.testing.certificates import CertificateAuthority

from ...waiting import eventually
from ..listener_fixtures import serve_listener

CA = CertificateAuthority()
HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"


@pytest.fixture
def served():
    one = CA.issue("broker")
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": one.key_pem,
        "ssl.keystore.certificate.chain": one.certificate_pem,
    }
    config = BrokerConfig.load(None, keys).for_listener("PLAINTEXT")
    rules = SessionRules(1 << 20, SecurityProtocol.SSL)
    tls = server_tls(config, SecurityProtocol.SSL)
    with serve_listener() as made:
        made.listener.securities["PLAINTEXT"] = ListenerSecurity("PLAINTEXT", rules, {}, tls)
        yield made


def begin(served):
    """A client that begins a handshake and stops."""
    client = served.connect()
    client.sock.sendall(HELLO_BEGINS)
    return client


def in_progress(served) -> int:
    return served.thread.call(lambda: len(served.listener.tls.handshakes))


def test_the_oldest_of_too_many_makes_room(served):
    served.listener.tls.handshakes.most = 3
    first = begin(served)
    eventually(lambda: in_progress(served) == 1)
    others = [begin(served) for _ in range(3)]
    assert first.sock.recv(1) == b""
    eventually(lambda: in_progress(served) == 3)
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    with context.wrap_socket(served.connect().sock, server_hostname="127.0.0.1") as stream:
        assert stream.version()  # a client that does not take its time gets in
    for client in others:
        client.sock.close()
    eventually(lambda: in_progress(served) == 0)
    eventually(lambda: served.connection_count() == 0)


@pytest.mark.parametrize("data", [b"", HELLO_BEGINS])
def test_a_handshake_has_its_time(served, data):
    served.listener.tls.handshakes.timeout_s = 0.2
    client = served.connect()
    client.sock.sendall(data)
    assert client.sock.recv(1) == b""
    eventually(lambda: served.connection_count() == 0)
    assert in_progress(served) == 0


class Handshake:
    def shake_hands(self) -> None:
        pass

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)


def test_a_handshake_that_has_ended_has_no_timer():
    """It would disconnect a client that has been let in."""
    loop = asyncio.new_event_loop()
    try:
        handshakes = Handshakes(loop)
        one = Handshake()
        handshakes.connected(one)
        (timer,) = handshakes._timers.values()
        handshakes.began(one)
        handshakes.ended(one)
        assert timer.cancelled() and not handshakes._timers and not len(handshakes)
        handshakes.ended(one)
    finally:
        loop.close()


def test_limits_of_connections_hold_before_the_handshake(served):
    served.listener.limits = served.listener.limits.__class__(
        max_frame_bytes=1 << 20, max_connections=1, max_connections_per_ip=1, max_idle_ms=-1
    )
    kept = begin(served)
    eventually(lambda: served.connection_count() == 1)
    assert served.connect().sock.recv(1) == b""
    kept.sock.close()


def test_what_does_not_fit_a_handshake(served):
    client = served.connect()
    with client.sock as sock:
        try:
            sock.sendall(b"\x16\x03\x01\x40\x00" + bytes(1 << 20))
            while sock.recv(4096):
                pass
        except OSError:
            pass
    eventually(lambda: served.connection_count() == 0)
    assert served.listener.memory_budget.incoming_bytes == 0


def test_listeners_wait_until_they_are_ready():
    with serve_listener() as made:
        listener, call = made.listener, made.thread.call
        ready = asyncio.Event()

        async def until_ready() -> None:
            await ready.wait()

        def begin() -> asyncio.Task[None]:
            listener.close_sockets()
            listener.bind([Endpoint("EARLY", "127.0.0.1", 0), Endpoint("LATE", "127.0.0.1", 0)])
            return made.thread.loop.create_task(listener.start({"EARLY"}, until_ready))

        task = call(begin)
        eventually(lambda: call(lambda: len(listener._servers)) == 1)
        assert not call(task.done)
        call(ready.set)
        eventually(lambda: call(task.done))
        assert call(lambda: len(listener._servers)) == 2
