"""What `fencepost perf` measures, and the lines of it, which are those of Kafka's tools."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from fencepost.views.rates import ConsumeRates, ProduceRates

if TYPE_CHECKING:
    from fencepost.batch.records import Record

MIB: Final = 1 << 20
LATENCIES_MAX: Final = 500_000
"""Latencies that are kept for percentiles; of more records every n-th is."""
_PERCENTILES: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p99_9_ms": 0.999}


def percentile(latencies: Sequence[float], share: float) -> float:
    """The latency that this share of records stays below."""
    return sorted(latencies)[min(len(latencies) - 1, int(len(latencies) * share))]


class _Window:
    """Records of a stretch of time."""

    def __init__(self, now: float) -> None:
        self.began = now
        self.records = 0
        self.size_bytes = 0
        self.latency_ms = 0.0
        self.highest_ms = 0.0

    def add(self, latency_ms: float, size_bytes: int) -> None:
        self.records += 1
        self.size_bytes += size_bytes
        self.latency_ms += latency_ms
        self.highest_ms = max(self.highest_ms, latency_ms)

    def rates(self, now: float) -> tuple[float, float]:
        """Records and MiB per second."""
        took_s = max(now - self.began, 1e-9)
        return self.records / took_s, self.size_bytes / MIB / took_s

    @property
    def average_ms(self) -> float:
        return self.latency_ms / self.records if self.records else 0.0


class ProduceFigures:
    """Acknowledged records. Lines of progress appear from `add`, unless it is quiet."""

    def __init__(self, total: int, interval_ms: int, *, is_quiet: bool) -> None:
        self._interval_s = interval_ms / 1000
        self._is_quiet = is_quiet
        self._sampling = -(-total // LATENCIES_MAX)
        self._latencies = array("d")
        now = time.monotonic()
        self._all, self._window = _Window(now), _Window(now)
        self._last = now

    def add(self, latency_ms: float, size_bytes: int) -> None:
        """One record was acknowledged, so long after it was sent."""
        if self._all.records % self._sampling == 0:
            self._latencies.append(latency_ms)
        self._all.add(latency_ms, size_bytes)
        self._window.add(latency_ms, size_bytes)
        self._last = now = time.monotonic()
        if now - self._window.began >= self._interval_s:
            if not self._is_quiet:
                line = _produce_line(self._window, now, rate="%.1f", average="%.1f")
                print(f"{line % self._window.highest_ms}.", flush=True)
            self._window = _Window(now)

    def total_line(self) -> str:
        """All records, with percentiles."""
        shares = [int(percentile(self._latencies, share)) for share in _PERCENTILES.values()]
        line = _produce_line(self._all, self._last, rate="%f", average="%.2f")
        line %= self._all.highest_ms
        return f"{line}, %d ms 50th, %d ms 95th, %d ms 99th, %d ms 99.9th." % tuple(shares)

    def rates(self) -> ProduceRates:
        """The same for --json."""
        records_per_s, mib_per_s = self._all.rates(self._last)
        return ProduceRates(
            self._all.records,
            records_per_s,
            mib_per_s,
            self._all.average_ms,
            self._all.highest_ms,
            *(percentile(self._latencies, share) for share in _PERCENTILES.values()),
        )


def _produce_line(window: _Window, now: float, *, rate: str, average: str) -> str:
    """All but the highest latency, whose place is left open."""
    records_per_s, mib_per_s = window.rates(now)
    return (
        f"{window.records} records sent, {rate % records_per_s} records/sec"
        f" ({mib_per_s:.2f} MB/sec),"
        f" {average % window.average_ms} ms avg latency, {average} ms max latency"
    )


class ConsumeFigures:
    """Records that were read. Rows of detail appear from `add`, if they are wanted."""

    def __init__(self, interval_ms: int, *, is_detailed: bool, is_quiet: bool) -> None:
        self.records = 0
        self._interval_ms = interval_ms
        self._is_detailed = is_detailed and not is_quiet
        self._size_bytes = 0
        self._rebalance_ms = self._window_rebalance_ms = 0.0
        self.begin()
        self._ended_ms = self._began_ms

    def begin(self) -> None:
        """The time is taken from here on."""
        self._began_ms = time.time() * 1000
        self._window = (self._began_ms, 0, 0)

    def end(self) -> None:
        """And up to here."""
        self._ended_ms = time.time() * 1000

    def header(self) -> str:
        """Names of the columns."""
        first = "time, threadId" if self._is_detailed else "start.time, end.time"
        return (
            f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"
            " rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
        )

    def add_rebalance(self, took_ms: float) -> None:
        """Partitions were assigned, which took so long."""
        self._rebalance_ms += took_ms
        self._window_rebalance_ms += took_ms

    def add(self, records: Sequence[Record]) -> None:
        """The records of a batch."""
        self.records += len(records)
        self._size_bytes += sum(len(one.key or b"") + len(one.value or b"") for one in records)
        now_ms = time.time() * 1000
        began_ms, records_before, bytes_before = self._window
        if now_ms - began_ms < self._interval_ms:
            return
        if self._is_detailed:
            rates = _rates(
                now_ms - began_ms,
                self._window_rebalance_ms,
                self.records - records_before,
                self._size_bytes - bytes_before,
            )
            shown = self._size_bytes / MIB, rates[0], self.records, *rates[1:]
            print(f"{_moment(now_ms)}, 0, {_ROW % shown}", flush=True)
        self._window = (now_ms, self.records, self._size_bytes)
        self._window_rebalance_ms = 0.0

    def total_line(self) -> str:
        """All of it."""
        mib_per_s, *rest = self._rates()
        shown = self._size_bytes / MIB, mib_per_s, self.records, *rest
        return f"{_moment(self._began_ms)}, {_moment(self._ended_ms)}, {_ROW % shown}"

    def rates(self) -> ConsumeRates:
        """The same for --json."""
        return ConsumeRates(
            int(self._began_ms),
            int(self._ended_ms),
            self._size_bytes,
            self.records,
            *self._rates(),
        )

    def _rates(self) -> tuple[float, ...]:
        took_ms = self._ended_ms - self._began_ms
        return _rates(took_ms, self._rebalance_ms, self.records, self._size_bytes)


_ROW: Final = "%.4f, %.4f, %d, %.4f, %d, %d, %.4f, %.4f"


def _rates(
    took_ms: float, rebalance_ms: float, records: int, size_bytes: int
) -> tuple[float, float, float, float, float, float]:
    """MiB and records per second, time of rebalances and of the rest, the rates within the rest."""
    fetch_ms = max(took_ms - rebalance_ms, 0.0)
    took_s, fetch_s = max(took_ms / 1000, 1e-9), max(fetch_ms / 1000, 1e-9)
    mib = size_bytes / MIB
    return mib / took_s, records / took_s, rebalance_ms, fetch_ms, mib / fetch_s, records / fetch_s


def _moment(time_ms: float) -> str:
    """As Kafka's tool has it by default: 2026-11-28 12:00:00:123, in local time."""
    moment = datetime.fromtimestamp(time_ms / 1000)
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03}"
