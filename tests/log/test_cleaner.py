"""Compaction in good weather: what stays, what goes, and what readers and producers see of it."""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from fencepost.batch import backend
from fencepost.batch.header import read_header, stamp_crc
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, build_batch
from fencepost.log.cleaner.errors import CleaningAbortedError
from fencepost.log.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from fencepost.log.errors import CorruptFileError
from fencepost.log.partition_log import PartitionLog
from fencepost.log.segment_cache import SegmentCache
from fencepost.sim.disk import SimDisk

from .cleaning import batches_of, clean, pairs_of, put, put_marker, records_of, settle
from .helpers import NOW_MS, append, apply_retention, config, contents, follow, open_log

DAY_MS = 86_400_000
SMALL = {"internal_segment_bytes": 400, "index_interval_bytes": 100, "cleanup_policy": "compact"}


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir("/data")
    disk.sync_dir("/")
    return disk


def compacted(disk: SimDisk, **props: object) -> PartitionLog:
    return open_log(disk, "/data/t-0", config(**{**SMALL, **props}))


def reopened(disk: SimDisk, log: PartitionLog, **how: object) -> PartitionLog:
    """The log after an orderly end."""
    log.flush()
    point = log.recovery_point
    log.close()
    how = {"recovery_point": point, "clean_shutdown": True, **how}
    return open_log(disk, log.directory, log.config, **how)


# ---- records


def test_the_last_record_of_each_key_stays_at_its_offset(disk):
    log = compacted(disk)
    for at in range(40):
        put(log, (b"k%d" % (at % 7), b"v%d" % at))
    settle(log)
    end, before = log.end_offset, pairs_of(log)
    cleaning = clean(log)
    assert pairs_of(log) == before[-7:]
    assert log.end_offset == end
    assert log.start_offset == 0
    assert cleaning.cleaned_offset == end
    stats = cleaning.stats
    assert (stats.records_read, stats.records_written, stats.keys) == (40, 7, 7)
    assert stats.segments_after == stats.segments_before == len(log.segment_base_offsets) - 1
    assert log.size_bytes == stats.bytes_written
    log = reopened(disk, log)
    assert pairs_of(log) == before[-7:]
    assert not [name for name in disk.list("/data/t-0") if "." in name[20:] and "cleaned" in name]


def test_records_behind_the_bound_stay_and_win(disk):
    log = compacted(disk)
    for at in range(20):
        put(log, (b"a", b"%d" % at))
    log.flush()
    active = log.segment_base_offsets[-1]
    clean(log)
    kept = [offset for offset, _, _ in pairs_of(log)]
    assert kept == [active - 1, *range(active, 20)]
    clean(log, high_watermark=10)
    assert [offset for offset, _, _ in pairs_of(log)] == kept


def test_nothing_undecided_or_not_durable_is_cleaned(disk):
    log = compacted(disk)
    for at in range(12):
        put(log, (b"a", b"%d" % at))
    log.roll(NOW_MS)
    assert log.measure_dirt(None, log.end_offset, NOW_MS).first_uncleanable == 0
    log.flush()
    assert log.measure_dirt(None, log.end_offset, NOW_MS).first_uncleanable == 12
    assert log.measure_dirt(None, 7, NOW_MS).first_uncleanable <= 7
    begun = put(log, (b"b", b"x"), producer_id=4, producer_epoch=0, base_sequence=0,
                transactional=True)  # fmt: skip
    put(log, (b"a", b"y"))
    settle(log)
    assert log.measure_dirt(None, log.end_offset, NOW_MS).first_uncleanable == begun
    put_marker(log, 4, committed=True)
    settle(log)
    assert log.measure_dirt(None, log.end_offset, NOW_MS).first_uncleanable == log.end_offset


def test_records_without_a_key_go(disk):
    log = compacted(disk)
    put(log, (None, b"1"), (b"k", b"2"), (None, b"3"))
    put(log, (None, b"4"))
    put(log, (b"l", b"5"))
    settle(log)
    assert clean(log).stats.records_without_key == 3
    assert pairs_of(log) == [(1, b"k", b"2"), (4, b"l", b"5")]


def test_empty_and_long_keys_are_keys(disk):
    log = compacted(disk)
    long = b"x" * 5000
    for at in range(4):
        put(log, (b"", b"%d" % at), (long, b"%d" % at), (long + b"!", b"%d" % at), (b"x" * 33, b""))
    settle(log)
    clean(log)
    assert [offset for offset, _, _ in pairs_of(log)] == [12, 13, 14, 15]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_left_of_a_batch_is_what_it_was(disk, compression):
    log = compacted(disk)
    items = [
        (b"k%d" % (at % 5), b"v%d" % at * 9, [(f"h{at}", b"x"), ("n", None)]) for at in range(12)
    ]
    batch = build_batch(items, timestamp_ms=77, compression=compression, producer_id=3,
                        producer_epoch=2, base_sequence=100)  # fmt: skip
    append(log, batch, epoch=6)
    put(log, (b"k4", b"end"), epoch=6)
    settle(log)
    before = records_of(log)
    header = read_header(batch)
    clean(log)
    assert records_of(log) == [one for one in before if one.offset in (7, 8, 10, 11, 12)]
    left, _ = batches_of(log)[0]
    assert left == header._replace(batch_length=left.batch_length, crc=left.crc, records_count=4)
    assert log.producers.check(header).is_duplicate


def test_record_bytes_that_are_not_utf8_are_copied(disk):
    log = compacted(disk)
    raw = bytearray(build_batch([(b"a", b"1", [("hh", b"x")]), (b"a", None, [("hh", b"y")])],
                                timestamp_ms=5))  # fmt: skip
    raw = raw.replace(b"hh", b"\xff\xfe")
    stamp_crc(raw)
    append(log, raw)
    settle(log)
    clean(log)
    ((header, batch),) = log.read_all_batches(0, log.end_offset)
    assert header.has_delete_horizon
    assert b"\xff\xfe" in bytes(batch)
    assert [one.timestamp_ms for one in records_of(log)] == [5]


def test_log_append_time_stays(disk):
    log = compacted(disk, message_timestamp_type="LogAppendTime")
    append(log, build_batch([(b"a", b"1"), (b"b", None), (b"a", b"2")], timestamp_ms=5), wall_ms=99)
    settle(log)
    clean(log)
    assert [(one.offset, one.timestamp_ms, one.timestamp_type) for one in records_of(log)] == [
        (1, 99, 1), (2, 99, 1),
    ]  # fmt: skip
    assert log.max_timestamp().timestamp_ms == 99


# ---- tombstones (KIP-534)


def test_a_tombstone_gets_a_horizon_and_goes_behind_it(disk):
    log = compacted(disk, delete_retention_ms=1000)
    put(log, (b"a", b"1"), (b"b", b"2"), timestamp_ms=7)
    put(log, (b"a", None), (b"c", b"3"), timestamp_ms=8)
    put(log, (b"d", b"4"))
    settle(log)
    first = clean(log, wall_ms=NOW_MS)
    assert [offset for offset, _, _ in pairs_of(log)] == [1, 2, 3, 4]
    marked = [header for header, _ in batches_of(log) if header.has_delete_horizon]
    assert [(one.base_offset, one.base_timestamp) for one in marked] == [(2, NOW_MS + 1000)]
    assert [one.timestamp_ms for one in records_of(log)] == [7, 8, 8, NOW_MS]
    before = contents(log)
    clean(log, first.cleaned_offset, wall_ms=NOW_MS + 999)
    assert contents(log) == before
    clean(log, first.cleaned_offset, wall_ms=NOW_MS + 1000)
    assert pairs_of(log) == [(1, b"b", b"2"), (3, b"c", b"3"), (4, b"d", b"4")]
    assert [one.timestamp_ms for one in records_of(log)] == [7, 8, NOW_MS]


def test_a_changed_delete_retention_holds_from_the_next_cleaning_on(disk):
    log = compacted(disk)
    put(log, (b"a", None))
    put(log, (b"b", b""))
    settle(log)
    log.config = config(**SMALL, delete_retention_ms=5)
    clean(log)
    assert batches_of(log)[0][0].base_timestamp == NOW_MS + 5


def test_a_tombstone_from_before_all_horizons_stays(disk):
    """No delta leads from there to its timestamp (both formats: the record is what counts)."""
    log = compacted(disk)
    ancient = -(2**63) + 5
    put(log, (b"a", None), (b"b", b"1"), timestamp_ms=ancient)
    message = build_message_set([Record(2, 1, 0, b"c", None, ())], magic=1)
    message[18:26] = ancient.to_bytes(8, signed=True)
    message[12:16] = crc32(message[16:]).to_bytes(4)
    follow(log, message)
    put(log, (b"b", b"3"))
    settle(log)
    for _ in range(2):
        clean(log, wall_ms=NOW_MS)
        assert [(one.offset, one.key, one.timestamp_ms) for one in records_of(log)] == [
            (0, b"a", ancient), (2, b"c", ancient), (3, b"b", NOW_MS),
        ]  # fmt: skip
        assert not any(header.has_delete_horizon for header, _ in batches_of(log))


def test_tombstones_may_be_retained_for_ever(disk):
    log = compacted(disk, delete_retention_ms=2**63 - 1)
    put(log, (b"a", None), (b"a", None), timestamp_ms=7)
    put(log, (b"b", b"1"))
    settle(log)
    clean(log, wall_ms=NOW_MS)
    assert batches_of(log)[0][0].base_timestamp == 2**63 - 1
    assert [(one.offset, one.timestamp_ms) for one in records_of(log)] == [(1, 7), (2, NOW_MS)]
    clean(log, wall_ms=NOW_MS + 10**12)
    assert [one.offset for one in records_of(log)] == [1, 2]


# ---- producers


def test_a_retry_is_known_after_compaction_and_a_crash(disk):
    log = compacted(disk, internal_segment_bytes=2000)
    sent = []
    for at in range(9):
        batch = build_batch(
            [(b"k", b"%d" % at)], timestamp_ms=NOW_MS, producer_id=at % 3, producer_epoch=0,
            base_sequence=at // 3,
        )  # fmt: skip
        append(log, batch)
        sent.append(read_header(batch))
    put(log, (b"k", b"end"))
    settle(log)
    clean(log)
    assert pairs_of(log) == [(9, b"k", b"end")]
    assert [(header.base_offset, len(records)) for header, records in batches_of(log)] == [
        (6, 0), (7, 0), (8, 0), (9, 1),
    ]  # fmt: skip
    point = log.recovery_point
    for name in disk.list("/data/t-0"):
        if name.endswith(".snapshot"):
            disk.unlink(f"/data/t-0/{name}")
    disk.process_death()
    log = open_log(disk, "/data/t-0", config(**SMALL), recovery_point=point)
    for header in sent[-3:]:
        assert log.producers.check(header).is_duplicate
    assert log.end_offset == 10


def test_a_forgotten_producers_batches_go(disk):
    log = compacted(disk)
    put(log, (b"k", b"1"), producer_id=1, producer_epoch=0, base_sequence=0)
    put(log, (b"k", b"2"))
    settle(log)
    log.producers.remove_expired(NOW_MS + 10 * DAY_MS, DAY_MS)
    clean(log)
    assert [header.base_offset for header, _ in batches_of(log)] == [1]


# ---- transactions


def in_transaction(log: PartitionLog, producer_id: int, sequence: int, *items) -> int:
    return put(log, *items, producer_id=producer_id, producer_epoch=0, base_sequence=sequence,
               transactional=True)  # fmt: skip


def test_aborted_records_go_and_neither_win_nor_lose(disk):
    log = compacted(disk)
    put(log, (b"k", b"old"))
    in_transaction(log, 1, 0, (b"k", b"aborted"))
    in_transaction(log, 2, 0, (b"l", b"committed"))
    put_marker(log, 1, committed=False)
    put_marker(log, 2, committed=True)
    put(log, (b"z", b"end"))
    settle(log)
    stats = clean(log).stats
    assert (stats.records_read, stats.records_written) == (6, 5)
    assert pairs_of(log) == [(0, b"k", b"old"), (2, b"l", b"committed"), (5, b"z", b"end")]


def test_markers_outlive_their_data_and_then_their_horizon(disk):
    log = compacted(disk, delete_retention_ms=1000)
    in_transaction(log, 1, 0, (b"a", b"1"))
    put_marker(log, 1, committed=True)  # 1
    in_transaction(log, 1, 1, (b"b", b"1"))
    put_marker(log, 1, committed=False)  # 3
    in_transaction(log, 1, 2, (b"c", b"1"))
    put_marker(log, 1, committed=True)  # 5
    put(log, (b"a", b"2"))
    put(log, (b"c", b"2"))
    settle(log)
    assert [one.last_offset for one in log.aborted_transactions(0, log.end_offset)] == [3]
    at = clean(log, wall_ms=NOW_MS).cleaned_offset
    markers = [header for header, _ in batches_of(log) if header.is_control]
    assert [one.base_offset for one in markers] == [1, 3, 5]
    # All data of the aborted transaction was there when its marker was met: it is needed no more
    # from the next cleaning on. The last batch of the producer, at 4, stays emptied.
    assert [one.has_delete_horizon for one in markers] == [False, False, False]
    assert [one.last_offset for one in log.aborted_transactions(0, log.end_offset)] == [3]
    clean(log, at, wall_ms=NOW_MS + 1)
    markers = [header for header, _ in batches_of(log) if header.is_control]
    assert [one.has_delete_horizon for one in markers] == [True, True, False]
    assert log.aborted_transactions(0, log.end_offset) == []
    log = reopened(disk, log)
    clean(log, at, wall_ms=NOW_MS + 1000)
    assert [header.base_offset for header, _ in batches_of(log) if header.is_control] == [1, 3, 5]
    clean(log, at, wall_ms=NOW_MS + 1001)
    assert [header.base_offset for header, _ in batches_of(log)] == [4, 5, 6, 7]
    assert log.end_offset == 8


def test_of_a_producer_without_data_in_its_epoch_that_epochs_marker_stays(disk):
    """It is what the log knows of the epoch, as of a producer that was fenced."""
    log = compacted(disk, delete_retention_ms=1000)
    in_transaction(log, 1, 0, (b"a", b"1"))
    put_marker(log, 1, committed=True)  # 1
    put_marker(log, 1, committed=False, producer_epoch=1)  # 2
    put(log, (b"a", b"2"))
    settle(log)
    at = clean(log, wall_ms=NOW_MS).cleaned_offset
    clean(log, at, wall_ms=NOW_MS + 1)
    clean(log, at, wall_ms=NOW_MS + 2000)
    assert [header.base_offset for header, _ in batches_of(log)] == [2, 3]
    assert log.producers.get(1).producer_epoch == 1


def test_keys_like_those_of_markers_do_not_remove_markers(disk):
    """KAFKA-14055: without its marker a transaction would become part of the next one."""
    log = compacted(disk)
    in_transaction(log, 1, 0, (b"a", b"aborted"))
    put_marker(log, 1, committed=False)
    in_transaction(log, 1, 1, (b"a", b"committed"))
    put_marker(log, 1, committed=True)
    for control_type in (0, 1):
        put(log, (bytes(3) + bytes([control_type]), b"a user's"))
    settle(log)
    clean(log)
    markers = [header.base_offset for header, _ in batches_of(log) if header.is_control]
    assert markers == [1, 3]
    assert (2, b"a", b"committed") in pairs_of(log)


def test_a_transaction_that_ends_in_a_later_segment(disk):
    log = compacted(disk)
    put(log, (b"k", b"old"))
    in_transaction(log, 1, 0, (b"k", b"aborted"))
    log.roll(NOW_MS)
    put_marker(log, 1, committed=False)
    put(log, (b"x", b"1"))
    log.flush()
    clean(log)
    assert [offset for offset, _, _ in pairs_of(log)] == [0, 3]
    assert log.aborted_transactions(0, log.end_offset)[0].first_offset == 1


# ---- segments


def test_small_segments_become_one_within_the_limits(disk):
    log = compacted(disk, internal_segment_bytes=300)
    for at in range(60):
        put(log, (b"%02d" % at, b"x" * 20))
    settle(log)
    before = log.segment_base_offsets
    log.config = config(**{**SMALL, "internal_segment_bytes": 1000})
    clean(log)
    assert len(log.segment_base_offsets) < len(before) / 2
    assert set(log.segment_base_offsets) <= set(before)
    assert len(pairs_of(log)) == 60
    sizes = [size for size in sizes_of(disk) if size]
    assert max(sizes) <= 1000
    for offset in range(60):
        found = log.read(offset, 1, log.end_offset)
        assert found.first_offset == offset
    for at in range(3):
        assert log.offset_for_timestamp(NOW_MS - at).offset == 0


def sizes_of(disk: SimDisk) -> list[int]:
    names = [name for name in disk.list("/data/t-0") if name.endswith(".log")]
    return [disk.size(f"/data/t-0/{name}") for name in names]


def test_segments_follow_each_other_without_a_gap(disk):
    log = compacted(disk)
    for at in range(50):
        put(log, (b"k", b"%d" % at * 10))
    settle(log)
    clean(log)
    put(log, (b"k", b"end"))
    log.flush()
    disk.process_death()
    log = open_log(disk, "/data/t-0", config(**SMALL), recovery_point=0)
    assert log.end_offset == 51
    assert [offset for offset, _, _ in pairs_of(log)] == [49, 50]


def test_kafkas_gaps_below_the_checkpoint_are_no_loss(disk):
    log = compacted(disk)
    for at in range(30):
        put(log, (b"k%d" % at, b"%d" % at * 10))
    settle(log)
    bases = log.segment_base_offsets
    path = f"/data/t-0/{bases[1]:020d}.log"
    cut = log.end_offset
    log.close()
    file = disk.open(path)
    first = read_header(file.read_at(61, 0))
    file.truncate(first.size_bytes)  # as if the later ones had been compacted away
    file.close()
    for suffix in (".index", ".timeindex"):
        disk.unlink(path.replace(".log", suffix))
    how = {"recovery_point": 0, "clean_shutdown": False}
    log = open_log(disk, "/data/t-0", config(**SMALL), cleaned_offset=bases[2], **how)
    assert log.end_offset == cut
    log.close()
    log = open_log(disk, "/data/t-0", config(**SMALL), **how)
    assert log.end_offset == first.next_offset


def test_a_full_map_cleans_as_far_as_it_reaches(disk):
    log = compacted(disk)
    for at in range(60):
        put(log, (b"%02d" % (at % 30), b"%d" % at), (b"same", b"x"))
    settle(log)
    done, rounds = None, 0
    while done is None or done < log.end_offset:
        cleaning = clean(log, done, map_bytes=8 * (ENTRY_BYTES + 4))
        assert cleaning.stats.is_partial == (cleaning.cleaned_offset < log.end_offset)
        assert done is None or cleaning.cleaned_offset > done
        done, rounds = cleaning.cleaned_offset, rounds + 1
    assert rounds > 4
    expected = {b"%02d" % key: 60 + 2 * key for key in range(30)}
    assert {key: offset for offset, key, _ in pairs_of(log)} == {**expected, b"same": 119}
    assert len(pairs_of(log)) == 31


def test_epochs_stay_when_their_batches_go(disk):
    log = compacted(disk, internal_segment_bytes=2000)
    for at in range(12):
        put(log, (b"k", b"%d" % at), epoch=at // 3)
    settle(log)
    epochs = list(log.epochs)
    assert len(epochs) == 4
    clean(log)
    assert len(batches_of(log)) == 1
    assert list(log.epochs) == epochs
    log = reopened(disk, log)
    assert list(log.epochs) == epochs
    assert not log.recovery.epochs_rebuilt
    point = log.recovery_point
    disk.process_death()
    log = open_log(disk, "/data/t-0", config(**SMALL), recovery_point=point)
    assert list(log.epochs) == epochs


def test_readers_ask_anywhere(disk):
    log = compacted(disk)
    dice = random.Random(5)
    for at in range(80):
        put(log, *((b"%d" % dice.randrange(9), b"%d.%d" % (at, one)) for one in range(3)))
    settle(log)
    before = pairs_of(log)
    clean(log)
    left = pairs_of(log)
    assert left == [pair for at, pair in enumerate(before)
                    if all(later[1] != pair[1] for later in before[at + 1:])]  # fmt: skip
    for offset in range(log.end_offset):
        found = log.read(offset, 1 << 20, log.end_offset)
        if found.buffers:
            header = read_header(found.buffers[0])
            assert header.last_offset >= offset


def test_the_newest_timestamp_is_one_that_a_record_has(disk):
    log = compacted(disk)
    put(log, (b"a", b"1"), timestamp_ms=900, producer_id=1, producer_epoch=0, base_sequence=0)
    put(log, (b"a", b"2"), timestamp_ms=500)
    put(log, (b"b", b"2"), timestamp_ms=400)
    settle(log)
    clean(log)
    assert [len(records) for _, records in batches_of(log)] == [0, 1, 1]
    assert log.max_timestamp()[:2] == (1, 500)
    assert log.offset_for_timestamp(450)[:2] == (1, 500)
    assert log.offset_for_timestamp(800) is None


def test_the_newest_timestamp_of_a_batch_is_of_what_is_left_of_it(disk):
    log = compacted(disk)
    rows = [(500, b"a"), (400, b"b"), (900, b"gone")]
    append(log, build_batch([Record(at, *row) for at, row in enumerate(map(stamped, rows))]))
    put(log, (b"gone", b"2"), timestamp_ms=100)
    settle(log)
    clean(log)
    left, *_ = [header for header, _ in batches_of(log)]
    assert (left.records_count, left.max_timestamp, left.last_offset) == (2, 500, 2)


def stamped(row: tuple[int, bytes]) -> tuple[int, int, bytes, bytes]:
    """A record's timestamp, which its producer has given, its key and a value."""
    timestamp_ms, key = row
    return timestamp_ms, 0, key, b"1"


def test_an_old_files_age_is_kept(disk):
    log = compacted(disk)
    for at in range(10):
        put(log, (b"k", b"%d" % at), timestamp_ms=-1)
    settle(log)
    disk.now_ms += 5 * DAY_MS
    clean(log)
    path = f"/data/t-0/{log.segment_base_offsets[0]:020d}.log"
    assert disk.modified_ms(path) == disk.now_ms - 5 * DAY_MS


# ---- what happens meanwhile


@pytest.mark.parametrize("change", ["truncate", "start over", "advance", "delete", "close"])
def test_changes_abort_the_cleaning(disk, change):
    log = compacted(disk)
    for at in range(30):
        put(log, (b"k%d" % at, b"%d" % at * 10))
    settle(log)
    before = pairs_of(log)
    cleaning = log.begin_cleaning(log.measure_dirt(None, log.end_offset, NOW_MS), NOW_MS)
    half = log.segment_base_offsets[2]

    def put_in_place(copied):
        if change == "truncate":
            log.truncate_to(half)
        elif change == "start over":
            log.truncate_fully_and_start_at(100)
        elif change == "advance":
            log.advance_start_offset(half)
        elif change == "delete":
            log.delete("u")
        else:
            log.close()
        log.begin_swap(cleaning, copied)

    with pytest.raises(CleaningAbortedError):
        cleaning.run(OffsetMap(1 << 20), put_in_place)
    log.end_cleaning(cleaning)
    assert cleaning.is_aborted
    if change in ("truncate", "advance"):
        assert not [name for name in disk.list("/data/t-0") if name.endswith(".cleaned")]
        expected = [one for one in before if (one[0] < half) == (change == "truncate")]
        assert pairs_of(log) == expected


def test_damage_is_not_written_again(disk):
    log = compacted(disk)
    for at in range(30):
        put(log, (b"k%d" % (at % 3), b"%d" % at * 10))
    settle(log)
    disk.flip_bit(f"/data/t-0/{log.segment_base_offsets[1]:020d}.log", 8 * 100)
    files = {name: disk.read(f"/data/t-0/{name}") for name in disk.list("/data/t-0")}
    with pytest.raises(CorruptFileError, match="CRC"):
        clean(log)
    assert {name: disk.read(f"/data/t-0/{name}") for name in disk.list("/data/t-0")} == files
    assert log.failure is None


# ---- formats of before Kafka 0.11


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_old_messages_become_batches(disk, magic, compression):
    log = compacted(disk)
    stamp = -1 if magic == 0 else 700
    kind = -1 if magic == 0 else 0
    for at in range(20):
        rows = [
            Record(3 * at, stamp, kind, b"k%d" % (at % 4), b"v%d" % at),
            Record(3 * at + 1, stamp, kind, b"gone", None if at == 19 else b"x"),
            Record(3 * at + 2, stamp, kind, None, b"no key"),
        ]
        follow(log, build_message_set(rows, magic=magic, compression=compression))
    put(log, (b"k1", b"new"))
    settle(log)
    end = log.end_offset
    clean(log)
    assert {header.magic for header, _ in batches_of(log)} == {2}
    assert pairs_of(log) == [
        (48, b"k0", b"v16"), (54, b"k2", b"v18"), (57, b"k3", b"v19"), (58, b"gone", None),
        (60, b"k1", b"new"),
    ]  # fmt: skip
    assert [one.timestamp_ms for one in records_of(log)] == [stamp] * 4 + [NOW_MS]
    horizons = [one.base_timestamp for one, _ in batches_of(log) if one.has_delete_horizon]
    assert horizons == [NOW_MS + DAY_MS]
    log = reopened(disk, log)
    clean(log, wall_ms=NOW_MS + DAY_MS)
    assert b"gone" not in [key for _, key, _ in pairs_of(log)]
    assert log.end_offset == end


def test_what_is_left_of_an_old_message_has_its_last_offset_and_newest_timestamp(disk):
    log = compacted(disk)
    rows = [(900, b"a"), (700, b"b"), (950, b"gone")]
    messages = [Record(at, *row) for at, row in enumerate(map(stamped, rows))]
    follow(log, build_message_set(messages, magic=1, compression="gzip"))
    put(log, (b"gone", b"new"))
    settle(log)
    clean(log)
    left, *_ = [header for header, _ in batches_of(log)]
    assert (left.records_count, left.max_timestamp, left.last_offset) == (2, 900, 2)


# ---- between a swap's beginning and its end


def amid_a_swap(disk):
    """A log that reads from a copy whose files have not got their names yet."""
    log = compacted(disk, internal_segment_bytes=300)
    for at in range(30):
        put(log, (b"k%d" % (at % 20), b"%d" % at * 10))
    settle(log)
    log.config = config(**{**SMALL, "internal_segment_bytes": 900, "retention_ms": -1})
    before = pairs_of(log)
    cleaning = log.begin_cleaning(log.measure_dirt(None, log.end_offset, NOW_MS), NOW_MS)
    begun = []

    def put_in_place(copied):
        begun.append(log.begin_swap(cleaning, copied))
        raise CleaningAbortedError("that is enough")

    with pytest.raises(CleaningAbortedError):
        cleaning.run(OffsetMap(1 << 20), put_in_place)
    log.end_cleaning(cleaning)
    (swap,) = begun
    assert len(swap.old_bases) > 1
    return log, swap, before


def test_the_copy_is_read_while_its_files_have_other_names(disk):
    log, swap, before = amid_a_swap(disk)
    assert log.segment_base_offsets[1] > swap.old_bases[-1]
    names = disk.list("/data/t-0")
    found = pairs_of(log)
    assert len(found) < len(before)
    assert found[-20:] == before[-20:]
    assert log.offset_for_timestamp(NOW_MS) is not None
    assert disk.list("/data/t-0") == names
    swap.run()
    assert pairs_of(log) == found
    log.finish_swap(swap)
    assert pairs_of(log) == found
    assert pairs_of(reopened(disk, log)) == found


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("change", ["truncate", "into it", "advance", "retain", "append", "close"])
def test_what_the_owner_does_amid_a_swap(disk, change, has_run):
    log, swap, _ = amid_a_swap(disk)
    bases = log.segment_base_offsets
    found = pairs_of(log)
    if has_run:
        swap.run()
    if change == "truncate":
        log.truncate_to(bases[1])
        found = [one for one in found if one[0] < bases[1]]
    elif change == "into it":
        cut = found[len([one for one in found if one[0] < bases[1]]) // 2][0]
        log.truncate_to(cut)
        found = [one for one in found if one[0] < cut]
    elif change == "advance":
        log.advance_start_offset(bases[1])
        found = [one for one in found if one[0] >= bases[1]]
    elif change == "retain":
        apply_retention(log, NOW_MS, log.end_offset)
    elif change == "append":
        put(log, (b"new", b"1"))
        log.roll(NOW_MS)
        log.flush()
        found.append((30, b"new", b"1"))
    log.finish_swap(swap)
    assert pairs_of(log) == found
    end = log.end_offset
    log = reopened(disk, log, start_offset=log.start_offset)
    assert (pairs_of(log), log.end_offset) == (found, end)
    assert not [name for name in disk.list("/data/t-0") if name.endswith((".cleaned", ".swap"))]


def test_a_copy_for_which_there_is_no_memory_is_removed(disk, monkeypatch):
    log = compacted(disk)
    for at in range(20):
        put(log, (b"k%d" % (at % 3), b"v%d" % at))
    settle(log)
    before, open_files = contents(log), disk.open_files

    def pick(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(OffsetMap, "pick", pick)
        with pytest.raises(MemoryError):
            clean(log)
    assert contents(log) == before and disk.open_files == open_files
    assert not [name for name in disk.list("/data/t-0") if name.endswith(".cleaned")]
    clean(log)
    assert len(pairs_of(log)) == 3


def test_few_open_files_amid_many_segments(disk):
    log = open_log(disk, "/data/t-0", config(**SMALL), cache=SegmentCache(files_max=3))
    for at in range(100):
        put(log, (b"%03d" % (at % 90), b"x" * 30))
    settle(log)
    assert len(log.segment_base_offsets) > 15
    clean(log)
    assert len(pairs_of(log)) == 90
    assert disk.open_files <= 4


def test_a_batch_of_more_keys_than_the_map_holds_is_cleaned_all_the_same(disk):
    log = compacted(disk)
    for keys in (b"a", b"b", b"a"):
        put(log, *((keys + b"%d" % at, b"v") for at in range(100)))
    settle(log)
    ends, done = [], None
    for _ in range(3):
        cleaning = clean(log, done, map_bytes=8 * (ENTRY_BYTES + 4))
        assert cleaning.has_progressed
        done = cleaning.cleaned_offset
        ends.append(done)
    assert ends == [100, 200, 300], "a batch each time"
    assert [offset for offset, _, _ in pairs_of(log)] == list(range(100, 300))
    assert not clean(log, done).has_progressed


@pytest.mark.parametrize("map_bytes", [ENTRY_BYTES * 6, 1 << 20])
def test_both_backends_leave_the_same_bytes(monkeypatch, map_bytes):
    if backend.kernels is None:
        pytest.skip("there are no kernels")
    left = []
    for kernels in (backend.kernels, None):
        monkeypatch.setattr(backend, "kernels", kernels)
        disk, dice = SimDisk(), random.Random(8)
        disk.mkdir("/data")
        log = compacted(disk, internal_segment_bytes=900, delete_retention_ms=10)
        for at in range(60):
            keys = [b"k%d" % dice.randrange(12), b"long" * 9 + b"%d" % dice.randrange(5), None, b""]
            items = [
                (key, None if dice.random() < 0.3 else b"v%d" % at, [("h", b"%d" % at)])
                for key in dice.sample(keys, dice.randrange(1, 5))
            ]
            codec = dice.choice(["none", "none", "lz4", "zstd"])
            append(log, build_batch(items, timestamp_ms=dice.choice([-1, at]), compression=codec))
        settle(log)
        done = None
        for at in range(6):
            cleaning = clean(log, done, map_bytes=map_bytes, wall_ms=NOW_MS + 4 * at)
            done = cleaning.cleaned_offset
        stats = cleaning.stats
        left.append((contents(log), done, stats.records_written, stats.keys, stats.map_utilization))
    assert left[0] == left[1]
    assert 0 < len(left[0][0]) < 60
