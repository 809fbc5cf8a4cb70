"""A plain Produce request is taken from its bytes, and its answer is as if it were not.

Two nodes are given the same frames: one tries the fast path first, the other has none. Answers,
disconnections, logs and counts are compared; frames are usual, unusual, mutated and cut.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import event, given, settings, strategies as st
from msgspec.structs import asdict

from fencepost.batch import backend
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import HEADER_BYTES, BatchHeader, stamp_crc
from fencepost.batch.produced import ProduceRules
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.broker.apis import produce_from_bytes as from_bytes
from fencepost.broker.apis.produce_from_bytes import produce_from_bytes
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.request_metrics import RequestMetrics
from fencepost.log import rolling
from fencepost.machines.partition import WriteMarker
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.requests.permissions import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from fencepost.runtime.requests.produce import produce
from fencepost.runtime.transactional_writes import TransactionalWrites
from fencepost.runtime.verification import Claim, OnOutcome
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.frame import decode_response, encode_request, read_request_header

from .authorizers import Rules, errors_in
from .harness import Caller, register, to_its_end, topic_id
from .partitions import NOW_MS, PartitionNode

register("produce")
CHECKED_FROM = 21
"""Where what a batch's CRC covers begins, which a leader leaves as it is."""
needs_kernel = pytest.mark.skipif(backend.produce_kernel is None, reason="it was not built")

TOPICS = {
    "t": {},
    "compacted": {"cleanup_policy": "compact"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "small": {"max_message_bytes": "200"},
    "gzip": {"compression_type": "gzip"},
    "bounded": {"message_timestamp_before_max_ms": "1000"},
    "rolled": {"internal_segment_bytes": "300"},
    "__consumer_offsets": {},
}
IDS = {name: topic_id(name) for name in [*TOPICS, "unknown"]}


class Served:
    """A node with a partition or two of each topic, and one way to it."""

    def __init__(self, directory: Any, is_fast: bool) -> None:
        self.is_fast = is_fast
        self.node = PartitionNode(directory=directory)
        for name, configs in TOPICS.items():
            self.node.host(name, **configs)
        self.node.host("t", 1)
        self.turn: list[Any] = []
        ports = self.node.ports
        self.appends = CombinedAppends(
            ports.driver, ports, self.turn.append, lambda hosted, header, wall_ms: True
        )
        self.parts: dict[str, Any] = {
            "appends": self.appends,
            "clocks": ports,
            "metadata": self.node,
            "partitions": self.node.partitions,
            "writes": TransactionalWrites(ports.driver, self, lambda: self.verifies),
        }
        self.others: dict[str, Any] = {
            "decompression": self.node.decompression,
            "work": SimpleNamespace(work_s=lambda: 0.0),  # no request is put off for its time
        }
        self.verifies = False
        self.asked: list[Claim] = []
        self.was_taken = False
        self.metrics = RequestMetrics()

    def is_asking(self, claim: Claim) -> bool:
        """Whether an earlier request of the producer waits for its answer."""
        return False

    def ask(self, claim: Claim, on_outcome: OnOutcome) -> None:
        """The transactions' coordinator, which has nothing against anything."""
        self.asked.append(claim)
        on_outcome({})

    def serve(self, frame: bytes) -> object:
        """What becomes of a request."""
        caller = Caller("PLAINTEXT", self.node.parts)
        caller.arrived_s = 0.0  # type: ignore[attr-defined]
        received = memoryview(bytearray(frame))
        try:
            header, start = read_request_header(received, cls=ProduceRequest)
        except DecodeError:
            return "malformed"
        version = header.request_api_version
        if header.request_api_key != 0 or not 3 <= version <= 13:
            return "not Produce"
        route = SimpleNamespace(api_key=0, name="Produce")
        context = self.metrics.new_context(
            caller, route, version, header.correlation_id, header.client_id, len(frame)
        )
        self.was_taken = self.is_fast and produce_from_bytes(context, received, start, **self.parts)
        if not self.was_taken:
            try:
                request, _ = ProduceRequest.read(received, start, version, max_elements=20_000)
            except DecodeError as error:
                return f"malformed: {error}"
            answer = produce(context, request, **self.parts, **self.others)
            if isinstance(answer, Generator):
                next(answer, None)
                received[:] = bytes(len(received))  # the next request overwrites it
            to_its_end(answer)
        received[:] = bytes(len(received))  # the next request overwrites it
        self.appends.read_done(1)
        self.appends.settle()
        return self.outcome(caller, context)

    def outcome(self, caller: Caller, context: PendingRequest) -> object:
        assert context.answered
        if caller.closed_because is not None:
            return caller.closed_because
        return b"".join(bytes(part) for part in context.take_parts())

    def state(self) -> object:
        """What the requests have left."""
        partitions = [
            (
                hosted.key,
                hosted.log.size_bytes,
                hosted.machine.high_watermark,
                asdict(hosted.traffic),
                hosted.log.producers.encode(),
                hosted.log.read(0, 1 << 24, hosted.log.end_offset).buffers is not None
                and b"".join(bytes(one) for _, one in all_of(hosted.log)),
            )
            for hosted in self.node.replicas.all()
        ]
        counted = {
            key: (api.versions, api.errors, api.request_bytes, api.response_bytes)
            for key, api in self.metrics.apis.items()
        }
        return partitions, counted, self.asked


def all_of(log: Any) -> list[Any]:
    return list(log.read_all_batches(log.start_offset, log.end_offset))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_bytes, "AT_ONCE_S", float("inf"))  # however busy the machine is
        patch.setattr(rolling, "COLLECTED_BYTES", 0)  # segments of tests are small
        patch.setattr(rolling, "COLLECTED_BATCHES", 0)
        names = ("fast", "today")
        yield [Served(tmp_path_factory.mktemp(name), name == "fast") for name in names]


def made(kind: str, producer: tuple[int, int, int] = (-1, -1, -1), **fields: Any) -> bytes | None:
    """A batch of a kind."""
    timestamp_ms = NOW_MS - 3_600_000 if kind == "old" else NOW_MS
    items = [(None if kind == "no key" else b"k", b"v" * 30, [("h", b"x")])] * fields.get(
        "count", 2
    )
    codec = kind.rpartition(" ")[2]
    codec = codec if codec in ("gzip", "lz4", "zstd", "snappy") else "none"
    producer_id, epoch, sequence = producer
    data = build_batch(
        items,
        timestamp_ms=timestamp_ms,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    if kind in ATTRIBUTES:
        data[22] |= ATTRIBUTES[kind]
        stamp_crc(data)
    elif kind == "crc":
        data[-1] ^= 1
    elif kind == "max timestamp":
        data[35:43] = (5).to_bytes(8, "big")
        stamp_crc(data)
    elif kind == "offset":
        data[7] = 9
    elif kind == "magic":
        data[16] = 1
    elif kind == "count":
        data[60] += 1
        stamp_crc(data)
    elif kind.startswith("last offset"):
        data[26] += 1 if kind.endswith("above") else -1
        stamp_crc(data)
    return {"null": None, "empty": b"", "two": bytes(data) * 2}.get(kind, bytes(data))


ATTRIBUTES = {
    "append time": 0x08,
    "transactional": 0x10,
    "transactional gzip": 0x10,
    "control": 0x20,
    "horizon": 0x40,
    "unknown bit": 0x80,
    "codec 7": 0x07,
}
KINDS = [
    *("plain", "gzip", "lz4", "zstd", "snappy", "no key", "old", "crc", "max timestamp"),
    *("offset", "magic", "count", "last offset above", "last offset below"),
    *("null", "empty", "two", *ATTRIBUTES),
]
USUAL = st.sampled_from(["plain", "plain", "gzip", "lz4", "zstd", "snappy"])
PRODUCERS = st.one_of(
    st.just((-1, -1, -1)),
    st.tuples(st.integers(1, 2), st.integers(0, 1), st.sampled_from([0, 2, 4, 6])),
    st.sampled_from([(-2, 0, 0), (5, -1, 0), (5, 0, -1), (-1, 3, 3)]),
)
BATCHES = st.builds(made, st.one_of(USUAL, st.sampled_from(KINDS)), PRODUCERS)
TOPIC = st.tuples(
    st.one_of(st.sampled_from(["t", "t", *TOPICS, "unknown"])),
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 7]), BATCHES), max_size=3),
)
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete"]), st.floats(0, 1), st.integers(0, 255)),
    max_size=2,
)


def framed(
    version: int,
    topics: list[tuple[str, list[tuple[int, bytes | None]]]],
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = 1000,
) -> bytes:
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name if version < 13 else "",
                topic_id=IDS[name],
                partition_data=[
                    PartitionProduceData(index=index, records=records)
                    for index, records in partitions
                ],
            )
            for name, partitions in topics
        ],
    )
    return bytes(encode_request(request, version, 77, "client"))[4:]


def mutated(frame: bytes, mutations: list[tuple[str, float, int]], cut: float) -> bytes:
    data = bytearray(frame)
    for how, where, byte in mutations:
        at = 8 + int(where * (len(data) - 8))
        data[at : at + (how != "insert")] = b"" if how == "delete" else bytes([byte])
    return bytes(data[: int(len(data) * cut)])


@needs_kernel
@settings(max_examples=120, deadline=None)
@given(
    version=st.integers(3, 13),
    topics=st.lists(TOPIC, max_size=3),
    acks=st.sampled_from([-1, 1, 0, 2]),
    transactional_id=st.sampled_from([None, None, None, "tx"]),
    verifies=st.booleans(),
    mutations=st.one_of(st.just([]), st.just([]), MUTATIONS),
    cut=st.one_of(st.just(1.0), st.just(1.0), st.floats(0, 1)),
)
def test_answers_and_logs_are_the_same(
    both, version, topics, acks, transactional_id, verifies, mutations, cut
) -> None:
    frame = mutated(framed(version, topics, acks, transactional_id), mutations, cut)
    fast, today = both
    for served in both:
        served.verifies = verifies
    outcome = fast.serve(frame)
    event(f"taken: {fast.was_taken}")
    assert outcome == today.serve(frame)
    assert fast.state() == today.state()


@needs_kernel
@settings(max_examples=60, deadline=None)
@given(
    version=st.integers(3, 13),
    partitions=st.lists(
        st.tuples(st.integers(0, 1), st.builds(made, USUAL, PRODUCERS)), min_size=1, max_size=4
    ),
    acks=st.sampled_from([-1, 1, 0]),
    mutations=MUTATIONS,
)
def test_what_is_nearly_usual_is_treated_alike(both, version, partitions, acks, mutations) -> None:
    frame = mutated(framed(version, [("t", partitions)], acks), mutations, 1.0)
    fast, today = both
    assert fast.serve(frame) == today.serve(frame)
    assert fast.state() == today.state()


@needs_kernel
@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_clients_send_is_usual(both, version, acks) -> None:
    fast, today = both
    for name, index in (("t", 0), ("t", 1), ("stamped", 0)):  # they are in use, each has a segment
        frame = framed(version, [(name, [(index, made("plain"))])], acks)
        assert fast.serve(frame) == today.serve(frame)
        assert fast.was_taken
    for kind in ("plain", "gzip", "lz4", "zstd", "snappy"):
        topics = [("t", [(0, made(kind)), (1, made(kind))]), ("stamped", [(0, made(kind))])]
        frame = framed(version, topics, acks)
        assert fast.serve(frame) == today.serve(frame)
        assert fast.was_taken == (kind != "zstd" or version >= 7)
    assert fast.state() == today.state()


@needs_kernel
def test_one_segment_is_begun_by_a_usual_request_at_most(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(from_bytes, "AT_ONCE_S", float("inf"))
    served = Served(tmp_path, True)
    frame = framed(9, [("t", [(index, made("plain")) for index in range(2)])], -1)
    served.serve(frame)
    assert not served.was_taken, "both segments are empty"
    served.serve(frame)
    assert served.was_taken


class Transaction:
    """Requests of one transactional producer, whose batches have two records each."""

    def __init__(self, producer_id: int, version: int) -> None:
        self.producer_id = producer_id
        self.version = version
        self.epoch = 0

    def batch(self, sequence: int, kind: str = "transactional", epoch: int | None = None) -> bytes:
        producer = (self.producer_id, self.epoch if epoch is None else epoch, sequence)
        data = made(kind, producer)
        assert data is not None
        return data

    def frame(self, *batches: bytes, partitions: tuple[int, ...] = (0,), acks: int = -1) -> bytes:
        topics = [("t", [(index, batch) for index in partitions for batch in batches])]
        return framed(self.version, topics, acks, "tx")

    def marker(self) -> WriteMarker:
        data = build_end_txn_marker(
            committed=True,
            coordinator_epoch=0,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            timestamp_ms=NOW_MS,
        )
        return WriteMarker(RecordBatch.parse(bytearray(data)), 0, 0, lambda result: None, NOW_MS)


def test_batches_of_a_transaction_in_pieces_are_appended_as_they_were_sent(
    both, monkeypatch
) -> None:
    monkeypatch.setattr(
        "fencepost.runtime.requests.produce.AT_ONCE_S", -1.0
    )  # each behind the first is a piece
    txn = Transaction(next(TRANSACTIONAL_IDS), 9)
    sent = txn.batch(0)
    served_alike(both, txn.frame(sent, partitions=(0, 1)))
    for index in (0, 1):
        _, appended = all_of(both[1].node.replicas.hosted["t", index].log)[-1]
        assert bytes(appended)[CHECKED_FROM:] == sent[CHECKED_FROM:]


def served_alike(both: list[Served], frame: bytes) -> bool:
    """Serve a request both ways; whether it was usual."""
    fast, today = both
    assert fast.serve(frame) == today.serve(frame)
    assert fast.state() == today.state()
    return fast.was_taken


TRANSACTIONAL_IDS = count(1000)


@needs_kernel
@pytest.mark.parametrize("version", range(3, 14))
def test_a_transaction_is_usual_from_its_second_request_on(both, version) -> None:
    for served in both:
        served.verifies = True
    txn = Transaction(next(TRANSACTIONAL_IDS), version)
    asked = len(both[0].asked)
    assert not served_alike(both, txn.frame(txn.batch(0), partitions=(0, 1)))
    assert served_alike(both, txn.frame(txn.batch(2), partitions=(0, 1)))
    assert served_alike(both, txn.frame(txn.batch(4), txn.batch(6), acks=1))
    assert served_alike(both, txn.frame(txn.batch(6), acks=0)), "again"
    assert served_alike(both, txn.frame(txn.batch(30))), "a gap: the machine refuses it"
    assert not served_alike(both, txn.frame(txn.batch(8, epoch=1)))
    assert len(both[0].asked) == asked + 2, "the first, and the one of another epoch"
    for served in both:
        for index in (0, 1):
            served.node.driver.feed(f"t-{index}", txn.marker())
    assert not served_alike(both, txn.frame(txn.batch(8))), "the transaction has ended"


@needs_kernel
def test_what_is_not_one_transaction_is_unusual(both) -> None:
    for served in both:
        served.verifies = False
    txn = Transaction(next(TRANSACTIONAL_IDS), 12)
    served_alike(both, txn.frame(txn.batch(0)))
    other = Transaction(txn.producer_id, 12)
    other.epoch = 1
    for frame in (
        txn.frame(txn.batch(2), txn.batch(4, "plain")),
        txn.frame(txn.batch(2, "plain")),
        txn.frame(txn.batch(2, "gzip")),
        framed(12, [("t", [(0, txn.batch(2, "transactional gzip"))])]),
        txn.frame(txn.batch(2), other.batch(4)),
        txn.frame(txn.batch(2), partitions=(0, 1)),
        framed(12, [("t", [(0, txn.batch(2))])]),
        txn.frame(txn.batch(2)).replace(b"\x03tx", b"\x03t\xff"),
    ):
        assert not served_alike(both, frame)
    assert served_alike(both, txn.frame(txn.batch(2, "transactional gzip")))


@needs_kernel
@settings(max_examples=20, deadline=None)
@given(
    version=st.integers(3, 13),
    verifies=st.booleans(),
    requests=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(
                st.tuples(
                    st.integers(0, 1),
                    st.sampled_from(["transactional"] * 8 + ["plain", "crc", "control"]),
                    st.sampled_from([0, 0, 0, -2, 2]),
                ),
                min_size=1,
                max_size=3,
            ),
            st.booleans(),
        ),
        max_size=6,
    ),
)
def test_transactions_are_treated_alike(both, version, verifies, requests) -> None:
    """Batches of a transaction, among others, with epochs and sequences right or wrong."""
    for served in both:
        served.verifies = verifies
    txn = Transaction(next(TRANSACTIONAL_IDS), version)
    following = [0, 0]
    for epoch, batches, ends in requests:
        txn.epoch = max(txn.epoch, epoch)
        sent = []
        for index, kind, off_by in batches:
            sent.append((index, txn.batch(max(following[index] + off_by, 0), kind, epoch)))
            following[index] += 2 if off_by == 0 else 0
        event(f"taken: {served_alike(both, framed(version, [('t', sent)], -1, 'tx'))}")
        for served in both if ends else ():
            served.node.driver.feed("t-0", txn.marker())


@needs_kernel
@pytest.mark.parametrize(
    "frame",
    [
        framed(6, [("t", [(0, made("zstd"))])]),
        framed(9, []),
        framed(9, [("t", [])]),
        framed(9, [("t", [(0, made("plain"))])], acks=2),
        framed(9, [("t", [(0, made("plain"))])], transactional_id="tx"),
        framed(9, [("t", [(0, made("plain"))])]) + b"\0",
        framed(9, [("t", [(0, made("plain")), (9, made("plain"))])]),
        framed(13, [("unknown", [(0, made("plain"))])]),
        framed(9, [("__consumer_offsets", [(0, made("plain"))])]),
        framed(9, [("gzip", [(0, made("plain"))])]),
        *(framed(9, [("t", [(0, made("plain")), (0, made(kind))])]) for kind in KINDS[8:]),
        framed(9, [("compacted", [(0, made("no key"))])]),
        framed(9, [("bounded", [(0, made("old"))])]),
        framed(9, [("small", [(0, made("plain", count=20))])]),
    ],
)
def test_what_is_unusual_goes_the_other_way_as_a_whole(both, frame) -> None:
    fast, today = both
    before = fast.node.replicas.hosted["t", 0].log.end_offset
    taken = produce_from_bytes(
        PendingRequest(Caller(), SimpleNamespace(), frame[3], 7),  # type: ignore[arg-type]
        memoryview(bytearray(frame)),
        read_request_header(frame)[1],
        **fast.parts,
    )
    assert not taken
    fast.appends.settle()
    assert fast.node.replicas.hosted["t", 0].log.end_offset == before
    assert fast.serve(frame) == today.serve(frame)


@needs_kernel
def test_what_takes_long_is_done_in_pieces(both, monkeypatch) -> None:
    monkeypatch.setattr(from_bytes, "AT_ONCE_S", -1.0)
    fast, today = both
    for batches, is_usual in ((1, True), (2, False)):
        frame = framed(9, [("t", [(0, made("plain"))] * batches)])
        assert fast.serve(frame) == today.serve(frame)
        assert fast.was_taken == is_usual


def ruled(both: list[Served], monkeypatch: pytest.MonkeyPatch) -> list[Rules]:
    """Each node has an authorizer from now on, which refuses nothing yet."""
    rules = [Rules() for _ in both]
    for served, one in zip(both, rules, strict=True):
        monkeypatch.setattr(served.node.partitions.access, "authorizer", one)
    return rules


def refused_alike(both: list[Served], frame: bytes, version: int) -> list[int]:
    """Serve a request both ways, which appends nothing; the error codes of its answer."""
    before = both[0].node.replicas.hosted["t", 0].log.end_offset
    answers = [served.serve(frame) for served in both]
    assert answers[0] == answers[1] and both[0].state() == both[1].state()
    assert both[0].node.replicas.hosted["t", 0].log.end_offset == before
    answer = answers[0]
    assert isinstance(answer, bytes)
    return list(errors_in(decode_response(ProduceResponse, version, answer[4:])[1]))


@needs_kernel
@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_who_may_not_write_to_a_topic_is_refused(both, monkeypatch, version) -> None:
    """A request that names another partition of it, too, or that is of a client that could write
    before, is refused as well."""
    rules = ruled(both, monkeypatch)
    frame = framed(version, [("t", [(0, made("plain"))])])
    assert served_alike(both, frame), "it may"
    assert all(one.asked == one.logged == {WRITE_TOPIC} for one in rules)
    rules = ruled(both, monkeypatch)
    for one in rules:
        one.refused.add(WRITE_TOPIC)
    refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert refused_alike(both, frame, version) == [refusal]
    of_two = framed(version, [("t", [(0, made("plain")), (1, made("gzip"))])])
    assert refused_alike(both, of_two, version) == [refusal, refusal]
    assert not both[0].was_taken
    assert all(one.logged == {WRITE_TOPIC} for one in rules), "the refusal is recorded"


@needs_kernel
@pytest.mark.parametrize("version", [3, 9, 12])
def test_who_may_not_use_a_transactional_id_is_refused(both, monkeypatch, version) -> None:
    for served in both:
        served.verifies = True
    txn = Transaction(next(TRANSACTIONAL_IDS), version)
    served_alike(both, txn.frame(txn.batch(0)))
    rules = ruled(both, monkeypatch)
    assert served_alike(both, txn.frame(txn.batch(2))), "the transaction is open, and it may"
    for one in rules:
        one.refused.add(WRITE_TRANSACTIONAL_ID)
    refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused_alike(both, txn.frame(txn.batch(4)), version) == [refusal]
    assert not both[0].was_taken
    for one in rules:
        one.refused.clear()
    assert served_alike(both, txn.frame(txn.batch(4)))


@needs_kernel
def test_an_error_of_the_machine_is_told_with_who_leads(both) -> None:
    for version in (3, 7, 8, 9, 10, 13):
        outcomes = []
        for served in both:
            hosted = served.node.replicas.hosted["t", 1]
            served.node.follow(hosted, hosted.machine.leader_epoch + 1)
            topics = [("t", [(0, made("plain")), (1, made("plain"))])]
            outcomes.append(served.serve(framed(version, topics)))
            outcomes.append(served.serve(framed(version, topics, acks=0)))
            served.node.lead(hosted, hosted.machine.leader_epoch + 1)
        assert outcomes[:2] == outcomes[2:]
        assert "NOT_LEADER_OR_FOLLOWER" in str(outcomes[1])
        assert both[0].state() == both[1].state()


def test_without_the_kernel_nothing_is_usual(both, monkeypatch) -> None:
    monkeypatch.setattr(backend, "produce_kernel", None)
    for served in both:
        served.serve(framed(9, [("t", [(0, made("plain"))])]))
        assert not served.was_taken


@needs_kernel
def test_every_cut_of_a_request_is_unusual(both) -> None:
    kernel: Any = backend.produce_kernel
    for version in (3, 9, 13):
        topics = [("t", [(0, made("plain")), (1, b"")]), ("small", [])]
        frame = framed(version, topics, transactional_id="tx")
        start = read_request_header(frame)[1]
        assert kernel.read_request(frame, start, version) is not None
        for end in range(len(frame)):
            assert kernel.read_request(frame[:end], min(start, end), version) is None


@needs_kernel
@pytest.mark.parametrize("kind", ["last offset above", "last offset below", "count"])
def test_a_batch_whose_last_offset_is_not_that_of_its_last_record_is_unusual(kind) -> None:
    """Offsets would be given to no record, or one to two of them."""
    kernel: Any = backend.produce_kernel
    batch = made(kind)
    assert batch is not None
    rules = ProduceRules(1 << 20)
    assert kernel.check_batch(BatchHeader, batch, 0, len(batch), rules, NOW_MS, False) is None


@needs_kernel
@pytest.mark.parametrize(
    ("last_byte", "is_usual"), [(0x00, True), (0x10, False), (0x20, False), (0x7F, False)]
)
def test_a_length_of_more_than_32_bits_is_unusual(last_byte, is_usual) -> None:
    """Four bytes have 28 bits of it, so that four are left for the fifth."""
    kernel: Any = backend.produce_kernel
    frame = framed(9, [("t", [(0, made("plain"))])])
    start = read_request_header(frame)[1]
    (_, _, _, topics) = kernel.read_request(frame, start, 9)
    ((_, ((_, at, size),)),) = topics
    told = bytes([0x80 | (size + 1) & 0x7F, 0x80 | (size + 1) >> 7, 0x80, 0x80, last_byte])
    length = frame[:at].rindex(bytes([0x80 | (size + 1) & 0x7F, (size + 1) >> 7]))
    assert length == at - 2
    longer = frame[:length] + told + frame[at:]
    found = kernel.read_request(longer, start, 9)
    assert (found is not None) is is_usual
    if is_usual:
        assert found[3] == [(b"t", [(0, at + 3, size)])]


@needs_kernel
def test_no_byte_behind_a_frame_is_of_a_batch() -> None:
    """Python keeps a zero behind all bytes, which is what a record without headers ends with."""
    kernel: Any = backend.produce_kernel
    batch, rules = bytes(build_batch([(b"k", b"v")], timestamp_ms=NOW_MS)), ProduceRules(1 << 20)
    assert batch[-1] == 0
    for frame, is_whole in ((batch, True), (batch[:-1], False)):
        found = kernel.check_batch(BatchHeader, frame, 0, len(batch), rules, NOW_MS, False)
        assert (found is not None) is is_whole


@needs_kernel
@pytest.mark.parametrize("bound", ["max_batch_bytes", "segment_bytes"])
@pytest.mark.parametrize("more_bytes", [0, 1])
def test_a_batch_is_no_larger_than_may_be_nor_than_a_segment(bound, more_bytes) -> None:
    kernel: Any = backend.produce_kernel
    batch = made("plain")
    assert batch is not None
    rules = ProduceRules(1 << 20)._replace(**{bound: len(batch) - more_bytes})
    found = kernel.check_batch(BatchHeader, batch, 0, len(batch), rules, NOW_MS, False)
    assert (found is not None) is (more_bytes == 0)


@needs_kernel
@pytest.mark.parametrize(
    ("partitions", "is_usual"),
    [([1000], True), ([1001], False), ([600, 400], True), ([600, 401], False)],
)
def test_a_request_of_very_many_partitions_is_unusual(partitions, is_usual) -> None:
    kernel: Any = backend.produce_kernel
    frame = framed(9, [("t", [(0, b"")] * count) for count in partitions])
    found = kernel.read_request(frame, read_request_header(frame)[1], 9)
    assert (found is not None) is is_usual


@needs_kernel
def test_the_kernel_checks_its_arguments() -> None:
    kernel: Any = backend.produce_kernel
    batch = made("plain")
    assert batch is not None
    rules = ProduceRules(1 << 20)
    assert (
        kernel.check_batch(BatchHeader, batch, 0, len(batch), rules, NOW_MS, False).records_count
        == 2
    )
    for at, size in [(-1, 70), (1, len(batch)), (0, -1), (len(batch) + 9, 1), (0, HEADER_BYTES)]:
        assert kernel.check_batch(BatchHeader, batch, at, size, rules, NOW_MS, False) is None
    assert kernel.read_request(b"", 0, 9) is None
    assert kernel.read_request(b"\0", 5, 9) is None
    with pytest.raises(ValueError, match="2 results for 1"):
        kernel.answer(9, 1, [(b"t", [(0, 0, 0)])], [(0, 0, 0), (0, 0, 0)])
