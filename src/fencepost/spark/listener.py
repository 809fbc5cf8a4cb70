"""`LagListener`: tells how far every streaming query of a session is behind, and what it has read.

    from fencepost.spark.listener import LagListener

    listener = LagListener({"bootstrap.servers": "127.0.0.1:9092"}, port=9405)
    spark.streams.addListener(listener)

It works for queries that read topics with `.format("fencepost")` and with Spark's own connector.
Every `interval_s` it logs a line per query (logger `fencepost.spark.lag`, level INFO), and hands
out Prometheus text, if told where. With the cluster's properties it asks the cluster each time,
also while a batch runs for long; without, it goes by Spark's progress reports, which know neither
bytes nor ages, nor what has arrived since.

Spark calls listeners one after the other for all queries, so what takes time is done in a thread.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from fencepost.arrow.arguments import archive_of
from fencepost.arrow.errors import ArchiveReadError
from fencepost.arrow.offsets import StreamOffset
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.spark.counters import Counters
from fencepost.spark.lag import CLIENT_PROPERTIES, PartitionLag, measure_lag
from fencepost.spark.progress import LagTracker, Measure, Progress, QueryReport, read_progress
from fencepost.spark.prometheus import MetricsServer, prometheus_text, write_textfile

log = logging.getLogger("fencepost.spark.lag")

INTERVAL_S: Final = 10.0
ENDED_MAX: Final = 1000
API_TIMEOUT_MS: Final = 10_000
"""For one question; a cluster that does not answer must not stop reports of other queries long."""


class LagListener(StreamingQueryListener):
    """See the module. `properties` are client properties of the cluster under Kafka's names.

    `port` (0: any; see the attribute `port`) and `textfile` say where Prometheus text goes; by
    default nowhere. With `archive`, and `archive_options` for its store, what the archive has of
    offsets that brokers have deleted is no loss, as for queries with that option. Raises
    ConfigError for wrong properties, ArgumentError for an archive that is none, OSError when `port`
    is taken.
    `close` ends it, with a last report.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        interval_s: float = INTERVAL_S,
        port: int | None = None,
        host: str = "127.0.0.1",
        textfile: str | Path | None = None,
        archive: str | Path | None = None,
        archive_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not interval_s > 0:
            raise ValueError(f"interval_s={interval_s}: must be more than 0")
        self._config = None if properties is None else _config(properties)
        self._archive = archive_of(archive, archive_options)
        self._cluster: Cluster | None = None
        self._textfile = None if textfile is None else Path(textfile)
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._tracker = LagTracker()
        self._counters = Counters()
        self._ended: deque[Progress] = deque(maxlen=ENDED_MAX)
        self._closing = threading.Event()
        self._server = None if port is None else MetricsServer(host, port)
        self.port = None if self._server is None else self._server.port
        self._thread = threading.Thread(target=self._run, name="fencepost-lag", daemon=True)
        self._thread.start()

    # -- Spark's calls ---------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done."""
        try:
            progress = read_progress(json.loads(event.progress.json))
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a progress report cannot be read: %r", error)
            return
        if progress.sources:
            with self._lock:
                self._tracker.update(progress)
                self._counters.of(progress.query).add(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """There was nothing to read; the last report stands."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """It is reported once more."""
        with self._lock:
            query_id = str(event.id)
            self._ended += [one for one in self._tracker.queries() if one.query_id == query_id]
            self._tracker.forget(query_id)

    # -- reports ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Report once more and end the thread and the server."""
        self._closing.set()
        self._thread.join()
        if self._server is not None:
            self._server.close()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            self._report()
        self._report()
        if self._cluster is not None:
            self._cluster.close()

    def _report(self) -> None:
        with self._lock:
            running, ended = self._tracker.queries(), list(self._ended)
            self._ended.clear()
        for progress in ended:
            log.info("%s (ended)", self._look(progress))
        reports = [self._look(progress) for progress in running]
        with self._lock:
            for query in reports:
                counters_of = self._counters.of(query.query)
                for one in query.partitions:
                    counters_of.look(one.source, one.lag)
        for report in reports:
            log.info("%s", report)
        if self._server is None and self._textfile is None:
            return
        with self._lock:
            counters = self._counters.copies()
        text = prometheus_text(reports, counters)
        if self._server is not None:
            self._server.text = text
        if self._textfile is not None:
            try:
                write_textfile(self._textfile, text)
            except OSError as error:
                log.warning("the metrics cannot be written: %s", error)

    def _look(self, progress: Progress) -> QueryReport:
        measure: Measure | None = None if self._config is None else self._measure
        try:
            return self._tracker.look(progress, time.monotonic(), time.time() * 1000, measure)
        except (ClientError, ArchiveReadError) as error:
            log.warning("query %s: cannot read its lag from the cluster: %s", progress.query, error)
            return self._tracker.look(progress, time.monotonic(), time.time() * 1000, None)

    def _measure(self, stored: StreamOffset) -> Mapping[TopicPartition, PartitionLag]:
        assert self._config is not None
        if self._cluster is None:
            self._cluster = Cluster(config=self._config)
        return measure_lag(self._cluster, stored, with_bytes=True, archive=self._archive)


def _config(properties: Mapping[str, object]) -> ClientConfig:
    defaults = {
        **CLIENT_PROPERTIES,
        "client.id": "fencepost-spark-lag",
        "default.api.timeout.ms": API_TIMEOUT_MS,
        "request.timeout.ms": API_TIMEOUT_MS,
    }
    return ClientConfig.from_props({**defaults, **properties})
