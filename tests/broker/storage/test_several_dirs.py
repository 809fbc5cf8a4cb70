"""Several log directories: where partitions go, and what is left when one of them fails."""

from __future__ import annotations

import errno
import logging
import shutil
import time
from pathlib import Path

import pytest

from fencepost.batch.records import build_batch
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.file_limit import share_files
from fencepost.broker.storage.data_dirs import open_data_dirs
from fencepost.broker.storage.storage import (
    SHORTAGE_TOLD_EVERY_S,
    ShortageLog,
    open_storage,
)
from fencepost.log.disk import OsDisk, OsFile
from fencepost.log.errors import LogError
from fencepost.log.meta import format_log_dir, read_meta_properties
from fencepost.machines.image import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from fencepost.runtime.halted import HaltCause, HaltedReplica, ReplicaUnavailable
from fencepost.runtime.replica_storage import ReplicaPlacement
from fencepost.wire.api import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
    MetadataRequest,
    ProduceRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from fencepost.wire.api.metadata import MetadataRequestTopic
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..conftest import RunningNode
from .test_bad_disks import small_disk

NAMES = ("a", "b", "c")


def batch(value: bytes) -> bytes:
    return bytes(build_batch([(None, value)], timestamp_ms=int(time.time() * 1000)))


def produce_to(client, topic, index, records):
    data = PartitionProduceData(index=index, records=records)
    named = TopicProduceData(name=topic, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[named])
    return client.ask(request, 9).responses[0].partition_responses[0]


class Dirs:
    """A node on three directories."""

    def __init__(self, path: Path, **config: str) -> None:
        self.paths = [path / name for name in NAMES]
        self.config = config
        self.running = RunningNode(path, {**config, "log.dirs": ",".join(map(str, self.paths))})

    def replica(self, index: int, topic: str = "t"):
        return self.running.call(self.running.node.broker.replicas.get, topic, index)

    def place(self, index: int, topic: str = "t") -> str:
        return Path(self.replica(index, topic).data_dir.path).name

    def image_directory(self, index: int, topic: str = "t") -> Uuid:
        node = self.running.node
        return node.image.topics_by_name[topic].partitions[index].directories[0]

    def halted(self) -> list[HaltedReplica]:
        return self.running.call(self.running.node.broker.halted.now)

    def leader(self, index: int, topic: str = "t") -> int:
        return self.running.node.image.topics_by_name[topic].partitions[index].leader


def create(client, name="t", partitions=6):
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (made,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
    assert made.error_code == 0


@pytest.fixture
def dirs(tmp_path):
    started = Dirs(tmp_path)
    yield started
    started.running.close()


def described(client):
    answer = client.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        Path(one.log_dir).name: (
            one.error_code,
            sorted(p.partition_index for t in one.topics for p in t.partitions),
        )
        for one in answer.results
    }


def test_new_partitions_go_where_there_are_fewest_and_the_controller_is_told(dirs):
    with dirs.running.connect() as client:
        create(client)
        assert described(client) == {"a": (0, [0, 3]), "b": (0, [1, 4]), "c": (0, [2, 5])}
    ids = {path.name: read_meta_properties(OsDisk(), str(path)).directory_id for path in dirs.paths}
    assert len(set(ids.values())) == 3
    eventually(lambda: dirs.image_directory(5) == ids["c"])
    assert [dirs.image_directory(index) for index in range(3)] == [ids["a"], ids["b"], ids["c"]]
    with dirs.running.connect() as client:
        create(client, "more", 1)
        create(client, "most", 1)
    assert (dirs.place(0, "more"), dirs.place(0, "most")) == ("a", "b")
    with dirs.running.connect() as client:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="more")], timeout_ms=60_000)
        assert client.ask(request, 6).responses[0].error_code == 0
        eventually(lambda: not (dirs.paths[0] / "more-0").exists())
        create(client, "last", 1)
    assert dirs.place(0, "last") == "a", "what was deleted does not count"
    assert dirs.running.node.image.brokers[1].log_dirs == tuple(sorted(ids.values()))


def test_a_partition_is_where_it_was_after_a_restart(dirs):
    with dirs.running.connect() as client:
        create(client)
        for index in range(6):
            assert produce_to(client, "t", index, batch(b"%d" % index)).error_code == 0
    before = [dirs.place(index) for index in range(6)]
    dirs.running.restart()
    assert [dirs.place(index) for index in range(6)] == before
    assert [dirs.replica(index).log.end_offset for index in range(6)] == [1] * 6
    assert not any(dirs.replica(index).log.recovery.was_unclean for index in range(6))


def fail_dir(dirs, index):
    """The disk of the partition's directory refuses its next sync."""

    def refuse():
        hosted = dirs.running.node.broker.replicas.get("t", index)
        hosted.log.fail("the disk refuses")

    dirs.running.call(refuse)


def test_a_directory_that_fails_takes_its_partitions_along_and_no_others(dirs):
    with dirs.running.connect() as client:
        create(client)
        fail_dir(dirs, 1)
        assert produce_to(client, "t", 1, batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce_to(client, "t", 4, batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for index in (0, 2, 3, 5):
            assert produce_to(client, "t", index, batch(b"x")).error_code == 0
        assert described(client) == {"a": (0, [0, 3]), "b": (56, []), "c": (0, [2, 5])}
        eventually(lambda: dirs.leader(1) == dirs.leader(4) == -1)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        (told,) = client.ask(asked, 12).topics
        parts = {part.partition_index: part for part in told.partitions}
        assert parts[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (parts[1].offline_replicas, parts[1].isr_nodes) == ([1], [])
        described_as = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        (topic,) = client.ask(described_as, 0).topics
        (partition,) = [one for one in topic.partitions if one.partition_index == 1]
        assert partition.eligible_leader_replicas == [1], "no other replica has the records"
        assert (parts[0].error_code, parts[0].leader_id, parts[0].offline_replicas) == (0, 1, [])
        create(client, "later", 4)
        assert {dirs.place(index, "later") for index in range(4)} == {"a", "c"}
    assert dirs.running.node.failure is None
    assert len(dirs.running.node.image.brokers[1].log_dirs) == 2


def test_a_directory_that_is_back_brings_its_partitions_back(dirs):
    with dirs.running.connect() as client:
        create(client)
        assert produce_to(client, "t", 1, batch(b"kept")).error_code == 0
        fail_dir(dirs, 4)
        assert produce_to(client, "t", 4, batch(b"x")).error_code == 56
        eventually(lambda: dirs.leader(1) == -1)
    dirs.running.restart()
    assert not (dirs.paths[1] / ".kafka_cleanshutdown").exists()
    assert dirs.leader(1) == dirs.leader(4) == 1
    assert dirs.replica(1).log.end_offset == 1
    assert dirs.replica(1).log.recovery.was_unclean
    assert not dirs.replica(0).log.recovery.was_unclean


@pytest.mark.parametrize("damage", ["gone", "meta", "file"])
def test_a_node_starts_without_a_directory_and_makes_nothing_anew(dirs, damage):
    with dirs.running.connect() as client:
        create(client)
        assert produce_to(client, "t", 1, batch(b"kept")).error_code == 0
        eventually(lambda: int.from_bytes(dirs.image_directory(5), "big") > 99)
    dirs.running.call(dirs.running.node.stop)
    kept = dirs.paths[1].with_name("kept")
    if damage == "meta":
        shutil.copytree(dirs.paths[1], kept)
        (dirs.paths[1] / "meta.properties").write_bytes(b"\xff\0garbage=\\u12")
    else:
        dirs.paths[1].rename(kept)
    if damage == "file":
        dirs.paths[1].write_text("not a directory")
    dirs.running.node = dirs.running.start()
    with dirs.running.connect() as client:
        for index in (0, 2, 3, 5):
            assert produce_to(client, "t", index, batch(b"x")).error_code == 0
        assert produce_to(client, "t", 1, batch(b"x")).error_code == 56
        told = described(client)
        assert told["b"] == ((0, []) if damage == "gone" else (56, []))
        assert told["a"] == (0, [0, 3])
        assert dirs.leader(1) == -1
    causes = {one.name: one.cause for one in dirs.halted()}
    missing = HaltCause.ONLY_COPY_MISSING if damage == "gone" else HaltCause.DIRECTORY_OFFLINE
    assert causes == {"t-1": missing, "t-4": missing}
    dirs.running.call(dirs.running.node.stop)
    if damage == "file":
        dirs.paths[1].unlink()
    else:
        shutil.rmtree(dirs.paths[1])
    kept.rename(dirs.paths[1])
    dirs.running.node = dirs.running.start()
    assert dirs.leader(1) == 1
    assert dirs.replica(1).log.end_offset == 1


def test_a_topic_deleted_while_its_directory_was_away_is_set_aside(dirs):
    with dirs.running.connect() as client:
        create(client)
        fail_dir(dirs, 1)
        assert produce_to(client, "t", 1, batch(b"x")).error_code == 56
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
        assert client.ask(request, 6).responses[0].error_code == 0
        create(client, "t", 3)
    dirs.running.restart()
    strays = [path.name for path in dirs.paths[1].iterdir() if path.name.endswith("-stray")]
    assert sorted(name[:4] for name in strays) == ["t-1.", "t-4."]
    assert {dirs.place(index) for index in range(3)} == {"a", "c"}


def refuse_in(monkeypatch, path, operation):
    """A disk that gives EIO for what is in `path`."""
    original = getattr(OsFile, operation)

    def refuse(self, *arguments):
        if self.path.startswith(f"{path}/"):
            raise OSError(errno.EIO, "Input/output error", self.path)
        return original(self, *arguments)

    monkeypatch.setattr(OsFile, operation, refuse)


@pytest.mark.parametrize("operation", ["sync", "write_at"])
def test_a_disk_that_gives_errors_takes_its_directory_offline(dirs, monkeypatch, operation):
    with dirs.running.connect() as client:
        create(client)
        refuse_in(monkeypatch, dirs.paths[1], operation)
        assert produce_to(client, "t", 1, batch(b"x")).error_code == 56
        eventually(lambda: dirs.leader(1) == dirs.leader(4) == -1)
        for index in (0, 2, 3, 5):
            assert produce_to(client, "t", index, batch(b"x")).error_code == 0
        assert described(client)["b"] == (56, [])


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(dirs, monkeypatch):
    with dirs.running.connect() as client:
        create(client)
        for index in range(6):
            assert produce_to(client, "t", index, batch(b"x")).error_code == 0
        refuse_in(monkeypatch, dirs.paths[1], "write_at")
        dirs.running.call(dirs.running.node.storage.checkpoint_recovery_points)
        assert {name: error for name, (error, _) in described(client).items()} == {
            "a": 0,
            "b": 56,
            "c": 0,
        }
    assert "t 2 1" in (dirs.paths[2] / "recovery-point-offset-checkpoint").read_text()


@pytest.mark.slow
def test_a_disk_that_is_full_takes_its_directory_offline_and_no_other(tmp_path):
    with small_disk("4m") as full:
        paths = [tmp_path / "roomy", full / "data"]
        running = RunningNode(tmp_path, {"log.dirs": ",".join(map(str, paths))})
        try:
            with running.connect() as client:
                create(client, partitions=2)
                (small,) = (
                    index
                    for index in range(2)
                    if running.node.broker.replicas.get("t", index).data_dir.path == str(paths[1])
                )
                errors = {produce_to(client, "t", small, batch(bytes(900_000))).error_code}
                for _ in range(9):
                    errors.add(produce_to(client, "t", small, batch(bytes(900_000))).error_code)
                assert errors == {0, 56}
                assert produce_to(client, "t", 1 - small, batch(b"x")).error_code == 0
                assert described(client)["data"][0] == 56
            assert running.node.failure is None
        finally:
            running.close()


def test_without_the_metadata_logs_directory_the_node_stops(dirs):
    with dirs.running.connect() as client:
        create(client)
        fail_dir(dirs, 0)
        assert produce_to(client, "t", 0, batch(b"x")).error_code == 56
        assert produce_to(client, "t", 1, batch(b"x")).error_code == 56
        assert {error for error, _ in described(client).values()} == {56}
    assert "disk refuses" in dirs.running.node.failure
    assert dirs.running.call(dirs.running.node.stop_requested)[1] == 1


def test_the_metadata_log_may_have_a_directory_of_its_own(tmp_path):
    dirs = Dirs(tmp_path, **{"metadata.log.dir": str(tmp_path / "meta")})
    try:
        with dirs.running.connect() as client:
            create(client, partitions=3)
            assert described(client) == {"a": (0, [0]), "b": (0, [1]), "c": (0, [2])}
            for index in range(2):
                fail_dir(dirs, index)
                assert produce_to(client, "t", index, batch(b"x")).error_code == 56
            assert dirs.running.node.failure is None
            assert produce_to(client, "t", 2, batch(b"x")).error_code == 0
            fail_dir(dirs, 2)
            assert produce_to(client, "t", 2, batch(b"x")).error_code == 56
        assert dirs.running.node.failure is not None, "no directory is left"
        assert (tmp_path / "meta" / "__cluster_metadata-0").is_dir()
        assert not (tmp_path / "a" / "__cluster_metadata-0").exists()
    finally:
        dirs.running.close()


# -- directories that do not go together ----------------------------------------------------------


def opened(tmp_path, **config):
    names = ",".join(str(tmp_path / name) for name in NAMES)
    return open_data_dirs(BrokerConfig.load(None, {"log.dirs": names, **config}), OsDisk())


def close(dirs):
    for one in dirs.all:
        if one.log_dir is not None:
            one.log_dir.close()


def make(path, cluster_id="c", node_id=1, number=200):
    directory_id = Uuid(number.to_bytes(16, "big"))
    format_log_dir(
        OsDisk(), str(path), cluster_id=cluster_id, node_id=node_id, directory_id=directory_id
    )


def test_new_directories_join_the_cluster_of_the_others(tmp_path):
    make(tmp_path / "a")
    found = opened(tmp_path)
    assert found.cluster_id == "c"
    assert all(one.is_online for one in found.all)
    close(found)
    assert read_meta_properties(OsDisk(), str(tmp_path / "c")).cluster_id == "c"


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"cluster_id": "other"}, "different clusters"),
        ({"node_id": 2}, "belongs to node 2"),
        ({"number": 200}, "same directory.id"),
    ],
)
def test_directories_that_do_not_go_together_stop_the_start(tmp_path, second, says):
    make(tmp_path / "a")
    make(tmp_path / "b", **{"number": 201, **second})
    with pytest.raises(LogError, match=says):
        opened(tmp_path)


def test_an_empty_directory_beside_others_is_said_to_be_of_their_cluster(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        make(tmp_path / "a")
        close(opened(tmp_path))
    said = [one.getMessage() for one in caplog.records if "formatted" in one.getMessage()]
    assert len(said) == 2
    assert all("for node 1 of cluster c: replicas that were on a disk" in one for one in said)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        close(opened(tmp_path / "new"))
    assert "of the new cluster" in caplog.text


ANY_TOPIC = Uuid(b"topic-of-it-all!")
ELSEWHERE = Uuid((999).to_bytes(16, "big"))


@pytest.mark.parametrize(
    ("is_offline", "assigned", "is_only_copy", "is_new", "refused"),
    [
        (False, "elsewhere", False, False, None),
        (False, "elsewhere", True, False, HaltCause.ONLY_COPY_MISSING),
        (False, "elsewhere", True, True, None),
        (False, "a", True, False, None),
        (False, "unassigned", True, False, None),
        (False, "lost", False, False, None),
        (True, "elsewhere", False, False, HaltCause.DIRECTORY_OFFLINE),
        (True, "elsewhere", False, True, None),
        (True, "a", False, False, None),
        (True, "a", True, False, HaltCause.DIRECTORY_OFFLINE),
        (True, "b", False, False, HaltCause.DIRECTORY_OFFLINE),
        (True, "unassigned", False, False, HaltCause.DIRECTORY_OFFLINE),
    ],
)
def test_a_replica_that_no_directory_has(
    tmp_path, is_offline, assigned, is_only_copy, is_new, refused
):
    """The table of `storage`; "a" is the first directory, "b" the one that may be offline."""
    config = BrokerConfig.load(None, {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"})
    storage = open_storage(config, share_files(config, 4_096), lambda: 0)
    ids = {Path(one.path).name: one.directory_id for one in storage.data_dirs}
    ids |= {"elsewhere": ELSEWHERE, "unassigned": DIRECTORY_UNASSIGNED, "lost": DIRECTORY_LOST}
    placement = ReplicaPlacement(ids[assigned], is_new=is_new, is_only_copy=is_only_copy)

    def begin():
        return storage.begin_open(("t", 0), ANY_TOPIC, config.log_config({}), placement)

    try:
        if is_offline:
            storage.data_dirs[1].fail("the disk refuses")
        if refused is None:
            assert storage.finish_open(begin()).end_offset == 0
        else:
            with pytest.raises(ReplicaUnavailable, match=r"accept\.loss|repair the disk") as raised:
                begin()
            assert raised.value.cause is refused
    finally:
        storage.close(clean=False, broker_epoch=-1, high_watermarks={})


def test_an_empty_metadata_directory_beside_others_is_no_new_cluster(tmp_path):
    make(tmp_path / "b")
    with pytest.raises(LogError, match="metadata log is missing"):
        opened(tmp_path)
    assert not (tmp_path / "a").exists()


def test_a_file_in_place_of_the_first_directory_stops_the_start(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(LogError, match="a is not a directory"):
        opened(tmp_path)


def test_a_directory_with_files_of_nobodys_stops_the_start(tmp_path):
    make(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "t-0").mkdir()
    with pytest.raises(LogError, match=r"partitions but no meta\.properties"):
        opened(tmp_path)


def test_a_partition_in_two_directories_is_offline_until_one_is_moved_away(dirs):
    with dirs.running.connect() as client:
        create(client)
        assert produce_to(client, "t", 1, batch(b"kept")).error_code == 0
    dirs.running.call(dirs.running.node.stop)
    for name in ("a", "c"):
        shutil.copytree(dirs.paths[1] / "t-1", dirs.paths[NAMES.index(name)] / "t-1")
    shutil.rmtree(dirs.paths[1] / "t-1")
    dirs.running.node = dirs.running.start()
    with dirs.running.connect() as client:
        assert produce_to(client, "t", 1, batch(b"x")).error_code == 56
        assert produce_to(client, "t", 4, batch(b"x")).error_code == 0
    (halted,) = dirs.halted()
    assert (halted.name, halted.cause) == ("t-1", HaltCause.LOG_IN_TWO_DIRS)
    assert str(dirs.paths[0]) in halted.why
    assert str(dirs.paths[2]) in halted.why
    dirs.running.call(dirs.running.node.stop)
    shutil.rmtree(dirs.paths[0] / "t-1")  # neither was set aside as a stray
    dirs.running.node = dirs.running.start()
    assert (dirs.place(1), dirs.replica(1).log.end_offset, dirs.halted()) == ("c", 1, [])


def test_a_partition_moved_by_hand_is_found_and_the_controller_is_told(dirs):
    with dirs.running.connect() as client:
        create(client)
        assert produce_to(client, "t", 1, batch(b"kept")).error_code == 0
    dirs.running.call(dirs.running.node.stop)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        text = (dirs.paths[1] / name).read_text()
        assert "t 1 1" in text
    shutil.move(dirs.paths[1] / "t-1", dirs.paths[2] / "t-1")
    dirs.running.node = dirs.running.start()
    assert dirs.place(1) == "c"
    assert dirs.replica(1).log.end_offset == 1
    moved = read_meta_properties(OsDisk(), str(dirs.paths[2])).directory_id
    eventually(lambda: dirs.image_directory(1) == moved)
    with dirs.running.connect() as client:
        assert produce_to(client, "t", 1, batch(b"more")).base_offset == 1


def storage_of(tmp_path, names):
    paths = ",".join(str(tmp_path / name) for name in names)
    config = BrokerConfig.load(None, {"log.dirs": paths})
    return open_storage(config, share_files(config, 4_096), lambda: 0)


def close_storage(storage, broker_epoch=-1):
    return storage.close(clean=True, broker_epoch=broker_epoch, high_watermarks={})


def test_the_last_broker_epoch_is_known_if_all_directories_were_closed_with_it(tmp_path):
    """The controller keeps a replica eligible that says so (KIP-966)."""
    assert close_storage(storage_of(tmp_path, "ab"), 7)
    found = storage_of(tmp_path, "ab")
    assert found.previous_broker_epoch() == 7 and not found.may_need_recovery
    assert close_storage(found, 8)
    found = storage_of(tmp_path, "abc")
    assert found.previous_broker_epoch() == -1  # there is none of the new one
    found.data_dirs[1].fail("the disk refuses")
    assert close_storage(found, 9)
    found = storage_of(tmp_path, "abc")
    assert [one.logs.was_clean for one in found.data_dirs] == [True, False, True]
    assert found.previous_broker_epoch() == -1 and found.may_need_recovery
    close_storage(found)


def test_a_shortage_is_told_with_how_many_it_concerned(caplog):
    shortages = ShortageLog()
    for name in "abc":
        shortages.note(name)
    shortages._told_at -= SHORTAGE_TOLD_EVERY_S
    shortages.note("d")
    shortages._told_at -= SHORTAGE_TOLD_EVERY_S
    shortages.note("e")
    assert [record.args for record in caplog.records] == [(1, "a"), (3, "d"), (1, "e")]


def test_the_first_deletion_of_all_directories_counts(tmp_path):
    storage = storage_of(tmp_path, "abc")
    assert storage.first_deleted_ms is None
    for number, deleted_ms in enumerate((300, 100, 200)):
        storage.data_dirs[number].logs.note_deleted("t-0.x-delete", deleted_ms)
    assert storage.first_deleted_ms == 100
    storage.data_dirs[1].fail("the disk refuses")
    assert storage.first_deleted_ms == 200
    close_storage(storage)


def test_what_formatting_leaves_when_it_is_cut_short_is_harmless(tmp_path):
    (tmp_path / "a" / "lost+found").mkdir(parents=True)
    (tmp_path / "a" / "meta.properties.tmp").write_text("half")
    (tmp_path / "a" / ".lock").write_text("")
    found = opened(tmp_path)
    assert all(one.is_online for one in found.all)
    close(found)
