"""Metadata writes per second and their latency: so many writers, each with one write under way."""

from __future__ import annotations

import select
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.interop.quorum import Node

from benchmarks.quorum.voters import KINDS, connect, is_written, quorum_of, write_request
from fencepost.client.connection import Connection

WARM_UP_S = 2.0


@dataclass
class Writes:
    """What a run of writers came to."""

    per_s: float
    latencies_ms: list[float]

    def percentile_ms(self, hundredth: int) -> float:
        """Of the latencies."""
        return statistics.quantiles(self.latencies_ms, n=100)[hundredth - 1]


def run_writers(leader: Node, writers: int, seconds: float, first_number: int) -> Writes:
    """`writers` connections that each send the next write when the last is acknowledged."""
    connections = [connect(leader) for _ in range(writers)]
    committed_before = _high_watermark(leader)
    by_file = {connection.fileno(): connection for connection in connections}
    number = first_number
    sent: dict[Connection, tuple[object, float]] = {}
    latencies: list[float] = []
    started = time.perf_counter()
    measured_from, ends = started + WARM_UP_S, started + WARM_UP_S + seconds
    done = 0
    for connection in connections:
        number += 1
        sent[connection] = (connection.send(write_request(number)), time.perf_counter())
    while (now := time.perf_counter()) < ends:
        ready, _, _ = select.select(list(by_file), [], [], ends - now)
        for file in ready:
            connection = by_file[file]
            token, since = sent[connection]
            answer = connection.receive(token)  # type: ignore[arg-type]
            assert is_written(answer), answer
            at = time.perf_counter()
            if at > measured_from:
                done += 1
                latencies.append((at - since) * 1000)
            number += 1
            sent[connection] = (connection.send(write_request(number)), at)
    for connection in connections:
        connection.close()
    written = _high_watermark(leader) - committed_before
    assert written >= done, f"{done} writes were acknowledged, {written} records committed"
    return Writes(done / (time.perf_counter() - measured_from), latencies)


def _high_watermark(leader: Node) -> int:
    said = leader.describe()
    assert said is not None, f"{leader.node_id} leads no longer"
    return said.high_watermark


def compare(concurrencies: tuple[int, ...], seconds: float, rounds: int) -> list[list[str]]:
    """Rows of a table; rounds of the kinds take turns, and the median round counts."""
    found: dict[tuple[str, int], list[Writes]] = {}
    with tempfile.TemporaryDirectory() as home:
        for round_ in range(rounds):
            for kind in KINDS:
                with quorum_of(kind, Path(home) / str(round_)) as quorum:
                    for writers in concurrencies:
                        result = run_writers(
                            quorum.wait_for_leader(), writers, seconds, writers * 1_000_000
                        )
                        found.setdefault((kind, writers), []).append(result)
                        print(f"  {kind}, {writers} writers: {result.per_s:.0f}/s", flush=True)
    rows = []
    for writers in concurrencies:
        middle = {}
        for kind in KINDS:
            runs = sorted(found[kind, writers], key=lambda run: run.per_s)
            middle[kind] = runs[len(runs) // 2]
        base = middle[KINDS[-1]].per_s
        rows += [
            [str(writers), kind, f"{run.per_s:.0f}", f"{run.percentile_ms(50):.1f}"]
            + [f"{run.percentile_ms(99):.1f}", f"{run.per_s / base:.2f}"]
            for kind, run in middle.items()
        ]
    return rows


HEADINGS = ["writers", "controllers", "writes/s", "p50 ms", "p99 ms", "ratio"]
