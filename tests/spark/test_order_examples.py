"""The jobs of examples/orders, run twice on drawn events and held against plain Python."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from .test_session import reading

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]
EXAMPLES = Path(__file__).parents[2] / "examples" / "orders"
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
Sent = tuple[str, bytes | None, bytes | None]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"orders_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def send(served: str, records: list[Sent]) -> None:
    with Cluster(served) as cluster, Producer(cluster) as producer:
        for topic, key, value in records:
            producer.send(topic, value, key)


def make_topics(served: str, *names: str) -> None:
    with Cluster(served) as cluster:
        for name in names:
            Admin(cluster).create_topic(name, 2)
            Admin(cluster).wait_for_topic(name)


def committed(spark: Any, served: str, topic: str) -> list[Any]:
    options = {"kafka.isolation.level": "read_committed", "includeHeaders": "true"}
    return list(reading(spark.read, served, topic, **options).load().collect())


@pytest.fixture
def empty_batches(spark: Any) -> Iterator[None]:
    """Spark runs a batch without records to close windows, as it does unless told otherwise."""
    name = "spark.sql.streaming.noDataMicroBatches.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    yield
    spark.conf.set(name, before)


def iso(time: dt.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def order(number: int, at: dt.datetime, draw: random.Random) -> dict[str, Any]:
    item, amount = draw.choice("abc"), draw.randrange(1, 100)
    return {"id": number, "item": item, "amount": amount, "at": iso(at)}


def drawn_hour(hour: int, draw: random.Random) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Orders of an hour, the last at its end, and when some of them were paid."""
    begin = START + dt.timedelta(hours=hour)
    orders, paid = [], {}
    for number in range(60):
        at = begin + dt.timedelta(seconds=draw.randrange(3600) if number < 59 else 3599)
        orders.append(order(1000 * hour + number, at, draw))
        if draw.random() < 0.6:
            paid[1000 * hour + number] = iso(at + dt.timedelta(minutes=draw.choice((1, 30, 31))))
    return orders, paid


def as_records(prefix: str, orders: list[dict[str, Any]], paid: dict[int, str]) -> list[Sent]:
    sent: list[Sent] = [
        (f"{prefix}orders", b"%d" % one["id"], json.dumps(one).encode()) for one in orders
    ]
    for number, at in paid.items():
        value = json.dumps({"order_id": number, "paid_at": at}).encode()
        sent.append((f"{prefix}payments", b"%d" % number, value))
    return sent


def expected_revenue(orders: list[dict[str, Any]]) -> Counter[tuple[str, str, int, int]]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in orders:
        groups[one["at"][:16] + ":00.000Z", one["item"]].append(one["amount"])
    return Counter((*key, sum(values), len(values)) for key, values in groups.items())


def expected_paid(
    orders: list[dict[str, Any]], paid: dict[int, str]
) -> Counter[tuple[int, str | None]]:
    rows: Counter[tuple[int, str | None]] = Counter()
    for one in orders:
        at = paid.get(one["id"])
        latest = dt.datetime.fromisoformat(one["at"]) + dt.timedelta(minutes=30)
        is_in_time = at is not None and dt.datetime.fromisoformat(at) <= latest
        rows[one["id"], at if is_in_time else None] += 1
    return rows


@pytest.mark.long
@pytest.mark.usefixtures("empty_batches")
def test_windows_and_a_join_have_each_result_once_over_two_runs(
    spark: Any, served: str, topic: str, tmp_path: Path
):
    prefix = f"{topic}-"
    names = ("orders", "payments", "revenue", "paid-orders")
    make_topics(served, *(f"{prefix}{name}" for name in names))
    job, draw = example("revenue"), random.Random(7)
    source = {"kafka.bootstrap.servers": served}

    first, first_paid = drawn_hour(0, draw)
    broken: Sent = (f"{prefix}orders", b"x", b"{broken")
    send(served, [broken, *as_records(prefix, first, first_paid)])
    job.run(spark, source, str(tmp_path), prefix)

    second, second_paid = drawn_hour(5, draw)
    too_late = order(1, START, draw)  # the first run saw an hour later than that
    tomorrow = START + dt.timedelta(days=1)  # ends every window and every wait for a payment
    closing = as_records(prefix, [order(9999, tomorrow, draw)], {-1: iso(tomorrow)})
    send(served, [*as_records(prefix, [too_late, *second], second_paid), *closing])
    job.run(spark, source, str(tmp_path), prefix)

    sums = [json.loads(row.value) for row in committed(spark, served, f"{prefix}revenue")]
    assert Counter(
        (one["minute"], one["item"], one["amount"], one["orders"]) for one in sums
    ) == expected_revenue([*first, *second])
    rows = [json.loads(row.value) for row in committed(spark, served, f"{prefix}paid-orders")]
    assert Counter((one["id"], one.get("paid_at")) for one in rows) == expected_paid(
        [*first, *second], {**first_paid, **second_paid}
    )


def states(prefix: str, *orders: tuple[int, int, str]) -> list[Sent]:
    return [
        (
            f"{prefix}orders",
            b"%d" % number,
            json.dumps({"id": number, "item": "a", "amount": amount, "status": status}).encode(),
        )
        for number, amount, status in orders
    ]


def test_a_batch_that_fails_behind_its_topics_is_published_once(
    spark: Any, served: str, topic: str, tmp_path: Path
):
    prefix = f"{topic}-"
    make_topics(
        served, *(f"{prefix}{name}" for name in ("orders", "checked-orders", "dead-orders"))
    )
    job, sink = example("checked"), {"kafka.bootstrap.servers": served}
    bad: list[Sent] = [
        (f"{prefix}orders", b"7", b"{broken"),
        (f"{prefix}orders", None, None),
        (f"{prefix}orders", b"8", b'{"id": 8, "amount": -1}'),
        (f"{prefix}orders", b"9", b'{"id": 9}'),
    ]
    good = states(prefix, (1, 10, "new"), (2, 20, "new"), (1, 15, "paid"), (3, 30, "new"))
    send(served, [*good, *bad])
    (tmp_path / "orders").write_text("the table's directory cannot be made")
    with pytest.raises(Exception, match="orders"):
        job.run(spark, sink, str(tmp_path), prefix).awaitTermination()
    assert len(committed(spark, served, f"{prefix}checked-orders")) == len(good)
    (tmp_path / "orders").unlink()
    job.run(spark, sink, str(tmp_path), prefix).awaitTermination()

    written = committed(spark, served, f"{prefix}checked-orders")
    assert Counter(bytes(row.value) for row in written) == Counter(value for _, _, value in good)
    dead = {
        row.value and bytes(row.value): row
        for row in committed(spark, served, f"{prefix}dead-orders")
    }
    assert dead.keys() == {value for _, _, value in bad}
    told = {one.key: bytes(one.value).decode() for one in dead[b'{"id": 9}'].headers}
    assert told["__connect.errors.topic"] == f"{prefix}orders"
    assert told["__connect.errors.exception.message"] == "the order has no amount"
    assert {"__connect.errors.partition", "__connect.errors.offset"} < told.keys()

    send(served, states(prefix, (2, 20, "cancelled"), (3, 35, "new"), (4, 1, "new")))
    job.run(spark, sink, str(tmp_path), prefix).awaitTermination()
    rows = job.table(spark, str(tmp_path)).select("id", "amount", "status").collect()
    assert sorted(map(tuple, rows)) == [(1, 15, "paid"), (3, 35, "new"), (4, 1, "new")]
    assert len(committed(spark, served, f"{prefix}checked-orders")) == len(good) + 3
