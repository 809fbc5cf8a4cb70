"""Producing under faults: everything acknowledged is in the log exactly once and in order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.batch.header import read_header
from fencepost.batch.records import read_records
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.errors import (
    ClientError,
    DeliveryFailed,
    UnknownTopic,
    UnsupportedApi,
)
from fencepost.client.producer import Producer
from fencepost.wire.errors import ErrorCode

from .fake_cluster import DROP, DROP_AFTER, AppendedAndAnswered, FakeCluster
from .records import batch


def logged(fake: FakeCluster, topic: str = "t", partition: int = 0) -> list[bytes]:
    return [
        record.value or b""
        for stored in fake.partition(topic, partition).batches
        for record in read_records(stored)
    ]


def test_records_arrive_once_and_in_order(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    with Producer(connect(fake, batch_size=200)) as producer:
        sent = [producer.send("t", b"%d" % n, timestamp_ms=n) for n in range(500)]
    assert [delivery.result() for delivery in sent] == list(range(500))
    assert logged(fake) == [b"%d" % n for n in range(500)]
    stored = [record for b in fake.partition("t").batches for record in read_records(b)]
    assert [record.timestamp_ms for record in stored] == list(range(500))


@pytest.mark.parametrize("seed", range(12))
def test_no_fault_loses_doubles_or_reorders_anything(seed: int, connect: Any):
    rng = random.Random(seed)
    with FakeCluster(brokers=3) as fake:
        fake.create_topic("t", 3)
        left = [60]

        def fault(broker: int, topic: str, partition: int, header: Any) -> Any:
            if left[0] == 0 or rng.random() > 0.3:
                return None
            left[0] -= 1
            kind = rng.randrange(6)
            if kind == 0:
                fake.partition(topic, partition).elect(rng.randrange(1, 4))
                return None
            if kind == 1:
                return ErrorCode.NOT_ENOUGH_REPLICAS
            return (DROP, DROP_AFTER, DROP_AFTER, ErrorCode.REQUEST_TIMED_OUT)[kind - 2]

        fake.fault = fault
        with Producer(connect(fake, batch_size=150)) as producer:
            sent = [
                producer.send("t", b"%d" % n, partition=n % 3, timestamp_ms=1) for n in range(600)
            ]
        assert left[0] < 60
        for partition in range(3):
            expected = [b"%d" % n for n in range(partition, 600, 3)]
            assert logged(fake, "t", partition) == expected, f"seed {seed}"
        # Offsets are told even when an answer was lost and the batch was recognised again.
        assert [delivery.result() for delivery in sent] == [n // 3 for n in range(600)]


def test_a_refused_batch_fails_alone_when_nothing_was_behind_it(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    refused = [1]

    def fault(broker: int, topic: str, partition: int, header: Any) -> Any:
        return ErrorCode.MESSAGE_TOO_LARGE if header.base_sequence == 2 and refused.pop() else None

    fake.fault = fault
    producer = BatchProducer(connect(fake))
    for values in ((b"a", b"b"), (b"c",)):
        last = producer.send_batch("t", 0, batch(*values))
        if values == (b"a", b"b"):
            producer.flush()
    with pytest.raises(DeliveryFailed, match=r"t-0 at .*MESSAGE_TOO_LARGE") as caught:
        producer.flush()
    assert last.error is caught.value
    assert not caught.value.in_doubt
    producer.send_batch("t", 0, batch(b"d"))
    producer.flush()  # the failure was told once
    assert logged(fake) == [b"a", b"b", b"d"]
    assert fake.partition("t").producers[1001][0] == 1  # under a new epoch


def test_a_batch_the_broker_has_already_is_delivered(fake: FakeCluster, connect: Any):
    """What Kafka answers when a batch comes again that it has, but whose offset it has not."""
    fake.create_topic("t")
    answers = [None, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, DROP_AFTER]
    fake.fault = lambda *_: answers.pop() if answers else None
    with BatchProducer(connect(fake)) as producer:
        repeated = producer.send_batch("t", 0, batch(b"a"))
        producer.flush()
        following = producer.send_batch("t", 0, batch(b"b"))
    assert answers == []
    assert repeated.done and repeated.error is None and repeated.result() == -1
    assert following.result() == 1
    assert logged(fake) == [b"a", b"b"]
    assert fake.partition("t").producers[1001][0] == 0  # under the same epoch


def test_a_batch_that_cannot_be_delivered_in_time_fails(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fake.fault = lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS
    producer = BatchProducer(connect(fake, delivery_timeout_ms=100))
    delivery = producer.send_batch("t", 0, batch(b"a"))
    with pytest.raises(DeliveryFailed, match="NOT_ENOUGH_REPLICAS") as caught:
        producer.flush()
    assert delivery.done
    assert not caught.value.in_doubt


def test_an_error_that_nobody_knows_leaves_a_batch_in_doubt(fake: FakeCluster, connect: Any):
    """S77 (KAFKA-14034): it may be in the log, so it is not sent again under other sequences."""
    fake.create_topic("t")
    answers: list[Any] = [AppendedAndAnswered(9_999)]
    fake.fault = lambda *_: answers.pop() if answers else None
    producer = BatchProducer(connect(fake))
    producer.send_batch("t", 0, batch(b"a"))
    with pytest.raises(DeliveryFailed, match="9999") as caught:
        producer.flush()
    assert caught.value.in_doubt
    producer.send_batch("t", 0, batch(b"b"))
    producer.flush()
    assert logged(fake) == [b"a", b"b"]
    assert fake.partition("t").producers[1001][0] == 1  # under a new epoch


def test_what_is_sent_is_the_producers_own(fake: FakeCluster, connect: Any):
    """S76 (CVE-2026-35554): whoever uses a buffer again changes nothing that is on its way."""
    fake.create_topic("t")
    key, value, header = bytearray(b"key"), bytearray(b"value"), bytearray(b"header")
    producer = Producer(connect(fake, linger_ms=1_000_000))
    producer.send("t", memoryview(value), key, partition=0, headers=[("h", header)])
    for buffer in (key, value, header):
        buffer[:] = b"x" * len(buffer)
    producer.flush()
    (stored,) = fake.partition("t").batches
    (record,) = read_records(stored)
    assert (record.key, record.value) == (b"key", b"value")
    assert list(record.headers) == [("h", b"header")]


def test_a_bytearray_that_is_queued_is_not_taken_again(fake: FakeCluster, connect: Any):
    """S76: it would be stamped for two partitions, and one of them get what is the other's."""
    fake.create_topic("t", 2)
    producer = BatchProducer(connect(fake))
    data = bytearray(batch(b"a"))
    fake.fault = lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS
    producer.send_batch("t", 0, data)
    with pytest.raises(ClientError, match="still queued"):
        producer.send_batch("t", 1, data)
    fake.fault = lambda *_: None
    producer.flush()
    producer.send_batch("t", 1, data)  # it is decided: whoever made it may use it again
    producer.flush()
    assert logged(fake) == logged(fake, "t", 1) == [b"a"]


def test_lost_answers_leave_a_batch_in_doubt(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fake.fault = lambda *_: DROP
    producer = BatchProducer(connect(fake, delivery_timeout_ms=100))
    producer.send_batch("t", 0, batch(b"a"))
    with pytest.raises(DeliveryFailed) as caught:
        producer.flush()
    assert caught.value.in_doubt


def test_a_broker_that_never_answers_is_given_up_on(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    silent = [True]
    append = fake._on_produce

    def on_produce(node: int, request: Any, version: int) -> Any:
        return b"" if silent and silent.pop() else append(node, request, version)

    fake._on_produce = on_produce  # type: ignore[method-assign]
    with BatchProducer(connect(fake, request_timeout_ms=200)) as producer:
        delivery = producer.send_batch("t", 0, batch(b"a"))
    assert delivery.result() == 0


def test_unknown_topics_fail_soon(fake: FakeCluster, connect: Any):
    producer = BatchProducer(connect(fake))
    producer.send_batch("nope", 0, batch(b"a"))
    with pytest.raises(DeliveryFailed, match="no such topic"):
        producer.flush()
    with pytest.raises(UnknownTopic):
        Producer(connect(fake)).send("nope", b"a")


def test_what_is_no_single_batch_is_refused(fake: FakeCluster, connect: Any):
    producer = BatchProducer(connect(fake))
    with pytest.raises(ClientError, match="exactly one batch"):
        producer.send_batch("t", 0, batch(b"a") + batch(b"b"))
    with pytest.raises(ClientError, match="exactly one batch"):
        producer.send_batch("t", 0, batch(b"a")[:-1])


def test_a_full_buffer_makes_senders_wait(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    one = batch(b"x" * 1000)
    producer = BatchProducer(connect(fake, buffer_memory=5 * len(one)))
    most = 0
    for _ in range(50):
        producer.send_batch("t", 0, one)
        most = max(most, producer._core.queued_bytes)
    producer.flush()
    assert most <= 5 * len(one)
    assert producer._core.queued_bytes == 0
    assert len(logged(fake)) == 50


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_1(fake: FakeCluster, connect: Any, acks: int):
    fake.create_topic("t")
    cluster = connect(fake, acks=acks, enable_idempotence=False)
    with Producer(cluster) as producer:
        delivery = producer.send("t", b"a")
    cluster.describe(["t"])  # answered after the produce request on the same connection
    assert delivery.result() == (0 if acks else -1)
    assert logged(fake) == [b"a"]
    assert fake.partition("t").producers == {}


def test_clusters_without_producer_ids_need_idempotence_switched_off(
    fake: FakeCluster, connect: Any
):
    fake.create_topic("t")
    for broker in fake.brokers.values():
        broker.versions = {k: v for k, v in broker.versions.items() if k != 22}
    producer = BatchProducer(connect(fake))
    producer.send_batch("t", 0, batch(b"a"))
    with pytest.raises(DeliveryFailed, match=r"enable\.idempotence=false"):
        producer.flush()
    assert issubclass(UnsupportedApi, ClientError)


def test_old_versions_name_topics_instead_of_ids(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    for broker in fake.brokers.values():
        broker.versions = {**broker.versions, 0: (3, 7), 3: (0, 7)}
    with Producer(connect(fake)) as producer:
        producer.send("t", b"a")
    assert logged(fake) == [b"a"]


def test_keys_choose_partitions_and_keyless_records_stick(fake: FakeCluster, connect: Any):
    fake.create_topic("t", 5)
    with Producer(connect(fake)) as producer:
        keyed = {producer.send("t", b"v", b"same").partition for _ in range(20)}
        keyless = {producer.send("t", b"v").partition for _ in range(20)}
        with pytest.raises(UnknownTopic, match="5 partitions"):
            producer.send("t", b"v", partition=5)
    assert len(keyed) == 1
    assert len(keyless) == 1


def test_records_beyond_the_request_size_are_refused(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    producer = Producer(connect(fake, max_request_size=1000))
    with pytest.raises(ClientError, match=r"max\.request\.size"):
        producer.send("t", b"x" * 1001)


def test_leaving_by_an_exception_does_not_flush(fake: FakeCluster, connect: Any):
    fake.create_topic("t")

    def leave() -> None:
        with Producer(connect(fake)) as producer:
            producer.send("t", b"a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        leave()
    assert logged(fake) == []


def test_a_record_that_lingers_is_sent_by_polling_alone(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    cluster = connect(fake, linger_ms=1)
    producer = Producer(cluster)
    assert producer.next_poll_ms() is None
    delivery = producer.send("t", b"value")
    while not delivery.done:
        assert producer.next_poll_ms() is not None
        producer.poll(wait_ms=1)
    assert producer.next_poll_ms() is None
    assert (delivery.result(), producer.acknowledged_count) == (0, 1)


def test_a_record_that_cannot_be_encoded_leaves_no_empty_batch(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    with Producer(connect(fake)) as producer:
        with pytest.raises(OverflowError):
            producer.send("t", b"value", timestamp_ms=1 << 63)
        producer.flush()
        producer.send("t", b"value")
    assert producer.acknowledged_count == 1


def test_a_record_that_cannot_be_encoded_takes_no_other_along(fake: FakeCluster, connect: Any):
    """It would have begun a batch in the place of one that it has no room in."""
    fake.create_topic("t")
    with Producer(connect(fake, max_request_size=1000)) as producer:
        delivery = producer.send("t", b"x" * 800)
        with pytest.raises(TypeError, match="value is bytes or None, not str"):
            producer.send("t", "x" * 800)  # type: ignore[arg-type]
    assert delivery.result() == 0
    assert logged(fake) == [b"x" * 800]


def test_headers_count_towards_the_size_of_a_record(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    producer = Producer(connect(fake, max_request_size=1000))
    with pytest.raises(ClientError, match=r"max\.request\.size"):
        producer.send("t", b"value", headers=[("name", b"x" * 1000)])


def test_a_failure_shows_without_a_flush(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    producer = Producer(connect(fake))
    producer.raise_failure()
    producer.send_batch("gone", 0, batch(b"value"))
    while producer.next_poll_ms() is not None:
        producer.poll(wait_ms=1)
    with pytest.raises(DeliveryFailed):
        producer.raise_failure()
    producer.raise_failure()
    assert producer.acknowledged_count == 0


def test_batches_of_many_partitions_that_are_due_at_once(fake: FakeCluster, connect: Any):
    fake.create_topic("t", partitions=4)
    with Producer(connect(fake, linger_ms=0)) as producer:
        for number in range(4):
            producer.send("t", b"value", partition=number)
    producer = Producer(connect(fake, linger_ms=1_000_000))
    deliveries = [producer.send("t", b"value", partition=number) for number in range(4)]
    for batch_ in producer._accumulator._open.values():
        batch_.opened_at -= 2_000
    producer.flush()
    assert [delivery.result() for delivery in deliveries] == [1] * 4


# -- batches that are too large for the topic -----------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_batches_that_a_topic_does_not_take_go_in_smaller_ones(seed: int, connect: Any):
    """Once, in order, with the offsets of each, whatever else goes wrong."""
    rng = random.Random(seed)
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t", 2)
        limit = rng.randrange(150, 600)
        left = [40 if seed else 0]

        def fault(broker: int, topic: str, partition: int, header: Any) -> Any:
            if left[0] and rng.random() < 0.3:
                left[0] -= 1
                may_append = header.size_bytes <= limit
                lost = DROP_AFTER if may_append else DROP
                return rng.choice([DROP, lost, ErrorCode.NOT_ENOUGH_REPLICAS])
            return ErrorCode.MESSAGE_TOO_LARGE if header.size_bytes > limit else None

        fake.fault = fault
        codec = rng.choice(["none", "lz4"])
        values = [b"%04d" % n + rng.randbytes(rng.randrange(50)) for n in range(600)]
        config = {"batch_size": rng.choice([400, 3_000]), "compression_type": codec}
        with Producer(connect(fake, **config)) as producer:
            sent = [producer.send("t", one, partition=n % 2) for n, one in enumerate(values)]
        for partition in range(2):
            assert logged(fake, "t", partition) == values[partition::2], f"seed {seed}"
            stored = fake.partition("t", partition).batches
            assert max(map(len, stored)) <= limit
            assert len({read_header(one).compression for one in stored}) == 1
        assert [delivery.result() for delivery in sent] == [n // 2 for n in range(600)]
        assert producer.acknowledged_count == 600


def test_what_was_too_large_once_is_not_tried_again(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    refused: list[int] = []

    def fault(broker: int, topic: str, partition: int, header: Any) -> Any:
        if header.size_bytes <= 1_000:
            return None
        refused.append(header.size_bytes)
        return ErrorCode.MESSAGE_TOO_LARGE

    fake.fault = fault
    with Producer(connect(fake, batch_size=8_000)) as producer:
        for number in range(4_000):
            producer.send("t", b"%d" % number, partition=0)
    assert logged(fake) == [b"%d" % number for number in range(4_000)]
    assert len(refused) <= 8
    assert producer.acknowledged_count == 4_000


def test_a_record_that_alone_is_too_large_fails_by_name(fake: FakeCluster, connect: Any):
    """What is before it in its batch is delivered, and what follows when it is decided."""
    fake.create_topic("t")
    fake.fault = lambda *of: ErrorCode.MESSAGE_TOO_LARGE if of[3].size_bytes > 500 else None
    with Producer(connect(fake, batch_size=10_000)) as producer:
        sent = [
            producer.send("t", b"x" * size, key=b"k%d" % size, partition=0)
            for size in (10, 20, 900, 30, 40)
        ]
        with pytest.raises(DeliveryFailed, match=r"a record \(key b'k900'\) alone takes 9"):
            producer.flush()
        with pytest.raises(DeliveryFailed, match="key b'k900'"):
            sent[2].result()
        assert [one.result() for one in sent[:2]] == [0, 1]
        behind = [one._batch.fate for one in sent[3:]]
        assert all(fate is not None and fate.done for fate in behind)
        producer.send("t", b"later", partition=0)
    values = logged(fake)
    assert values[:2] == [b"x" * 10, b"x" * 20]
    assert values[-1] == b"later"
    assert b"x" * 900 not in values


def test_a_batch_whose_answer_was_lost_is_not_there_twice_for_being_split(
    fake: FakeCluster, connect: Any
):
    """The batch is in the log, of a topic whose limit is lower now: its parts are refused."""
    fake.create_topic("t")
    answers: list[Any] = [None, DROP_AFTER, ErrorCode.MESSAGE_TOO_LARGE]
    fake.fault = lambda *of: answers.pop(0) if answers else None
    with Producer(connect(fake, batch_size=10_000)) as producer:
        producer.send("t", b"first", partition=0)
        producer.flush()
        producer.send("t", b"a", partition=0)
        producer.send("t", b"b", partition=0)
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush()
    assert caught.value.in_doubt
    assert logged(fake) == [b"first", b"a", b"b"]
