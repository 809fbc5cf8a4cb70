"""The extra `arrow` is all that reading without Spark takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..client.fake_cluster import FakeCluster
from .test_scanning import fill

READS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

sys.meta_path.insert(0, Absent())
import fencepost.arrow
servers = {{"bootstrap.servers": {servers!r}}}
table = fencepost.arrow.read(
    servers, topics="t", text=True, filters=[("offset", ">", 1)], threads=2
)
assert table["value"].to_pylist() == ["t-0-2", "t-1-2"], table
with fencepost.arrow.stream(servers, topics="t", start="earliest") as stream:
    assert stream.poll(60_000).num_rows == 3
try:
    fencepost.arrow.scan(servers, pattern="t")
except fencepost.arrow.ArgumentError as error:
    print(error)
try:
    fencepost.arrow.scan(servers, topics="t", archive="/no/archive")
except fencepost.arrow.ArgumentError as error:
    assert "no archive: there is no" in str(error), error
strange = sorted(name for name in sys.modules if name.startswith("fencepost.spark"))
assert not strange, strange
"""
ABSENT = {"pyspark", "py4j", "pandas", "re2", "polars", "duckdb"}


def test_a_read_needs_neither_spark_nor_pandas_nor_re2(fake: FakeCluster):
    for partition in (0, 1):
        fill(fake, 3, partition)
    script = READS.format(absent=ABSENT, servers=fake.bootstrap_servers)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "patterns need RE2: pip install 'fencepost[arrow,regex]'" in done.stdout


LOADED = """
import sys
import fencepost.arrow.stream_planner, fencepost.arrow.batch_planner
print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("heavy", ["pyarrow", "numpy", "fencepost.batch.columns", "pyspark", "re2"])
def test_planning_loads_no(heavy: str):
    """Spark plans in processes that do little else."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=600, check=True
    )
    assert heavy not in done.stdout.split()


def test_names_of_the_package_are_what_it_says():
    import fencepost.arrow

    assert dir(fencepost.arrow) == sorted(fencepost.arrow.__all__)
    for name in fencepost.arrow.__all__:
        assert getattr(fencepost.arrow, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fencepost.arrow.nothing
