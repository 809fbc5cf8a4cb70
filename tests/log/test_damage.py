"""Damaged and outdated files of a log directory: noticed, made good, or refused. S92, S93.

Whatever bit it is and however the directory was left: what is served is what was written. A
partition may be refused, records may be unreadable with an error; nothing is missing in silence.
Formats set limits, which are Kafka's, too:

* a batch's leader epoch is outside of its CRC: a flip there is served;
* `log-start-offset-checkpoint` has no checksum: a larger number hides records, none past the end,
  and what is still served is right all the same;
* `partition.metadata` with another topic id has the directory set aside, whole, with a warning.
"""

from __future__ import annotations

import pytest

from fencepost.batch.header import read_header
from fencepost.log.errors import CorruptFileError, DurableDataLostError, LogError
from fencepost.log.load_params import LoadLogParams
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, contents, make_batch

SMALL = config(internal_segment_bytes=600, index_interval_bytes=100)
TOPIC_ID = Uuid(bytes(range(16)))
Batches = list[tuple[int, bytes]]


def write_directory(clean: bool) -> tuple[SimDisk, Batches]:
    """A directory with one partition of a few segments; all of it is durable."""
    disk = SimDisk()
    format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1"))
    log_dir = LogDir.open(disk, "/data")
    log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    for at in range(14):
        append(log, make_batch(2, 40, producer_id=9, producer_epoch=0, base_sequence=2 * at),
               epoch=at // 5)  # fmt: skip
    log.advance_start_offset(log.segment_base_offsets[1])
    log.flush()
    log_dir.checkpoint({("t", 0): log.end_offset})
    found = contents(log)
    if clean:
        log_dir.close(high_watermarks={("t", 0): log.end_offset})
    disk.process_death()
    return disk, found


def kinds(disk: SimDisk) -> dict[str, str]:
    """One file of every kind, by what distinguishes its name."""
    paths = [f"/data/{name}" for name in disk.list("/data") if not disk.is_dir(f"/data/{name}")]
    paths += [f"/data/t-0/{name}" for name in disk.list("/data/t-0")]
    return {path.rpartition("/")[2].lstrip("0123456789"): path for path in paths}


def clone(disk: SimDisk) -> SimDisk:
    """The same files on another disk."""
    copy = SimDisk()
    for directory in ("/data", "/data/t-0"):
        copy.mkdir(directory)
        for name in disk.list(directory):
            if not disk.is_dir(f"{directory}/{name}"):
                copy.write_atomic(f"{directory}/{name}", disk.read(f"{directory}/{name}"))
    return copy


def without_epochs(batches: Batches) -> Batches:
    """The batches but for the part of their headers that no checksum covers."""
    return [(base, data[:12] + data[16:]) for base, data in batches]


def what_is_served(log: PartitionLog) -> Batches | None:
    """The batches; None if reading them is an error."""
    try:
        found = contents(log)
        for base, data in found:
            offset = max(base, log.start_offset)
            assert bytes(log.read(offset, 1, log.end_offset).buffers[0]) == data
    except CorruptFileError:
        return None
    return found


def look(disk: SimDisk) -> tuple[bool, Batches | None]:
    """Open the directory: whether the partition was refused, and what it serves."""
    try:
        log_dir = LogDir.open(disk, "/data")
        log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    except LogError:
        return True, None
    return False, what_is_served(log)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        ".log",
        ".index",
        ".timeindex",
        ".snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        ".kafka_cleanshutdown",
    ],
)
def test_a_flipped_bit_in_any_file(kind: str, clean: bool):
    disk, written = write_directory(clean)
    path = kinds(disk).get(kind)
    if path is None:
        assert kind == ".kafka_cleanshutdown"
        assert not clean
        return
    bits = len(disk.read(path)) * 8
    for bit in range(0, bits, 1 + bits // 1500):
        damaged = clone(disk)
        damaged.flip_bit(path, bit)
        refused, served = look(damaged)
        if refused or served is None:
            assert kind not in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")
        elif kind == "partition.metadata" and served != written:
            (stray,) = (name for name in damaged.list("/data") if name.endswith("-stray"))
            assert damaged.list(f"/data/{stray}") == disk.list("/data/t-0")
        elif kind == ".log":
            assert without_epochs(served) == without_epochs(written), f"bit {bit}"
        elif kind == "log-start-offset-checkpoint":
            assert served == written[len(written) - len(served) :], f"bit {bit}"
        else:
            assert served == written, f"bit {bit}"


# ---- a file as it was before


def append_and_flush(log_dir: LogDir, log: PartitionLog, count: int) -> None:
    """More batches, durable and written down."""
    for _ in range(count):
        append(log, make_batch(1, 1), epoch=log.epochs.latest_epoch() or 0)
    log.flush()
    log_dir.checkpoint({("t", 0): log.end_offset})


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        ".log",
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    ],
)
def test_a_file_that_is_put_back_to_what_it_was(kind: str, clean: bool):
    """A write that went astray, or one file out of a backup."""
    disk, _ = write_directory(clean=False)
    log_dir = LogDir.open(disk, "/data")
    log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    append_and_flush(log_dir, log, 1)
    path = kinds(disk)[kind]
    old = disk.read(path)
    log.advance_start_offset(log.segment_base_offsets[1])
    log.epochs.assign(7, log.end_offset)
    append_and_flush(log_dir, log, 1)
    written = contents(log)
    if clean:
        log_dir.close(high_watermarks={("t", 0): log.end_offset})
    disk.process_death()
    assert kinds(disk)[kind] == path
    assert disk.read(path) != old, "the file must have changed for this to be a test"
    disk.write_atomic(path, old)
    refused, served = look(disk)
    if kind == ".log":
        assert refused, "durable records are gone"
    elif clean and kind == "recovery-point-offset-checkpoint":
        assert refused or served == written
    else:
        assert served is not None
        assert served[-len(written) :] == written


def test_a_whole_directory_that_is_put_back_is_what_it_was():
    """One node cannot know; that others have more is for epochs and the controller to find."""
    disk, written = write_directory(clean=True)
    older = clone(disk)
    log_dir = LogDir.open(disk, "/data")
    log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    append_and_flush(log_dir, log, 3)
    assert look(older) == (False, written)


# ---- what is known of producers


@pytest.mark.parametrize("snapshots", ["whole", "newest torn", "newest missing", "all torn"])
@pytest.mark.parametrize("power", [True, False])
def test_a_retry_after_retention_took_the_producers_last_batch(snapshots: str, power: bool):
    """S69: the snapshots know of producers that have no batch left; without any, a retry is new."""
    disk = SimDisk(3)
    format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1"))
    log_dir = LogDir.open(disk, "/data")
    log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    batch = make_batch(2, 40, NOW_MS, producer_id=9, producer_epoch=0, base_sequence=0)
    sent = read_header(batch)
    append(log, batch)
    append_and_flush(log_dir, log, 30)
    log.advance_start_offset(log.segment_base_offsets[2])
    log.flush()
    log_dir.checkpoint()
    assert all(read_header(data).producer_id != 9 for _, data in contents(log))
    disk.power_loss() if power else disk.process_death()
    kept = [name for name in disk.list("/data/t-0") if name.endswith(".snapshot")]
    for name in kept if snapshots == "all torn" else kept[-1:]:
        path = f"/data/t-0/{name}"
        if snapshots.endswith("torn"):
            disk.write_atomic(path, disk.read(path)[:-3])
        elif snapshots.endswith("missing"):
            disk.unlink(path)
    log = LogDir.open(disk, "/data").create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    verdict = log.producers.check(sent)
    assert verdict.is_duplicate == (snapshots != "all torn")
    if snapshots == "all torn":
        assert verdict.is_ok
        assert log.producers.get(9) is None


# ---- damage in front of what is appended


@pytest.mark.parametrize("hole", [(0, 1), (0, 3), (1, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "opened"])
def test_an_append_does_not_fail_for_damage_in_front_of_it(hole: tuple[int, int], is_cut: bool):
    """Else the batch would be in the log, and the caller would get an error."""
    disk, _ = write_directory(clean=True)
    log_dir = LogDir.open(disk, "/data")
    log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    for number in range(2):
        append(log, make_batch(1, 5))
        if number == 0 and is_cut:
            log.truncate_to(log.end_offset - 1)
    path = f"/data/t-0/{log.segment_base_offsets[-1]:020d}.log"
    size = disk.size(path)
    file = disk.open(path)
    begin, end = size * hole[0] // 4, size * hole[1] // 4
    file.write_at(bytes(end - begin), begin)
    for segment in log._row.segments:
        segment.first_timestamp_ms, segment.max_timestamp = -2, None  # as it is once opened, or cut
    before = log.end_offset
    for _ in range(20):  # into the next segments
        append(log, make_batch(2, 40))
    assert log.end_offset == before + 40
    log.flush()
    log_dir.close()


def test_damage_where_an_epoch_begins_is_told_as_lost_data_and_may_be_accepted():
    """The log was closed in order, so it is not read; but epochs are held against batches."""
    disk, before = write_directory(clean=True)
    offset = next(base for base, data in before if read_header(data).partition_leader_epoch == 2)
    path = f"/data/t-0/{max(b for b in offsets_of(disk) if b <= offset):020d}.log"
    position = disk.read(path).index(offset.to_bytes(8))
    disk.open(path).write_at(bytes(40), position)
    disk.open(path).sync()
    log_dir = LogDir.open(disk, "/data")
    with pytest.raises(DurableDataLostError) as raised:
        log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    assert raised.value.sound_end == offset
    log = log_dir.create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS, accept_loss=True)
    assert log.end_offset == log.recovery.lost_from_offset == offset
    assert contents(log) == [one for one in before if one[0] < offset]
    append(log, make_batch(2, 40), epoch=3)
    log_dir.close()
    log = LogDir.open(disk, "/data").create("t", 0, TOPIC_ID, SMALL, wall_ms=NOW_MS)
    assert log.end_offset == offset + 2


def offsets_of(disk: SimDisk) -> list[int]:
    """Base offsets of the segments there are."""
    return [int(name[:20]) for name in disk.list("/data/t-0") if name.endswith(".log")]


# ---- a closed segment that is missing, or cut at its end


def open_directory(disk: SimDisk, accept_loss: bool = False) -> PartitionLog:
    """The partition, as it was closed in order."""
    params = LoadLogParams(wall_ms=NOW_MS, clean_shutdown=True, accept_loss=accept_loss)
    return PartitionLog.open(disk, "/data/t-0", "t", 0, SMALL, params)


def readable_until_damage(log: PartitionLog) -> tuple[Batches, str]:
    """What a consumer gets, fetch by fetch, and what ends it; "" is the log's end."""
    found: Batches = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            data = b"".join(log.read(offset, 1, log.end_offset).buffers)
        except CorruptFileError as error:
            return found, str(error)
        assert data
        header = read_header(data)
        found.append((header.base_offset, data))
        offset = header.next_offset
    return found, ""


@pytest.mark.parametrize("how", ["missing", "cut"])
def test_records_of_a_closed_segment_that_are_gone_are_missed(how: str):
    """Nothing looks at closed segments at a start; who reads on is told, and skips nothing."""
    disk, before = write_directory(clean=True)
    bases = offsets_of(disk)
    assert len(bases) >= 4
    path = f"/data/t-0/{bases[-2]:020d}.log"
    if how == "missing":
        disk.unlink(path)
        lost_from = bases[-2]
    else:
        kept = next(one for one in before if one[0] >= bases[-2])[1]
        disk.write_atomic(path, kept)
        lost_from = read_header(kept).next_offset
    log = open_directory(disk)
    found, end = readable_until_damage(log)
    assert found == [one for one in before if one[0] < lost_from]
    assert f"offsets {lost_from} to {bases[-1] - 1} are missing" in end
    with pytest.raises(CorruptFileError, match="are missing"):
        list(log.read_all_batches(log.start_offset, log.end_offset))
    log.close(clean=False)
    log = open_directory(disk, accept_loss=True)
    rest = [one for one in before if one[0] < lost_from or one[0] >= bases[-1]]
    assert readable_until_damage(log) == (rest, ""), "once the loss is accepted, reads go on"
    log.close(clean=False)
    log = open_directory(disk)
    log.advance_start_offset(bases[-1])  # what an operator does who can do without them
    assert readable_until_damage(log) == ([one for one in before if one[0] >= bases[-1]], "")


@pytest.mark.parametrize("why", ["is compacted", "was compacted"])
def test_gaps_of_compaction_are_passed_over(why: str):
    """Kafka's leaves some at the end of segments; below its checkpoint they are no sign of loss."""
    disk, before = write_directory(clean=True)
    bases = offsets_of(disk)
    disk.unlink(f"/data/t-0/{bases[-2]:020d}.log")
    props = SMALL
    if why == "is compacted":
        props = config(internal_segment_bytes=600, cleanup_policy="compact")
    else:
        disk.write_atomic("/data/cleaner-offset-checkpoint", f"0\n1\nt 0 {bases[-1]}\n".encode())
    log = LogDir.open(disk, "/data").create("t", 0, TOPIC_ID, props, wall_ms=NOW_MS)
    found, end = readable_until_damage(log)
    assert end == ""
    assert found == [one for one in before if not bases[-2] <= one[0] < bases[-1]]
