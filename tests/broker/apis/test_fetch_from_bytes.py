"""A plain Fetch is taken from its bytes, and its answer is as if it were not.

The same frames go both ways on one node: usual ones, unusual ones, mutated and cut. What the
shorter way takes is answered with the same bytes, and counted as much, as by the handler, whether
that answers at once or in pieces; of what it does not take nothing is left.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_type_hints

import pytest
from hypothesis import event, given, settings, strategies as st

from fencepost.broker.apis import fetch_from_bytes as from_bytes
from fencepost.broker.apis.fetch_bytes import PARTITIONS_MAX, read_plain
from fencepost.broker.apis.fetch_from_bytes import fetch_from_bytes
from fencepost.broker.net.memory_budget import AVAILABLE_BYTES_MIN
from fencepost.broker.net.pending_request import Buffer, PendingRequest
from fencepost.broker.net.request_metrics import RequestMetrics
from fencepost.broker.storage.cold_reads import ColdReads
from fencepost.log.errors import CorruptFileError, OffsetOutOfRange
from fencepost.log.page_cache import NotCachedError
from fencepost.machines.partition import AdvanceLogStart, StopReplica
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests import fetch_answer
from fencepost.runtime.requests.fetch import fetch
from fencepost.runtime.requests.fetch_parts import FetchParts
from fencepost.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.frame import decode_response, encode_request, read_request_header

from .harness import Caller, register, to_its_end, topic_id
from .partitions import NOW_MS, TRANSACTIONAL, PartitionNode

register("fetch")

NAMES = ["t", "u", "zstd", "unknown", "txn", "txn"]


class Next(Caller):
    """A connection on which nobody is in front, unless said."""

    arrived_s = 0.0
    nobody_is_in_front = True

    def is_next(self, context: PendingRequest) -> bool:
        return self.nobody_is_in_front


class Served:
    """A node with partitions of all kinds, and three ways to it."""

    def __init__(self, directory: Any) -> None:
        self.node = node = PartitionNode(directory=directory)
        full, _, cut = (node.host("t", index) for index in range(3))
        held = node.host("u", replicas=(1, 2))
        squeezed = node.host("zstd", compression_type="zstd")
        for hosted in (full, cut, held, squeezed):
            for count in (1, 3, 2, 200):
                node.produce(hosted, [NOW_MS] * count)
        node.follower_fetched(held, 2, 4)
        node.driver.feed(cut.key, AdvanceLogStart(4))
        twice_led = node.host("t", 3)
        node.produce(twice_led, [NOW_MS])
        node.lead(twice_led, 1)
        node.produce(twice_led, [NOW_MS])
        self.full = full
        self._host_transactions()
        self.parts = FetchParts(*(node.parts[kind] for kind in get_type_hints(FetchParts).values()))

    def _host_transactions(self) -> None:
        """Partition 0: committed, and open from offset 7 on; 1: aborted from 4 on; 2: the same, in
        a segment before the one that begins at 7."""
        node = self.node
        for index, committed in enumerate([True, False, False]):
            hosted = node.host("txn", index)
            node.produce(hosted, [NOW_MS] * 4)
            node.produce_transactional(hosted, 2, sequence=0)
            node.end_transaction(hosted, committed)
            if index == 0:
                node.produce_transactional(hosted, 3, sequence=2)
            elif index == 2:
                hosted.log.roll(NOW_MS)
            node.produce(hosted, [NOW_MS] * 200)

    def traffic(self) -> list[Any]:
        return [
            (one.fetch_requests, one.failed_fetch_requests, one.bytes_out)
            for one in (hosted.traffic for hosted in self.node.replicas.all())
        ]

    def begin(self, frame: Buffer, way: str, caller: Next | None = None) -> Request | None:
        """A request on its way; None if that does not take it."""
        caller = caller or Next("PLAINTEXT", self.node.parts)
        received = memoryview(bytearray(frame))
        try:
            header, start = read_request_header(received, cls=FetchRequest)
        except DecodeError:
            return None
        version = header.request_api_version
        if header.request_api_key != 1 or not 4 <= version <= 18:
            return None
        before, metrics = self.traffic(), RequestMetrics()
        context = metrics.new_context(
            caller,  # type: ignore[arg-type]
            SimpleNamespace(api_key=1, name="Fetch"),  # type: ignore[arg-type]
            version,
            header.correlation_id,
            header.client_id,
            len(frame),
        )
        if way == "short":
            taken = fetch_from_bytes(context, received, start, parts=self.parts)
            if not taken:
                assert not context.answered and self.traffic() == before
                assert caller.buffered_bytes == 0
                return None
            if taken is not True:
                assert not context.answered
                context.reply_without_errors(*taken)
        else:
            caller.nobody_is_in_front = way == "at once"
            try:
                request, _ = FetchRequest.read(received, start, version, max_elements=20_000)
            except DecodeError:
                return None
            answer = to_its_end(fetch(context, request, parts=self.parts))
            if answer is not None:
                context.reply(answer)
        return Request(context, metrics, caller.buffered_bytes)

    def serve(self, frame: Buffer, way: str, caller: Next | None = None) -> Any:
        """All there is to be told of a request's answer, and what it adds to counts."""
        before = self.traffic()
        request = self.begin(frame, way, caller)
        if request is None:
            return None
        has_waited = not request.context.answered
        if has_waited:
            self.node.timers.advance(499)
            assert not request.context.answered
            self.node.timers.advance(1)
        told = request.told()
        assert len(self.node.fetches) == 0
        added = [
            tuple(after - was for after, was in zip(one, other, strict=True))
            for one, other in zip(self.traffic(), before, strict=True)
        ]
        return has_waited, told, added, has_waited and request.buffered_bytes


class Request(NamedTuple):
    """A request that is answered, or waits."""

    context: PendingRequest
    metrics: RequestMetrics
    buffered_bytes: int

    def told(self) -> Any:
        """The answer, and what is counted of it."""
        assert self.context.answered
        to_its_end(self.context.take_pieces())
        parts = b"".join(bytes(part) for part in self.context.take_parts())
        counted = self.metrics.apis[1]
        return parts, dict(counted.errors), counted.response_bytes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("node"))


def framed(version: int, topics: list[tuple[str, list[FetchPartition]]], **fields: Any) -> bytes:
    fields = {"max_wait_ms": 500, "min_bytes": 1, "session_epoch": -1, **fields}
    if version < 7:
        del fields["session_epoch"]
    request = FetchRequest(
        topics=[
            FetchTopic(topic_id=topic_id(name), partitions=partitions)
            if version >= 13
            else FetchTopic(topic=name, partitions=partitions)
            for name, partitions in topics
        ],
        **fields,
    )
    return bytes(encode_request(request, version, 77, "client"))[4:]


def reading(index: int = 0, offset: int = 0, **fields: Any) -> FetchPartition:
    fields = {"partition_max_bytes": 1 << 20, **fields}
    return FetchPartition(partition=index, fetch_offset=offset, **fields)


PARTITION = st.builds(
    reading,
    st.sampled_from([0, 0, 0, 1, 2, 7]),
    st.sampled_from([0, 0, 1, 2, 4, 5, 6, 205, 206, 207, -1]),
    current_leader_epoch=st.sampled_from([-1, -1, 0, 0, 1]),
    last_fetched_epoch=st.sampled_from([-1, -1, -1, 0, 1]),
    log_start_offset=st.sampled_from([-1, 3]),
    partition_max_bytes=st.sampled_from([1 << 20, 1 << 20, 300, 1, 0, -5]),
)
ANY_TOPICS = st.lists(
    st.tuples(st.sampled_from([*NAMES, "t"]), st.lists(PARTITION, max_size=3)), max_size=3
)
USUAL_PARTITION = st.builds(
    reading,
    st.sampled_from([0, 2]),
    st.sampled_from([4, 5, 6, 7, 206]),
    current_leader_epoch=st.sampled_from([-1, 0]),
    partition_max_bytes=st.sampled_from([1 << 20, 1 << 20, 300, 1, 0, -5]),
)
USUAL_TOPICS = st.tuples(
    st.sampled_from(["t", "txn"]),
    st.lists(USUAL_PARTITION, min_size=1, max_size=2, unique_by=lambda one: one.partition),
).map(lambda topic: [topic])
TOPICS = st.one_of(ANY_TOPICS, USUAL_TOPICS, USUAL_TOPICS)
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete"]), st.floats(0, 1), st.integers(0, 255)),
    max_size=2,
)


def mutated(frame: bytes, mutations: list[tuple[str, float, int]], cut: float) -> bytes:
    data = bytearray(frame)
    for how, where, byte in mutations:
        at = 4 + int(where * (len(data) - 4))
        data[at : at + (how != "insert")] = b"" if how == "delete" else bytes([byte])
    return bytes(data[: int(len(data) * cut)])


@settings(max_examples=300, deadline=None)
@given(
    version=st.integers(12, 18),
    topics=TOPICS,
    min_bytes=st.sampled_from([1] * 8 + [0, 500]),
    max_bytes=st.sampled_from([1 << 20, 1 << 20, 700, 1, 0, -1]),
    max_wait_ms=st.sampled_from([500, 500, 0, -1]),
    isolation_level=st.sampled_from([0] * 6 + [1] * 6 + [2]),
    mutations=st.one_of(st.just([]), st.just([]), st.just([]), MUTATIONS),
    cut=st.sampled_from([1.0] * 8 + [0.9, 0.5]),
)
def test_both_ways_answer_the_same(
    served: Served,
    version: int,
    topics: list[tuple[str, list[FetchPartition]]],
    mutations: list[tuple[str, float, int]],
    cut: float,
    **fields: int,
) -> None:
    frame = mutated(framed(version, topics, **fields), mutations, cut)
    short = served.serve(frame, "short")
    event("left" if short is None else "waits" if short[0] else "answered")
    at_once, in_pieces = served.serve(frame, "at once"), served.serve(frame, "in pieces")
    assert at_once == in_pieces
    assert short is None or short == at_once


@settings(max_examples=150, deadline=None)
@given(
    version=st.integers(12, 18),
    topics=TOPICS,
    at_once_bytes=st.sampled_from([1 << 20, 3000, 100, 0]),
    quantum_bytes=st.sampled_from([3000, 200, 1]),
    max_bytes=st.sampled_from([1 << 20, 1 << 20, 3000, 700, 1, 0]),
    isolation_level=st.sampled_from([0, 1]),
)
def test_what_is_read_in_pieces_is_answered_the_same(
    served: Served,
    version: int,
    topics: list[tuple[str, list[FetchPartition]]],
    at_once_bytes: int,
    quantum_bytes: int,
    **fields: int,
) -> None:
    frame = framed(version, topics, **fields)
    wide = served.serve(frame, "at once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_answer, "QUANTUM_BYTES", quantum_bytes)
        for way in ("short", "at once", "in pieces"):
            caller = Next("PLAINTEXT", served.node.parts)
            caller.at_once_bytes = at_once_bytes
            narrow = served.serve(frame, way, caller)
            assert narrow == wide or (way == "short" and narrow is None)
            assert caller.outgoing_bytes == 0, "what was taken for pieces is given back"


def begin_in_pieces(served: Served, frame: bytes) -> tuple[Request, Any, Next]:
    """A request whose answer has been begun, and its pieces."""
    caller = Next("PLAINTEXT", served.node.parts)
    caller.at_once_bytes = 100
    request = served.begin(frame, "in pieces", caller)
    assert request is not None
    pieces = request.context.take_pieces()
    assert pieces is not None
    for _ in range(3):
        assert next(pieces) is None, "others come first"
    return request, pieces, caller


def records_in(request: Request) -> int:
    """How many bytes of records an answer has for its only partition."""
    data = b"".join(bytes(part) for part in request.context.take_parts())[4:]
    [topic] = decode_response(FetchResponse, 17, data)[1].responses
    return len(topic.partitions[0].records)


def test_an_answer_ends_where_memory_does_and_where_another_leader_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_answer, "QUANTUM_BYTES", 1)
    served = Served(tmp_path)
    frame = framed(17, [("t", [reading()])])
    request, pieces, caller = begin_in_pieces(served, frame)
    to_its_end(pieces)
    all_of_it = records_in(request)

    request, pieces, caller = begin_in_pieces(served, frame)
    held_bytes = caller.outgoing_bytes
    assert held_bytes > 0
    caller.available_bytes = AVAILABLE_BYTES_MIN
    to_its_end(pieces)
    assert held_bytes <= records_in(request) < all_of_it
    assert caller.outgoing_bytes == 0

    request, pieces, caller = begin_in_pieces(served, frame)
    served.node.lead(served.full, 1)
    to_its_end(pieces)
    assert 0 < records_in(request) < all_of_it

    request, pieces, caller = begin_in_pieces(served, frame)
    pieces.close()
    assert caller.outgoing_bytes == 0, "the client has left"


@pytest.mark.parametrize("version", range(12, 19))
@pytest.mark.parametrize(
    "topics",
    [
        [("t", [reading()])],
        [("t", [reading(0, 3, partition_max_bytes=1)])],
        [("t", [reading(0, 206), reading(2, 5), reading(1)])],
        [("u", [reading()]), ("t", [reading(1), reading(2, 206), reading(0, 4)])],
        [("t", [reading(0, 206)])],
        [("u", [reading(0, 4)]), ("t", [reading(1)])],
        [("zstd", [reading(0, 6, current_leader_epoch=0, last_fetched_epoch=0)])],
    ],
)
def test_the_usual_is_taken(
    served: Served, version: int, topics: list[tuple[str, list[FetchPartition]]]
) -> None:
    frame = framed(version, topics)
    short = served.serve(frame, "short")
    assert short is not None and short == served.serve(frame, "at once")
    assert short == served.serve(frame, "in pieces")


TAIL = [("t", [reading(0, 206)])]
Case = tuple[int, list[tuple[str, list[FetchPartition]]], dict[str, Any]]
UNUSUAL_PARTITIONS: dict[str, Case] = {
    "nothing to read, nor time": (17, TAIL, {"max_wait_ms": 0}),
    "nothing to read, nor room": (17, TAIL, {"max_bytes": 0}),
    "an unknown topic": (17, [("t", [reading()]), ("unknown", [reading()])], {}),
    "an unknown partition": (12, [("t", [reading(), reading(7)])], {}),
    "out of range": (12, [("t", [reading(0, 207)])], {}),
    "a log that diverges": (17, [("t", [reading(), reading(3, 2, last_fetched_epoch=0)])], {}),
    "an epoch to come": (12, [("t", [reading(0, 0, current_leader_epoch=9)])], {}),
    "a topic that goes on": (17, [("t", [reading()]), ("t", [reading(2, 4)])], {}),
}


@pytest.mark.parametrize("why", UNUSUAL_PARTITIONS)
def test_what_is_unusual_of_partitions_alone_is_answered_the_same(served: Served, why: str) -> None:
    version, topics, fields = UNUSUAL_PARTITIONS[why]
    frame = framed(version, topics, **fields)
    short = served.serve(frame, "short")
    assert short is not None and short == served.serve(frame, "at once")


UNUSUAL: dict[str, Case] = {
    "an older version": (11, [("t", [reading()])], {}),
    "a session": (17, [("t", [reading()])], {"session_epoch": 0}),
    "a session that goes on": (17, [("t", [reading()])], {"session_id": 5, "session_epoch": 1}),
    "an isolation that there is not": (17, [("t", [reading()])], {"isolation_level": 2}),
    "something forgotten of no session": (
        17,
        [("t", [reading()])],
        {"forgotten_topics_data": [ForgottenTopic(topic_id=topic_id("t"), partitions=[1])]},
    ),
    "more bytes wanted": (17, [("t", [reading()])], {"min_bytes": 2}),
    "a rack": (17, [("t", [reading()])], {"rack_id": "a"}),
    "a replica": (12, [("t", [reading()])], {"replica_id": 2}),
    "a replica, tagged": (17, [("t", [reading()])], {"replica_state": ReplicaState(replica_id=2)}),
    "a tag of a partition": (18, [("t", [reading(0, 0, high_watermark=1)])], {}),
    "no topic": (17, [], {}),
    "no partition": (17, [("t", [])], {}),
    "a partition twice": (17, [("t", [reading(), reading(0, 4)])], {}),
    "a topic twice": (17, [("t", [reading()]), ("t", [reading()])], {}),
    "many": (17, [("t", [reading(index) for index in range(PARTITIONS_MAX + 1)])], {}),
}


@pytest.mark.parametrize("why", UNUSUAL)
def test_the_unusual_is_left(served: Served, why: str) -> None:
    version, topics, fields = UNUSUAL[why]
    assert served.serve(framed(version, topics, **fields), "short") is None


@pytest.mark.parametrize(("first", "second", "is_taken"), [(8, 8, True), (8, 9, False)])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_partitions_of_all_topics_are_counted(
    first: int, second: int, is_taken: bool, is_forgotten: bool
) -> None:
    counts = [("t", first), ("u", second)]
    if is_forgotten:
        topics = []
        forgotten = [
            ForgottenTopic(topic=name, partitions=[*range(count)]) for name, count in counts
        ]
    else:
        topics = [(name, [reading(index) for index in range(count)]) for name, count in counts]
        forgotten = []
    frame = framed(12, topics, session_id=5, session_epoch=1, forgotten_topics_data=forgotten)
    request = read_plain(memoryview(frame), body_of(frame), 12)
    assert (request is not None) is is_taken
    if request is not None:
        keys = [(name, index) for name, count in counts for index in range(count)]
        assert [one.key for one in request.wanted] == ([] if is_forgotten else keys)
        assert request.forgotten == (keys if is_forgotten else [])


def body_of(frame: bytes) -> int:
    """Where the body begins."""
    return read_request_header(memoryview(frame), cls=FetchRequest)[1]


def answered_at_once(served: Served, frame: bytes) -> dict[tuple[str, int], PartitionData]:
    """What the shorter way alone says, which is what is said without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_bytes, "FetchAnswer", None)
        short = served.serve(frame, "short")
    assert short is not None and short == served.serve(frame, "at once")
    _, response = decode_response(FetchResponse, 12, short[1][0][4:])
    return {
        (topic.topic, part.partition_index): part
        for topic in response.responses
        for part in topic.partitions
    }


def size_of(part: PartitionData) -> int:
    return len(part.records)


def test_the_bytes_that_a_request_wants_are_those_of_all_its_partitions(served: Served) -> None:
    asked = [("t", [reading(0, 0), reading(2, 4)])]
    first, second = answered_at_once(served, framed(12, asked)).values()
    most = size_of(first) + size_of(second)
    for max_bytes in (most - 1, most):
        some = answered_at_once(served, framed(12, asked, max_bytes=max_bytes))
        sizes = list(map(size_of, some.values()))
        assert sizes[0] == size_of(first) and sum(sizes) <= max_bytes
        assert (sizes[1] == size_of(second)) is (max_bytes == most)


def test_nothing_follows_the_partition_that_did_not_fit(served: Served) -> None:
    """The first batch of all is given whatever its size, and no other one."""
    first, *_ = answered_at_once(served, framed(12, [("t", [reading(0, 0)])])).values()
    asked = [("t", [reading(0, 0), reading(2, 5)]), ("u", [reading()]), ("zstd", [reading()])]
    some = answered_at_once(served, framed(12, asked, max_bytes=size_of(first) + 1))
    assert list(map(size_of, some.values())) == [size_of(first), 0, 0, 0]


LIMIT_BYTES = 1024


@pytest.mark.parametrize("whose", ["the broker's config", "the memory there is"])
def test_an_answer_is_no_larger_than_the_broker_lets_it_be(
    served: Served, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    frame = framed(12, [("t", [reading(0, 0)]), ("zstd", [reading()])])
    if whose == "the broker's config":
        monkeypatch.setattr(served.parts.policy, "max_bytes", LIMIT_BYTES)
    else:
        monkeypatch.setattr(Next, "available_bytes", LIMIT_BYTES)
    some = answered_at_once(served, frame)
    assert 0 < sum(map(size_of, some.values())) <= LIMIT_BYTES
    monkeypatch.undo()
    assert sum(map(size_of, answered_at_once(served, frame).values())) > LIMIT_BYTES


COMMITTED = {"isolation_level": 1}


def test_who_reads_committed_records_reads_to_the_last_stable_offset(served: Served) -> None:
    asked = [("txn", [reading(0, 0), reading(2, 7)])]
    every = answered_at_once(served, framed(12, asked))
    committed = answered_at_once(served, framed(12, asked, **COMMITTED))
    assert {part.aborted_transactions is None for part in every.values()} == {True}
    assert [part.aborted_transactions for part in committed.values()] == [[], []]
    assert size_of(every["txn", 0]) > size_of(committed["txn", 0]) > 0
    assert every["txn", 2].records == committed["txn", 2].records
    assert committed["txn", 0].last_stable_offset == 7


@pytest.mark.parametrize(("index", "offset"), [(1, 0), (1, 4), (2, 0)])
def test_aborted_transactions_are_told(served: Served, index: int, offset: int) -> None:
    frame = framed(12, [("t", [reading()]), ("txn", [reading(index, offset)])], **COMMITTED)
    short = served.serve(frame, "short")
    assert short is not None and short == served.serve(frame, "at once")
    _, response = decode_response(FetchResponse, 12, short[1][0][4:])
    [aborted] = response.responses[1].partitions[0].aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (TRANSACTIONAL, 4)


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_that_ends_ends_the_wait_for_its_records(
    tmp_path: Path, committed: bool
) -> None:
    served = Served(tmp_path)
    open_one = served.node.replicas.hosted["txn", 0]
    waiting = all_ways(served, framed(12, [("txn", [reading(0, 7)])], **COMMITTED))
    served.node.produce(open_one, [NOW_MS])
    assert not any(one.context.answered for one in waiting), "they see nothing of it"
    served.node.end_transaction(open_one, committed)
    short, at_once, in_pieces = [one.told() for one in waiting]
    assert short == at_once == in_pieces
    _, response = decode_response(FetchResponse, 12, short[0][4:])
    [part] = response.responses[0].partitions
    assert size_of(part) > 0 and len(part.aborted_transactions or ()) == (not committed)


def test_it_is_left_where_another_answer_is_in_front(served: Served) -> None:
    caller = Next("PLAINTEXT", served.node.parts)
    caller.nobody_is_in_front = False
    assert served.serve(framed(17, [("t", [reading()])]), "short", caller) is None


def test_what_the_disk_refuses_is_answered_the_same(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> Any:
        raise OffsetOutOfRange(0, 1, 2)

    monkeypatch.setattr(served.full.log, "read", read)
    frame = framed(17, [("t", [reading(2, 4), reading()])])
    short = served.serve(frame, "short")
    assert short is not None and short == served.serve(frame, "at once")


def test_nobody_waits_for_a_file_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the event loop that would: the node would stand still."""
    served = Served(tmp_path)
    reads = served.parts.cached_reads
    assert isinstance(reads, ColdReads)
    descriptors = reads._descriptors

    def refuse() -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(descriptors, "_pause", pytest.fail)
    monkeypatch.setattr(served.full.log, "read", lambda *_: descriptors.open(refuse))
    request = served.begin(framed(12, [("t", [reading(2, 4), reading()])]), "short")
    assert request is not None
    assert request.told()[1] == {ErrorCode.KAFKA_STORAGE_ERROR: 1}


def test_what_is_not_in_the_page_cache_is_tried_once_until_it_is(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = framed(17, [("t", [reading(0, 4)])])
    log = served.full.log
    tries: list[int] = []
    begun: list[Future[None]] = []

    def read(*asked: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise NotCachedError("/a/b/c", 0, 1)
        return type(log).read(log, *asked)

    def begin(*_: object) -> Future[None]:
        begun.append(Future())
        begun[-1].set_result(None)
        return begun[-1]

    monkeypatch.setattr(log, "read", read)
    monkeypatch.setattr(served.node.cold_reads, "begin", begin)
    short = served.serve(frame, "short")
    assert (len(tries), len(begun)) == (2, 1), "once in vain, and once when it is there"
    assert short == served.serve(frame, "at once")


def all_ways(served: Served, frame: bytes) -> list[Request]:
    """The request three times, each of which waits."""
    begun = [served.begin(frame, way) for way in ("short", "at once", "in pieces")]
    waiting = [one for one in begun if one is not None and not one.context.answered]
    assert len(waiting) == 3
    return waiting


def move(served: Served, hosted: HostedPartition, how: str) -> None:
    """Let something happen to what is waited for."""
    node = served.node
    if how == "damage":

        def read(*_: object) -> Any:
            raise CorruptFileError("a file", "is damaged")

        hosted.log.read = read  # type: ignore[method-assign]
    if how in ("records", "damage"):
        node.produce(hosted, [NOW_MS])
    elif how == "epoch":
        node.lead(hosted, hosted.machine.leader_epoch + 1)
    else:
        del node.replicas.hosted[hosted.topic, hosted.index]
        node.driver.feed(hosted.key, StopReplica(is_deleted=True))
        node.fetches.gone(hosted)


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("how", ["records", "damage", "epoch", "gone"])
def test_what_ends_a_wait_is_answered_the_same(tmp_path: Path, version: int, how: str) -> None:
    served = Served(tmp_path)
    asked = [reading(0, 206, current_leader_epoch=0), reading(1)]
    waiting = all_ways(served, framed(version, [("t", asked)]))
    move(served, served.full, how)
    short, at_once, in_pieces = [one.told() for one in waiting]
    assert short == at_once == in_pieces
    assert len(served.node.fetches) == 0


def test_an_answer_that_is_not_the_next_waits_for_its_turn(served: Served) -> None:
    caller = Next("PLAINTEXT", served.node.parts)
    request = served.begin(framed(17, TAIL), "short", caller)
    assert request is not None and not request.context.answered
    caller.nobody_is_in_front = False
    before = served.traffic()
    served.node.timers.advance(500)
    assert request.context.answered and served.traffic() == before, "it is made when it is"
    assert request.told() == served.serve(framed(17, TAIL), "in pieces")[1]


def test_who_leaves_does_not_wait(served: Served) -> None:
    request = served.begin(framed(17, TAIL), "short")
    assert request is not None and len(served.node.fetches) == 1
    request.context.abandoned()
    assert len(served.node.fetches) == 0


@pytest.mark.parametrize("version", [12, 17])
def test_no_byte_is_passed_over(served: Served, version: int) -> None:
    frame = framed(version, [("t", [reading()])])
    start = read_request_header(memoryview(frame), cls=FetchRequest)[1]
    for at in range(start, len(frame)):
        for byte in (0, 1, 2, 3, 0x7F, 0x80, 0xFF):
            hostile = bytearray(frame)
            hostile[at] = byte
            short = served.serve(hostile, "short")
            assert short is None or short == served.serve(hostile, "at once"), (at, byte)
    for cut in range(start, len(frame)):
        assert read_plain(memoryview(frame)[:cut], start, version) is None
    assert read_plain(memoryview(frame + b"\0"), start, version) is None
