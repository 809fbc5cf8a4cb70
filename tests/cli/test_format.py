"""`fencepost format`: what it writes, and what it refuses before it writes anything."""

from __future__ import annotations

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.features import default_levels
from fencepost.broker.config.release_versions import level_of, name_of
from fencepost.broker.storage.formatting import FormatPlan, format_directories
from fencepost.cli.main import main
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import read_meta_properties
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotReader, SnapshotStore
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.log import read_bootstrap
from fencepost.sim.disk import Crash, SimDisk
from fencepost.wire.types import Uuid

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
VOTERS = f"1@localhost:9093:{FIRST},2@[::1]:9094:{SECOND}"
DYNAMIC = {"controller.quorum.bootstrap.servers": "localhost:9093"}
STATIC = {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command over a configuration; exit code, what it said, and what went wrong."""

    def run_it(*arguments, keys=DYNAMIC, roles="controller", cluster=CLUSTER):
        config = {
            "node.id": "1",
            "process.roles": roles,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{tmp_path}/a,{tmp_path}/b",
            **keys,
        }
        if "controller" in roles:
            listeners = ["CONTROLLER://localhost:9093"]
            if "broker" in roles:
                listeners.append("PLAINTEXT://localhost:9092")
            config["listeners"] = ",".join(listeners)
        path = tmp_path / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        code = main(["format", "--cluster-id", cluster, "--config", str(path), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_it


def bootstrap(directory):
    """Header and records of the bootstrap snapshot; None if there is none."""
    path = directory / "__cluster_metadata-0" / f"{BOOTSTRAP_ID}.checkpoint"
    if not path.exists():
        return None
    file = OsDisk().open(str(path))
    try:
        header = SnapshotReader(file, str(path)).header
    finally:
        file.close()
    log_dir = LogDir.open(OsDisk(), str(directory))
    try:
        store = SnapshotStore(OsDisk(), str(path.parent))
        store.note(BOOTSTRAP_ID, header, path.stat().st_size)
        return header, list(read_bootstrap(log_dir, store))
    finally:
        log_dir.close(clean=False)


def levels_of(records):
    """Levels by name, in the order of the records."""
    return {record.name: record.feature_level for record in records}


NEW = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What Apache Kafka 4.4.0 writes, in its order."""


def test_a_new_id_is_printed(capsys):
    assert main(["format", "random-uuid"]) == 0
    first = capsys.readouterr().out.strip()
    assert main(["format", "random-uuid"]) == 0
    assert Uuid.from_string(first) != Uuid.from_string(capsys.readouterr().out.strip())


def test_every_directory_gets_its_meta_properties(run, tmp_path):
    code, out, _ = run("--standalone")
    assert code == 0 and out.count("formatted") == 2
    metas = [read_meta_properties(OsDisk(), str(tmp_path / name)) for name in "ab"]
    assert {(meta.cluster_id, meta.node_id) for meta in metas} == {(CLUSTER, 1)}
    assert metas[0].directory_id != metas[1].directory_id
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()


def test_standalone_is_one_voter_with_its_disk(run, tmp_path):
    assert run("--standalone")[0] == 0
    header, records = bootstrap(tmp_path / "a")
    assert list(levels_of(records).items()) == list(NEW.items())
    assert header.kraft_version == 1
    (voter,) = VoterSet.from_record(header.voters).voters
    own = read_meta_properties(OsDisk(), str(tmp_path / "a")).directory_id
    assert (voter.id, voter.key.directory_id) == (1, own)
    assert voter.endpoints == (("CONTROLLER", "localhost", 9093),)
    assert (voter.min_kraft_version, voter.max_kraft_version) == (0, 1)


def test_initial_controllers_are_the_same_for_all(run, tmp_path):
    assert run("--initial-controllers", VOTERS)[0] == 0
    header, _ = bootstrap(tmp_path / "a")
    voters = VoterSet.from_record(header.voters)
    assert [(v.id, str(v.key.directory_id)) for v in voters.voters] == [(1, FIRST), (2, SECOND)]
    assert voters.get(2).endpoints == (("CONTROLLER", "::1", 9094),)
    meta = read_meta_properties(OsDisk(), str(tmp_path / "a"))
    assert str(meta.directory_id) == FIRST


@pytest.mark.parametrize(("keys", "level"), [(DYNAMIC, 1), (STATIC, 0)])
def test_a_controller_formatted_without_initial_controllers_has_no_voter_set(
    run, tmp_path, keys, level
):
    """The level of kraft.version is that of the cluster: voters in its log, or configured."""
    assert run("--no-initial-controllers", keys=keys)[0] == 0
    header, records = bootstrap(tmp_path / "a")
    assert (header.kraft_version, header.voters) == (level, None)
    assert levels_of(records) == NEW


def test_static_voters_are_not_in_the_snapshot(run, tmp_path):
    assert run("--release-version", "4.0", keys=STATIC)[0] == 0
    header, records = bootstrap(tmp_path / "a")
    assert (header.kraft_version, header.voters) == (0, None)
    assert levels_of(records) == {
        "metadata.version": 25,
        "group.version": 1,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("3.9", {"kraft.version": 1}),
        ("4.0-IV0", {"group.version": 1}),
        ("4.0-IV1", {}),
        ("4.0-IV2", {"transaction.version": 2}),
        ("4.0-IV3", {}),
        ("4.1-IV0", {"eligible.leader.replicas.version": 1}),
        ("4.1-IV1", {}),
        ("4.2-IV0", {"share.version": 1}),
        ("4.2-IV1", {"streams.version": 1}),
        ("4.3-IV0", {}),
        ("4.4-IV0", {"share.version": 2}),
        ("4.4-IV2", {}),
    ],
)
def test_features_are_of_the_release(release, levels):
    """Each release has what the one before it has, and more, as in Kafka 4.4.0."""
    before = default_levels(level_of(release) - 1)
    now = default_levels(level_of(release))
    assert now.pop("metadata.version") == before.pop("metadata.version") + 1
    assert {name: level for name, level in now.items() if level != before[name]} == levels


def test_a_feature_may_be_on_below_the_release_that_has_it_by_default(run, tmp_path):
    """Kafka 4.4.0 makes no feature but eligible leader replicas depend on metadata.version."""
    options = [f"--feature={name}" for name in ("share.version=2", "streams.version=1")]
    assert run("--release-version", "3.9", "-f", "group.version=1", *options, keys=STATIC)[0] == 0
    levels = levels_of(bootstrap(tmp_path / "a")[1])
    assert levels == {
        "metadata.version": 21,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }


def test_a_broker_has_nothing_to_say_of_the_cluster(run, tmp_path):
    code, out, _ = run(roles="broker", keys=DYNAMIC)
    assert code == 0 and "formatted" in out
    assert bootstrap(tmp_path / "a") is None


def test_a_new_cluster_id_can_be_drawn(run, tmp_path):
    code, out, _ = run("--standalone", cluster="random-uuid")
    assert code == 0
    meta = read_meta_properties(OsDisk(), str(tmp_path / "a"))
    assert out.endswith(f"cluster id {meta.cluster_id}\n") and len(meta.cluster_id) == 22


def test_what_is_formatted_is_left_alone(run, tmp_path):
    assert run("--standalone")[0] == 0
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    code, _, err = run("--standalone")
    assert code == 1 and "--ignore-formatted" in err
    (tmp_path / "b" / "meta.properties").unlink()
    code, out, _ = run("--standalone", "--ignore-formatted")
    assert code == 0 and "formatted already" in out and "formatted data directory" in out
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before


@pytest.mark.parametrize(
    "options", [("--initial-controllers", VOTERS), ("--standalone", "--directory-id", FIRST)]
)
def test_a_formatted_directory_with_another_id_is_not_passed_over(run, tmp_path, options):
    assert run("--standalone", "--directory-id", SECOND)[0] == 0
    code, _, err = run(*options, "--ignore-formatted")
    assert code == 1 and f"directory id {SECOND} and not {FIRST}" in err
    meta = read_meta_properties(OsDisk(), str(tmp_path / "a"))
    assert str(meta.directory_id) == SECOND


def test_brokers_take_the_list_of_controllers(run, tmp_path):
    assert run("--initial-controllers", f"2@h:1:{SECOND}", roles="broker")[0] == 0


def test_any_cluster_id_will_do_but_an_odd_one_is_mentioned(run):
    """Kafka's tool takes any text, too."""
    code, out, err = run("--standalone", cluster="nonsense")
    assert code == 0 and "formatted" in out and "'nonsense' is none of 22" in err


def test_a_usual_cluster_id_is_not_mentioned(run):
    assert run("--standalone")[2] == ""


def test_another_clusters_directory_is_never_touched(run, tmp_path):
    assert run("--standalone")[0] == 0
    code, _, err = run("--standalone", "--ignore-formatted", cluster="another")
    assert code == 1 and f"cluster {CLUSTER}" in err


def test_a_directory_with_anything_in_it_is_not_formatted(run, tmp_path):
    (tmp_path / "b" / "photos").mkdir(parents=True)
    code, _, err = run("--standalone")
    assert code == 1 and "photos" in err
    assert not (tmp_path / "a").exists(), "nothing is written before everything is checked"


@pytest.mark.parametrize(
    ("arguments", "keys", "roles", "what"),
    [
        ((), DYNAMIC, "controller", "--standalone"),
        (("--standalone",), DYNAMIC, "broker", "controller"),
        (("--standalone",), STATIC, "controller", "do not go together"),
        (("--initial-controllers", "1@h:1"), DYNAMIC, "controller", "ID@HOST:PORT"),
        (("--initial-controllers", f"2@h:1:{FIRST}"), DYNAMIC, "controller", "not among"),
        (("--initial-controllers", f"1@h:9:{FIRST}"), DYNAMIC, "controller", "is at 9093"),
        (("--initial-controllers", f"1@h:9:{FIRST}"), DYNAMIC, "broker", "cannot be a voter"),
        (("--initial-controllers", " , "), DYNAMIC, "controller", "no voters"),
        (("--initial-controllers", f"1@h:0:{FIRST}"), DYNAMIC, "controller", "port"),
        (("--initial-controllers", f"1@h:1:{FIRST},1@h:2:{SECOND}"), DYNAMIC, "controller", "dis"),
        (("--standalone", "--feature", "kraft.version=0"), DYNAMIC, "controller", "together"),
        (("--feature", "kraft.version=1"), STATIC, "controller", "together"),
        (("--feature", "test.feature.version=1"), STATIC, "controller", "no feature"),
        (("--feature", "share.version=3"), STATIC, "controller", "0 to 2"),
        (("--feature", "metadata.version=99"), STATIC, "controller", "7 to 33"),
        (("--feature", "metadata.version"), STATIC, "controller", "NAME=LEVEL"),
        (
            ("-f", "eligible.leader.replicas.version=1", "-r", "3.9"),
            STATIC,
            "controller",
            "4.0-IV1",
        ),
        (("--release-version", "2.8"), STATIC, "controller", "2.8"),
        (
            ("--release-version", "4.0", "-f", "metadata.version=30"),
            STATIC,
            "controller",
            "are one",
        ),
        (("--directory-id", "x"), STATIC, "controller", "--directory-id"),
        (("--directory-id", str(Uuid.ZERO)), STATIC, "controller", "reserved"),
        (("--cluster-id", "two\nlines"), STATIC, "controller", "printed"),
        (("--cluster-id", "x" * 1000), STATIC, "controller", "more than"),
        (("--data-dir", ""), STATIC, "controller", "log.dirs"),
        (("--feature", f"metadata.version={'9' * 5000}"), STATIC, "controller", "NAME=LEVEL"),
        (("--initial-controllers", f"{'9' * 5000}@h:1:{FIRST}"), DYNAMIC, "controller", "ID@HOST"),
        (("--initial-controllers", f"1@h:1:{Uuid.ZERO}"), DYNAMIC, "controller", "reserved"),
        (
            ("--directory-id", SECOND, "--initial-controllers", VOTERS),
            DYNAMIC,
            "controller",
            "different",
        ),
    ],
)
def test_configurations_that_cannot_be_formatted_are_refused(
    run, tmp_path, arguments, keys, roles, what
):
    code, _, err = run(*arguments, keys=keys, roles=roles)
    assert code == 2 and what in err and err.startswith("fencepost format: ")
    assert not (tmp_path / "a").exists()


def test_a_running_nodes_directory_is_not_formatted(run, tmp_path):
    assert run("--standalone")[0] == 0
    log_dir = LogDir.open(OsDisk(), str(tmp_path / "a"))
    (tmp_path / "a" / "meta.properties").unlink()
    for name in ("recovery-point-offset-checkpoint", "partition.metadata"):
        (tmp_path / "a" / name).unlink(missing_ok=True)
    try:
        code, _, err = run("--standalone", "--ignore-formatted")
    finally:
        log_dir.close(clean=False)
    assert code == 1 and "in use" in err


def test_levels_have_names():
    assert [level_of(name) for name in ("4.4", "4.3", "4.2", "4.1-IV0", "3.7", "3.3-IV3")] == [
        33,
        30,
        29,
        26,
        19,
        7,
    ]
    assert (name_of(29), name_of(99)) == ("4.2-IV1", "99")
    with pytest.raises(ValueError, match=r"3\.3-IV3"):
        level_of("1.0")


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_leaves_a_directory_that_can_be_formatted(power):
    """`meta.properties` comes last: a directory has it, and all that is behind it, or not."""
    config = BrokerConfig.load(
        None,
        {
            "process.roles": "controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listeners": "CONTROLLER://localhost:9093",
            "log.dirs": "/data",
            **DYNAMIC,
        },
    )
    voters = VoterSet.of_ids((1,))
    plan = FormatPlan(
        CLUSTER,
        Uuid.from_string(FIRST),
        {"metadata.version": 30, "kraft.version": 1},
        voters,
        ignore_formatted=True,
    )

    def formatted(disk):
        format_directories(disk, config, plan, 1)
        return disk

    changes = formatted(SimDisk()).changes
    assert changes > 8
    for crash_at in range(1, changes + 1):
        disk = SimDisk(crash_at)
        disk.crash_at = crash_at
        with pytest.raises(Crash):
            formatted(disk)
        disk.crash_at = None
        if power:
            disk.power_loss()
        else:
            disk.process_death()
        formatted(disk)
        path = f"/data/__cluster_metadata-0/{BOOTSTRAP_ID}.checkpoint"
        file = disk.open(path)
        reader = SnapshotReader(file, path)
        assert sum(header.records_count for header, _ in reader) == 1
        assert read_meta_properties(disk, "/data").cluster_id == CLUSTER


def test_what_a_crash_left_of_another_plan_is_no_part_of_the_next(run, tmp_path):
    """Who is to join others would lead a cluster of its own with the snapshot that is there."""
    assert run("--standalone")[0] == 0
    for name in "ab":
        (tmp_path / name / "meta.properties").unlink()
    snapshot = tmp_path / "a" / "__cluster_metadata-0" / f"{BOOTSTRAP_ID}.checkpoint"
    assert snapshot.exists()
    assert run("--no-initial-controllers")[0] == 0
    header, _ = bootstrap(tmp_path / "a")
    assert header.voters is None


@pytest.mark.parametrize("below", ["", "/below"])
def test_a_file_in_the_place_of_a_directory_is_named(run, tmp_path, below):
    (tmp_path / "file").touch()
    path = f"{tmp_path}/file{below}"
    code, _, err = run("--standalone", keys={**DYNAMIC, "log.dirs": path})
    assert code == 1 and err.count("\n") == 1
    assert err.startswith(f"fencepost format: {path}") and "not a directory" in err.lower()
    assert "Errno" not in err


def test_users_of_scram_are_in_the_bootstrap_snapshot(run, tmp_path):
    user = "SCRAM-SHA-512=[name=ada,password=pa55w0rd,iterations=8192]"
    code, out, err = run("--standalone", "--add-scram", user, "-S", user.replace("ada", "bob"))
    assert (code, err) == (0, "") and "pa55w0rd" not in out
    _, found = bootstrap(tmp_path / "a")
    credentials = [one for one in found if one.record_id == 11]
    assert [(one.name, one.mechanism) for one in credentials] == [("ada", 2), ("bob", 2)]


def test_users_of_scram_are_refused_before_anything_is_written(run, tmp_path):
    user = "SCRAM-SHA-256=[name=ada,password=pa55w0rd]"
    code, _, err = run("--standalone", "-S", user, "--release-version", "3.5-IV1", "-f", "x=1")
    assert code == 2
    code, _, err = run("-N", "-S", user, "--release-version", "3.5-IV1", "-f", "kraft.version=1")
    assert code == 2 and "SCRAM is only supported in metadata.version 3.5-IV2 or later" in err
    code, _, err = run("--standalone", "-S", "SCRAM-SHA-256=[name=ada,pa55w0rd]")
    assert code == 2 and "component 2" in err and "pa55w0rd" not in err
    assert not (tmp_path / "a").exists()
