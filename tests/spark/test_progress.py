"""From progress reports to lags and rates, and to Prometheus text, without Spark."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.arrow.offsets import StreamOffset
from fencepost.client.metadata import TopicPartition
from fencepost.spark import progress as progress_module, prometheus
from fencepost.spark.lag import PartitionLag
from fencepost.spark.progress import LagTracker, QueryReport, read_progress
from fencepost.spark.prometheus import MetricsServer, prometheus_text, write_textfile

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def document(
    *sources: tuple[object, object], query_id: str = "q", batch: int = 3, name: str | None = "copy"
) -> dict[str, Any]:
    """A report with these end and latest offsets."""
    return {
        "id": query_id,
        "name": name,
        "batchId": batch,
        "sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources],
    }


def look(tracker: LagTracker, now_s: float, *sources: tuple[object, object]) -> QueryReport:
    progress = read_progress(document(*sources))
    tracker.update(progress)
    return tracker.look(progress, now_s, 0, None)


OURS = {"#fencepost": {"t": {"epochs": {"0": 4}, "id": "x"}}, "t": {"0": 5, "1": 9}}


def test_both_formats_and_other_sources():
    latest = {"t": {"0": 8, "1": 9}}
    report = look(
        LagTracker(), 0, (OURS, latest), (json.dumps({"u": {"0": 1}}), None), ({"logOffset": 3}, 1)
    )
    found = {(one.source, one.lag.partition): one.lag for one in report.partitions}
    assert {place: lag.records_behind for place, lag in found.items()} == {
        (0, T0): 3,
        (0, T1): 0,
        (1, TopicPartition("u", 0)): None,
    }
    assert found[0, T0].leader_epoch == 4
    assert str(report) == "query copy batch 3: 3 records behind in 3 partitions, t-0 3"


def test_rates_between_two_looks():
    tracker = LagTracker()
    first = look(tracker, 10, ({"t": {"0": 100}}, {"t": {"0": 100}}))
    assert first.partitions[0].read_per_s is None
    second = look(tracker, 20, ({"t": {"0": 150}}, {"t": {"0": 200}}))
    (one,) = second.partitions
    assert (one.read_per_s, one.arriving_per_s) == (5, 10)
    assert "reads 5.0/s, arriving 10.0/s" in str(second)
    recreated = look(tracker, 30, ({"t": {"0": 0}}, {"t": {"0": 0}}))
    assert (recreated.partitions[0].read_per_s, recreated.partitions[0].arriving_per_s) == (0, 0)


def test_the_cluster_is_asked_for_the_end_of_the_batch():
    asked: list[StreamOffset] = []

    def measure(stored: StreamOffset) -> Mapping[TopicPartition, PartitionLag]:
        asked.append(stored)
        lag = PartitionLag(T0, stored.positions[T0], onward=5, end_offset=9, bytes_behind=400)
        return {T0: replace(lag, oldest_unread_ms=60_000, condition="rewritten")}

    progress = read_progress(document(({"t": {"0": 5}}, None)))
    report = LagTracker().look(progress, 0, 90_000, measure)
    assert asked[0].positions[T0].offset == 5
    assert report.partitions[0].age_s == 30
    assert str(report) == (
        "query copy batch 3: 4 records behind in 1 partitions (about 400 bytes), oldest unread "
        "30.0 s, t-0 4, t-0: rewritten"
    )


def test_a_line_names_the_partitions_furthest_behind():
    ends = {str(n): 0 for n in range(8)}
    latest = {str(n): n for n in range(8)}
    text = str(look(LagTracker(), 0, ({"t": ends}, {"t": latest})))
    assert text.endswith("t-7 7, t-6 6, t-5 5, t-4 4, t-3 3, 2 more")


@pytest.mark.parametrize(
    "broken", [{}, {"sources": 1}, {"sources": [], "id": 1}, document() | {"batchId": "x"}]
)
def test_what_is_no_report(broken: dict[str, Any]):
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_progress(broken)


def test_hostile_offsets_are_no_topics():
    for end in ("[" * 100_000, '{"t":{"0":' + "1" * 5000 + "}}", {"t": {"0": -5}}, {"t": 1}, 7):
        assert read_progress(document((end, None))).sources == {}


def test_queries_that_are_never_said_to_end_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_module, "QUERIES_MAX", 2)
    tracker = LagTracker()
    for number in range(4):
        tracker.update(read_progress(document(({"t": {}}, None), query_id=f"q{number}")))
    assert [one.query_id for one in tracker.queries()] == ["q2", "q3"]
    tracker.forget("q2")
    assert [one.query_id for one in tracker.queries()] == ["q3"]


def test_a_query_without_a_name_goes_by_its_id():
    assert read_progress(document(name=None)).query == "q"


# -- Prometheus ------------------------------------------------------------------------------------


def text() -> bytes:
    report = look(LagTracker(), 0, (OURS, {"t": {"0": 8, "1": 9}}))
    return prometheus_text([report._replace(query='a "name"\n')])


def test_prometheus_reads_the_text():
    samples = {
        (sample.name.removeprefix("fencepost_spark_"), sample.labels.get("partition")): sample
        for family in text_string_to_metric_families(text().decode())
        for sample in family.samples
    }
    assert samples["records_behind", "0"].value == 3
    assert samples["records_behind", "0"].labels == {
        "query": 'a "name"\n',
        "source": "0",
        "topic": "t",
        "partition": "0",
    }
    assert samples["offset", "1"].value == 9
    assert samples["leader_epoch", "0"].value == 4
    assert samples["lost", "0"].value == 0
    assert samples["batch_id", None].value == 3
    assert ("bytes_behind", "0") not in samples


def test_a_textfile_is_whole_or_not_there(tmp_path: Path):
    path = tmp_path / "lag.prom"
    write_textfile(path, b"a 1\n")
    write_textfile(path, b"b 2\n")
    assert path.read_bytes() == b"b 2\n"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="No such file"):
        write_textfile(tmp_path / "missing" / "lag.prom", b"")


def test_the_server_answers_again_after_strange_clients(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prometheus, "REQUEST_TIMEOUT_S", 0.2)
    server = MetricsServer("127.0.0.1", 0)
    server.text = text()
    address = ("127.0.0.1", server.port)
    try:
        with socket.create_connection(address) as silent:
            assert silent.recv(1) == b""  # cut off
        for data in (b"\0" * 70_000, b"POST / HTTP/1.1\r\n\r\n", b"GET\r\n\r\n"):
            with socket.create_connection(address) as strange:
                strange.sendall(data)
                strange.shutdown(socket.SHUT_WR)
        connection = http.client.HTTPConnection(*address, timeout=60)
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, text())
        assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
        connection.close()
    finally:
        server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address).close()
