"""`fencepost features` against a served broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.client import Admin, ClientError, Cluster as Client, Consumer, ShareConsumer
from fencepost.testing import Cluster as Brokers
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually
from .commands import Fencepost


@pytest.fixture
def level(run: Fencepost) -> int:
    """Of metadata.version, as the cluster runs."""
    levels = {one["name"]: one["level"] for one in run("features", "describe", "--json").json}
    return levels["metadata.version"]


def test_a_level_that_is_in_force_is_not_said_to_be_set(run: Fencepost, level: int):
    ran = run("features", "upgrade", f"metadata.version={level}")
    assert ran.code == 0
    assert ran.out.startswith(f"metadata.version is already at {level} (")
    answered = run("features", "upgrade", f"metadata.version={level}", "--json").json
    assert answered == {"levels": {"metadata.version": level}, "changed": [], "done": "set"}


def test_a_release_stands_for_its_features(run: Fencepost, level: int):
    ran = run("features", "upgrade", "--release-version", "4.4")  # the cluster is there already
    assert (ran.code, ran.out) == (0, f"metadata.version is already at {level} (4.4-IV2)\n")
    assert run("features", "upgrade", "--release-version", "9.9").code == 2
    assert run("features", "upgrade").code == 2
    both = run("features", "upgrade", "group.version=1", "--release-version", "4.4")
    assert both.code == 2 and "either NAME=LEVEL or --release-version" in both.err


@pytest.mark.slow  # starts a broker of its own
def test_an_older_cluster_gets_the_groups_of_a_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    formatting = ("format", "--cluster-id", "random-uuid", "--release-version", "3.9")
    assert main([*formatting, "--data-dir", str(tmp_path / "data")]) == 0
    with Brokers(faults=False, data_dir=tmp_path / "data") as brokers:
        servers = brokers.bootstrap_servers
        with Client(servers, group_id="g", group_protocol="consumer") as client:
            Admin(client).create_topic("t", 1)
            for kind in (Consumer, ShareConsumer):
                with kind(client, ["t"]) as member, pytest.raises(ClientError) as refused:
                    member.poll(0)
                assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
            capsys.readouterr()
            upgrade = ("features", "upgrade", "--release-version", "4.4")
            assert main([*upgrade, "--bootstrap-server", servers]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert {line.partition(" set to ")[0] for line in lines} == {
                "eligible.leader.replicas.version",
                "group.version",
                "metadata.version",
                "share.version",
                "streams.version",
                "transaction.version",
            }
            with Consumer(client, ["t"]) as consumer:
                eventually(lambda: consumer.poll(50) or consumer.assignment, "an assignment")


def test_a_level_that_could_be_set_is_told_from_one_in_force(run: Fencepost, level: int):
    words = ("upgrade", "kraft.version=1", f"metadata.version={level}", "--validate-only")
    lines = run("features", *words).lines
    assert lines[0] == "kraft.version could be set to 1"
    assert lines[1].startswith(f"metadata.version is already at {level} (")
    answered = run("features", *words, "--json").json
    assert (answered["changed"], answered["done"]) == (["kraft.version"], "could be set")
