"""`fencepost perf`: the lines are those of Kafka's tools, the figures those of what was done."""

from __future__ import annotations

import re

import pytest

from fencepost.batch.records import Record
from fencepost.cli import perf_figures
from fencepost.cli.perf_figures import (
    LATENCIES_MAX,
    ConsumeFigures,
    ProduceFigures,
    _rates,
    percentile,
)

from .commands import Fencepost

NUMBER = r"\d+\.\d+"
SENT = (
    rf"(\d+) records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency,"
    rf" {NUMBER} ms max latency"
)
TOTAL = SENT + r", \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
COLUMNS = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"
    " rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def test_records_are_sent_and_counted(run: Fencepost, topic: str):
    words = ("perf", "produce", topic, "--num-records", "2000", "--record-size", "50")
    ran = run(*words)
    assert ran.code == 0, ran.err
    match = re.fullmatch(TOTAL, ran.lines[-1])
    assert match is not None, ran.out
    assert match[1] == "2000"
    assert re.search(r" \d+\.\d{6} records/sec ", ran.lines[-1]), "as many digits as Kafka's"
    found = run("consume", topic).lines
    assert len(found) == 2000
    assert {len(value) for value in found} == {50}
    assert len(set(found)) == 1000
    told = run(*words, "--json").json
    assert told["records"] == 2000
    assert told["p50_ms"] <= told["p95_ms"] <= told["p99_ms"] <= told["p99_9_ms"]
    assert told["p99_9_ms"] <= told["max_latency_ms"]


def test_a_throughput_is_kept_and_intervals_are_printed(run: Fencepost, topic: str):
    words = ("--num-records", "40", "--throughput", "200", "--reporting-interval", "50")
    told = run("perf", "produce", topic, *words)
    assert [re.fullmatch(SENT + r"\.", line) is None for line in told.lines[:-1]].count(True) == 0
    assert len(told.lines) > 1
    assert run("perf", "produce", topic, *words, "--json").json["records_per_s"] <= 220


def test_records_are_read_and_counted(run: Fencepost, topic: str):
    run("perf", "produce", topic, "--num-records", "500", "--record-size", "1000")
    header, row = run("perf", "consume", topic, "--num-records", "500").lines
    assert header == COLUMNS
    cells = dict(zip(header.split(", "), row.split(", "), strict=True))
    assert cells["data.consumed.in.nMsg"] == "500"
    assert run("perf", "consume", topic, "--num-records", "7", "--json").json["records"] == 7
    assert cells["data.consumed.in.MB"] == f"{500_000 / (1 << 20):.4f}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", cells["start.time"])
    detailed = run(
        *("perf", "consume", topic, "--num-records", "500", "--show-detailed-stats"),
        *("--reporting-interval", "1"),
    ).lines
    assert detailed[0].startswith("time, threadId, data.consumed.in.MB, ")
    assert detailed[-1].split(", ")[1:2] == ["0"]
    told = run(
        "perf", "consume", topic, "--num-records", "501", "--idle-timeout-ms", "50", "--json"
    )
    assert (told.code, told.json["records"]) == (1, 500)
    assert "500 of 501 records came, and no more for 50 ms" in told.err


def test_each_record_is_timed_from_end_to_end(run: Fencepost, topic: str):
    ran = run("perf", "end-to-end", topic, "--num-records", "20")
    assert ran.code == 0, ran.err
    first, average, shares = ran.lines
    assert re.fullmatch(rf"0\t{NUMBER}", first)
    assert re.fullmatch(rf"Avg latency: {NUMBER} ms", average)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", shares)
    assert run("perf", "end-to-end", topic, "--num-records", "3", "--json").json["records"] == 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("produce", "t", "--num-records", "0"), "--num-records 0: allowed is 1 to"),
        (("produce", "t", "--record-size", "0"), "--record-size 0: allowed is 1 to"),
        (("consume", "t", "--idle-timeout-ms", "0"), "--idle-timeout-ms 0: allowed is 1 to"),
    ],
)
def test_figures_that_cannot_be(run: Fencepost, words: tuple[str, ...], why: str):
    ran = run("perf", *words)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err


def test_percentiles_are_those_of_the_records():
    latencies = [float(number) for number in range(1000)]
    assert [percentile(latencies, share) for share in (0.5, 0.95, 0.999)] == [500, 950, 999]
    assert percentile([7.0], 0.999) == 7.0
    figures = ProduceFigures(1_000_000, 60_000, is_quiet=True)
    for number in range(10):
        figures.add(float(number), 1 << 20)
    told = figures.rates()
    assert (told.records, told.avg_latency_ms, told.max_latency_ms) == (10, 4.5, 9.0)
    assert told.p50_ms == 4.0  # of every second record
    assert ConsumeFigures(1, is_detailed=False, is_quiet=True).rates().records == 0


def test_one_of_so_many_latencies_is_kept_as_there_is_room_for():
    figures = ProduceFigures(LATENCIES_MAX + 1, 60_000, is_quiet=True)
    for number in range(4):
        figures.add(float(number), 1)
    assert figures.rates().p99_9_ms == 2.0, "of records 0 and 2"


def test_each_line_of_progress_is_of_its_own_interval(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(perf_figures.time, "monotonic", lambda: now[0])
    figures = ProduceFigures(4, 1_000, is_quiet=False)
    for latency_ms in (9.0, 5.0):
        now[0] += 1
        figures.add(latency_ms, 1 << 20)
    assert capsys.readouterr().out.splitlines() == [
        f"1 records sent, 1.0 records/sec (1.00 MB/sec), {ms} ms avg latency, {ms} ms max latency."
        for ms in ("9.0", "5.0")
    ]


def test_rebalances_do_not_count_as_fetching_and_belong_to_one_row(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(perf_figures.time, "time", lambda: now[0])
    figures = ConsumeFigures(1_000, is_detailed=True, is_quiet=False)
    records = [Record(0, 0, 0, None, bytes(1 << 20))]
    figures.add_rebalance(500.0)
    for _ in range(2):
        now[0] += 1
        figures.add(records)
    figures.end()
    rows = [line.split(", ")[2:] for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["1.0000", "1.0000", "1", "1.0000", "500", "500", "2.0000", "2.0000"]
    assert rows[1] == ["2.0000", "1.0000", "2", "1.0000", "0", "1000", "1.0000", "1.0000"]
    told = figures.rates()
    assert (told.rebalance_ms, told.fetch_ms) == (500.0, 1500.0)


def test_rates_of_what_was_read():
    assert _rates(2000, 500, 300, 3 << 20) == (1.5, 150, 500, 1500, 2.0, 200)
    assert _rates(2000, 3000, 0, 0) == (0, 0, 3000, 0, 0, 0)
