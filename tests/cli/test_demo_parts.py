"""The demo's proof must be able to fail: fingerprints, offsets, directories."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import zipfile

import pyarrow as pa
import pytest

from fencepost.cli.demo import DemoFailedError, _fresh_directory, dataset, pipeline, report

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
)
ROWS = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z\n"
)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("flights.csv", HEADER + ROWS)
    return path


def test_flights_are_read_with_types_nulls_keys_and_times(archive):
    flown, cancelled = dataset.read_flights(archive)
    assert flown.key == b"N14228"
    assert flown.timestamp_ms == 1357034400000
    assert json.loads(flown.value)["carrier"] == "UA"
    assert json.loads(flown.value)["dep_delay"] == 2
    assert cancelled.key is None
    assert json.loads(cancelled.value)["dep_time"] is None


def test_a_fingerprint_ignores_order_and_notices_everything_else():
    records = [(b"a", b"1"), (None, b"2"), (b"c", b"3")]
    whole = dataset.fingerprint(records)
    assert dataset.fingerprint(reversed(records)) == whole
    assert dataset.fingerprint(records[:-1]) != whole
    assert dataset.fingerprint([*records, records[0]]) != whole
    assert dataset.fingerprint([(b"a", b"1"), (None, b"2"), (b"c", b"4")]) != whole
    assert dataset.fingerprint([(b"b", b"1"), (None, b"2"), (b"c", b"3")]) != whole


def places(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"partition": [p for p, _ in pairs], "offset": [o for _, o in pairs]})


def test_offsets_must_be_there_exactly_once():
    assert pipeline.offset_problems(places((0, 0), (1, 0), (0, 1)), {0: 2, 1: 1}) == []
    assert pipeline.offset_problems(places((0, 0), (1, 0)), {0: 2, 1: 1}) == [
        "partition 0: 1 offsets lost, 0 repeated"
    ]
    assert pipeline.offset_problems(places((0, 0), (0, 0), (1, 0)), {0: 1, 1: 1}) == [
        "partition 0: 0 offsets lost, 1 repeated"
    ]
    assert pipeline.offset_problems(places((5, 0)), {0: 0}) != []


def test_only_a_directory_of_an_earlier_demo_is_replaced(tmp_path):
    demo = tmp_path / "demo"
    _fresh_directory(demo)
    (demo / "leftover").write_text("old")
    _fresh_directory(demo)
    assert not (demo / "leftover").exists()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("mine")
    with pytest.raises(DemoFailedError, match="not empty"):
        _fresh_directory(precious)
    assert (precious / "thesis.tex").read_text() == "mine"
    with pytest.raises(DemoFailedError, match="Not a directory"):
        _fresh_directory(precious / "thesis.tex")


def test_the_prepared_project_keeps_its_checkpoints_beside_its_tables(tmp_path):
    project = pipeline.prepare_project(tmp_path)
    spec = (project / "spark-pipeline.yml").read_text()
    assert f"storage: {(tmp_path / 'checkpoints').as_uri()}\n" in spec
    assert (project / "transformations" / "raw.py").is_file()


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(pipeline.PipelineFailedError, match="wrote no table flights_raw"):
        pipeline.read_table(tmp_path, "flights_raw")


def test_the_chart_is_a_picture(tmp_path):
    delays = pa.table(
        {
            "carrier": ["UA", "EV"], "flights": [10, 20], "cancelled": [0, 1],
            "mean_delay_min": [3.5, 19.8], "p90_delay_min": [9, 60], "late_pct": [10.0, 40.0],
        }
    )  # fmt: skip
    hours = pa.table(
        {
            "hour": [1, 5, 6], "flights": [1, 10, 19], "cancelled": [1, 0, 0],
            "mean_delay_min": [None, 1.0, 2.0],
        }
    )  # fmt: skip
    routes = pa.table({"origin": ["JFK"], "dest": ["LAX"], "flights": [11262]})
    assert "ExpressJet" in report.delay_lines(delays)[1]
    report.draw_chart(delays, hours, routes, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_a_session_is_stopped_with_all_its_children():
    script = "import subprocess as s, sys; print(s.Popen(['sleep', '60']).pid, flush=True); input()"
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert set(pipeline.session_members(parent.pid)) == {parent.pid, child}
        assert pipeline.peak_rss_mb(parent.pid) > 1
    finally:
        pipeline.stop_session(parent.pid)
        parent.communicate()
    assert parent.returncode == -signal.SIGKILL
    # Whoever adopted the child may not have buried it yet: then it is a zombie without memory.
    with contextlib.suppress(FileNotFoundError):
        assert pipeline.peak_rss_mb(child) == 0
