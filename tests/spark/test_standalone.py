"""Exactly once on standalone clusters: executors come and go, brokers ask for a login."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer
from fencepost.testing.spark_standalone import SparkStandalone

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc"),
]
JOB = Path(__file__).with_name("standalone_job.py")
COUNT = 400
PARTITIONS = 4
RUN = "from fencepost.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def standalone() -> Iterator[SparkStandalone]:
    """Two workers with a core each."""
    with SparkStandalone(workers=2, own_hosts=True) as made:
        yield made


def fill(client: Client, topic: str) -> None:
    """COUNT records in PARTITIONS partitions, and the topic that they are copied to."""
    for name in (topic, f"{topic}-to"):
        Admin(client).create_topic(name, PARTITIONS)
        Admin(client).wait_for_topic(name)
    with Producer(client) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def run(
    standalone: SparkStandalone,
    options: dict[str, str],
    topic: str,
    place: Path,
    kind: str,
    **conf: str,
) -> list[int]:
    """The values that the job has found in the copy."""
    settings = {
        "master": standalone.master_url,
        "conf": {
            **standalone.settings,
            "spark.python.authenticate.socketTimeout": "120s",  # machines of tests are busy
            **{key.replace("__", "."): value for key, value in conf.items()},
        },
        "options": options,
        "source": topic,
        "target": f"{topic}-to",
        "place": str(place),
        "kind": kind,
    }
    done = subprocess.run(
        [sys.executable, str(JOB), json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        cwd=place,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert lines, done.stderr[max(done.stderr.rfind("Traceback"), 0) :][:5000]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("found "))
    return found["values"]


def attempts(place: Path, word: str) -> list[tuple[int, int, int]]:
    """Partition, attempt and executor of those that have begun, or were done."""
    names = [path.name.split("-")[1:] for path in place.glob(f"{word}-*")]
    return sorted((int(a), int(b), int(c)) for a, b, c in names)


def test_speculative_attempts_write_nothing_twice(
    standalone: SparkStandalone, served: str, topic: str, tmp_path: Path
):
    with Client(served) as client:
        fill(client, topic)
    values = run(
        standalone, {"kafka.bootstrap.servers": served}, topic, tmp_path, "slow",
        spark__speculation="true", spark__speculation__interval="100ms",
        spark__speculation__quantile="0.1", spark__speculation__multiplier="1.1",
    )  # fmt: skip
    of_first = [one[:2] for one in attempts(tmp_path, "begun") if one[0] == 0]
    assert of_first == [(0, 0), (0, 1)]  # it was tried twice at a time, and
    assert (0, 1) in [one[:2] for one in attempts(tmp_path, "done")]  # the second won
    assert values == list(range(COUNT))


def test_executors_that_are_lost_and_asked_for_again(
    standalone: SparkStandalone, served: str, topic: str, tmp_path: Path
):
    """By dynamic allocation, from one executor on; one is killed in the middle of a task."""
    with Client(served) as client:
        fill(client, topic)
    values = run(
        standalone, {"kafka.bootstrap.servers": served}, topic, tmp_path, "killed",
        spark__dynamicAllocation__enabled="true",
        spark__dynamicAllocation__shuffleTracking__enabled="true",
        spark__dynamicAllocation__minExecutors="0", spark__dynamicAllocation__maxExecutors="2",
        spark__dynamicAllocation__initialExecutors="1",
        spark__dynamicAllocation__executorIdleTimeout="2s",
        spark__dynamicAllocation__schedulerBacklogTimeout="1s",
    )  # fmt: skip
    assert (tmp_path / "killed").exists()
    again = [one for one in attempts(tmp_path, "begun") if one[0] == 1]
    assert len({executor for _, _, executor in again}) > 1  # by an executor that came later
    assert values == list(range(COUNT))


def test_a_secured_cluster(standalone: SparkStandalone, tmp_path: Path):
    """By passwords over TLS: a query from the executors, an archive and its check, an audit."""
    pytest.importorskip("cryptography")
    from fencepost.testing import Cluster, ClusterSecurity

    security = ClusterSecurity("SASL_SSL")
    words = ["--master", standalone.master_url]
    for name, value in standalone.settings.items():
        words += ["--conf", f"{name}={value}"]
    with Cluster(data_dir=tmp_path / "data", security=security) as cluster:
        login = cluster.security.login("app", "SCRAM-SHA-512")
        with cluster.security.client() as client:
            fill(client, "from")
        place = tmp_path / "job"
        place.mkdir()
        assert run(standalone, login.spark_options(), "from", place, "none") == list(range(COUNT))
        properties = tmp_path / "client.properties"
        properties.write_text(login.properties_text())
        reached = ["--client-config", str(properties)]  # it names the brokers, too
        archive = str(tmp_path / "archive")
        for command in (
            ["archive", "run", archive, "from", *words, *reached],
            ["archive", "verify", archive, "--against-topic", *words, *reached],
            ["audit", str(tmp_path / "data"), *words],
        ):  # fmt: skip
            done = subprocess.run(
                [sys.executable, "-c", RUN, *command],
                capture_output=True, text=True, check=False, timeout=900,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert login.password not in done.stdout + done.stderr
            if command[0] == "audit":
                assert "of 1 brokers" in done.stdout
