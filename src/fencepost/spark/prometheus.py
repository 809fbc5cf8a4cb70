"""Lags and counters of queries as Prometheus text: served, or in a file for node_exporter.

The server is for a scraper on the same machine (it binds to loopback unless told otherwise). It
answers one connection after the other and gives each `REQUEST_TIMEOUT_S` in all, so a stranger can
hold up scrapes for that long and take nothing else. Whatever is asked for, the answer is the same.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fencepost.spark.counters import QueryCounters
from fencepost.spark.progress import PartitionReport, QueryReport

REQUEST_TIMEOUT_S: Final = 5.0
_LABELS: Final = ("query", "source", "topic", "partition")
_GAUGES: Final = (
    ("offset", "Next offset that the query reads."),
    ("log_end_offset", "Where the partition's log ends."),
    ("records_behind", "Offsets between the two, or from where it goes on after a loss."),
    ("bytes_behind", "The same in bytes, estimated from the size of the leader's log."),
    ("oldest_unread_age_seconds", "Time since the timestamp of the oldest unread record."),
    ("records_read_per_second", "Offsets the query moved on since the look before."),
    ("records_arriving_per_second", "Offsets the log grew since the look before."),
    ("leader_epoch", "Leader epoch of the partition."),
    ("lost", "1 where records that the query counted on are gone or rewritten."),
)


def _values(one: PartitionReport) -> tuple[float | None, ...]:
    """In the order of _GAUGES; None is left out."""
    lag = one.lag
    return (
        lag.position.offset,
        lag.end_offset,
        lag.records_behind,
        lag.bytes_behind,
        one.age_s,
        one.read_per_s,
        one.arriving_per_s,
        lag.leader_epoch,
        int(lag.loss is not None),
    )


def _counter_families(counters: Iterable[QueryCounters]) -> Iterable[Metric]:
    """What queries have read, written and lost."""
    offsets = CounterMetricFamily(
        "fencepost_spark_offsets_read", "Offsets that batches went through.",
        labels=("query", "source", "topic"),
    )  # fmt: skip
    rows = CounterMetricFamily(
        "fencepost_spark_rows_read", "Rows that a source gave.", labels=("query", "source")
    )
    written = CounterMetricFamily(
        "fencepost_spark_rows_written", "Rows that the sink took, if it says so.", labels=("query",)
    )
    losses = CounterMetricFamily(
        "fencepost_spark_losses", "Times that records were gone or rewritten.", labels=_LABELS
    )
    for one in counters:
        for (source, topic), count in sorted(one.offsets_read.items()):
            offsets.add_metric((one.query, str(source), topic), count)
        for source, count in sorted(one.rows_read.items()):
            rows.add_metric((one.query, str(source)), count)
        if one.rows_written is not None:
            written.add_metric((one.query,), one.rows_written)
        for (source, where), count in sorted(one.losses.items()):
            labels = (one.query, str(source), where.topic, str(where.partition))
            losses.add_metric(labels, count)
    return offsets, rows, written, losses


class _Reports(Collector):
    def __init__(self, reports: Iterable[QueryReport], counters: Iterable[QueryCounters]) -> None:
        self._reports, self._counters = reports, counters

    def collect(self) -> Iterable[Metric]:
        """A family per gauge, the number of each query's last batch, and the counters."""
        families = [
            GaugeMetricFamily(f"fencepost_spark_{name}", text, labels=_LABELS)
            for name, text in _GAUGES
        ]
        batches = GaugeMetricFamily(
            "fencepost_spark_batch_id", "Number of the last batch.", labels=("query",)
        )
        for report in self._reports:
            batches.add_metric((report.query,), report.batch_id)
            for one in report.partitions:
                topic, partition = one.lag.partition
                labels = (report.query, str(one.source), topic, str(partition))
                for family, value in zip(families, _values(one), strict=True):
                    if value is not None:
                        family.add_metric(labels, value)
        return [*families, batches, *_counter_families(self._counters)]


def prometheus_text(
    reports: Iterable[QueryReport], counters: Iterable[QueryCounters] = ()
) -> bytes:
    """Reports and counters in Prometheus' text format 0.0.4. A query's name goes into a label as it
    is."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reports(reports, counters))
    return generate_latest(registry)


def write_textfile(path: Path, text: bytes) -> None:
    """Put the text there at once, so that no reader sees half of it. OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class MetricsServer:
    """Serves the text last given to it, in a thread, until `close`. OSError when it cannot bind."""

    def __init__(self, host: str, port: int) -> None:
        self.text = b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                self.timer = threading.Timer(REQUEST_TIMEOUT_S, _cut, [self.request])
                self.timer.daemon = True
                self.timer.start()
                super().setup()

            def finish(self) -> None:
                self.timer.cancel()
                super().finish()

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
                self.send_header("Content-Length", str(len(outer.text)))
                self.end_headers()
                self.wfile.write(outer.text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(HTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # the client has left, or was cut off

        self._server = Server((host, port), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="fencepost-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)
