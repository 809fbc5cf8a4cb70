"""What connections do in one turn of the event loop: bytes and requests, and who goes on next.

Nothing here measures time: turns of the loop are counted, or taken by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker.apis import fetch_from_bytes
from fencepost.broker.net import connection as connections, output, turn as turns
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.turn import Share, Turn
from fencepost.log.readable_log import ReadableLog
from fencepost.log.reading import ReadResult
from fencepost.runtime import cooperative
from fencepost.runtime.requests import fetch_answer
from fencepost.wire.api import ApiVersionsRequest, FetchRequest
from fencepost.wire.api.fetch import FetchPartition, FetchTopic, ReplicaState
from fencepost.wire.frame import encode_request

from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import batch, make_topic, produce_request

TURN_BYTES, QUANTUM_BYTES, SMALL_BYTES = 64 * 1024, 16 * 1024, 4 * 1024
BATCHES, BATCH_BYTES = 300, 1000
ASK = bytes(encode_request(ApiVersionsRequest(), 3, 1, "bystander"))
CLIENTS = 12
WIDEST_TURN = TURN_BYTES + QUANTUM_BYTES + CLIENTS * SMALL_BYTES
"""What all connections move in one turn: the last of them may begin just below the bound."""
TURNS_MAX = 5_000


# -- the queue -------------------------------------------------------------------------------------


class Waiter:
    """A connection that moves `size_bytes` whenever it may, and waits again for what is left."""

    def __init__(self, turn: Turn, log: list[str], name: str, times: int, is_broker: bool) -> None:
        self.turn, self.log, self.name = turn, log, name
        self.times = times
        self.is_broker = is_broker

    def go_on(self) -> int:
        self.log.append(self.name)
        self.times -= 1
        if self.times:
            self.turn.wait(self)
        return turns.QUANTUM_BYTES


class Stepped:
    """A turn whose loop the test takes on."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.turn = Turn(self.due.append)
        self.log: list[str] = []

    def waits(self, name: str, times: int = 1, is_broker: bool = False) -> Waiter:
        waiter = Waiter(self.turn, self.log, name, times, is_broker)
        self.turn.wait(waiter)
        return waiter

    def step(self) -> list[str]:
        """The next turn: who went on in it."""
        due, self.due[:] = self.due[:], []
        for callback in due:
            callback()
        said, self.log[:] = self.log[:], []
        return said


@pytest.fixture
def stepped() -> Stepped:
    return Stepped()


PER_TURN = turns.TURN_BYTES // turns.QUANTUM_BYTES


def test_as_many_go_on_in_a_turn_as_its_bytes_allow_each_once(stepped: Stepped) -> None:
    names = [f"c{number}" for number in range(PER_TURN + 2)]
    for name in names:
        stepped.waits(name, times=2)
    assert stepped.step() == names[:PER_TURN]
    assert stepped.step() == names[PER_TURN:] + names[: PER_TURN - 2], "behind those that waited"
    while stepped.step():
        """Until all have had what they want."""
    assert not stepped.due, "and then nothing is due any more"


def test_one_that_waits_again_does_not_go_on_twice_in_a_turn(stepped: Stepped) -> None:
    stepped.waits("alone", times=3)
    assert [stepped.step() for _ in range(4)] == [["alone"]] * 3 + [[]]


def test_brokers_come_first_and_leave_one_client_its_turn(stepped: Stepped) -> None:
    for name in ("c1", "c2"):
        stepped.waits(name)
    followers = [f"b{number}" for number in range(PER_TURN)]
    for name in followers:
        stepped.waits(name, times=2, is_broker=True)
    assert stepped.step() == [*followers, "c1"]
    assert stepped.step() == [*followers, "c2"]


def test_who_has_left_is_not_called(stepped: Stepped) -> None:
    gone = stepped.waits("gone")
    stepped.waits("here")
    stepped.turn.forget(gone)
    stepped.turn.forget(gone)
    assert stepped.step() == ["here"]


def test_the_trouble_of_one_is_not_that_of_those_behind_it(stepped: Stepped) -> None:
    def fail() -> int:
        raise MemoryError

    stepped.waits("fails").go_on = fail  # type: ignore[method-assign]
    stepped.waits("behind")
    with pytest.raises(MemoryError):
        stepped.step()
    assert stepped.step() == ["behind"]


def test_bytes_and_time_are_given_anew_in_every_turn(stepped: Stepped) -> None:
    turn = stepped.turn
    assert turn.at_once_bytes == turns.QUANTUM_BYTES
    turn.spend_read_bytes(turns.TURN_BYTES)
    turn.spend_bytes(turns.TURN_BYTES)
    turn.spend_s(turns.TURN_DISPATCH_S)
    assert turn.at_once_bytes == turns.SMALL_BYTES
    assert turn.left_bytes == 0 and turn.left_s == 0
    assert len(stepped.due) == 1, "however much was counted"
    stepped.step()
    assert turn.left_bytes == turn.left_read_bytes == turns.TURN_BYTES
    assert turn.left_s == turns.TURN_DISPATCH_S and not stepped.due


# -- what one connection may receive ---------------------------------------------------------------


def test_a_share_is_a_quantum_in_every_turn(stepped: Stepped) -> None:
    share = Share(stepped.turn)
    for _ in range(2):
        assert share.receivable_bytes == turns.QUANTUM_BYTES
        assert not share.spend(turns.QUANTUM_BYTES - 1)
        assert share.receivable_bytes == turns.SMALL_BYTES, "or nothing would be received"
        assert share.spend(1), "enough in this turn"
        stepped.step()


def test_what_is_received_is_counted_in_the_turn(stepped: Stepped) -> None:
    share = Share(stepped.turn)
    share.spend(turns.SMALL_BYTES)
    assert stepped.turn.left_bytes == turns.TURN_BYTES - turns.SMALL_BYTES
    assert share.receivable_bytes == turns.QUANTUM_BYTES - turns.SMALL_BYTES


def test_when_the_turn_is_used_up_a_share_is_small(stepped: Stepped) -> None:
    begun, late = Share(stepped.turn), Share(stepped.turn)
    assert not begun.spend(turns.SMALL_BYTES)
    stepped.turn.spend_bytes(turns.TURN_BYTES)
    for share in (begun, late):
        assert share.receivable_bytes == turns.SMALL_BYTES
        assert share.spend(turns.SMALL_BYTES)
    stepped.step()
    assert late.receivable_bytes == turns.QUANTUM_BYTES


def test_what_is_reserved_may_be_received_though_the_turn_is_used_up(stepped: Stepped) -> None:
    """And is not counted twice, but for this turn alone."""
    share, turn = Share(stepped.turn), stepped.turn
    share.spend(turns.QUANTUM_BYTES - 1)
    turn.spend_bytes(share.reserve() + turns.TURN_BYTES)
    left_bytes = turn.left_bytes
    assert share.receivable_bytes == turns.QUANTUM_BYTES
    assert not share.spend(turns.QUANTUM_BYTES - 1)
    assert share.spend(1)
    assert turn.left_bytes == left_bytes < 0
    stepped.step()
    share.spend(turns.SMALL_BYTES)
    assert turn.left_bytes == turns.TURN_BYTES - turns.SMALL_BYTES


# -- connections of a node -------------------------------------------------------------------------


class Taker(asyncio.Transport):
    """Takes all that it is given, and says so; of what is written it keeps the sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_bytes = 0
        self.is_reading = True

    def write(self, data: Any) -> None:
        assert len(data) > 0, "or who writes would write for ever"
        self.sent_bytes += len(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class Peer:
    """A connection of the node, and the client's end of it."""

    def __init__(self, running: RunningNode) -> None:
        broker = running.node.broker
        assert broker is not None
        self.connection = Connection(broker.listener, broker.listener.securities["PLAINTEXT"])
        self.transport = Taker()
        self.connection.connection_made(self.transport)
        self.unsent = b""

    def receive(self) -> int:
        """Have what is unsent arrive, as much as one read of the loop's takes; how many bytes."""
        if not self.unsent or not self.transport.is_reading:
            return 0
        room = self.connection.get_buffer(-1)
        count = min(len(room), len(self.unsent))
        room[:count] = self.unsent[:count]
        self.unsent = self.unsent[count:]
        self.connection.buffer_updated(count)
        return count

    def send(self, data: bytes) -> None:
        self.unsent += data
        self.receive()


@pytest.fixture
def narrow(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> RunningNode:
    """The node with turns so narrow that little is much."""
    for module, name, value in (
        (turns, "TURN_BYTES", TURN_BYTES),
        (turns, "QUANTUM_BYTES", QUANTUM_BYTES),
        (turns, "SMALL_BYTES", SMALL_BYTES),
        (connections, "QUANTUM_BYTES", QUANTUM_BYTES),
        (connections, "SMALL_BYTES", SMALL_BYTES),
        (connections, "SCRATCH_SIZE_BYTES", QUANTUM_BYTES),
        (output, "SMALL_OUTPUT_BYTES", SMALL_BYTES),
        (fetch_answer, "QUANTUM_BYTES", QUANTUM_BYTES),
        (fetch_from_bytes, "SMALL_BYTES", SMALL_BYTES),
    ):
        monkeypatch.setattr(module, name, value)
    assert node.node.broker is not None
    turn = node.node.broker.listener.turn
    node.call(turn.spend_bytes, 1)  # and the next turn is a narrow one
    return node


@pytest.fixture(scope="module")
def topic(node: RunningNode) -> Any:
    with node.connect() as client:
        made = make_topic(client)
        write(client, made)
    return made


def write(client: Client, made: Any) -> None:
    for _ in range(BATCHES):
        answer = client.ask(produce_request(made, batch(bytes(BATCH_BYTES))), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def fetch(topic: Any, version: int = 12, **kinds: Any) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    named = FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[part])
    request = FetchRequest(max_bytes=1 << 30, min_bytes=1, topics=[named], **kinds)
    return bytes(encode_request(request, version, 7, "reader"))


Turns = list[list[int]]
"""For each turn how much was written to each client."""


async def take_turns(running: RunningNode, frame: bytes, wanted_bytes: int) -> Turns:
    """All clients send the frame at once; the bystander asks all the time, and is answered."""
    clients = [Peer(running) for _ in range(CLIENTS)]
    bystander = Peer(running)
    seen: Turns = []
    before = [0] * CLIENTS

    def end_turn() -> None:
        nonlocal before
        now = [client.transport.sent_bytes for client in clients]
        seen.append([after - first for after, first in zip(now, before, strict=True)])
        before = now

    with pytest.MonkeyPatch.context() as patch:
        begin = Turn._begin

        def begin_turn(turn: Turn) -> None:
            end_turn()
            begin(turn)

        patch.setattr(Turn, "_begin", begin_turn)
        await asyncio.sleep(0)
        for client in clients:
            client.send(frame)
        for _ in range(TURNS_MAX):
            answered = bystander.transport.sent_bytes
            bystander.send(ASK)
            assert bystander.transport.sent_bytes > answered, "in the turn in which it asks"
            await asyncio.sleep(0)
            if min(client.transport.sent_bytes for client in clients) >= wanted_bytes:
                break
    end_turn()
    for one in [*clients, bystander]:
        one.connection.connection_lost(None)
    return seen


def test_many_clients_that_fetch_much_are_written_a_quantum_at_a_time(
    narrow: RunningNode, topic: Any
) -> None:
    seen = narrow.call(take_turns, narrow, fetch(topic), BATCHES * BATCH_BYTES)
    widest = max(sum(one) for one in seen)
    assert widest <= WIDEST_TURN, f"{widest} bytes in one turn"
    total = sum(map(sum, seen))
    assert total >= CLIENTS * BATCHES * BATCH_BYTES, "all have what they asked for"
    assert max(max(one) for one in seen) <= 2 * QUANTUM_BYTES + SMALL_BYTES, "flushed twice at most"
    assert len(seen) <= 20 * total // TURN_BYTES, "and turns are used"


def test_who_is_disconnected_is_still_offered_all_that_was_to_be_written(
    narrow: RunningNode,
) -> None:
    def disconnect() -> tuple[int, int]:
        client = Peer(narrow)
        output = client.connection._output
        output.put([bytes(3 * QUANTUM_BYTES), bytes(QUANTUM_BYTES + 1)])
        before = client.transport.sent_bytes
        client.connection.disconnect()
        client.connection.connection_lost(None)
        return before, client.transport.sent_bytes

    assert narrow.call(disconnect) == (0, 4 * QUANTUM_BYTES + 1)


def test_who_does_not_wait_to_receive_is_not_counted_for_that(node: RunningNode) -> None:
    def go_on() -> list[int]:
        client = Peer(node)
        counted = [client.connection.go_on()]
        client.connection._have_received(2 * turns.TURN_BYTES)
        counted.append(client.connection.go_on())
        client.connection.connection_lost(None)
        return counted

    assert node.call(go_on) == [0, turns.QUANTUM_BYTES]


def test_what_many_fetches_read_at_once_is_bounded(
    narrow: RunningNode, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_bytes: list[int] = []
    read = ReadableLog.read

    def counting(log: ReadableLog, *arguments: Any) -> ReadResult:
        found = read(log, *arguments)
        read_bytes.append(found.size_bytes)
        return found

    def send() -> None:
        clients = [Peer(narrow) for _ in range(CLIENTS)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReadableLog, "read", counting)
            for client in clients:
                client.send(fetch(topic))
        for client in clients:
            client.connection.connection_lost(None)

    monkeypatch.setattr(cooperative, "FIRST_TURNS_S", 0.0)  # what is made in pieces waits for that
    narrow.call(send)
    assert len(read_bytes) >= CLIENTS
    assert sum(read_bytes) <= WIDEST_TURN


def test_an_answer_in_pieces_counts_as_memory_while_it_is_read(
    narrow: RunningNode, topic: Any
) -> None:
    async def leave_in_the_middle() -> list[int]:
        client = Peer(narrow)
        budget = client.connection._listener.memory_budget
        counted = [budget.outgoing_bytes]
        client.send(fetch(topic))
        for _ in range(3):
            await asyncio.sleep(0)
            counted.append(budget.outgoing_bytes)
        client.connection.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        counted.append(budget.outgoing_bytes)
        return counted

    before, *during, after = narrow.call(leave_in_the_middle)
    assert max(during) > QUANTUM_BYTES
    assert before == after == 0


@pytest.mark.parametrize("version", [12, 16])
def test_who_fetches_as_a_follower_is_a_broker(
    narrow: RunningNode, topic: Any, version: int
) -> None:
    def ask(kinds: dict[str, Any]) -> bool:
        client = Peer(narrow)
        client.send(fetch(topic, version, **kinds))
        is_broker = client.connection.is_broker
        client.connection.connection_lost(None)
        return is_broker

    as_replica = (
        {"replica_id": 5}
        if version < 15
        else {"replica_state": ReplicaState(replica_id=5, replica_epoch=1)}
    )
    assert narrow.call(ask, as_replica)
    assert not narrow.call(ask, {})


FRAME_BYTES = 40 * 1024


def test_what_is_received_of_large_frames_is_bounded_in_a_turn(narrow: RunningNode) -> None:
    """Each connection gets as much as the others, and small requests are served in between."""
    frame = bytes(encode_request(ApiVersionsRequest(client_software_name="n" * 30_000), 3, 1, ""))

    async def send() -> tuple[list[list[int]], list[int]]:
        clients = [Peer(narrow) for _ in range(CLIENTS)]
        bystander = Peer(narrow)
        for client in clients:
            client.unsent = frame * 4
        seen = []
        while any(client.unsent for client in clients) and len(seen) < TURNS_MAX:
            seen.append([client.receive() for client in clients])
            answered = bystander.transport.sent_bytes
            bystander.send(ASK)
            assert bystander.transport.sent_bytes > answered
            await asyncio.sleep(0)
        for _ in range(CLIENTS):
            await asyncio.sleep(0)
        sent = [client.transport.sent_bytes for client in clients]
        for one in [*clients, bystander]:
            one.connection.connection_lost(None)
        return seen, sent

    seen, sent = narrow.call(send)
    assert len(seen) < TURNS_MAX
    assert max(map(sum, seen)) <= WIDEST_TURN
    assert len(set(sent)) == 1 and sent[0] > 0, "all are answered, and alike"


def waiting_clients(running: RunningNode) -> Any:
    """Clients' connections that wait for a later turn."""
    assert running.node.broker is not None
    return running.node.broker.listener.turn._clients


READS_AT_ONCE = 32
"""As often libuv reads from one socket before it looks at the next."""


def test_a_client_that_always_has_more_leaves_the_others_their_share(narrow: RunningNode) -> None:
    frame = bytes(encode_request(ApiVersionsRequest(client_software_name="n" * 30_000), 3, 1, ""))

    async def send() -> tuple[list[int], list[list[int]]]:
        clients = [Peer(narrow) for _ in range(CLIENTS)]
        received = [0] * CLIENTS
        seen = []
        while min(received) < 8 * QUANTUM_BYTES and len(seen) < TURNS_MAX:
            now = [0] * CLIENTS
            for number, client in enumerate(clients):  # the first is the first in every turn
                for _ in range(READS_AT_ONCE):
                    if len(client.unsent) < len(frame):
                        client.unsent += frame
                    now[number] += client.receive()
            await asyncio.sleep(0)
            seen.append(now)
            received = [before + more for before, more in zip(received, now, strict=True)]
        for one in clients:
            one.connection.connection_lost(None)
        return received, seen

    received, seen = narrow.call(send)
    assert min(received) >= 8 * QUANTUM_BYTES
    assert max(map(max, seen)) <= QUANTUM_BYTES + SMALL_BYTES, "of one client in a turn"
    assert max(map(sum, seen)) <= WIDEST_TURN, "of all"
    assert max(received) <= 3 * min(received)


def test_many_that_send_less_than_a_share_have_their_turn_together(narrow: RunningNode) -> None:
    frame = bytes(encode_request(ApiVersionsRequest(client_software_name="n" * 4_900), 3, 1, ""))
    assert len(frame) >= SMALL_BYTES and CLIENTS * len(frame) < TURN_BYTES

    def send() -> list[int]:
        clients = [Peer(narrow) for _ in range(CLIENTS)]
        for client in clients:
            client.send(frame)
        waiting = [client for client in clients if not client.transport.is_reading]
        for client in clients:
            client.connection.connection_lost(None)
        return [len(waiting), sum(client.transport.sent_bytes > 0 for client in clients)]

    assert narrow.call(send) == [0, CLIENTS]


@pytest.mark.parametrize("is_lost", [True, False])
def test_who_leaves_while_it_waits_does_not_go_on(narrow: RunningNode, is_lost: bool) -> None:
    frame = bytes(encode_request(ApiVersionsRequest(client_software_name="n" * 30_000), 3, 1, ""))

    async def leave() -> list[bool]:
        client = Peer(narrow)
        client.unsent = frame * 2
        while client.receive():
            """Until it has had its share."""
        waits = client.connection in waiting_clients(narrow)
        if is_lost:
            client.connection.connection_lost(None)
        else:
            client.connection.eof_received()
        kept = client.connection in waiting_clients(narrow)
        for _ in range(3):
            await asyncio.sleep(0)
        seen = [
            waits,
            kept,
            client.connection in waiting_clients(narrow),
            client.transport.is_reading,
        ]
        if not is_lost:
            client.connection.connection_lost(None)
        return seen

    assert narrow.call(leave) == [True, not is_lost, False, False]


def test_who_has_had_its_share_is_read_on_in_a_later_turn_alone(narrow: RunningNode) -> None:
    """Not when another reason to wait is over, such as output that its client has taken."""
    frame = bytes(encode_request(ApiVersionsRequest(client_software_name="n" * 30_000), 3, 1, ""))

    async def send() -> list[bool]:
        client = Peer(narrow)
        client.unsent = frame * 2
        while client.receive():
            """Until it has had its share."""
        client.connection.resume_writing()
        client.connection._resume_reading()
        seen = [client.transport.is_reading]
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(client.transport.is_reading)
        client.connection.connection_lost(None)
        return seen

    assert narrow.call(send) == [False, True]


def test_who_is_disconnected_for_what_it_sent_does_not_wait(narrow: RunningNode) -> None:
    def send() -> list[bool]:
        client = Peer(narrow)
        client.send(b"\xff" * QUANTUM_BYTES)
        seen = [client.connection.closed, client.connection in waiting_clients(narrow)]
        client.connection.connection_lost(None)
        return seen

    assert narrow.call(send) == [True, False]


class Ticking:
    """A clock that goes on by a millisecond whenever it is asked."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


def test_requests_that_came_together_are_dispatched_for_so_long_in_a_turn(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many clients sent them; and each client has one answered in every turn."""
    monkeypatch.setattr(connections, "perf_counter", Ticking())
    requests = 40

    async def send() -> list[list[int]]:
        clients = [Peer(node) for _ in range(CLIENTS)]
        one = Peer(node)
        one.send(ASK)
        answer_bytes = one.transport.sent_bytes
        for client in clients:
            client.unsent = ASK * requests
        seen: list[list[int]] = []
        before = [0] * CLIENTS
        while min(before) < requests and len(seen) < TURNS_MAX:
            for client in clients:
                client.receive()
            now = [client.transport.sent_bytes // answer_bytes for client in clients]
            await asyncio.sleep(0)
            seen.append([after - first for after, first in zip(now, before, strict=True)])
            before = now
        for peer in [*clients, one]:
            peer.connection.connection_lost(None)
        return seen

    seen = node.call(send)
    assert len(seen) < TURNS_MAX
    most = turns.TURN_DISPATCH_S / 0.001
    assert max(map(sum, seen)) <= 2 * (most + CLIENTS)
    assert sum(seen[0]) < CLIENTS * requests
