"""A data directory changes hands: from Fencepost to Apache Kafka and back, and the other way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.features import FeatureAdmin
from fencepost.client.groups import CommittedOffset
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.log.disk import OsDisk
from fencepost.log.snapshots import SnapshotReader
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.replay import batch_records
from fencepost.testing import Cluster, ClusterError

from . import apache
from .conftest import jars_or_skip

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

WHERE = TopicPartition("numbers", 0)


def write(servers: str, values: list[str], *, create: bool = False) -> None:
    with Client(servers) as cluster:
        if create:
            Admin(cluster).create_topic("numbers", 1, configs={"retention.ms": "-1"})
        with Producer(cluster) as producer:
            for value in values:
                producer.send("numbers", value.encode())


def read_with_kafka(servers: str, count: int) -> list[str]:
    return apache.consume(servers, "numbers", count, "--from-beginning")


def end_and_committed(servers: str, group: str) -> tuple[int, int]:
    with Client(servers) as cluster:
        end = list_offsets(cluster, {WHERE: LATEST})[WHERE].offset
        return end, Admin(cluster).group_offsets(group)[WHERE].offset


def test_from_us_to_kafka_and_back(kafka_jars, tmp_path: Path):
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        write(ours.bootstrap_servers, ["1", "2", "3"], create=True)
        with Client(ours.bootstrap_servers) as cluster:
            Admin(cluster).alter_group_offsets("readers", {WHERE: CommittedOffset(2, -1, "")})
        assert ours.stop() == 0
    with apache.apache_broker(tmp_path) as kafka:
        assert read_with_kafka(kafka.bootstrap_servers, 3) == ["1", "2", "3"]
        assert end_and_committed(kafka.bootstrap_servers, "readers") == (3, 2)
        described = apache.run_tool(
            "topics", "--bootstrap-server", kafka.bootstrap_servers, "--describe"
        ).stdout
        assert "retention.ms=-1" in described
        write(kafka.bootstrap_servers, ["4"])
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        assert end_and_committed(ours.bootstrap_servers, "readers") == (4, 2)
        assert read_with_kafka(ours.bootstrap_servers, 4) == ["1", "2", "3", "4"]


def properties(place: Path, roles: str = "broker,controller", **more: str) -> Path:
    """The configuration of a node that is never started with it, whose directory is place/data."""
    listeners = {
        "broker": "PLAINTEXT://127.0.0.1:9092",
        "controller": "CONTROLLER://127.0.0.1:9093",
    }
    keys = {
        "process.roles": roles,
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "log.dirs": str(place / "data"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    place.mkdir(parents=True, exist_ok=True)
    file = place / "format.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return file


STATIC = {"controller_quorum_voters": "1@127.0.0.1:9093"}
DYNAMIC = {"controller_quorum_bootstrap_servers": "127.0.0.1:9093"}
DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"
ADA = "SCRAM-SHA-256=[name=ada,password=pencil,salt=c2FsdA]"
ADA_AGAIN = 'SCRAM-SHA-512=[salt="c2FsdA==",name="ada",password=pencil,iterations=16384,]'
BOB = "SCRAM-SHA-512=[iterations=8192,name=bob,saltedpassword=YCE=,salt=N3E=]"


@pytest.mark.parametrize(
    ("roles", "keys", "options"),
    [
        ("broker,controller", STATIC, ""),
        ("controller", STATIC, "--no-initial-controllers"),
        ("controller", STATIC, "--release-version 3.8"),
        ("controller", STATIC, "--release-version 4.0 --feature share.version=2"),
        ("controller", DYNAMIC, f"--initial-controllers 1@127.0.0.1:9093:{DIRECTORY}"),
        ("controller", DYNAMIC, "--no-initial-controllers"),
        ("controller", DYNAMIC, "--standalone --feature group.version=0"),
        ("controller", DYNAMIC, "--standalone --release-version 3.8"),
        ("broker", DYNAMIC, ""),
        ("broker", DYNAMIC, f"-S {ADA}"),
        ("controller", DYNAMIC, f"--standalone -S {ADA} --add-scram {BOB} -S {ADA_AGAIN}"),
        ("controller", STATIC, f"-S {BOB} --release-version 3.5-IV2"),
    ],
)
def test_both_tools_write_the_same(
    kafka_jars, tmp_path: Path, roles: str, keys: dict[str, str], options: str
) -> None:
    """File by file, and record by record of the checkpoint, but for times and drawn ids."""
    words = ["format", "-t", apache.CLUSTER_ID, "-c"]
    for name in ("ours", "theirs"):
        config = properties(tmp_path / name, roles, **keys)
        given = [*words, str(config), *options.split()]
        if name == "ours":
            assert main(given) == 0
        else:
            apache.run_tool("storage", *given)
    assert written(tmp_path / "ours") == written(tmp_path / "theirs")


@pytest.mark.parametrize(
    "argument",
    [
        "PLAIN=[name=ada,password=x]",
        "SCRAM-SHA-256=name=ada,password=x",
        "SCRAM-SHA-256=[password=x]",
        "SCRAM-SHA-256=[name=ada,saltedpassword=x]",
        "SCRAM-SHA-256=[name=ada,password=x,salt=c2FsdA=]",
        "SCRAM-SHA-256=[name=ada,password=x,iterations=2147483648]",
        "SCRAM-SHA-512=[name=ada,password=x,iterations=16385]",
        "SCRAM-SHA-512=[name=ada,password=x,b=1,a=2]",
    ],
)
def test_both_tools_refuse_a_user_alike(
    kafka_jars, tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str
) -> None:
    config = str(properties(tmp_path, "controller", **STATIC))
    given = ["format", "-t", apache.CLUSTER_ID, "-c", config, "-S", argument]
    assert main(given) == 2
    ours = capsys.readouterr().err.removeprefix("fencepost format: ").strip()
    with pytest.raises(apache.ToolFailedError) as failed:
        apache.run_tool("storage", *given)
    assert ours.partition("; there are")[0] in str(failed.value)


def written(place: Path) -> dict[str, object]:
    """What formatting has written, by the path of the file."""
    found: dict[str, object] = {}
    for path in sorted((place / "data").rglob("*")):
        name = str(path.relative_to(place))
        if path.suffix == ".checkpoint":
            found[name] = contents(path)
        elif path.name == "meta.properties":
            lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
            found[name] = sorted(line for line in lines if not line.startswith("directory.id"))
        elif path.is_file() and path.name != ".lock":
            found[name] = path.stat().st_size
    return found


def contents(path: Path) -> list[object]:
    """The batches of a checkpoint: what they are, and their records."""
    file = OsDisk().open(str(path))
    try:
        reader = SnapshotReader(file, str(path))
        header = reader.header
        found = VoterSet() if header.voters is None else VoterSet.from_record(header.voters)
        voters = [
            (one.id, one.endpoints, one.min_kraft_version, one.max_kraft_version)
            for one in found.voters
        ]
        batches = [(head.base_offset, [*batch_records(head, batch)]) for head, batch in reader]
    finally:
        file.close()
    return [header.kraft_version, voters, batches]


def test_from_kafka_to_us(kafka_jars, tmp_path: Path):
    with apache.apache_broker(tmp_path) as kafka:
        write(kafka.bootstrap_servers, ["1", "2", "3"], create=True)
        with Client(kafka.bootstrap_servers) as cluster:
            Admin(cluster).alter_group_offsets("readers", {WHERE: CommittedOffset(1, -1, "")})
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        assert end_and_committed(ours.bootstrap_servers, "readers") == (3, 1)
        write(ours.bootstrap_servers, ["4"])
        assert read_with_kafka(ours.bootstrap_servers, 4) == ["1", "2", "3", "4"]


def test_a_directory_of_an_older_kafka_is_upgraded_here(kafka_jars, tmp_path: Path):
    """It begins with what `bootstrap.checkpoint` says, and the next release opens it afterwards."""
    older = jars_or_skip(apache.OLDER_KAFKA)
    config = str(properties(tmp_path, **STATIC))
    apache.run_tool("storage", "format", "-t", apache.CLUSTER_ID, "-c", config, jars=older)
    assert (tmp_path / "data" / "bootstrap.checkpoint").exists()
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        assert levels(ours.bootstrap_servers) == {
            **NEWEST,
            "metadata.version": 30,
            "share.version": 1,
        }
        write(ours.bootstrap_servers, ["1"], create=True)
        with Client(ours.bootstrap_servers) as cluster:
            FeatureAdmin(cluster).update({"metadata.version": 33, "share.version": 2})
        assert levels(ours.bootstrap_servers) == NEWEST
    with apache.apache_broker(tmp_path) as kafka:
        assert levels(kafka.bootstrap_servers) == NEWEST
        assert read_with_kafka(kafka.bootstrap_servers, 1) == ["1"]


NEWEST = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 0,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}


def levels(servers: str) -> dict[str, int]:
    with Client(servers) as cluster:
        return {one.name: one.level for one in FeatureAdmin(cluster).describe()}


def test_features_that_we_lack_are_refused(kafka_jars, tmp_path: Path):
    unstable = {"unstable.feature.versions.enable": "true"}
    config = properties(tmp_path, **STATIC, unstable_feature_versions_enable="true")
    level = ("--feature", "metadata.version=34")
    apache.run_tool("storage", "format", "-t", apache.CLUSTER_ID, "-c", str(config), *level)
    with apache.apache_broker(tmp_path, **unstable):
        pass  # Kafka finalizes its features when it first starts
    with (
        pytest.raises(ClusterError, match="is finalized at level 34, and it runs 7 to 33"),
        Cluster(faults=False, data_dir=tmp_path / "data"),
    ):
        pass
