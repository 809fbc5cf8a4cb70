"""A log directory: its checkpoints, its marker, partitions that come, go and come again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.log.checkpoints import OffsetCheckpoint
from fencepost.log.disk import OsDisk
from fencepost.log.errors import DurableDataLostError, LogDirNotFormattedError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, contents, make_batch

CONFIG = config(internal_segment_bytes=500)
ID_A = Uuid(bytes(15) + b"\1")
ID_B = Uuid(bytes(15) + b"\2")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    return disk


def open_dir(disk: SimDisk) -> LogDir:
    return LogDir.open(disk, "/data/")


def create(log_dir: LogDir, topic: str = "t", partition: int = 0, topic_id: Uuid = ID_A, **kw):
    return log_dir.create(topic, partition, topic_id, CONFIG, wall_ms=NOW_MS, **kw)


def read_points(disk: SimDisk, name: str = "recovery-point") -> dict[tuple[str, int], int]:
    return OffsetCheckpoint(disk, f"/data/{name}-offset-checkpoint").read()


def test_an_unformatted_directory_is_refused():
    disk = SimDisk()
    disk.mkdir("/data")
    with pytest.raises(LogDirNotFormattedError):
        LogDir.open(disk, "/data")
    assert not disk.locks


def test_a_life_and_the_next(disk):
    log_dir = open_dir(disk)
    assert log_dir.meta.node_id == 1
    assert not log_dir.was_clean
    log = create(log_dir)
    other = create(log_dir, "other", 12, ID_B)
    for _ in range(20):
        append(log, make_batch(2, 50))
    append(other)
    log.advance_start_offset(5)
    before = contents(log)
    log_dir.close(broker_epoch=77, high_watermarks={("t", 0): 40, ("other", 12): 1})
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 40\nother 12 1\n"
    assert disk.read("/data/log-start-offset-checkpoint") == b"0\n1\nt 0 5\n"
    assert disk.read("/data/replication-offset-checkpoint") == b"0\n2\nt 0 40\nother 12 1\n"
    disk.power_loss()
    log_dir = open_dir(disk)
    assert log_dir.was_clean
    assert log_dir.previous_broker_epoch == 77
    assert not disk.exists("/data/.kafka_cleanshutdown")
    assert log_dir.partitions_on_disk() == [("other", 12), ("t", 0)]
    log_dir.open_all(lambda topic: CONFIG, wall_ms=NOW_MS)
    log = log_dir.get("t", 0)
    assert contents(log) == before
    assert log.start_offset == 5
    assert log.topic_id == ID_A
    assert not log.recovery.was_unclean
    assert log_dir.high_watermark("t", 0) == 40
    assert log_dir.high_watermark("unknown", 0) == 0
    assert log_dir.get("t", 1) is None


def test_creating_is_opening_what_is_there(disk):
    log_dir = open_dir(disk)
    log = create(log_dir)
    assert create(log_dir) is log
    append(log)
    log_dir.close()
    log_dir = open_dir(disk)
    assert create(log_dir).end_offset == 1


def test_a_topic_deleted_and_created_again_begins_empty(disk):
    """S29: nothing of the old topic's log, start or high watermark may pass to the new one."""
    log_dir = open_dir(disk)
    log = create(log_dir)
    for _ in range(20):
        append(log, make_batch(2, 50))
    log.flush()
    log.advance_start_offset(30)
    log_dir.checkpoint({("t", 0): 40})
    log_dir.delete(log, "0" * 32)
    assert disk.list("/data")[-1] == "t-0." + "0" * 32 + "-delete"
    again = create(log_dir, topic_id=ID_B)
    assert (again.start_offset, again.end_offset, again.topic_id) == (0, 0, ID_B)
    assert log_dir.high_watermark("t", 0) == 0
    # a crash now must not find the old topic's checkpoints
    disk.power_loss()
    log_dir = open_dir(disk)
    again = create(log_dir, topic_id=ID_B)
    assert (again.start_offset, again.end_offset) == (0, 0)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_directory_of_another_topic_id_goes_out_of_the_way(disk, is_open):
    """Deleted if it was known to be another topic's; what is only found so is kept, set aside."""
    log_dir = open_dir(disk)
    append(create(log_dir))
    if not is_open:
        log_dir.close()
        log_dir = open_dir(disk)
    log = create(log_dir, topic_id=ID_B)
    assert log.end_offset == 0
    suffix = "-delete" if is_open else "-stray"
    assert [name for name in disk.list("/data") if name.endswith(suffix)]
    log_dir.checkpoint()
    assert bool([name for name in disk.list("/data") if name.endswith(suffix)]) == (not is_open)


@pytest.mark.parametrize("topic", ["t", "long" * 62])
@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("end", ["deleted", "removed", "set aside"])
def test_a_partition_that_was_deleted_or_set_aside_is_not_missed(disk, caplog, topic, crashed, end):
    log_dir = open_dir(disk)
    append(create(log_dir, topic))
    log_dir.get(topic, 0).flush()
    log_dir.checkpoint()
    if end == "set aside":
        log_dir.close()
        log_dir = open_dir(disk)
        assert log_dir.rename_stray(topic, 0).endswith("-stray")
        assert log_dir.unopened() == []
    else:
        log_dir.delete(log_dir.get(topic, 0))
        assert log_dir.remove_deleted(0, 0 if end == "removed" else 1000) == (end == "removed")
    if crashed:
        disk.power_loss()
        log_dir = open_dir(disk)
    assert create(log_dir, topic, topic_id=ID_B).end_offset == 0
    assert caplog.messages == []


def test_a_partition_whose_directory_was_lost_is_missed(disk, caplog):
    log_dir = open_dir(disk)
    for topic in ("t", "t-0", "t-00"):
        append(create(log_dir, topic))
        log_dir.get(topic, 0).flush()
    log_dir.checkpoint()
    log_dir.delete(log_dir.get("t-0", 0))
    log_dir.delete(log_dir.get("t-00", 0))
    log_dir.close()
    for name in disk.list("/data/t-0"):
        disk.unlink(f"/data/t-0/{name}")
    disk.rmdir("/data/t-0")
    create(open_dir(disk))
    assert caplog.messages == ["/data/t-0 no longer exists; creating an empty log"]


def test_a_partition_that_is_set_aside_leaves_the_rest_to_be_closed_in_order(disk):
    log_dir = open_dir(disk)
    for topic in ("t", "unknown"):
        append(create(log_dir, topic))
        log_dir.get(topic, 0).flush()
    log_dir.checkpoint()
    disk.power_loss()
    log_dir = open_dir(disk)
    create(log_dir)
    log_dir.rename_stray("unknown", 0)
    log_dir.close()
    assert read_points(disk) == {("t", 0): 1}
    assert open_dir(disk).was_clean


def test_files_of_deleted_partitions_go_with_a_checkpoint(disk):
    log_dir = open_dir(disk)
    log = create(log_dir)
    for _ in range(20):
        append(log, make_batch(2, 50))
    log_dir.delete(log)
    assert log_dir.get("t", 0) is None
    log_dir.checkpoint()
    assert not [name for name in disk.list("/data") if name.startswith("t-0")]
    assert read_points(disk) == {}
    assert disk.open_files == 0


def test_what_links_point_to_is_not_removed(tmp_path):
    disk = OsDisk()
    root = str(tmp_path / "data")
    disk.mkdir(root)
    format_log_dir(disk, root, cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    gone = f"t-3.{'a' * 32}-delete"
    (tmp_path / "data" / f"t-0.{'b' * 32}-delete").symlink_to(precious)
    (tmp_path / "data" / f"t-1.{'b' * 32}-stray").symlink_to(precious)
    (tmp_path / "data" / "my-delete").mkdir()
    (tmp_path / "data" / "my-delete" / "file").write_text("not a partition's name")
    (tmp_path / "data" / gone).mkdir()
    (tmp_path / "data" / gone / "link").symlink_to(precious)
    (tmp_path / "data" / f"t-4.{'a' * 32}-delete" / "below").mkdir(parents=True)
    (tmp_path / "data" / f"t-4.{'a' * 32}-delete" / "file").write_text("kept")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / "t-9").symlink_to(tmp_path / "elsewhere")
    log_dir = LogDir.open(disk, root)
    log = log_dir.create("t", 9, ID_A, CONFIG, wall_ms=NOW_MS)
    append(log)
    log_dir.delete(log)
    for _ in range(2):
        log_dir.checkpoint()
    assert (precious / "file").read_text() == "kept"
    assert (tmp_path / "data" / "my-delete" / "file").exists()
    assert (tmp_path / "data" / f"t-4.{'a' * 32}-delete" / "file").exists()
    assert (tmp_path / "elsewhere" / f"{0:020d}.log").exists()
    assert not (tmp_path / "data" / gone).exists()
    left = [name for name in disk.list(root) if name.endswith("-delete")]
    assert left == ["my-delete", f"t-4.{'a' * 32}-delete"]
    log_dir.close()


def test_partitions_that_were_not_opened_keep_their_checkpoints(disk):
    log_dir = open_dir(disk)
    for partition in range(3):
        append(create(log_dir, partition=partition))
    log_dir.close(high_watermarks={("t", at): 1 for at in range(3)})
    log_dir = open_dir(disk)
    append(create(log_dir, partition=1))
    log_dir.checkpoint({("t", 1): 1})
    assert read_points(disk) == {("t", 0): 1, ("t", 1): 1, ("t", 2): 1}
    assert read_points(disk, "replication") == {("t", 0): 1, ("t", 1): 1, ("t", 2): 1}
    log_dir.close()
    assert open_dir(disk).was_clean  # the others were clean before and have not changed


def test_partitions_that_need_recovery_and_were_not_opened_leave_no_clean_marker(disk):
    log_dir = open_dir(disk)
    for partition in range(2):
        append(create(log_dir, partition=partition))
    disk.process_death()
    log_dir = open_dir(disk)
    create(log_dir, partition=1)
    log_dir.close()
    log_dir = open_dir(disk)
    assert not log_dir.was_clean
    assert create(log_dir, partition=0).end_offset == 1
    log_dir.open_all(lambda topic: CONFIG, wall_ms=NOW_MS)
    log_dir.close()
    assert open_dir(disk).was_clean


def test_checkpoints_say_what_is_durable_and_no_more(disk):
    log_dir = open_dir(disk)
    log = create(log_dir)
    append(log)
    log_dir.checkpoint()
    assert read_points(disk) == {("t", 0): 0}
    job = log.begin_flush()
    append(log)
    job.run()
    log_dir.checkpoint()
    assert read_points(disk) == {("t", 0): 0}
    log.finish_flush(job)
    log_dir.checkpoint()
    assert read_points(disk) == {("t", 0): 1}
    writes = len(disk.operations)
    log_dir.checkpoint()
    assert not [1 for operation, _ in disk.operations[writes:] if operation == "write"]


def test_no_start_is_written_down_that_is_not_durable(disk):
    """Or a crash would leave logs that end before they start, as only damage may."""
    for seed in range(20):
        disk = SimDisk(seed)
        format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
        log_dir = open_dir(disk)
        log = create(log_dir)
        append(log, make_batch(4))
        log.flush()
        append(log, make_batch(4))
        log.advance_start_offset(8)
        log_dir.checkpoint()
        assert read_points(disk, "log-start") == {("t", 0): 4}
        disk.power_loss()
        log_dir = open_dir(disk)
        log = create(log_dir)
        assert log.end_offset in (4, 8)
        assert log.start_offset == 4
        log.advance_start_offset(log.end_offset)
        log_dir.checkpoint()
        assert read_points(disk, "log-start") == {("t", 0): log.end_offset}


def test_one_wrong_start_offset_deletes_nothing(disk):
    log_dir = open_dir(disk)
    log = create(log_dir)
    for _ in range(20):
        append(log, make_batch(2, 50))
    expected = contents(log)
    log_dir.close()
    disk.write_atomic("/data/log-start-offset-checkpoint", b"0\n1\nt 0 99999999\n")
    log_dir = open_dir(disk)
    assert log_dir.open_all(lambda _: CONFIG, wall_ms=NOW_MS) == {}
    assert "log-start-offset-checkpoint" in str(log_dir.failed["t", 0])
    log = create(log_dir, accept_loss=True)
    assert contents(log) == expected
    assert log.start_offset == 0


def test_a_truncation_lowers_the_checkpoint_first(disk):
    log_dir = open_dir(disk)
    log = create(log_dir)
    for _ in range(10):
        append(log)
    log.flush()
    log_dir.checkpoint()
    log.truncate_to(4)
    assert read_points(disk) == {("t", 0): 4}
    names = [path for operation, path in disk.operations if operation in ("truncate", "rename")]
    lowered = max(at for at, path in enumerate(names) if "recovery-point" in path)
    cut = max(at for at, path in enumerate(names) if path.endswith("0.log"))
    assert lowered < cut


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
def test_a_damaged_checkpoint_costs_time_not_data(disk, name):
    log_dir = open_dir(disk)
    log = create(log_dir)
    for _ in range(20):
        append(log, make_batch(2, 50))
    log_dir.close(high_watermarks={("t", 0): 40})
    file = f"/data/{name}-offset-checkpoint"
    if not disk.exists(file):
        disk.write_atomic(file, b"0\n1\nt 0 3\n")
    disk.write_atomic(file, disk.read(file)[:-2])
    disk.unlink("/data/.kafka_cleanshutdown")
    log = create(open_dir(disk))
    assert log.end_offset == 40
    assert len(contents(log)) == 20


def test_a_partition_that_lost_durable_records_is_not_opened_the_others_are(disk):
    log_dir = open_dir(disk)
    for partition in range(2):
        log = create(log_dir, partition=partition)
        for _ in range(5):
            append(log)
    log_dir.close()
    disk.unlink("/data/.kafka_cleanshutdown")
    file = disk.open("/data/t-0/00000000000000000000.log")
    file.truncate(file.size() - 10)
    log_dir = open_dir(disk)
    log_dir.open_all(lambda topic: CONFIG, wall_ms=NOW_MS)
    assert isinstance(log_dir.failed["t", 0], DurableDataLostError)
    assert log_dir.get("t", 1).end_offset == 5
    # an operator accepts the loss
    log = create(log_dir, accept_loss=True)
    assert log.end_offset == 4
    assert log.recovery.lost_from_offset == 4
    assert not log_dir.failed
    # and that holds after a crash, too
    disk.power_loss()
    assert create(open_dir(disk)).end_offset == 4


def test_fifty_partitions_are_created_without_a_sync(disk):
    log_dir = open_dir(disk)
    disk.operations.clear()
    for partition in range(50):
        create(log_dir, partition=partition)
    assert not [1 for operation, _ in disk.operations if operation in ("sync", "sync_dir")]
    log_dir.close()
    log_dir = open_dir(disk)
    assert log_dir.was_clean
    log_dir.open_all(lambda topic: CONFIG, wall_ms=NOW_MS)
    assert len(log_dir.logs) == 50


def test_nothing_is_looked_for_in_a_directory_that_was_just_made(disk, monkeypatch):
    log_dir = open_dir(disk)
    looked = []
    for name in ("list", "read", "size"):
        call = getattr(SimDisk, name)

        def look(self, path, *args, name=name, call=call):
            looked.append((name, path))
            return call(self, path, *args)

        monkeypatch.setattr(SimDisk, name, look)
    create(log_dir)
    assert not looked
    disk.mkdir("/data/t-1")
    create(log_dir, partition=1)
    assert ("list", "/data/t-1") in looked


def test_a_log_in_a_new_directory_is_what_is_found_in_an_empty_one(disk):
    log_dir = open_dir(disk)
    disk.mkdir("/data/t-1")
    new, found = (create(log_dir, partition=partition) for partition in range(2))
    assert disk.list("/data/t-0") == disk.list("/data/t-1")
    assert new.topic_id == found.topic_id == ID_A
    for log in new, found:
        assert (log.start_offset, log.end_offset, log.recovery_point) == (0, 0, 0)
        append(log)
    disk.operations.clear()
    new.flush()
    of_new = [(what, path.replace("t-0", "t-1")) for what, path in disk.operations]
    disk.operations.clear()
    found.flush()
    assert of_new == disk.operations  # the same has to reach the disk with the first records
    assert new.recovery_point == found.recovery_point == 1
    disk.power_loss()
    log_dir = open_dir(disk)
    assert [create(log_dir, partition=partition).end_offset for partition in range(2)] == [1, 1]


def test_what_cannot_be_a_topic_never_reaches_the_disk(disk):
    log_dir = open_dir(disk)
    for topic, partition in (("../evil", 0), ("a/b", 0), ("", 0), ("t", -1)):
        with pytest.raises(ValueError, match="not a"):
            create(log_dir, topic, partition)


def test_many_logs_on_a_real_file_system(tmp_path):
    disk = OsDisk()
    path = str(tmp_path / "logs")
    format_log_dir(disk, path, cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    log_dir = LogDir.open(disk, path, files_max=8)
    for partition in range(40):
        append(create(log_dir, partition=partition))
    log_dir.close()
    log_dir = LogDir.open(disk, path, files_max=8)
    assert log_dir.was_clean
    log_dir.open_all(lambda topic: CONFIG, wall_ms=NOW_MS)
    assert {log.end_offset for log in log_dir.logs.values()} == {1}
    log_dir.close()


def test_a_topic_deleted_and_created_again_costs_one_write_of_each_checkpoint(disk):
    log_dir = open_dir(disk)
    logs = [create(log_dir, partition=partition) for partition in range(20)]
    for log in logs:
        append(log)
        log.flush()
    log_dir.checkpoint({("t", partition): 1 for partition in range(20)})
    for log in logs:
        log_dir.delete(log)
    renames = []
    disk.fault = lambda operation, path, count: renames.append((operation, path))
    for partition in range(20):
        create(log_dir, partition=partition, topic_id=ID_B)
    written = [path for operation, path in renames if operation == "rename"]
    assert sorted(written) == [
        "/data/recovery-point-offset-checkpoint.tmp",
        "/data/replication-offset-checkpoint.tmp",
    ]
    assert read_points(disk) == {}


def test_logs_opened_by_several_threads_at_once_are_those_that_were_there(tmp_path):
    """Begun and finished by the owner, run by others: after a crash, with a torn end each."""
    path = str(tmp_path / "data")
    format_log_dir(OsDisk(), path, cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    log_dir = LogDir.open(OsDisk(), path, files_max=8)
    expected = []
    for partition in range(40):
        log = log_dir.create("t", partition, ID_A, CONFIG, wall_ms=NOW_MS)
        for _ in range(partition % 7 + 1):
            append(log, make_batch(2, 100))
        expected.append(contents(log))
        log_file = tmp_path / "data" / f"t-{partition}" / f"{log.segment_base_offsets[-1]:020}.log"
        with log_file.open("ab") as file:
            file.write(b"torn")
    log_dir.close(clean=False)
    log_dir = LogDir.open(OsDisk(), path, files_max=8)
    jobs = [log_dir.begin_open("t", at, ID_A, CONFIG, wall_ms=NOW_MS) for at in range(40)]
    assert all(job.needs_recovery for job in jobs)
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(job.run) for job in jobs]:
            future.result()
    opened = [log_dir.finish_open(job) for job in jobs]
    assert [contents(log) for log in opened] == expected
    assert [log.recovery.bytes_cut for log in opened] == [4] * 40
    assert log_dir.open_files <= 8
    log_dir.close()
    log_dir = LogDir.open(OsDisk(), path)
    assert log_dir.was_clean
    log_dir.close()


# -- more partitions with something to flush than there may be files ------------------------------


def write_to_many(disk, count=100, files_max=4):
    log_dir = LogDir.open(disk, "/data", files_max=files_max)
    logs = [create(log_dir, partition=partition) for partition in range(count)]
    for log in logs:
        append(log)
    return log_dir, logs


def test_partitions_written_to_between_two_flushes_keep_no_more_files_than_there_may_be(disk):
    log_dir, logs = write_to_many(disk)
    assert log_dir.open_files <= 4 * 4 + 1
    assert disk.open_files <= 4 * 4 + 2
    assert [log.recovery_point for log in logs] == [0] * 100, "only a flush moves it"
    for log in logs:
        append(log)
        log.flush()
    assert [log.recovery_point for log in logs] == [2] * 100
    disk.power_loss()
    log_dir = open_dir(disk)
    assert [create(log_dir, partition=at).end_offset for at in range(100)] == [2] * 100


def test_a_flush_whose_file_was_closed_meanwhile_is_a_flush(disk):
    log_dir = LogDir.open(disk, "/data", files_max=1)
    log = create(log_dir)
    append(log)
    job = log.begin_flush()
    for partition in range(1, 20):
        append(create(log_dir, partition=partition))
    job.run()
    log.finish_flush(job)
    assert (log.recovery_point, log.failure) == (1, None)


def test_a_sync_that_failed_for_another_log_is_not_believed_later(disk):
    log_dir = LogDir.open(disk, "/data", files_max=1)
    logs = [create(log_dir, partition=partition) for partition in range(5)]
    for log in logs[:4]:
        append(log)

    def refuse(operation, path, count):
        return OSError("the disk refuses") if operation == "sync" and "/t-0/" in path else None

    disk.fault = refuse
    with pytest.raises(OSError, match="refuses"):
        append(logs[4])
    disk.fault = None
    assert logs[4].end_offset == 0
    with pytest.raises(OSError, match="refuses"):
        logs[0].flush()
    assert logs[0].failure is not None
    assert logs[0].recovery_point == 0


# -- what many logs cost after a crash ------------------------------------------------------------


def reopened(disk, count):
    """Operations that opening so many logs takes."""
    log_dir = open_dir(disk)
    disk.operations.clear()
    logs = [create(log_dir, partition=partition) for partition in range(count)]
    return log_dir, logs, list(disk.operations)


def test_logs_that_nothing_was_written_to_cost_no_sync_after_a_crash(disk):
    log_dir = open_dir(disk)
    for partition in range(30):
        create(log_dir, partition=partition)
    disk.process_death()
    log_dir, logs, operations = reopened(disk, 30)
    assert all(log.recovery.was_unclean for log in logs)
    assert not [what for what in operations if "sync" in what[0]]
    append(logs[7])
    logs[7].flush()
    for survived in range(3):
        disk.power_loss()
        log_dir, logs, _ = reopened(disk, 30)
        assert logs[7].topic_id == ID_A
        assert logs[7].end_offset == logs[7].recovery_point == 1, f"power cut {survived}"


def test_logs_that_were_written_to_share_the_sync_of_their_parent_after_a_crash(disk):
    log_dir = open_dir(disk)
    for partition in range(30):
        append(create(log_dir, partition=partition))
    disk.process_death()
    _, logs, operations = reopened(disk, 30)
    assert [log.end_offset for log in logs] == [1] * 30
    synced = [path for what, path in operations if what == "sync_dir"]
    assert sorted(synced) == sorted(f"/data/t-{partition}" for partition in range(30))
    disk.power_loss()
    _, logs, _ = reopened(disk, 30)
    assert [log.end_offset for log in logs] == [1] * 30


def test_a_log_that_was_given_up_syncs_its_own_name(disk):
    log_dir = open_dir(disk)
    append(create(log_dir))
    log_dir.give_up_from("t", 0, 0)
    disk.operations.clear()
    create(log_dir)
    assert ("sync_dir", "/data") in disk.operations


def test_the_delay_counts_from_the_deletion_or_for_what_was_left_from_the_first_look(disk):
    log_dir = open_dir(disk)
    for name in ("t", "left"):
        append(create(log_dir, name))
    assert log_dir.first_deleted_ms is None
    log_dir.note_deleted(log_dir.delete(log_dir.get("t", 0)), 500)
    log_dir.delete(log_dir.get("left", 0))
    assert log_dir.first_deleted_ms == 500
    assert [log_dir.remove_deleted(now_ms, 1000) for now_ms in (1499, 1500)] == [0, 1]
    assert log_dir.first_deleted_ms == 1499
    assert [log_dir.remove_deleted(now_ms, 1000) for now_ms in (2498, 2499)] == [0, 1]
    assert log_dir.first_deleted_ms is None
