"""Transaction indexes: what they say, what is left of them by cuts and crashes, and a model."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.control import build_end_txn_marker, read_control
from fencepost.batch.header import read_header
from fencepost.batch.records import build_batch
from fencepost.log.errors import CorruptFileError
from fencepost.log.partition_log import PartitionLog
from fencepost.log.txn_index import TxnIndex
from fencepost.log.verify.directory import Verifier
from fencepost.sim.disk import Crash, SimDisk
from fencepost.wire.records.control import ControlType
from fencepost.wire.records.txn_index import ENTRY_BYTES, AbortedTxn

from .data_dir import TXN, make_dir
from .helpers import append, config, follow, make_batch, open_log

DIR = "/data/topic-0"
INDEX = f"{DIR}/{0:020d}.txnindex"
SMALL = {"internal_segment_bytes": 2000, "index_interval_bytes": 100}


def entry(producer: int, first: int, last: int, stable: int) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer, first_offset=first, last_offset=last, last_stable_offset=stable
    )


class Producers:
    """Transactional producers that append to a log; knows what was decided, and where."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.open: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.done: list[tuple[int, int, int, bool]] = []  # producer, first, marker, committed

    def write(self, producer: int, value_bytes: int = 20, records: int = 1) -> int:
        batch = build_batch(
            [(b"k", b"v" * value_bytes)] * records,
            timestamp_ms=1000,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.sequences.get(producer, 0),
            transactional=True,
        )
        self.sequences[producer] = self.sequences.get(producer, 0) + records
        offset = append(self.log, batch).first_offset
        self.open.setdefault(producer, offset)
        return offset

    def end(self, producer: int, *, commit: bool) -> int:
        marker = build_end_txn_marker(
            committed=commit,
            coordinator_epoch=3,
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=1000,
        )
        offset = append(self.log, marker).first_offset
        if producer in self.open:
            self.done.append((producer, self.open.pop(producer), offset, commit))
        return offset

    def stable(self, high_watermark: int) -> int:
        """Kafka's rule, looked at from outside: open, or decided by a marker not replicated."""
        unstable = [*self.open.values()]
        unstable += [first for _, first, marker, _ in self.done if marker >= high_watermark]
        return min([*unstable, high_watermark])

    def aborted(self, start: int, end: int) -> set[tuple[int, int, int]]:
        return {
            (producer, first, marker)
            for producer, first, marker, committed in self.done
            if not committed and marker >= start and first < end
        }


def triples(log: PartitionLog, start: int = 0, end: int | None = None) -> list[tuple[int, ...]]:
    end = log.end_offset if end is None else end
    return [
        (one.producer_id, one.first_offset, one.last_offset)
        for one in log.aborted_transactions(start, end)
    ]


def test_entries_survive_the_file():
    entries = [entry(7, 0, 5, 6), entry(8, 3, 9, 1)]
    data = TxnIndex(entries).encode()
    assert len(data) == 2 * ENTRY_BYTES
    assert list(TxnIndex.decode("x", data, 0)) == entries
    assert list(TxnIndex.decode("x", b"", 0)) == []


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([entry(-1, 0, 5, 6)], "producer id -1"),
        ([entry(1, 5, 5, 5)], "a transaction from 5 to 5"),
        ([entry(1, -1, 5, 5)], "a transaction from -1 to 5"),
        ([entry(1, 0, 5, 7)], "last stable offset 7 at 5"),
        ([entry(1, 0, 5, -1)], "last stable offset -1 at 5"),
        ([entry(1, 0, 5, 6), entry(2, 1, 5, 6)], "marker at 5, not behind 5"),
    ],
)
def test_an_index_that_cannot_be_is_refused(entries, reason):
    with pytest.raises(CorruptFileError, match=reason):
        TxnIndex.decode("x", TxnIndex(entries).encode(), 0)


def test_an_entry_below_its_segment_another_version_and_a_cut_are_refused():
    data = TxnIndex([entry(1, 0, 5, 6)]).encode()
    with pytest.raises(CorruptFileError, match="not behind 5"):
        TxnIndex.decode("x", data, 6)
    with pytest.raises(CorruptFileError, match="version 1"):
        TxnIndex.decode("x", b"\0\1" + data[2:], 0)
    for size in range(1, len(data)):
        with pytest.raises(CorruptFileError):
            TxnIndex.decode("x", data[:size], 0)


def test_the_search_ends_where_nothing_more_can_come():
    index = TxnIndex([entry(1, 0, 4, 2), entry(2, 2, 6, 7), entry(3, 7, 9, 10)])
    assert [one.producer_id for one in index.collect(0, 7).transactions] == [1, 2]
    assert index.collect(0, 7).is_complete
    assert index.collect(0, 2).is_complete  # by the first entry's stable offset
    alone = TxnIndex([entry(1, 0, 4, 2)])
    assert alone.collect(0, 2).is_complete, "all that is below 2 has ended by then"
    assert not alone.collect(0, 3).is_complete
    assert [one.producer_id for one in index.collect(5, 100).transactions] == [2, 3]
    assert not index.collect(5, 100).is_complete
    assert index.collect(10, 12).transactions == []
    assert [one.producer_id for one in index.collect(4, 1).transactions] == [1]


def test_an_abort_makes_an_entry_and_a_commit_none():
    log = open_log(SimDisk(), DIR)
    producers = Producers(log)
    producers.write(1)
    producers.write(2)
    producers.write(3)
    producers.end(2, commit=True)
    producers.end(1, commit=False)
    producers.end(9, commit=False)  # of nothing
    producers.end(3, commit=False)
    assert log.aborted_transactions(0, 100) == [entry(1, 0, 4, 2), entry(3, 2, 6, 7)]
    assert log.has_aborted_transactions(0)


def test_the_stable_offset_waits_for_the_markers_replication():
    log = open_log(SimDisk(), DIR)
    producers = Producers(log)
    append(log, make_batch(3))
    assert log.last_stable_offset(3) == 3
    producers.write(1)
    assert log.last_stable_offset(4) == 3
    assert log.last_stable_offset(2) == 2
    marker = producers.end(1, commit=True)
    assert log.last_stable_offset(marker) == 3
    assert log.last_stable_offset(marker + 1) == marker + 1
    log.producers.forget_decided(marker)
    assert log.last_stable_offset(marker) == 3
    log.producers.forget_decided(marker + 1)
    assert log.last_stable_offset(marker) == marker


def filled(disk: SimDisk, *, with_open: bool = True) -> tuple[PartitionLog, Producers]:
    """A log of several segments, transactions across them; producer 5's is open from the start."""
    log = open_log(disk, DIR, config(**SMALL))
    producers = Producers(log)
    if with_open:
        producers.write(5)
    for turn in range(12):
        for producer in (1, 2, 3):
            producers.write(producer, value_bytes=150)
        producers.end(1, commit=turn % 2 == 0)
        producers.end(3, commit=turn % 3 == 0)
        if turn % 2:
            producers.end(2, commit=False)
    assert len(log.segment_base_offsets) > 5
    return log, producers


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_is_opened_knows_which_markers_may_yet_be_lost(clean):
    """A snapshot of producers has only what is open; the high watermark may be below it."""
    disk = SimDisk()
    log, producers = filled(disk, with_open=False)
    end = log.end_offset
    log.flush()
    log.close(clean=clean)
    for checkpointed in range(0, end + 1, 5):
        log = open_log(
            disk, DIR, config(**SMALL), clean_shutdown=True, recovery_point=end,
            high_watermark=checkpointed,
        )  # fmt: skip
        for high_watermark in range(checkpointed, end + 1):
            assert log.last_stable_offset(high_watermark) == producers.stable(high_watermark)
        log.close()


def test_a_log_that_is_cut_knows_which_markers_may_yet_be_lost():
    for cut in range(1, 61, 2):
        log, producers = filled(SimDisk(), with_open=False)
        log.truncate_to(cut)
        for high_watermark in range(cut + 1):
            begun = [(first, marker) for _, first, marker, _ in producers.done]
            begun += [(first, cut) for first in producers.open.values()]
            unstable = [f for f, marker in begun if f < cut and marker >= min(high_watermark, cut)]
            assert log.last_stable_offset(high_watermark) == min([*unstable, high_watermark])


def test_transactions_across_segments_are_found_from_everywhere():
    log, producers = filled(SimDisk())
    for start in range(0, log.end_offset, 3):
        for end in range(start + 1, producers.stable(log.end_offset) + 1):
            assert set(triples(log, start, end)) == producers.aborted(start, end)
    everything = triples(log)
    assert set(everything) == producers.aborted(0, log.end_offset)
    assert [marker for _, _, marker in everything] == sorted(marker for _, _, marker in everything)


def test_files_are_made_only_where_there_is_something_in_them():
    disk = SimDisk()
    log = open_log(disk, DIR, config(**SMALL))
    producers = Producers(log)
    producers.write(1)
    producers.end(1, commit=True)
    log.close()
    assert not disk.exists(INDEX)
    log = open_log(disk, DIR, config(**SMALL), clean_shutdown=True, recovery_point=2)
    Producers(log).write(2)
    Producers(log).end(2, commit=False)
    log.close()
    assert disk.size(INDEX) == ENTRY_BYTES


def test_a_clean_log_reads_its_indexes_from_the_files():
    disk = SimDisk()
    log, producers = filled(disk)
    before, end = triples(log), log.end_offset
    log.close()
    log = open_log(disk, DIR, config(**SMALL), clean_shutdown=True, recovery_point=end)
    assert triples(log) == before
    assert log.last_stable_offset(end) == 0
    producers.log = log
    producers.end(5, commit=False)
    assert triples(log) == [*before, (5, 0, end)]
    assert log.aborted_transactions(end, end + 1) == [entry(5, 0, end, end + 1)]


@pytest.mark.parametrize("kept", [0, 30])
def test_an_unclean_end_rebuilds_the_indexes(kept):
    disk = SimDisk()
    log, _ = filled(disk)
    before = log.aborted_transactions(0, log.end_offset)
    log.flush()
    log.close(clean=False)
    names = [name for name in disk.list(DIR) if name.endswith(".txnindex")]
    assert len(names) > 3
    for name in names:  # what a crash leaves may be anything
        file = disk.open(f"{DIR}/{name}")
        file.truncate(kept)
        file.close()
    log = open_log(disk, DIR, config(**SMALL), recovery_point=0)
    assert log.aborted_transactions(0, log.end_offset) == before
    log.close()
    assert [name for name in disk.list(DIR) if name.endswith(".txnindex")] >= names


def test_recovery_from_the_middle_needs_no_more_than_a_snapshot():
    disk = SimDisk()
    log, _ = filled(disk)
    before, end = log.aborted_transactions(0, log.end_offset), log.end_offset
    log.flush()
    log.close(clean=False)
    middle = log.segment_base_offsets[3]
    log = open_log(disk, DIR, config(**SMALL), recovery_point=middle)
    assert log.recovery.segments_scanned < len(log.segment_base_offsets)
    assert log.end_offset == end
    assert log.aborted_transactions(0, end) == before


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("with_snapshots", [False, True])
def test_a_damaged_index_is_rebuilt(last, with_snapshots):
    disk = SimDisk()
    log, _ = filled(disk)
    before, end = log.aborted_transactions(0, log.end_offset), log.end_offset
    log.close()
    names = [name for name in disk.list(DIR) if name.endswith(".txnindex")]
    path = f"{DIR}/{names[-1 if last else 2]}"
    whole = disk.read(path)
    file = disk.open(path)
    file.write_at(b"\x7f\xff", 0)
    file.close()
    if not with_snapshots:
        for name in disk.list(DIR):
            if name.endswith(".snapshot"):
                disk.unlink(f"{DIR}/{name}")
    log = open_log(disk, DIR, config(**SMALL), clean_shutdown=True, recovery_point=end)
    assert log.aborted_transactions(0, end) == before
    append(log)
    log.close()
    assert disk.read(path) == whole


def test_cutting_the_log_cuts_its_index():
    for cut in range(1, 61):
        log, producers = filled(SimDisk())
        log.truncate_to(cut)
        begun = [(p, first, marker) for p, first, marker, _ in producers.done if first < cut]
        undecided = [first for _, first, marker in begun if marker >= cut] + [
            first for first in producers.open.values() if first < cut
        ]
        wanted = {one for one in producers.aborted(0, 1000) if one[2] < cut}
        assert set(triples(log)) == wanted, cut
        assert log.producers.first_undecided_offset() == min(undecided)


def test_cutting_back_into_a_segment_with_a_damaged_index():
    disk = SimDisk()
    log, producers = filled(disk)
    end, cut = log.end_offset, log.segment_base_offsets[2] + 5
    log.close()
    path = f"{DIR}/{log.segment_base_offsets[2]:020d}.txnindex"
    file = disk.open(path)
    file.truncate(5)
    file.close()
    log = open_log(disk, DIR, config(**SMALL), clean_shutdown=True, recovery_point=end)
    log.truncate_to(cut)
    assert set(triples(log)) == {one for one in producers.aborted(0, 1000) if one[2] < cut}


def test_deleted_segments_take_their_indexes_along():
    disk = SimDisk()
    log, producers = filled(disk)
    log.flush()
    at = log.segment_base_offsets[3]
    log.advance_start_offset(at)
    assert set(triples(log, at)) == producers.aborted(at, 1000)
    left = [name for name in disk.list(DIR) if name.endswith(".txnindex")]
    assert left and all(int(name[:20]) >= at for name in left)
    log.close()
    assert not [name for name in disk.list(DIR) if name.endswith(".deleted")]


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
def test_against_a_model(seed, steps):
    rng = random.Random(seed)
    disk = SimDisk()
    log = open_log(disk, DIR, config(internal_segment_bytes=700))
    producers = Producers(log)
    ends = [0]
    for _ in range(steps):
        ends.append(log.end_offset)
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                producers.write(rng.randrange(4), rng.randrange(60), rng.randint(1, 3))
            case 4 | 5:
                producers.end(rng.randrange(4), commit=rng.random() < 0.4)
            case 6:
                append(log, make_batch(2))
            case 7:
                clean, end = rng.random() < 0.5, log.end_offset
                log.flush()
                log.close(clean=clean)
                log = producers.log = open_log(
                    disk, DIR, config(internal_segment_bytes=700), clean_shutdown=clean,
                    recovery_point=end if clean else rng.choice([*log.segment_base_offsets, end]),
                )  # fmt: skip
                log.producers.forget_decided(end)
    end = log.end_offset
    assert log.last_stable_offset(end) == producers.stable(end)
    for _ in range(5):
        start = rng.randint(0, end)
        upper = (
            rng.randint(start, producers.stable(end)) if start < producers.stable(end) else start
        )
        assert set(triples(log, start, upper)) == producers.aborted(start, upper)


def test_a_follower_finds_the_same():
    leader, _ = filled(SimDisk())
    follower = open_log(SimDisk(), DIR, config(**SMALL))
    for _, batch in leader.read_all_batches(0, leader.end_offset):
        follow(follower, bytes(batch))
        assert read_header(batch).last_offset == follower.end_offset - 1
    assert follower.aborted_transactions(0, 1000) == leader.aborted_transactions(0, 1000)


def aborted_by_the_log(log: PartitionLog) -> list[tuple[int, int, int]]:
    """What a reader of all batches would say, without the log's own bookkeeping."""
    begun: dict[int, int] = {}
    found = []
    for header, batch in log.read_all_batches(0, log.end_offset):
        if not header.is_transactional:
            continue
        if not header.is_control:
            begun.setdefault(header.producer_id, header.base_offset)
            continue
        (record,) = read_control(batch)
        first = begun.pop(header.producer_id, None)
        if first is not None and record.type == ControlType.ABORT:
            found.append((header.producer_id, first, header.last_offset))
    return found


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32), crash_at=st.integers(1, 250))
def test_after_any_crash_the_index_is_what_the_log_says(seed, crash_at):
    rng = random.Random(seed)
    disk = SimDisk(seed)
    disk.mkdir("/data")
    disk.sync_dir("/")
    disk.changes = durable = 0

    def lower(recovery_point: int, start_offset: int) -> None:
        nonlocal durable
        durable = min(durable, recovery_point)

    try:
        disk.crash_at = crash_at
        log = open_log(disk, DIR, config(**SMALL), lower_checkpoints=lower)
        producers = Producers(log)
        while True:
            producer = rng.randrange(4)
            match rng.randrange(10):
                case 0 | 1 | 2:
                    producers.end(producer, commit=rng.random() < 0.3)
                case 3:
                    log.flush()
                    durable = log.recovery_point
                case 4 if rng.random() < 0.2 and not producers.open:
                    log.truncate_to(rng.randint(durable, log.end_offset))
                case _:
                    producers.write(producer, rng.randrange(300))
    except Crash:
        disk.power_loss()
    log = open_log(disk, DIR, config(**SMALL), recovery_point=durable)
    assert triples(log) == aborted_by_the_log(log)
    log.close()
    verifier = Verifier(disk, is_live=lambda _: False)
    assert [one for one in verifier.run([DIR]) if one.is_problem] == []


def test_rebuilt_indexes_are_durable_before_the_recovery_point_may_pass_them():
    disk = make_dir()
    bases = open_log(disk, TXN, clean_shutdown=True).segment_base_offsets
    disk.process_death()
    disk.operations.clear()
    open_log(disk, TXN)
    synced = {path for what, path in disk.operations if what == "sync"}
    written = {path for what, path in disk.operations if what == "write"}
    of_closed = {f"{TXN}/{base:020d}.txnindex" for base in bases[:-1]}
    assert written & of_closed
    assert written & of_closed <= synced
