"""Verification: silence on a sound directory, and every kind of damage found where it is."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.control import build_control_batch
from fencepost.batch.header import read_header, stamp, stamp_crc
from fencepost.batch.legacy import build_message_set
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import Record, build_batch
from fencepost.log.checkpoints import encode_lines
from fencepost.log.durable_end import encode_durable_end
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import MetaProperties, format_log_dir
from fencepost.log.names import DELETED_SUFFIX
from fencepost.log.txn_index import TxnIndex
from fencepost.log.verify import directory as directory_module
from fencepost.log.verify.directory import NotALogDirectoryError, Verifier
from fencepost.log.verify.problems import Counts, Problem, Severity
from fencepost.sim.disk import SimDisk
from fencepost.wire.records.control import (
    ControlType,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from fencepost.wire.records.metadata import (
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_record,
)
from fencepost.wire.records.txn_index import AbortedTxn
from fencepost.wire.types import Uuid

from .data_dir import EPOCHS, PLAIN, ROOT, TXN, change, files_of, flip, make_dir
from .helpers import config, follow, make_batch, open_log

MIDDLE = f"{TXN}/{6:020d}"
LAST = f"{TXN}/{18:020d}"


@pytest.fixture
def disk() -> SimDisk:
    return make_dir()


def verify(
    disk: SimDisk, *paths: str, live: bool = False, deep: bool = False
) -> tuple[list[Problem], Counts]:
    verifier = Verifier(disk, is_live=lambda _: live, is_deep=deep)
    return list(verifier.run(list(paths or (ROOT,)))), verifier.counts


def problems(disk: SimDisk, *paths: str, **kw: bool) -> list[Problem]:
    return [problem for problem in verify(disk, *paths, **kw)[0] if problem.is_problem]


def only(disk: SimDisk, *paths: str, **kw: bool) -> Problem:
    found = problems(disk, *paths, **kw)
    assert len(found) == 1, found
    return found[0]


def is_at(problem: Problem, path: str, check: str, text: str) -> bool:
    assert (problem.path, problem.check) == (path, check), problem
    assert text in problem.text, problem
    return True


def batches_of(disk: SimDisk, path: str) -> list[int]:
    """Where the batches of a segment begin."""
    data, position, found = disk.read(path), 0, []
    while position < len(data):
        found.append(position)
        position += read_header(data, position).size_bytes
    return found


# ---- sound


def test_a_sound_directory_gives_silence_and_is_left_alone(disk):
    before = {path: disk.read(path) for path in files_of(disk)}
    found, counts = verify(disk, deep=True)
    assert found == []
    assert (counts.partitions, counts.segments) == (3, 10)
    assert counts.bytes == sum(len(data) for path, data in before.items() if path.endswith(".log"))
    assert {path: disk.read(path) for path in files_of(disk)} == before
    assert not disk.locks


@pytest.mark.parametrize("path", [TXN, PLAIN, EPOCHS, f"{TXN}/"])
def test_a_partition_by_itself(disk, path):
    assert verify(disk, path)[0] == []


@pytest.mark.parametrize("path", ["/nowhere", f"{LAST}.log"])
def test_what_is_no_log_directory_is_refused(disk, path):
    with pytest.raises(NotALogDirectoryError):
        verify(disk, ROOT, path)
    disk.mkdir("/empty")
    with pytest.raises(NotALogDirectoryError, match="/empty"):
        verify(disk, "/empty")


def test_an_empty_partition(disk):
    disk.mkdir(f"{ROOT}/new-0")
    assert verify(disk)[0] == []


# ---- batches


def test_a_batch_that_fails_its_crc(disk):
    position = batches_of(disk, f"{MIDDLE}.log")[1]
    flip(disk, f"{MIDDLE}.log", position + 70)
    found = only(disk)
    assert is_at(found, f"{MIDDLE}.log", "crc", "CRC mismatch in the batch of offsets 7-8")
    assert found.position == position
    assert found.severity == Severity.ERROR


def test_a_length_that_leads_nowhere_and_the_batches_behind_it(disk):
    path = f"{PLAIN}/{12:020d}.log"
    positions = batches_of(disk, path)
    flip(disk, path, positions[1] + 10)
    found = problems(disk)
    assert is_at(found[0], path, "batch", f"{positions[2] - positions[1]} bytes are no batch")
    assert found[0].position == positions[1]
    assert {one.check for one in found[1:]} <= {"offsets", "index"}
    assert any("offsets 15-17 are missing" in one.text for one in found)


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_cut_off_tail(disk, cut):
    path = f"{LAST}.log"
    change(disk, path, disk.read(path)[:-cut])
    found = problems(disk)
    assert is_at(found[0], path, "batch", "bytes are no batch")
    assert any(one.check == "checkpoint" and "24" in one.text for one in found)


def test_a_tail_torn_by_a_crash_is_only_a_warning(disk):
    disk.unlink(f"{ROOT}/.kafka_cleanshutdown")
    path = f"{LAST}.log"
    change(disk, path, disk.read(path) + bytes(make_batch(2))[:50])
    found = only(disk)
    assert is_at(found, path, "tail", "the next start cuts it off")
    assert found.severity == Severity.WARNING
    change(disk, path, disk.read(path)[:-60])  # and into what had been durable
    assert {one.severity for one in problems(disk)} == {Severity.ERROR}


def test_records_that_cannot_be_parsed_are_found_by_a_deep_look(disk):
    path = f"{PLAIN}/{24:020d}.log"
    data = bytearray(disk.read(path))
    position = batches_of(disk, path)[-1]
    header = read_header(data, position)
    batch = bytearray(data[position:])
    batch[61] = 0xFF
    stamp_crc(batch)
    change(disk, path, bytes(data[:position] + batch))
    assert problems(disk) == []
    found = only(disk, deep=True)
    assert is_at(found, path, "records", "record 0")
    assert header.last_offset == 35


# ---- offsets


def test_a_missing_segment(disk):
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        disk.unlink(MIDDLE + suffix)
    found = problems(disk)
    assert is_at(found[0], f"{TXN}/{13:020d}.log", "offsets", "offsets 6-12 are missing")


def test_a_missing_batch(disk):
    path = f"{PLAIN}/{12:020d}.log"
    first, second, third = batches_of(disk, path)[:3]
    data = disk.read(path)
    change(disk, path, data[:second] + data[third:])
    assert any("offsets 15-17 are missing" in one.text for one in problems(disk))
    assert first == 0


def test_overlapping_offsets(disk):
    path = f"{PLAIN}/{12:020d}.log"
    data = bytearray(disk.read(path))
    stamp(data, batches_of(disk, path)[2], base_offset=16, leader_epoch=0)
    change(disk, path, bytes(data))
    found = problems(disk)
    assert any("offsets 16-18 where those from 18 on belong" in one.text for one in found)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_emptied_segment_is_a_problem_even_where_compaction_has_been(disk, is_compacted):
    change(disk, f"{MIDDLE}.log", b"")
    if is_compacted:
        change(disk, f"{ROOT}/cleaner-offset-checkpoint", encode_lines(["orders 0 18"]))
    found = [one for one in problems(disk) if one.check == "offsets"]
    at_segment = [one for one in found if one.path == f"{MIDDLE}.log"]
    assert is_at(at_segment[0], f"{MIDDLE}.log", "offsets", "holds no batch")
    assert any("are missing" in one.text for one in found) != is_compacted


def test_gaps_of_compaction_are_notes(disk):
    path = f"{PLAIN}/{12:020d}.log"
    _, second, third = batches_of(disk, path)[:3]
    data = disk.read(path)
    change(disk, path, data[:second] + data[third:])
    for suffix in ("index", "timeindex"):
        disk.unlink(f"{PLAIN}/{12:020d}.{suffix}")
    lines = encode_lines(["orders 1 24"])
    change(disk, f"{ROOT}/cleaner-offset-checkpoint", lines)
    found, _ = verify(disk)
    notes = [one for one in found if one.severity == Severity.NOTE]
    assert len(notes) == 1
    assert is_at(notes[0], path, "offsets", "1 gaps of 3 offsets")
    assert {one.check for one in found if one.is_problem} == {"index"}


# ---- indexes


@pytest.mark.parametrize(
    ("suffix", "position", "text"),
    [
        (".index", 3, "has offsets 9-10, not 257"),
        (".index", 7, "no batch begins at byte"),
        (".index", 4, "no batch begins at byte"),
        (".timeindex", 7, "is not where timestamp"),
        (".timeindex", 11, "is not where timestamp"),
        (".timeindex", 8, "is not where timestamp"),
    ],
)
def test_an_index_that_does_not_fit_the_log(disk, suffix, position, text):
    flip(disk, MIDDLE + suffix, position)
    found = problems(disk)
    assert is_at(found[0], MIDDLE + suffix, "index", text)
    assert found[0].severity == Severity.WARNING


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_cut_or_gone(disk, suffix):
    path = LAST + suffix
    change(disk, path, disk.read(path)[:-3])
    assert any("bytes are left of an entry" in one.text for one in problems(disk))
    disk.unlink(path)
    assert is_at(only(disk), path, "index", "is not there")


def test_a_time_index_without_its_last_entry(disk):
    path = f"{MIDDLE}.timeindex"
    change(disk, path, disk.read(path)[:-12])
    assert is_at(only(disk), path, "index", "ends before the segment's largest timestamp")


def test_a_time_index_with_room_behind_its_entries_is_of_a_segment_that_was_not_closed(disk):
    """Kafka 4.4.0 leaves its metadata log so, with `.kafka_cleanshutdown` beside it."""
    path = f"{LAST}.timeindex"
    change(disk, path, disk.read(path)[:-12] + bytes(12 * 1000))
    assert problems(disk) == []


def test_zeros_behind_an_index_are_no_damage(disk):
    path = f"{LAST}.index"
    change(disk, path, disk.read(path) + bytes(8 * 10000))
    assert problems(disk) == []
    change(disk, path, disk.read(path) + struct.pack(">Ii", 1, 2))
    assert problems(disk) != []


def test_indexes_above_the_recovery_point_of_a_crashed_log_are_not_judged(disk):
    disk.unlink(f"{ROOT}/.kafka_cleanshutdown")
    change(disk, f"{ROOT}/recovery-point-offset-checkpoint", encode_lines(["orders 0 6"]))
    for base in (6, 13, 18):
        change(disk, f"{TXN}/{base:020d}.index", b"garbage")
        change(disk, f"{TXN}/{base:020d}.snapshot", b"garbage")
    disk.unlink(f"{LAST}.txnindex")
    assert [one.path for one in problems(disk, TXN)] == [f"{MIDDLE}.snapshot"]
    change(disk, f"{TXN}/{0:020d}.index", b"garbage!")
    assert f"{TXN}/{0:020d}.index" in {one.path for one in problems(disk, TXN)}


# ---- transactions


def edited(disk: SimDisk, path: str, edit: Callable[[list[AbortedTxn]], None]) -> Problem:
    entries = list(TxnIndex.decode(path, disk.read(path), 0))
    edit(entries)
    change(disk, path, TxnIndex(entries).encode())
    return only(disk)


def test_a_transaction_index_that_contradicts_the_markers(disk):
    path = f"{LAST}.txnindex"
    whole = disk.read(path)

    def is_found(edit: Callable[[list[AbortedTxn]], None], text: str) -> bool:
        change(disk, path, whole)
        return is_at(edited(disk, path, edit), path, "txnindex", text)

    assert is_found(lambda entries: entries.pop(), "lacks the transaction that producer 2")
    assert is_found(
        lambda entries: setattr(entries[0], "first_offset", 15), "the first offset is 18, not 15"
    )
    assert is_found(
        lambda entries: setattr(entries[1], "last_stable_offset", 3), "last stable offset is 0"
    )
    change(disk, path, whole)
    found = problems_after(disk, path, lambda entries: setattr(entries[0], "producer_id", 9))
    assert any("no transaction was aborted by producer 9" in text for text in found)
    change(disk, path, whole[:-1])
    assert is_at(only(disk), path, "txnindex", "33 are left")
    disk.unlink(path)
    assert {one.check for one in problems(disk)} == {"txnindex"}


def problems_after(disk: SimDisk, path: str, edit: Callable[[list[AbortedTxn]], None]) -> list[str]:
    entries = list(TxnIndex.decode(path, disk.read(path), 0))
    edit(entries)
    change(disk, path, TxnIndex(entries).encode())
    return [one.text for one in problems(disk)]


def test_a_transaction_index_where_nothing_was_aborted(disk):
    path = f"{PLAIN}/{12:020d}.txnindex"
    entry = AbortedTxn(producer_id=1, first_offset=12, last_offset=14, last_stable_offset=15)
    change(disk, path, TxnIndex([entry]).encode())
    assert is_at(only(disk), path, "txnindex", "no transaction was aborted by producer 1 at 14")
    assert only(disk).severity is Severity.ERROR, "no start repairs it"


def test_a_snapshot_that_is_damaged_or_of_another_state(disk):
    path = f"{TXN}/{13:020d}.snapshot"
    whole = disk.read(path)
    flip(disk, path, 30)
    assert is_at(only(disk), path, "snapshot", "CRC")
    change(disk, path, disk.read(f"{TXN}/{18:020d}.snapshot"))
    assert {one.path for one in problems(disk)} == {path}
    assert all("by the log" in one.text for one in problems(disk))
    change(disk, path, disk.read(f"{PLAIN}/{12:020d}.snapshot"))
    assert any("lacks producer 3, whose transaction is open" in p.text for p in problems(disk))
    change(disk, path, whole)
    change(disk, f"{TXN}/{99:020d}.snapshot", whole)
    assert is_at(only(disk), f"{TXN}/{99:020d}.snapshot", "snapshot", "behind the log's end, 24")


def test_a_snapshot_that_knows_more_producers_than_the_log(disk):
    change(disk, f"{PLAIN}/{12:020d}.snapshot", disk.read(f"{TXN}/{13:020d}.snapshot"))
    found = problems(disk)
    assert {one.path for one in found} == {f"{PLAIN}/{12:020d}.snapshot"}
    assert all("the log does not know it" in one.text for one in found)


# ---- epochs


def test_epochs_that_fall(disk):
    path = f"{EPOCHS}/{16:020d}.log"
    data = bytearray(disk.read(path))
    position = batches_of(disk, path)[2]
    stamp(data, position, base_offset=20, leader_epoch=1)
    change(disk, path, bytes(data))
    found = only(disk)
    assert is_at(found, path, "epochs", "epoch 1 behind epoch 2")
    assert found.position == position


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["0 3", "1 9", "2 16"], "epoch 1 begins at 9, but has a batch of offsets 8-9"),
        (["0 3", "1 7", "2 16"], "epoch 0 begins at 3, but has a batch of offsets 6-7"),
        (["0 3", "2 16"], "epoch 1 is not there"),
        (["0 3", "1 8", "2 16", "3 25"], "epoch 3 begins at 25, behind the end"),
        (["0 3", "1 8", "2 7"], "has (2, 7) behind (1, 8)"),
    ],
)
def test_an_epoch_file_that_contradicts_the_log(disk, lines, text):
    path = f"{EPOCHS}/leader-epoch-checkpoint"
    change(disk, path, encode_lines(lines))
    assert any(is_at(one, path, "epochs", "") and text in one.text for one in problems(disk))


def test_an_epoch_file_that_is_not_there(disk):
    disk.unlink(f"{EPOCHS}/leader-epoch-checkpoint")
    found = only(disk)
    assert is_at(found, f"{EPOCHS}/leader-epoch-checkpoint", "epochs", "is not there")


def test_epochs_without_records_are_as_they_should_be(disk):
    lines = ["0 3", "1 8", "2 16", "7 24"]
    change(disk, f"{EPOCHS}/leader-epoch-checkpoint", encode_lines(lines))
    assert problems(disk) == []


# ---- what others say


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("recovery-point-offset-checkpoint", "recovery point"),
        ("log-start-offset-checkpoint", "start offset"),
        ("replication-offset-checkpoint", "high watermark"),
        ("cleaner-offset-checkpoint", "cleaner's offset"),
    ],
)
def test_checkpoints_behind_the_end(disk, name, what):
    change(disk, f"{ROOT}/{name}", encode_lines(["orders 0 25", "orders 1 36", "other 0 24"]))
    found = [one for one in problems(disk) if "25" in one.text]
    assert len(found) == 1
    assert is_at(found[0], TXN, "checkpoint", f"its {what} is 25, behind the log's end, 24")


def test_a_log_that_does_not_end_where_it_was_closed(disk):
    lines = ["orders 0 24", "orders 1 30", "other 0 24"]
    change(disk, f"{ROOT}/recovery-point-offset-checkpoint", encode_lines(lines))
    assert is_at(only(disk), PLAIN, "checkpoint", "was closed at 30, and ends at 36")
    change(disk, f"{ROOT}/recovery-point-offset-checkpoint", encode_lines(lines[::2]))
    assert is_at(only(disk), PLAIN, "checkpoint", "no recovery point says so")
    disk.unlink(f"{ROOT}/.kafka_cleanshutdown")
    assert problems(disk) == []


def test_a_clean_directory_without_recovery_points(disk):
    change(disk, f"{ROOT}/recovery-point-offset-checkpoint", b"")
    assert {one.path for one in problems(disk)} == {TXN, PLAIN, EPOCHS}
    disk.unlink(f"{ROOT}/.kafka_cleanshutdown")
    assert problems(disk) == []


def test_checkpoints_that_cannot_be_read_or_name_strangers(disk):
    path = f"{ROOT}/replication-offset-checkpoint"
    change(disk, path, b"0\n2\norders 0 1\n")
    assert is_at(only(disk), path, "checkpoint", "promises 2 entries")
    change(disk, path, encode_lines(["gone 0 5"]))
    assert is_at(only(disk), path, "checkpoint", "names gone-0, which is not there")


def test_meta_properties(disk):
    path = f"{ROOT}/meta.properties"
    whole = disk.read(path)
    flip(disk, path, -5)
    assert is_at(only(disk), path, "document", "checksum")
    disk.unlink(path)
    assert is_at(only(disk), path, "document", "is not there")
    change(disk, path, whole)
    format_log_dir(disk, "/more", cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\7"))
    found = only(disk, ROOT, "/more")
    assert is_at(found, "/more/meta.properties", "document", "has the directory id of /data")
    disk.unlink("/more/meta.properties")
    format_log_dir(disk, "/more", cluster_id="c", node_id=2, directory_id=Uuid(bytes(16)))
    found = only(disk, ROOT, "/more")
    says = (
        "these are different nodes' directories: this one is of node 2 of cluster c, and /data is"
        " of node 1 of cluster c; check them one node at a time"
    )
    assert is_at(found, "/more/meta.properties", "document", says)


def test_topic_ids(disk):
    path = f"{PLAIN}/partition.metadata"
    change(disk, path, disk.read(f"{EPOCHS}/partition.metadata"))
    found = problems(disk)
    assert is_at(found[0], path, "document", f"but {TXN} has")
    change(disk, path, b"version: 1\n")
    assert is_at(only(disk), path, "document", "is not of version 0")


def test_topic_ids_against_the_metadata_log(disk):
    place = f"{ROOT}/__cluster_metadata-0"
    records = [
        TopicRecord(name="other", topic_id=Uuid(bytes(15) + b"\5")),
        RemoveTopicRecord(topic_id=Uuid(bytes(15) + b"\5")),
        TopicRecord(name="other", topic_id=Uuid(bytes(15) + b"\2")),
        TopicRecord(name="orders", topic_id=Uuid(bytes(15) + b"\1")),
    ]
    log = open_log(disk, place)
    batch = build_batch([(None, encode_record(record)) for record in records], timestamp_ms=1)
    log.append_as_leader(RecordBatch.parse(batch), 1, 5)
    log.close()
    assert problems(disk) == []
    path = f"{EPOCHS}/partition.metadata"
    flip(disk, path, 21, 0x10)
    assert is_at(only(disk), path, "document", "but the metadata log has")


def test_snapshots_of_the_metadata_log(disk):
    place = f"{ROOT}/__cluster_metadata-0"
    open_log(disk, place).close()
    parts = [
        build_control_batch(
            [(ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord())], timestamp_ms=1
        ),
        build_batch([(None, encode_record(NoOpRecord()))], timestamp_ms=1),
        build_control_batch(
            [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord())], timestamp_ms=1
        ),
    ]
    for offset, part in enumerate(parts):
        stamp(part, 0, base_offset=offset, leader_epoch=1)
    header, batch, footer = map(bytes, parts)
    path = f"{place}/{7:020d}-{1:010d}.checkpoint"
    change(disk, path, header + batch + footer)
    assert problems(disk) == []
    flip(disk, path, len(header) + 65)
    assert is_at(only(disk), path, "snapshot", "CRC mismatch in the batch at offset")
    change(disk, path, header + batch)
    assert is_at(only(disk), path, "snapshot", "does not end with a snapshot's footer")
    change(disk, path, batch + footer)
    assert is_at(only(disk), path, "snapshot", "does not begin with a snapshot's header")
    change(disk, path, header + batch + footer[:-3])
    assert "bytes: the batch needs" in problems(disk)[0].text
    change(disk, f"{ROOT}/bootstrap.checkpoint", disk.read(path))
    disk.unlink(path)
    assert {one.path for one in problems(disk)} == {f"{ROOT}/bootstrap.checkpoint"}
    change(disk, f"{ROOT}/bootstrap.checkpoint", header + batch + footer)
    assert problems(disk) == []


def test_a_marker_that_cannot_be_read(disk):
    path = f"{ROOT}/.kafka_cleanshutdown"
    change(disk, path, b"{")
    assert is_at(only(disk), path, "document", "cannot be read")


def test_quorum_state(disk):
    path = f"{EPOCHS}/quorum-state"
    state = (
        b'{"leaderId":1,"leaderEpoch":%d,"votedId":1,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    change(disk, path, state % 2)
    assert problems(disk) == []
    change(disk, path, state % 1)
    assert is_at(only(disk), path, "document", "epoch 1, but the log has 2")
    change(disk, path, b"{}")
    assert is_at(only(disk), path, "document", "is no quorum state")


def test_a_durable_end(disk):
    path = f"{ROOT}/orders-0.durable-end"
    disk.unlink(f"{ROOT}/.kafka_cleanshutdown")
    change(disk, path, encode_durable_end(24))
    assert problems(disk) == []
    change(disk, path, encode_durable_end(25))
    assert is_at(only(disk), TXN, "checkpoint", "recovery point is 25, behind the log's end, 24")
    change(disk, path, encode_durable_end(24)[:-1])
    assert is_at(only(disk), path, "checkpoint", "does not say how far")
    disk.unlink(path)
    change(disk, f"{ROOT}/gone-0.durable-end", encode_durable_end(5))
    assert is_at(only(disk), f"{ROOT}/gone-0.durable-end", "checkpoint", "names gone-0, which is")


# ---- unneeded files


@pytest.mark.parametrize(
    ("name", "severity", "text"),
    [
        (f"{6:020d}.log.deleted", Severity.NOTE, "waits to be deleted"),
        (f"{6:020d}.log.cleaned", Severity.WARNING, "of an unfinished compaction"),
        (f"{6:020d}.index.swap", Severity.WARNING, "of an unfinished compaction"),
        ("leader-epoch-checkpoint.tmp", Severity.WARNING, "was being written"),
        (f"{7:020d}.timeindex", Severity.WARNING, "there is no segment of that offset"),
        ("notes.txt", Severity.NOTE, "is no file of a log"),
    ],
)
def test_unneeded_files_of_a_partition(disk, name, severity, text):
    change(disk, f"{TXN}/{name}", b"anything")
    (found,) = verify(disk)[0]
    assert is_at(found, f"{TXN}/{name}", "leftover", text)
    assert found.severity == severity


def test_unneeded_files_of_a_log_directory(disk):
    disk.mkdir(f"{ROOT}/gone-0.{'0' * 32}-delete")
    change(disk, f"{ROOT}/recovery-point-offset-checkpoint.tmp", b"")
    change(disk, f"{ROOT}/odd{DELETED_SUFFIX}", b"")
    found = {one.path.rpartition("/")[2]: one.severity for one in verify(disk)[0]}
    assert found == {
        f"gone-0.{'0' * 32}-delete": Severity.NOTE,
        "recovery-point-offset-checkpoint.tmp": Severity.WARNING,
        f"odd{DELETED_SUFFIX}": Severity.NOTE,
    }


# ---- in use


def test_a_directory_in_use_is_looked_at_again(disk, monkeypatch):
    monkeypatch.setattr(directory_module, "_PAUSE_S", 0)
    path = f"{LAST}.log"
    whole = disk.read(path)
    change(disk, path, whole[:-30])  # as if the broker were half-way through a write
    reads = 0

    class Writing(SimDisk):
        def open(self, name, *, create=False):
            nonlocal reads
            if name == path:
                reads += 1
                if reads == 2:
                    change(disk, path, whole)
            return disk.open(name)

        def __getattribute__(self, name):
            return super().__getattribute__(name) if name == "open" else getattr(disk, name)

    found = [one for one in verify(Writing(), live=True)[0] if one.is_problem]
    assert reads == 2
    assert found == []
    change(disk, path, whole[:-30])
    assert {one.path for one in problems(disk, live=True)} == {path, TXN}


def test_a_log_of_ours_that_is_open(disk):
    log = open_log(disk, "/live/topic-0", config(internal_segment_bytes=900))
    for turn in range(30):
        log.append_as_leader(RecordBatch.parse(make_batch(2, 30)), turn // 7, 5)
    format_log_dir(disk, "/live", cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    assert problems(disk, "/live", live=True) == []
    log.close(clean=False)
    assert problems(disk, "/live") == []


# ---- files that cannot be read


def test_a_file_that_cannot_be_read_does_not_hide_the_others(disk):
    class Refusing(SimDisk):
        def open(self, name, *, create=False):
            if name == f"{MIDDLE}.log":
                raise OSError(5, "Input/output error", name)
            return disk.open(name)

        def __getattribute__(self, name):
            return super().__getattribute__(name) if name == "open" else getattr(disk, name)

    flip(disk, f"{PLAIN}/{12:020d}.log", 70)
    first, second = problems(Refusing())
    assert is_at(first, f"{MIDDLE}.log", "file", "cannot be read: Input/output error")
    assert second.check == "crc"


# ---- formats of before


def test_messages_of_before_batches(disk):
    path = f"{ROOT}/old-0"
    records = [Record(at, 1000 + at, 0, b"k", b"v" * 50, ()) for at in range(9)]
    data = build_message_set(records[:3], magic=0) + build_message_set(records[3:5], magic=1)
    data += build_message_set(records[5:9], magic=1, compression="gzip")
    batch = make_batch(2)
    stamp(batch, 0, base_offset=9, leader_epoch=4)
    log = open_log(disk, path)
    follow(log, bytes(data + batch), 5)
    log.close()
    change(disk, f"{ROOT}/.kafka_cleanshutdown", b"")
    lines = ["orders 0 24", "orders 1 36", "other 0 24", "old 0 11"]
    change(disk, f"{ROOT}/recovery-point-offset-checkpoint", encode_lines(lines))
    assert problems(disk) == []
    flip(disk, f"{path}/{0:020d}.log", 40)
    assert "CRC mismatch" in only(disk).text


# ---- any byte


def is_irrelevant(disk: SimDisk, path: str, before: bytes, after: bytes) -> bool:
    """Changes that no reader can tell from what might have been written."""
    name = path.rpartition("/")[2]
    if name.endswith("-checkpoint") and _fields(before) == _fields(after):
        return True  # blanks are blanks
    match name:
        case "meta.properties":  # the checksum's comment, or an unknown key
            try:
                old, new = (MetaProperties.decode(path, data) for data in (before, after))
            except CorruptFileError:
                return False
            return (old.cluster_id, old.node_id, old.directory_id) == (
                new.cluster_id, new.node_id, new.directory_id,
            )  # fmt: skip
        case ".kafka_cleanshutdown":  # it stands for itself; its epoch may be any
            return after.startswith(b'{"version":0,"') and b"brokerEpoc" in before
        case "replication-offset-checkpoint" | "log-start-offset-checkpoint":
            # a high watermark or start that is within the log
            return [line[:2] for line in _fields(after)] == [line[:2] for line in _fields(before)]
        case "leader-epoch-checkpoint":  # a first epoch that begins below the log's start
            return before[:6] == after[:6] and before[7:] == after[7:] and after[6:7] < b"3"
        case "partition.metadata":  # the id of a topic that has no other partition here
            return path.startswith(EPOCHS)
        case _:
            return False


def _fields(data: bytes) -> list[list[bytes]]:
    return [line.split() for line in data.split(b"\n")]


def check_flip(disk: SimDisk, path: str, position: int, mask: int) -> None:
    before = disk.read(path)
    flip(disk, path, position, mask)
    after = disk.read(path)
    try:
        found = problems(disk)
    finally:
        change(disk, path, before)
    assert found or is_irrelevant(disk, path, before, after), (path, position, mask)


FLIPPED = make_dir()


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_any_byte_of_any_file(data):
    path = data.draw(st.sampled_from(files_of(FLIPPED)))
    position = data.draw(st.integers(0, len(FLIPPED.read(path)) - 1))
    check_flip(FLIPPED, path, position, data.draw(st.integers(1, 255)))


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_whatever_is_in_the_files_verification_ends(data):
    path = data.draw(st.sampled_from(files_of(FLIPPED)))
    before = FLIPPED.read(path)
    at = data.draw(st.integers(0, len(before)))
    cut = data.draw(st.integers(0, len(before) - at))
    content = before[:at] + data.draw(st.binary(max_size=80)) + before[at + cut :]
    change(FLIPPED, path, content)
    try:
        verify(FLIPPED, deep=True)
    finally:
        change(FLIPPED, path, before)


@pytest.mark.long
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_byte_of_every_file(mask):
    disk = make_dir()
    for path in files_of(disk):
        for position in range(len(disk.read(path))):
            check_flip(disk, path, position, mask)
