"""What an operator does as docs/NODES.md says: raise a feature, replace lost disks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from fencepost.cli.main import main
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .conftest import QUICK

pytestmark = pytest.mark.slow


class Commands:
    """`fencepost` in this process, against one cluster."""

    def __init__(self, cluster: QuorumCluster, capture: pytest.CaptureFixture[str]) -> None:
        self._servers = cluster.bootstrap_servers
        self._capture = capture

    def __call__(self, *words: str, code: int = 0) -> str:
        """What it prints, to stderr where it must fail."""
        self._capture.readouterr()
        assert main([*words, "-b", self._servers]) == code
        return self._capture.readouterr()[1 if code else 0]

    def eventually(self, *words: str) -> str:
        """What it prints once it works."""

        def works() -> bool:
            self._capture.readouterr()
            return main([*words, "-b", self._servers]) == 0

        eventually(works, " ".join(words))
        return self._capture.readouterr().out

    def levels(self) -> dict[str, int]:
        """The features' levels."""
        found = json.loads(self("features", "describe", "--json"))
        return {one["name"]: one["level"] for one in found}

    def voters(self) -> dict[int, str]:
        """The voters' directories."""
        said = json.loads(self.eventually("quorum", "describe", "--json"))
        replicas = [one for one in said["replicas"] if one["role"] != "observer"]
        return {one["node_id"]: one["directory_id"] for one in replicas}


@pytest.fixture
def static() -> Iterator[QuorumCluster]:
    with QuorumCluster(2, 1, static_voters=True, config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def dynamic() -> Iterator[QuorumCluster]:
    with QuorumCluster(3, 1, config=QUICK) as cluster:
        yield cluster


def test_static_voters_become_dynamic_ones(
    static: QuorumCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Commands(static, capsys)
    assert run.levels()["kraft.version"] == 0
    fixed = run("quorum", "remove-voter", "--id", "1", code=1)
    assert "the voters of this cluster (1, 2) are fixed" in fixed
    # "is already at 1" where an attempt that timed out has set it.
    assert run.eventually("features", "upgrade", "kraft.version=1").endswith(" 1\n")
    static.wait_until(lambda: run.levels()["kraft.version"] == 1, "the broker does not learn of it")
    assert "Can't downgrade the version of this feature." in run(
        "features", "downgrade", "kraft.version=0", code=1
    )
    leader = static.leader_id()
    (other,) = static.controllers.keys() - {leader}
    run("quorum", "remove-voter", "--id", str(other))
    assert list(run.voters()) == [leader]


def test_levels_that_cannot_be(static: QuorumCluster, capsys: pytest.CaptureFixture[str]) -> None:
    run = Commands(static, capsys)
    for words, says in (
        (("metadata.version=99",), "only supports versions 7-33"),
        (("no.such=1",), "does not support this feature"),
        (("metadata.version=7",), "without setting the upgrade type"),
    ):
        assert says in run("features", "upgrade", *words, code=1)
    down = run("features", "downgrade", "metadata.version=7", code=1)
    assert "might delete metadata information" in down
    down = run("features", "downgrade", "metadata.version=7", code=1)
    assert "might delete metadata information" in down
    before = run.levels()
    could = run("features", "upgrade", "metadata.version=4.4", "--validate-only")
    assert could == "metadata.version is already at 33 (4.4-IV2)\n"
    assert run.levels() == before


def test_a_cluster_whose_formatting_left_no_records(capsys: pytest.CaptureFixture[str]) -> None:
    """It begins as one of Kafka 4.4.0 does: at the newest metadata.version, and nothing else."""
    cluster = QuorumCluster(2, 1, static_voters=True, config=QUICK)
    for node in cluster.controllers.values():
        (snapshot,) = (node.directory / "data").glob("__cluster_metadata-0/*.checkpoint")
        snapshot.unlink()
    with cluster:
        levels = Commands(cluster, capsys).levels()
    assert levels.pop("metadata.version") == 33
    assert len(levels) == 6 and set(levels.values()) == {0}


def test_a_controller_that_lost_its_disk(
    dynamic: QuorumCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Commands(dynamic, capsys)
    lost = next(id_ for id_ in dynamic.controllers if id_ != dynamic.leader_id())
    old = run.voters()[lost]
    node = dynamic.controllers[lost]
    node.kill()
    shutil.rmtree(node.directory / "data")
    config = ("--config", str(node.config_path))
    formatted = ("format", "--cluster-id", dynamic.cluster_id, *config, "--no-initial-controllers")
    assert main([*formatted]) == 0
    dynamic.start()
    assert f"remove-voter --id {lost}` comes first" in run("quorum", "add-voter", *config, code=1)
    run("quorum", "remove-voter", "--id", str(lost))
    run.eventually("quorum", "add-voter", *config)
    voters = run.voters()
    assert sorted(voters) == sorted(dynamic.controllers)
    assert voters[lost] != old


def test_a_majority_that_lost_its_disks(
    dynamic: QuorumCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Commands(dynamic, capsys)
    run("topics", "create", "kept")
    voters = run.voters()
    survivor = dynamic.leader_id()
    first, second = (id_ for id_ in dynamic.controllers if id_ != survivor)
    for id_ in (first, second):
        dynamic.controllers[id_].kill()
        shutil.rmtree(dynamic.controllers[id_].directory / "data")
    node = dynamic.controllers[first]
    formatting = ["format", "--cluster-id", dynamic.cluster_id, "--config", str(node.config_path)]
    formatting += ["--no-initial-controllers", "--directory-id", voters[first]]
    assert main(formatting) == 0
    node.start()
    node.wait_until_ready()
    assert run.eventually("topics", "list") == "kept\n"
    run.eventually("quorum", "remove-voter", "--id", str(second))
    run.eventually("topics", "create", "another")
    assert sorted(run.voters()) == sorted((survivor, first))
