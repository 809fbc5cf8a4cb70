"""Requests to other nodes: answered once, whatever the other node does."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from fencepost.broker.cluster import peer_connection, peers
from fencepost.broker.cluster.peer_connection import Unsupported
from fencepost.broker.cluster.peers import MAX_CONNECTIONS, ConnectionRefused, Peers
from fencepost.client.protocol.versions import VersionRange
from fencepost.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from fencepost.wire.api.vote import (
    TopicDataRequest,
    TopicDataResponse,
    VoteRequest,
    VoteResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_request, encode_response

from ...ports import refusing_port
from ...waiting import DEADLINE_S

TIMEOUT_MS = 60_000
BACKOFF_MS = 1

Answer = Callable[["Node", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Node:
    """A peer on a loopback port that answers by a script, and counts what it is asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.connections = 0
        self.asked: list[tuple[str, int]] = []
        """Names and versions of requests."""
        self.heard: Any = None
        """The last of them."""
        self.release = asyncio.Event()
        self.versions = {VoteRequest.api_key: (0, 2), ApiVersionsRequest.api_key: (0, 4)}
        self.address = ("127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(self, reader, writer)
        writer.close()

    async def read(self, reader: asyncio.StreamReader) -> tuple[int, int, type]:
        """The next request: correlation id, version, class."""
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        header, message = decode_request(await reader.readexactly(size))
        self.asked.append((type(message).__name__, header.request_api_version))
        self.heard = message
        return header.correlation_id, header.request_api_version, type(message)

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer ApiVersions."""
        correlation_id, version, kind = await self.read(reader)
        assert kind is ApiVersionsRequest
        keys = [
            ApiVersion(api_key=key or 0, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        newest = self.versions[ApiVersionsRequest.api_key][1]
        if version > newest:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
            writer.write(encode_response(refusal, 0, correlation_id))
            await self.greet(reader, writer)
        else:
            writer.write(
                encode_response(ApiVersionsResponse(api_keys=keys), version, correlation_id)
            )

    async def votes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer Vote, over and over."""
        while True:
            correlation_id, version, _ = await self.read(reader)
            writer.write(encode_response(VoteResponse(), version, correlation_id))


@contextlib.asynccontextmanager
async def node(answer: Answer) -> AsyncIterator[Node]:
    made = Node(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = server.sockets[0].getsockname()[:2]
    try:
        yield made
    finally:
        made.release.set()
        server.close()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def asking() -> AsyncIterator[Peers]:
    loop = asyncio.get_running_loop()
    made = Peers(loop, "test", max_response_bytes=1 << 16, backoff_ms=BACKOFF_MS)
    try:
        yield made
    finally:
        made.close()
        await asyncio.sleep(0)


def ask(
    made: Peers,
    address: tuple[str, int],
    request: VoteRequest | None = None,
    timeout_ms: int = TIMEOUT_MS,
    purpose: str = "",
) -> asyncio.Future[VoteResponse | str]:
    """Send; the response, or the reason why there is none. Told twice is an error."""
    told: asyncio.Future[VoteResponse | str] = made.loop.create_future()
    made.send(
        address,
        request or VoteRequest(),
        told.set_result,
        told.set_result,
        timeout_ms,
        purpose=purpose,
    )
    assert not told.done(), "nobody is called back before send returns"
    return told


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), DEADLINE_S))


async def until(condition: Callable[[], bool]) -> None:
    """Give everybody turns until it is so."""
    while not condition():  # noqa: ASYNC110 - it is the peer's counters that are looked at
        await asyncio.sleep(0)


async def polite(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await made.greet(reader, writer)
    await made.votes(reader, writer)


def test_one_connection_carries_request_after_request():
    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            for _ in range(3):
                assert isinstance(await ask(made, peer.address), VoteResponse)
            assert peer.connections == 1
            assert peer.asked == [("ApiVersionsRequest", 4), *[("VoteRequest", 2)] * 3]

    run(test)


def test_an_answer_may_lead_to_the_next_request_on_the_same_connection():
    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            done = made.loop.create_future()
            made.send(
                peer.address,
                VoteRequest(),
                lambda _: made.send(
                    peer.address, VoteRequest(), done.set_result, done.set_result, TIMEOUT_MS
                ),
                done.set_result,
                TIMEOUT_MS,
            )
            assert isinstance(await done, VoteResponse)
            assert peer.connections == 1

    run(test)


@pytest.mark.parametrize(("newest", "named"), [(4, ["from-0", "from-1"]), (3, ["from-1"])])
def test_features_from_level_0_are_named_only_to_controllers_that_take_it(newest, named):
    """KAFKA-17492."""
    features = [
        Feature(name=f"from-{low}", min_supported_version=low, max_supported_version=2)
        for low in (0, 1)
    ]
    request = BrokerRegistrationRequest(features=features)

    async def controller(
        made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        made.versions[BrokerRegistrationRequest.api_key] = (0, newest)
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        writer.write(encode_response(BrokerRegistrationResponse(), version, correlation_id))

    async def test() -> None:
        async with node(controller) as peer, asking() as made:
            done = made.loop.create_future()
            made.send(peer.address, request, done.set_result, done.set_result, TIMEOUT_MS)
            assert isinstance(await done, BrokerRegistrationResponse)
            assert [one.name for one in peer.heard.features] == named
            assert len(request.features) == 2, "for the next controller"

    run(test)


def test_versions_are_the_newest_of_both():
    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            peer.versions = {VoteRequest.api_key: (0, 1), ApiVersionsRequest.api_key: (0, 3)}
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert peer.asked == [
                ("ApiVersionsRequest", 4),
                ("ApiVersionsRequest", 3),
                ("VoteRequest", 1),
            ]

    run(test)


def test_a_request_goes_in_a_version_that_can_say_it_or_not_at_all():
    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            for versions, expected in (((0, 1), 1), ((2, 2), 2), ((3, 9), None)):
                told = made.loop.create_future()
                made.send(
                    peer.address,
                    VoteRequest(),
                    told.set_result,
                    told.set_result,
                    TIMEOUT_MS,
                    versions=VersionRange(*versions),
                )
                answer = await told
                if expected is None:
                    assert isinstance(answer, Unsupported)
                else:
                    assert peer.asked[-1] == ("VoteRequest", expected)

    run(test)


def test_a_cancelled_request_tells_nobody_and_is_in_the_way_of_none():
    async def hold(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        if made.connections == 1:
            await made.read(reader)
            assert await reader.read() == b"", "its connection is closed"
        else:
            await made.votes(reader, writer)

    async def test() -> None:
        async with node(hold) as peer, asking() as made:
            told: list[Any] = []
            request = made.send(peer.address, VoteRequest(), told.append, told.append, TIMEOUT_MS)
            await until(lambda: len(peer.asked) == 2)
            request.cancel()
            request.cancel()
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert told == []
            waiting = made.send(peer.address, VoteRequest(), told.append, told.append, TIMEOUT_MS)
            waiting.cancel()
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert told == []

    run(test)


def test_what_a_peer_does_not_serve_is_not_sent():
    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            del peer.versions[VoteRequest.api_key]
            reason = await ask(made, peer.address)
            assert isinstance(reason, Unsupported) and "no Vote API" in reason
            assert peer.asked == [("ApiVersionsRequest", 4)]

    run(test)


def test_many_requests_that_a_peer_does_not_serve_all_fail_over_one_connection():
    """They wait while the connection is made, and come up together."""

    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            del peer.versions[VoteRequest.api_key]
            reasons = await asyncio.gather(*(ask(made, peer.address) for _ in range(900)))
            assert all(isinstance(reason, Unsupported) for reason in reasons)
            assert peer.connections <= MAX_CONNECTIONS

    run(test)


def test_what_the_common_version_cannot_say_is_not_sent():
    async def test() -> None:
        from fencepost.wire.api.vote import PartitionDataRequest

        partition = PartitionDataRequest(partition_index=0, pre_vote=True)
        topic = TopicDataRequest(topic_name="__cluster_metadata", partitions=[partition])
        async with node(polite) as peer, asking() as made:
            peer.versions[VoteRequest.api_key] = (0, 1)
            assert isinstance(
                await ask(made, peer.address, VoteRequest(topics=[topic])), Unsupported
            )
            assert isinstance(await ask(made, peer.address), VoteResponse)

    run(test)


def test_nothing_waits_behind_a_request_that_is_held_back():
    async def hold(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        if made.connections == 1:
            await made.release.wait()
        writer.write(encode_response(VoteResponse(), version, correlation_id))
        await made.votes(reader, writer)

    async def test() -> None:
        async with node(hold) as peer, asking() as made:
            held = ask(made, peer.address)
            await until(lambda: len(peer.asked) == 2)
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert not held.done()
            peer.release.set()
            assert isinstance(await held, VoteResponse)
            assert peer.connections == 2

    run(test)


def test_connections_are_bounded_and_the_rest_waits():
    async def hold(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        await made.release.wait()
        await made.votes(reader, writer)

    async def test() -> None:
        async with node(hold) as peer, asking() as made:
            asked = [ask(made, peer.address) for _ in range(3 * MAX_CONNECTIONS)]
            other = ask(made, peer.address, purpose="other")
            await until(lambda: peer.connections == MAX_CONNECTIONS + 1)
            peer.release.set()
            answers = await asyncio.gather(*asked, other)
            assert all(isinstance(answer, VoteResponse) for answer in answers)
            assert peer.connections == MAX_CONNECTIONS + 1

    run(test)


def test_too_many_waiting_are_refused(monkeypatch):
    monkeypatch.setattr(peers, "MAX_WAITING", 5)

    async def silent(made: Node, *_: object) -> None:
        await made.release.wait()

    async def test() -> None:
        async with node(silent) as peer, asking() as made:
            asked = [ask(made, peer.address) for _ in range(6)]
            assert "waiting already" in str(await asked[-1])
            assert not any(one.done() for one in asked[:-1])

    run(test)


def garbage(data: bytes, after_greeting: bool = True) -> Answer:
    async def answer(
        made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if after_greeting:
            await made.greet(reader, writer)
        await made.read(reader)
        writer.write(data)
        await made.release.wait()

    return answer


@pytest.mark.parametrize("after_greeting", [True, False], ids=["versions", "vote"])
@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ii", 4, 77),
        struct.pack(">iib", 40, 2, 0) + b"\xff" * 35,
    ],
    ids=["huge", "negative", "short", "cut", "garbage"],
)
def test_garbage_disconnects_and_fails_the_request(data: bytes, after_greeting: bool):
    async def test() -> None:
        async with node(garbage(data, after_greeting)) as peer, asking() as made:
            assert isinstance(await ask(made, peer.address), str)

    run(test)


def test_a_response_to_another_request_disconnects():
    async def wrong(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        writer.write(encode_response(VoteResponse(), version, correlation_id + 1))
        await made.release.wait()

    async def test() -> None:
        async with node(wrong) as peer, asking() as made:
            assert "was due" in str(await ask(made, peer.address))

    run(test)


def test_a_protocol_error_backs_off_with_one_warning_until_the_next_response(caplog):
    behaves: list[bool] = []

    async def wrong(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        while True:
            correlation_id, version, _ = await made.read(reader)
            correlation_id += not behaves
            writer.write(encode_response(VoteResponse(), version, correlation_id))

    def warnings() -> int:
        return sum(record.levelname == "WARNING" for record in caplog.records)

    async def asked_until(made: Peers, peer: Node, connections: int) -> str:
        said = ""
        while peer.connections < connections or "was disconnected" in said:
            said = str(await ask(made, peer.address))
        return said

    async def test() -> None:
        async with node(wrong) as peer, asking() as made:
            made.backoff_ms = 60_000
            assert "was due" in str(await ask(made, peer.address))
            assert "was disconnected" in str(await ask(made, peer.address))
            assert peer.connections == 1, "it is not tried for a while"
        async with node(wrong) as peer, asking() as made:
            caplog.clear()
            assert "was due" in await asked_until(made, peer, 4)
            assert warnings() == 1
            behaves.append(True)
            assert "VoteResponse" in await asked_until(made, peer, 5)
            behaves.clear()
            assert "was due" in str(await ask(made, peer.address))
            assert warnings() == 2

    run(test)


def test_a_response_of_countless_small_elements_is_refused_before_they_are_objects(monkeypatch):
    """Bytes of a response are bounded by `socket.request.max.bytes`, objects have to be as well."""
    monkeypatch.setattr(peer_connection, "MAX_ELEMENTS", 100)

    async def floods(
        made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        topics = [TopicDataResponse() for _ in range(101)]
        writer.write(encode_response(VoteResponse(topics=topics), version, correlation_id))

    async def test() -> None:
        async with node(floods) as peer, asking() as made:
            assert "cannot read VoteResponse version 2" in str(await ask(made, peer.address))

    run(test)


def test_a_closed_connection_is_replaced_by_a_new_one():
    async def once(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        if made.connections > 1:
            writer.write(encode_response(VoteResponse(), version, correlation_id))

    async def test() -> None:
        async with node(once) as peer, asking() as made:
            assert isinstance(await ask(made, peer.address), str)
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert peer.connections == 2

    run(test)


def test_a_peer_that_closes_whenever_it_is_asked_is_asked_less_often():
    async def closes(
        made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await made.greet(reader, writer)
        await made.read(reader)

    async def test() -> None:
        async with node(closes) as peer, asking() as made:
            made.backoff_ms = 60_000
            for _ in range(2):
                assert "closed the connection" in str(await ask(made, peer.address))
            assert "closed the connection when it was asked" in str(await ask(made, peer.address))
            assert peer.connections == 2

    run(test)


def test_connections_that_have_answered_may_close_without_a_back_off():
    """An idle connection that its node closes is a common thing, also two of them at once."""

    async def once(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        await made.release.wait()
        writer.write(encode_response(VoteResponse(), version, correlation_id))
        await made.read(reader)

    async def test() -> None:
        async with node(once) as peer, asking() as made:
            made.backoff_ms = 60_000
            asked = [ask(made, peer.address) for _ in range(2)]
            await until(lambda: len(peer.asked) == 4)
            peer.release.set()
            assert all(isinstance(one, VoteResponse) for one in await asyncio.gather(*asked))
            closed = [ask(made, peer.address) for _ in range(2)]
            assert all(isinstance(one, str) for one in await asyncio.gather(*closed))
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert peer.connections == 3

    run(test)


def test_bytes_behind_the_end_of_a_connection_are_passed_over(caplog):
    """A callback may close everything while the next bytes are here already."""

    async def twice(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        correlation_id, version, _ = await made.read(reader)
        writer.write(2 * encode_response(VoteResponse(), version, correlation_id))
        await made.release.wait()

    async def test() -> None:
        async with node(twice) as peer, asking() as made:
            done: asyncio.Future[None] = made.loop.create_future()

            def close(_: object) -> None:
                made.close()
                done.set_result(None)

            made.send(peer.address, VoteRequest(), close, close, TIMEOUT_MS)
            await done
            assert [record.levelname for record in caplog.records] == []

    run(test)


def test_a_peer_is_tried_again_when_its_pause_is_over():
    async def test() -> None:
        with refusing_port() as held:
            address = held.getsockname()
            async with asking() as made:
                passed_s, time = [0.0], made.loop.time
                made.loop.time = lambda: time() + passed_s[0]  # type: ignore[method-assign]
                made.backoff_ms = 10_000
                assert isinstance(await ask(made, address), ConnectionRefused)
                server = await asyncio.start_server(Node(polite).serve, sock=held)
                assert isinstance(await ask(made, address), ConnectionRefused)
                passed_s[0] = 10 * 1.2  # less than what the test has
                assert isinstance(await ask(made, address), VoteResponse)
                server.close()

    run(test)


def test_a_silent_peer_times_out_and_is_disconnected():
    async def silent(
        made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await made.greet(reader, writer)
            await made.read(reader)
            assert await reader.read() == b""
        finally:  # however far the request came in its 20 ms
            made.release.set()

    async def test() -> None:
        async with node(silent) as peer, asking() as made:
            assert "within 20 ms" in str(await ask(made, peer.address, timeout_ms=20))
            await peer.release.wait()

    run(test)


def test_nobody_there_fails_and_is_tried_again_later():
    async def test() -> None:
        with refusing_port() as held:
            address = held.getsockname()
            async with asking() as made:
                for _ in range(3):
                    reason = await ask(made, address)
                    assert isinstance(reason, ConnectionRefused) and "cannot be reached" in reason
                server = await asyncio.start_server(Node(polite).serve, sock=held)
                while isinstance(await ask(made, address), str):  # noqa: ASYNC110 - by and by
                    await asyncio.sleep(BACKOFF_MS / 1000)
                server.close()

    run(test)


def test_a_failure_may_lead_to_the_next_request_to_the_same_address():
    async def test() -> None:
        with refusing_port() as held:
            address = held.getsockname()
            async with asking() as made:
                done: asyncio.Future[str] = made.loop.create_future()
                left = [3]

                def again(reason: str) -> None:
                    left[0] -= 1
                    if left[0] and isinstance(reason, ConnectionRefused):
                        made.send(address, VoteRequest(), done.set_result, again, TIMEOUT_MS)
                    else:
                        done.set_result(reason)

                made.send(address, VoteRequest(), done.set_result, again, TIMEOUT_MS)
                assert isinstance(await done, ConnectionRefused)
                assert left == [0]

    run(test)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 70 + ".invalid", "\x00"])
def test_hosts_that_cannot_be_fail(host: str):
    async def test() -> None:
        async with asking() as made:
            assert isinstance(await ask(made, (host, 9)), str)

    run(test)


def test_closing_fails_what_waits_and_takes_no_more():
    async def silent(made: Node, *_: object) -> None:
        await made.release.wait()

    async def test() -> None:
        async with node(silent) as peer, asking() as made:
            waiting = ask(made, peer.address)
            await until(lambda: peer.connections == 1)
            made.close()
            assert "stopping" in str(await waiting)
            assert "stopping" in str(await ask(made, peer.address))

    run(test)


def test_addresses_that_nobody_uses_any_more_are_forgotten(monkeypatch):
    monkeypatch.setattr(peers, "MAX_PEERS", 3)

    async def test() -> None:
        async with node(polite) as peer, asking() as made:
            assert isinstance(await ask(made, peer.address), VoteResponse)
            for number in range(1, 20):
                assert isinstance(await ask(made, ("127.0.0.1", number)), str)
            assert len(made) <= 4
            assert isinstance(await ask(made, peer.address), VoteResponse)
            assert peer.connections == 1

    run(test)
