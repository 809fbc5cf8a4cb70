"""The proof of offsets, the project of the pipeline, and the end of its session."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

from fencepost.cli.demo import pipeline
from fencepost.testing.sessions import session_members, stop_session


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


def test_the_prepared_project_keeps_its_checkpoints_beside_its_tables(tmp_path):
    project = pipeline.prepare_project(tmp_path)
    spec = (project / "spark-pipeline.yml").read_text()
    assert f"storage: {(tmp_path / 'checkpoints').as_uri()}\n" in spec
    assert (project / "transformations" / "raw.py").is_file()


def test_the_next_run_may_write_its_tables_elsewhere(tmp_path):
    pipeline.prepare_project(tmp_path)
    settings = tmp_path / "conf" / "spark-defaults.conf"
    before = settings.read_text().splitlines()
    assert f"spark.sql.warehouse.dir {tmp_path / 'tables'}" in before
    pipeline.write_tables_to(tmp_path, "again")
    changed = set(settings.read_text().splitlines()) - set(before)
    assert changed == {f"spark.sql.warehouse.dir {tmp_path / 'again'}"}


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        (1, "a-1: truncated, offsets 7 to 9: the log ends at 7"),
        (11, "a-11: rewritten, offsets 3 to 9: other records stand there"),
        (2, None),
    ],
)
def test_what_was_lost_of_a_partition_is_found_in_the_log(tmp_path, partition, said):
    (tmp_path / "pipeline.log").write_text(
        "Flow x STARTING\nDataLossError: data loss in 2 partition(s): a-11: rewritten, offsets 3 to"
        " 9: other records stand there; a-1: truncated, offsets 7 to 9: the log ends at 7. Set"
        " failOnDataLoss=false to go on with a warning.\n"
    )
    assert pipeline.loss_in_log(tmp_path, "a", partition) == said


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(pipeline.PipelineFailedError, match="wrote no table flights_raw"):
        pipeline.read_table(tmp_path, "flights_raw")


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
        assert set(session_members(parent.pid)) == {parent.pid, child}
        assert pipeline.peak_rss_mb(parent.pid) > 1
    finally:
        stop_session(parent.pid)
        parent.communicate()
    assert parent.returncode == -signal.SIGKILL
    # The process that adopted the child may not have reaped it yet: a zombie without memory.
    with contextlib.suppress(FileNotFoundError):
        assert pipeline.peak_rss_mb(child) == 0
