"""The listener at a real session: log lines and Prometheus text, of either format."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from ..waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


def produce(cluster: Cluster, topic: str, count: int) -> None:
    with Producer(cluster) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def values(text: str, name: str) -> dict[str, float]:
    """A gauge by partition."""
    return {
        sample.labels["partition"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"fencepost_spark_{name}"
    }


def test_a_running_query_is_reported(
    spark: Any,
    cluster: Cluster,
    served: str,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    from fencepost.spark.listener import LagListener

    Admin(cluster).create_topic(topic, 2)
    Admin(cluster).wait_for_topic(topic)
    produce(cluster, topic, 20)
    caplog.set_level(logging.INFO, logger="fencepost.spark.lag")
    textfile = tmp_path / "lag.prom"
    listener = LagListener({"bootstrap.servers": served}, interval_s=0.1, port=0, textfile=textfile)
    spark.streams.addListener(listener)
    rows = (
        spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", served)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )

    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics") as answer:
            return answer.read().decode()

    query = (
        rows.load()
        .writeStream.format("noop")
        .queryName("one-batch")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        # One batch, and then it stays behind: triggers are at whole multiples since 1970.
        .trigger(processingTime="1000000 hours")
        .start()
    )
    try:
        while not query.recentProgress:  # the first batch starts processes; the test has a deadline
            query.awaitTermination(1)
        eventually(lambda: values(scrape(), "records_behind") == {"0": 0.0, "1": 0.0})
        produce(cluster, topic, 14)  # no batch runs, and yet it is seen
        eventually(lambda: values(scrape(), "records_behind") == {"0": 7.0, "1": 7.0})
        produce(cluster, topic, 20)
        eventually(lambda: values(scrape(), "records_behind") == {"0": 17.0, "1": 17.0})
        assert all(age >= 0 for age in values(scrape(), "oldest_unread_age_seconds").values())
        assert min(values(scrape(), "bytes_behind").values()) > 0
        eventually(lambda: values(textfile.read_text(), "offset") == {"0": 10.0, "1": 10.0})
    finally:
        query.stop()
        eventually(lambda: "(ended)" in caplog.text)
        spark.streams.removeListener(listener)
        listener.close()
    assert "query one-batch batch 0: 14 records behind in 2 partitions (about " in caplog.text


def test_the_jars_format_without_a_cluster(caplog: pytest.LogCaptureFixture):
    from fencepost.spark.listener import LagListener

    class Event:
        class progress:  # noqa: N801
            json = (
                '{"id": "i", "name": null, "batchId": 7, "sources": [{"description": '
                '"KafkaV2[Subscribe[t]]", "startOffset": {"t": {"0": 1}}, "endOffset": '
                '{"t": {"0": 4}}, "latestOffset": {"t": {"0": 9}}}]}'
            )

    class Broken:
        class progress:  # noqa: N801
            json = "[]"

    caplog.set_level(logging.INFO, logger="fencepost.spark.lag")
    listener = LagListener(interval_s=3600)
    listener.onQueryProgress(Event)
    listener.onQueryProgress(Broken)
    listener.close()
    assert "query i batch 7: 5 records behind in 1 partitions, t-0 5" in caplog.text
    assert "a progress report cannot be read" in caplog.text


def test_a_cluster_that_does_not_answer_costs_what_only_it_knows(
    caplog: pytest.LogCaptureFixture,
):
    from fencepost.spark.listener import LagListener

    from ..ports import address_of, refusing_port

    class Event:
        class progress:  # noqa: N801
            json = (
                '{"id": "i", "batchId": 7, "sources": '
                '[{"endOffset": {"t": {"0": 4}}, "latestOffset": {"t": {"0": 9}}}]}'
            )

    caplog.set_level(logging.INFO, logger="fencepost.spark.lag")
    with refusing_port() as held:
        properties = {"bootstrap.servers": address_of(held), "default.api.timeout.ms": 200,
                      "request.timeout.ms": 200}  # fmt: skip
        listener = LagListener(properties, interval_s=3600)
        listener.onQueryProgress(Event)
        listener.close()
    assert "query i: cannot read its lag from the cluster" in caplog.text
    assert "query i batch 7: 5 records behind" in caplog.text
