"""Opening a log after anything but a clean close: torn files, corrupt bytes, odd beginnings.

`test_interrupted_compaction` has what a compaction leaves that was interrupted. S32, S69, S87, S92;
invariants I02, I51, I52.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.batch.header import check_crc, iter_headers, read_header
from fencepost.log.errors import CorruptFileError, DurableDataLostError, LogError
from fencepost.log.names import offset_file
from fencepost.log.partition_log import PartitionLog
from fencepost.log.segment import Segment
from fencepost.sim.disk import SimDisk

from .helpers import NOW_MS, append, config, contents, epochs_of, make_batch, open_log
from .recovery_fixtures import (
    LOG,
    TOPIC_ID,
    all_batches,
    filled_disk,
    reopen,
    segment_name,
    set_content,
)

# ---- torn


def test_a_log_cut_at_every_byte_recovers_to_whole_batches():
    disk, log = filled_disk(9)
    everything = all_batches(disk)
    last = segment_name(log, -1)
    data = disk.read(f"{LOG}/{last}")
    base = log.segment_base_offsets[-1]
    in_front = [batch for batch in everything if batch[0] < base]
    ends = {position + header.size_bytes for position, header in iter_headers(data)}
    for size in range(len(data) + 1):
        set_content(disk, last, data[:size])
        again = reopen(disk)
        found = contents(again)
        whole = sum(1 for end in ends if end <= size)
        assert found == everything[: len(in_front) + whole]
        assert again.recovery.bytes_cut == size - max([0, *(end for end in ends if end <= size)])
        assert disk.size(f"{LOG}/{last}") == size - again.recovery.bytes_cut
        assert [tuple(entry) for entry in again.epochs] == epochs_of(found, 0)
        disk.process_death()


def test_zeros_garbage_and_repeated_batches_behind_the_last_are_cut():
    disk, log = filled_disk(9)
    everything = all_batches(disk)
    last = segment_name(log, -1)
    data = disk.read(f"{LOG}/{last}")
    dice = random.Random(4)
    # The last are batches that have been there, cut and whole.
    for tail in (bytes(4096), b"\xff" * 100, bytes(7), dice.randbytes(500), data[:40], data):
        set_content(disk, last, data + tail)
        again = reopen(disk)
        assert contents(again) == everything
        assert disk.read(f"{LOG}/{last}") == data
        disk.process_death()


def test_what_follows_a_torn_segment_goes():
    disk, log = filled_disk()
    everything = all_batches(disk)
    torn = segment_name(log, 2)
    data = disk.read(f"{LOG}/{torn}")
    set_content(disk, torn, data[:-1])
    again = reopen(disk)
    found = contents(again)
    assert found == everything[: len(found)]
    assert again.segment_base_offsets == log.segment_base_offsets[:3]
    assert again.recovery.bytes_cut > len(data) // 2
    names = disk.list(LOG)
    assert not [name for name in names if name[:20].isdigit() and int(name[:20]) > again.end_offset]


@pytest.mark.parametrize("missing", [0, 1, 3, -1])
def test_a_segment_that_is_missing_ends_the_log(missing):
    disk, log = filled_disk()
    everything = all_batches(disk)
    disk.unlink(f"{LOG}/{segment_name(log, missing)}")
    again = reopen(disk)
    found = contents(again)
    if missing == 0:  # taken for deleted, as old segments are
        assert found == [batch for batch in everything if batch[0] >= log.segment_base_offsets[1]]
        assert again.start_offset == log.segment_base_offsets[1]
    else:
        base = log.segment_base_offsets[missing]
        assert found == [batch for batch in everything if batch[0] < base]


def test_nothing_below_the_recovery_point_is_read_but_its_segment():
    disk, log = filled_disk(close=False)
    disk.process_death()
    again = reopen(disk, recovery_point=log.end_offset)
    assert again.recovery.segments_scanned == 1
    assert again.recovery.bytes_cut == 0
    disk.process_death()
    again = reopen(disk, recovery_point=log.segment_base_offsets[2])
    # and the one that ends there: its indexes were written when it was closed, perhaps not synced
    assert again.recovery.segments_scanned == len(log.segment_base_offsets) - 1


def test_a_log_that_another_program_led_on_is_read_although_it_was_closed_cleanly():
    disk, _ = filled_disk()
    everything = all_batches(disk)
    closed_at = everything[-2][0]  # where we had stopped; Kafka's controller went on from there
    again = reopen(disk, recovery_point=closed_at, clean_shutdown=True)
    assert contents(again) == everything
    assert again.recovery.was_unclean and again.recovery.bytes_cut == 0
    disk.process_death()
    with pytest.raises(DurableDataLostError):  # no batch ends there: it is not the log we closed
        reopen(disk, recovery_point=closed_at + 1, clean_shutdown=True)


# ---- lost or damaged although durable


def test_durable_records_that_are_gone_are_not_given_up_in_silence():
    disk, log = filled_disk()
    last = segment_name(log, -1)
    data = disk.read(f"{LOG}/{last}")
    set_content(disk, last, data[:-1])
    for clean in (True, False):
        with pytest.raises(DurableDataLostError) as raised:
            reopen(disk, recovery_point=log.end_offset, clean_shutdown=clean)
        assert last in str(raised.value)
        assert disk.read(f"{LOG}/{last}") == data[:-1]  # evidence is left alone
        disk.process_death()
    again = reopen(disk, recovery_point=log.end_offset, accept_loss=True)
    assert again.recovery.lost_from_offset == again.end_offset < log.end_offset


def test_a_lost_directory_with_durable_records_is_not_created_again():
    disk, _ = filled_disk(close=False)
    for name in disk.list(LOG):
        disk.unlink(f"{LOG}/{name}")
    with pytest.raises(DurableDataLostError):
        reopen(disk, recovery_point=5)


def test_a_flipped_bit_anywhere_in_a_durable_batch_is_refused_on_the_next_unclean_start():
    disk, log = filled_disk(6, close=False, log_config=config())
    disk.process_death()
    name = segment_name(log, 0)
    data = disk.read(f"{LOG}/{name}")
    header = read_header(data)
    for bit in range(header.size_bytes * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        set_content(disk, name, bytes(damaged))
        if 12 * 8 <= bit < 16 * 8:  # the leader epoch, which is not under the CRC
            continue
        with pytest.raises(DurableDataLostError):
            reopen(disk, recovery_point=log.end_offset)
        disk.process_death()


def test_a_flipped_bit_in_a_log_that_was_closed_cleanly_is_never_served():
    """I52: every batch that is served is one that was appended, wherever the damage is."""
    disk, log = filled_disk(24)
    everything = dict(all_batches(disk))
    disk, log = filled_disk(24)
    end = log.end_offset
    dice = random.Random(11)
    for at in range(len(log.segment_base_offsets)):
        name = segment_name(log, at)
        data = disk.read(f"{LOG}/{name}")
        for _ in range(40):
            damaged = bytearray(data)
            bit = dice.randrange(len(data) * 8)
            damaged[bit // 8] ^= 1 << bit % 8
            set_content(disk, name, bytes(damaged))
            served = serve_everything(disk, end)
            for base, batch in served.items():
                header = read_header(batch)
                assert check_crc(batch, 0, header)
                original = everything[base]
                # outside of the CRC: the base offset is checked by order, the epoch is not
                assert batch[16:] == original[16:]
                assert batch[:12] == original[:12]
            disk.process_death()
        set_content(disk, name, data)


def serve_everything(disk: SimDisk, end: int) -> dict[int, bytes]:
    """Whatever can be read, by every offset; damage may be reported instead."""
    try:
        log = reopen(disk, clean_shutdown=True, recovery_point=end)
    except LogError:
        return {}
    served: dict[int, bytes] = {}
    for offset in range(end):
        try:
            result = log.read(offset, 1, end)
        except LogError:
            continue
        for part in result.buffers:
            served[result.first_offset] = bytes(part)
    return served


# ---- indexes


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_indexes_cost_time_only(suffix, clean):
    disk, log = filled_disk()
    everything = all_batches(disk)
    disk, log = filled_disk()
    end = log.end_offset
    dice = random.Random(suffix)
    for at in range(len(log.segment_base_offsets)):
        name = segment_name(log, at, suffix)
        data = disk.read(f"{LOG}/{name}")
        variants = [None, b"", data[:-1], data + bytes(24), bytes(len(data)), b"\xff" * len(data)]
        variants += [dice.randbytes(len(data)) for _ in range(10)]
        for _ in range(30 if data else 0):
            flipped = bytearray(data)
            bit = dice.randrange(len(data) * 8)
            flipped[bit // 8] ^= 1 << bit % 8
            variants.append(bytes(flipped))
        for variant in variants:
            if variant is None:
                disk.unlink(f"{LOG}/{name}")
            else:
                set_content(disk, name, variant)
            again = reopen(disk, clean_shutdown=clean, recovery_point=end)
            assert contents(again) == everything
            for base, batch in everything:
                assert bytes(again.read(base, 1, end).buffers[0]) == batch
            half = everything[len(everything) // 2][0]
            found = again.read(0, 10**6, half)
            assert b"".join(map(bytes, found.buffers)) == b"".join(
                batch for base, batch in everything if base < min(half, segment_end(again, 0))
            )
            again.close()
            set_content(disk, name, data)


def segment_end(log: PartitionLog, at: int) -> int:
    return [*log.segment_base_offsets, log.end_offset][at + 1]


def test_indexes_without_their_log_go():
    disk, _ = filled_disk()
    for suffix in (".index", ".timeindex", ".txnindex"):
        set_content(disk, offset_file(10**6, suffix), b"")
    reopen(disk)
    assert not [name for name in disk.list(LOG) if name.startswith(f"{10**6:020d}")]


# ---- leader epochs


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="missing"),
        pytest.param(b"", id="empty"),
        pytest.param(b"0\n2\n0 0\n", id="torn"),
        pytest.param(b"0\n3\n0 0\n1 19\n2 ", id="cut"),
        pytest.param(bytes(30), id="zeros"),
        pytest.param(b"0\n0\n", id="nothing"),
        pytest.param(b"0\n1\n0 0\n", id="stale"),
        pytest.param(b"0\n1\n5 0\n", id="other-epoch"),
        pytest.param(b"0\n3\n0 0\n1 18\n2 39\n", id="start-too-early"),
        pytest.param(b"0\n3\n0 0\n1 20\n2 39\n", id="start-too-late"),
        pytest.param(b"0\n4\n0 0\n1 19\n2 39\n7 45\n", id="one-too-many"),
        pytest.param(b"0\n4\n0 0\n1 19\n2 39\n7 450\n", id="one-behind-the-end"),
        pytest.param(b"0\n2\n1 19\n2 39\n", id="first-missing"),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_the_leader_epoch_file_is_made_to_agree_with_the_log(content, clean):
    disk, log = filled_disk()
    expected = [tuple(entry) for entry in log.epochs]
    assert expected == [(0, 0), (1, 19), (2, 39)]
    if content is None:
        disk.unlink(f"{LOG}/leader-epoch-checkpoint")
    else:
        set_content(disk, "leader-epoch-checkpoint", content)
    again = reopen(disk, clean_shutdown=clean, recovery_point=log.end_offset)
    assert list(again.epochs) == expected
    again.flush()
    assert disk.read(f"{LOG}/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 19\n2 39\n"


def test_every_flipped_bit_of_the_leader_epoch_file_is_noticed():
    disk, log = filled_disk()
    expected = list(log.epochs)
    data = disk.read(f"{LOG}/leader-epoch-checkpoint")
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        set_content(disk, "leader-epoch-checkpoint", bytes(damaged))
        again = reopen(disk, clean_shutdown=True, recovery_point=log.end_offset)
        assert list(again.epochs) == expected
        disk.process_death()


def test_epochs_of_a_log_whose_start_has_moved():
    disk, log = filled_disk(close=False)
    log.advance_start_offset(25)
    log.close()
    end = log.end_offset
    for clean in (True, False):
        again = reopen(disk, clean_shutdown=clean, recovery_point=end, start_offset=25)
        assert list(again.epochs) == [(1, 25), (2, 39)]
        assert not again.recovery.epochs_rebuilt
        disk.process_death()
    disk.unlink(f"{LOG}/leader-epoch-checkpoint")
    again = reopen(disk, clean_shutdown=True, recovery_point=end, start_offset=25)
    assert list(again.epochs) == [(1, 25), (2, 39)]
    assert again.recovery.epochs_rebuilt


def test_an_epoch_without_records_is_forgotten_by_a_restart():
    disk, log = filled_disk(close=False)
    log.epochs.assign(9, log.end_offset)
    log.close()
    assert disk.read(f"{LOG}/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 19\n2 39\n"
    again = reopen(disk, clean_shutdown=True, recovery_point=log.end_offset)
    assert again.epochs.latest_epoch() == 2
    append(again, epoch=9)
    again.flush()
    assert disk.read(f"{LOG}/leader-epoch-checkpoint") == b"0\n4\n0 0\n1 19\n2 39\n9 60\n"


def test_an_epoch_reaches_the_file_with_its_first_record():
    disk, log = filled_disk(close=False)
    log.epochs.assign(9, log.end_offset)
    log.flush()
    append(log, epoch=9)
    log.flush()
    disk.power_loss()
    assert reopen(disk, recovery_point=log.end_offset).epochs.latest() == (9, 60)
    assert b"9 60" in disk.read(f"{LOG}/leader-epoch-checkpoint")


# ---- producers


def snapshots(disk: SimDisk) -> list[str]:
    return [name for name in disk.list(LOG) if name.endswith(".snapshot")]


@pytest.mark.parametrize("damage", ["missing", "torn", "flipped", "all"])
@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_damaged_snapshots(damage, clean):
    disk, log = filled_disk()
    last = log.producers.get(9)
    for name in snapshots(disk) if damage == "all" else snapshots(disk)[-2:]:
        data = disk.read(f"{LOG}/{name}")
        if damage == "missing":
            disk.unlink(f"{LOG}/{name}")
        elif damage == "torn":
            set_content(disk, name, data[:-3])
        else:
            set_content(disk, name, data[:20] + b"\x55" + data[21:])
    again = reopen(disk, clean_shutdown=clean, recovery_point=log.end_offset)
    state = again.producers.get(9)
    assert (state.last_sequence, state.last_offset) == (last.last_sequence, last.last_offset)
    assert again.producers.end_offset == log.end_offset
    newest = contents(again)[-1][1]
    assert again.producers.check(read_header(newest)).is_duplicate
    if damage in ("torn", "flipped"):
        assert len(snapshots(disk)) < len(log.segment_base_offsets)


def test_a_snapshot_of_records_that_are_gone_is_not_believed():
    disk, log = filled_disk(close=False)
    log.roll(0)
    disk.process_death()
    last = segment_name(log, -2)
    set_content(disk, last, disk.read(f"{LOG}/{last}")[:-1])
    again = reopen(disk)
    assert again.end_offset < log.end_offset
    assert again.producers.get(9).last_offset == again.end_offset - 1
    assert offset_file(log.end_offset, ".snapshot") not in snapshots(disk)


# ---- what a log begins and ends with


@pytest.mark.parametrize("clean", [True, False])
def test_a_closed_segment_that_was_emptied_is_noticed(clean, caplog):
    disk, log = filled_disk()
    everything = all_batches(disk)
    low, high = log.segment_base_offsets[1:3]
    set_content(disk, segment_name(log, 1), b"")
    known = {"clean_shutdown": clean, "recovery_point": log.end_offset}
    with pytest.raises(DurableDataLostError, match=f"is empty.*{high}"):
        reopen(disk, **known)
    disk.process_death()
    rest = [batch for batch in everything if not low <= batch[0] < high]
    assert contents(reopen(disk, accept_loss=True, **known)) == rest
    disk.process_death()
    caplog.clear()
    assert contents(reopen(disk, cleaned_offset=high, **known)) == rest
    assert f"{segment_name(log, 1)} is empty" in caplog.text
    disk.process_death()
    assert contents(reopen(disk, start_offset=high, **known)) == [
        batch for batch in rest if batch[0] >= high
    ]


def test_records_missing_behind_a_segment_are_a_gap_as_far_as_was_cleaned():
    """Kafka's cleaner may take the last batches of a segment, up to where the next one begins."""
    disk, log = filled_disk()
    everything = all_batches(disk)
    name, high = segment_name(log, 1), log.segment_base_offsets[2]
    data = disk.read(f"{LOG}/{name}")
    *_, (last, header) = iter_headers(data)
    set_content(disk, name, data[:last])
    rest = [batch for batch in everything if batch[0] != header.base_offset]
    for cleaned_offset, found in [
        (high, rest),
        (high - 1, [batch for batch in rest if batch[0] < high]),
    ]:
        backup = disk.backup()
        assert contents(reopen(disk, cleaned_offset=cleaned_offset)) == found
        disk.process_death()
        disk.restore(backup)


def test_a_segment_whose_offsets_do_not_fit_is_cut():
    """A header that claims offsets beyond what the segment's index can name is damage."""
    disk, log = filled_disk(3)
    name = segment_name(log, -1)
    data = bytearray(disk.read(f"{LOG}/{name}"))
    data[0:8] = (1 << 40).to_bytes(8)  # the CRC does not cover the base offset
    set_content(disk, name, bytes(data))
    again = reopen(disk)
    assert again.end_offset == log.segment_base_offsets[-1]


def test_an_empty_directory_and_an_empty_file():
    disk = SimDisk()
    disk.mkdir(LOG)
    log = open_log(disk, LOG)
    assert (log.start_offset, log.end_offset) == (0, 0)
    disk.process_death()
    assert open_log(disk, LOG, clean_shutdown=True).end_offset == 0
    disk.process_death()
    disk.unlink(f"{LOG}/{offset_file(0, '.log')}")
    again = open_log(disk, LOG, start_offset=40)
    assert (again.start_offset, again.end_offset) == (40, 40)


def test_a_directory_that_is_not_there_begins_where_the_checkpoint_says():
    disk = SimDisk()
    log = open_log(disk, LOG, start_offset=40)
    assert (log.start_offset, log.end_offset) == (40, 40)
    assert log.segment_base_offsets == [40]
    assert not log.recovery.was_unclean, "there was nothing to be closed"


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("start_offset", [19, 500, 99_999_999])
def test_a_start_behind_the_end_is_refused_and_costs_no_record(clean, start_offset):
    disk, log = filled_disk(9)
    end = log.end_offset
    assert end == 18
    everything = all_batches(disk)
    names = disk.list(LOG)
    known = {"clean_shutdown": clean, "start_offset": start_offset, "recovery_point": end}
    with pytest.raises(DurableDataLostError, match=f"log-start-offset-checkpoint.*{start_offset}"):
        reopen(disk, **known)
    disk.process_death()
    assert disk.list(LOG) == names
    again = reopen(disk, accept_loss=True, **known)
    assert (again.start_offset, again.end_offset) == (0, end)
    assert contents(again) == everything


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_without_records_begins_again_at_its_start(clean):
    disk, _ = filled_disk(0)
    again = reopen(disk, start_offset=500, clean_shutdown=clean)
    assert (again.start_offset, again.end_offset) == (500, 500)
    assert again.segment_base_offsets == [500]
    append(again, epoch=4)
    again.flush()
    disk.process_death()
    assert reopen(disk, start_offset=500, recovery_point=501).end_offset == 501


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_", bytes(43)])
def test_torn_partition_metadata(content):
    disk, log = filled_disk(3)
    set_content(disk, "partition.metadata", content)
    with pytest.raises(CorruptFileError):
        reopen(disk, recovery_point=log.end_offset, topic_id=TOPIC_ID)
    with pytest.raises(CorruptFileError):
        reopen(disk)  # the caller does not say which topic it is
    again = reopen(disk, topic_id=TOPIC_ID)  # nothing was durable: the file was torn
    assert again.topic_id == TOPIC_ID
    assert disk.read(f"{LOG}/partition.metadata").endswith(str(TOPIC_ID).encode())


def test_the_topic_id_is_durable_once_a_log_was_recovered():
    """The process before may have left it in the page cache (KAFKA-10101)."""
    disk, log = filled_disk(3, close=False)
    disk.process_death()
    disk.operations.clear()
    reopen(disk, recovery_point=log.end_offset, topic_id=TOPIC_ID)
    assert ("sync", f"{LOG}/partition.metadata") in disk.operations


def test_a_batch_of_an_earlier_incarnation_does_not_come_back():
    """One crash loses the size and not the bytes, the next one the bytes and not the size."""
    lost = 0
    for seed in range(400):
        disk = SimDisk(seed)
        log = open_log(disk, "/t-0")
        append(log, make_batch())
        log.flush()
        append(log, make_batch(fill=1))
        disk.power_loss()
        log = open_log(disk, "/t-0", recovery_point=1)
        if log.end_offset == 2:
            continue
        lost += 1
        durable = contents(log)
        append(log, make_batch(fill=2))
        second = contents(log)
        disk.power_loss()
        found = contents(open_log(disk, "/t-0", recovery_point=1))
        assert found in (durable, second), f"seed {seed}"
    assert lost > 100


def test_producers_are_looked_for_from_the_first_batch_of_one_on(monkeypatch):
    disk = SimDisk()
    disk.mkdir("/data")
    log = open_log(disk, LOG)
    for at in range(20):
        if at in (7, 14):
            log.roll(NOW_MS)
        stamps = {"producer_id": 7, "producer_epoch": 1, "base_sequence": at} if at > 8 else {}
        append(log, make_batch(1, 60, timestamp_ms=NOW_MS, fill=at, **stamps))
    first = sum(len(batch) for base, batch in contents(log) if 7 <= base < 9)
    log.flush()
    log.close(clean=False)
    for name in disk.list(LOG):
        if name.endswith(".snapshot"):
            disk.unlink(f"{LOG}/{name}")
    walked: dict[int, int] = {}
    headers = Segment.headers

    def walk(segment: Segment, start: int, end: int, *chunk_bytes: int) -> Any:
        if chunk_bytes:  # only who looks for producers says how much
            walked[segment.base_offset] = start
        return headers(segment, start, end, *chunk_bytes)

    monkeypatch.setattr(Segment, "headers", walk)
    again = reopen(disk)
    assert [state.last_offset for state in again.producers.active()] == [19]
    assert walked == {7: first, 14: 0}
