"""Audits without Spark: silence on sound replicas, and one finding, in the right place, for each
kind of damage."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from fencepost.batch.header import read_header, stamp, stamp_crc
from fencepost.log.checkpoints import encode_lines
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.txn_index import TxnIndex
from fencepost.spark.audit.auditing import Source
from fencepost.spark.audit.model import AuditError, Finding
from fencepost.wire.types import Uuid

from ...log.helpers import NOW_MS, make_batch
from .world import (
    CLEAN,
    CONFIG,
    HIGH_WATERMARKS,
    InProcess,
    audit,
    batches_of,
    change,
    checkpoint,
    copy_replica,
    flip,
    make_replica,
    only,
    problems,
    segment,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    first = make_replica(tmp_path_factory.mktemp("made") / "1")
    copy_replica(first, 2)
    copy_replica(first, 3)
    return first.parent


@pytest.fixture
def replicas(made, tmp_path) -> list[Path]:
    place = tmp_path / "cluster"
    shutil.copytree(made, place, symlinks=True)
    return [place / "1", place / "2", place / "3"]


def offsets(finding: Finding) -> tuple[int | None, int | None]:
    return finding.start_offset, finding.end_offset


def is_at(finding: Finding, replica: int, check: str, first: int, end: int, text: str = "") -> bool:
    assert (finding.replica, finding.check, *offsets(finding)) == (replica, check, first, end)
    assert text in finding.text, finding
    return True


# ---- sound


def test_sound_replicas_give_notes_alone_and_every_range_is_compared(replicas):
    outcome = audit(*replicas)
    assert outcome.is_clean
    assert {one.check for one in outcome.findings} == {"transaction"}
    assert [(one.replica, *offsets(one)) for one in outcome.findings] == [
        (1, 0, 24), (2, 0, 24), (3, 0, 24),
    ]  # fmt: skip
    assert all(one.is_equal and one.replicas == (1, 2, 3) for one in outcome.ranges)
    covered = {(one.topic, one.partition): 0 for one in outcome.ranges}
    for one in outcome.ranges:
        covered[one.topic, one.partition] += one.end_offset - one.start_offset
    assert covered == {("orders", 0): 24, ("orders", 1): 36, ("other", 0): 21}
    assert outcome.totals.partitions == 3
    assert outcome.totals.segments == 30
    lineage = outcome.reports[("other", 0)][1]
    assert lineage.spans == [(0, 0, 8), (1, 8, 16), (2, 16, 24)]


def test_one_replica_is_not_compared(replicas):
    outcome = audit(replicas[0])
    assert outcome.is_clean
    assert outcome.ranges == []


def test_a_directory_of_a_cluster_and_replicas_by_number(replicas):
    assert audit(replicas[0].parent).totals.replicas == 3
    named = audit(Source(str(replicas[0]), 7), Source(str(replicas[1]), 8))
    assert {one.copy.replica for one in named.reports["orders", 1]} == {7, 8}


def test_nodes_of_a_cluster_keep_their_logs_below_themselves(replicas, tmp_path):
    for number, replica in enumerate(replicas, 1):
        shutil.copytree(replica, tmp_path / "nodes" / f"broker-{number}" / "data")
    assert audit(tmp_path / "nodes").totals.replicas == 3


def test_controllers_are_no_brokers(replicas, tmp_path):
    """Nor are topics that are not audited a reason to call a broker anything else."""
    nodes = tmp_path / "nodes"
    for number, replica in enumerate(replicas, 1):
        shutil.copytree(replica, nodes / f"broker-{number}" / "data")
    for number in (11, 12):
        metadata = nodes / f"controller-{number}" / "data"
        metadata.mkdir(parents=True)
        directory_id = Uuid(bytes(14) + bytes([number, 7]))
        format_log_dir(
            OsDisk(), str(metadata), cluster_id="c", node_id=number, directory_id=directory_id
        )
        log_dir = LogDir.open(OsDisk(), str(metadata))
        log_dir.create("__cluster_metadata", 0, Uuid(bytes(15) + b"\1"), CONFIG, wall_ms=NOW_MS)
        log_dir.close(broker_epoch=1)
    for topics in ((), ("__cluster_metadata",), ("orders",)):
        totals = audit(nodes, topics=topics).totals
        assert (totals.replicas, totals.metadata_only) == (3, 2), topics


def test_chosen_topics(replicas):
    outcome = audit(*replicas, topics=("oth.*",))
    assert {one.topic for one in outcome.ranges} == {"other"}
    with pytest.raises(AuditError, match="no partitions"):
        audit(*replicas, topics=("oth",))


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda place: place / "nowhere", "is no directory, or is not there"),
        (lambda place: place / "1" / "orders-0", "neither a log directory nor one of a cluster"),
    ],
)
def test_what_cannot_be_audited(replicas, edit, text):
    with pytest.raises(AuditError, match=text):
        audit(replicas[1], edit(replicas[0].parent))


def test_directories_of_two_clusters(replicas):
    path = replicas[1] / "meta.properties"
    path.write_text("version=1\ncluster.id=d\nnode.id=2\n")
    with pytest.raises(AuditError, match=r"is of cluster c, and .* of cluster d"):
        audit(*replicas)


def test_a_directory_that_does_not_say_whose_it_is(replicas):
    (replicas[1] / "meta.properties").unlink()
    with pytest.raises(AuditError, match="name its replica"):
        audit(*replicas)
    assert audit(replicas[0], Source(str(replicas[1]), 2)).is_clean


# ---- batches


def test_a_batch_that_fails_its_crc(replicas):
    path = segment(replicas[1], "orders-0", 6)
    position = batches_of(path)[1]
    flip(path, position + 70)
    found = only(*replicas)
    assert is_at(found, 2, "crc", 7, 9, "CRC mismatch in the batch of offsets 7-8")
    assert (found.path, found.position, found.severity) == (str(path), position, "error")


def test_a_length_that_leads_nowhere(replicas):
    path = segment(replicas[0], "orders-1", 12)
    positions = batches_of(path)
    flip(path, positions[1] + 10)
    found = only(*replicas)
    assert is_at(found, 1, "batch", 15, 18, "bytes are no batch")
    assert found.position == positions[1]


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0xFFFFFFFF, 0])
def test_a_length_nobody_can_have(replicas, length):
    path = segment(replicas[0], "orders-1", 12)
    at = batches_of(path)[1] + 8
    change(path, lambda data: data.__setitem__(slice(at, at + 4), struct.pack(">I", length)))
    assert is_at(only(*replicas), 1, "batch", 15, 18)


def test_zeros_in_the_middle(replicas):
    path = segment(replicas[2], "orders-1", 12)
    start, end = batches_of(path)[1:3]
    change(path, lambda data: data.__setitem__(slice(start, end), bytes(end - start)))
    assert is_at(only(*replicas), 3, "batch", 15, 18)


def test_a_segment_of_zeros(replicas):
    path = segment(replicas[2], "orders-1", 12)
    change(path, lambda data: data.__setitem__(slice(None), bytes(len(data))))
    found = only(*replicas)
    assert is_at(found, 3, "batch", 12, 24, "zero bytes at the end")


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_cut_off_tail_of_a_log_that_was_closed(replicas, cut):
    path = segment(replicas[0], "orders-0", 18)
    change(path, lambda data: data.__delitem__(slice(-cut, None)))
    found = only(*replicas)
    assert found.check == "batch"
    assert found.end_offset == 24
    assert found.start_offset in (22, 23)
    assert found.path == str(path)


def test_a_log_cut_between_batches(replicas):
    path = segment(replicas[0], "orders-1", 24)
    position = batches_of(path)[-1]
    change(path, lambda data: data.__delitem__(slice(position, None)))
    assert is_at(only(*replicas), 1, "offsets", 33, 36, "are missing at the end")


def test_a_tail_torn_by_a_crash_is_a_warning(replicas):
    (replicas[1] / CLEAN).unlink()
    path = segment(replicas[1], "orders-0", 18)
    change(path, lambda data: data.extend(bytes(make_batch(2))[:50]))
    found = only(*replicas)
    assert (found.replica, found.check, found.severity) == (2, "tail", "warning")
    assert "the next start cuts it off" in found.text


# ---- offsets


@pytest.mark.parametrize("suffixes", [(".log", ".index", ".timeindex", ".txnindex"), (".log",)])
def test_a_missing_segment(replicas, suffixes):
    for suffix in suffixes:
        segment(replicas[1], "orders-0", 6, suffix).unlink()
    assert is_at(only(*replicas), 2, "offsets", 6, 13, "offsets 6-12 are missing")


def test_a_missing_batch(replicas):
    path = segment(replicas[1], "orders-1", 12)
    start, end = batches_of(path)[1:3]
    change(path, lambda data: data.__delitem__(slice(start, end)))
    assert is_at(only(*replicas), 2, "offsets", 15, 18, "offsets 15-17 are missing")


def test_a_segment_without_its_last_batch(replicas):
    path = segment(replicas[1], "orders-1", 12)
    position = batches_of(path)[-1]
    change(path, lambda data: data.__delitem__(slice(position, None)))
    found = only(*replicas)
    assert found.check == "offsets"
    assert found.end_offset == 24
    assert "are missing" in found.text


def test_overlapping_offsets(replicas):
    path = segment(replicas[1], "orders-1", 12)
    at = batches_of(path)[2]
    change(path, lambda data: stamp(data, at, base_offset=16, leader_epoch=0))
    found = [one for one in problems(*replicas) if one.check == "offsets"]
    assert is_at(found[0], 2, "offsets", 16, 19, "where those from 18 on belong")


def test_gaps_that_compaction_explains_are_notes(replicas):
    path = segment(replicas[1], "orders-1", 12)
    start, end = batches_of(path)[1:3]
    change(path, lambda data: data.__delitem__(slice(start, end)))
    for suffix in (".index", ".timeindex"):
        segment(replicas[1], "orders-1", 12, suffix).write_bytes(b"")
    checkpoint(replicas[1], "cleaner-offset-checkpoint", "orders 1 24")
    outcome = audit(*replicas)
    notes = [one for one in outcome.findings if one.check == "offsets"]
    assert [one.severity for one in notes] == ["note"]
    of_partition = [one for one in outcome.ranges if (one.topic, one.partition) == ("orders", 1)]
    assert all(one.is_equal for one in of_partition)
    assert [one.replicas for one in of_partition if one.end_offset <= 24] == [(1, 3)] * 3


def thin(data: bytearray) -> None:
    """Take a record out of the first batch, as compaction does, as far as its header shows."""
    header = read_header(data)
    data[57:61] = struct.pack(">i", header.records_count - 1)
    batch = bytearray(data[: header.size_bytes])
    stamp_crc(batch)
    data[: header.size_bytes] = batch


def test_a_batch_that_compaction_thinned_out_does_not_diverge(replicas):
    """Although the cleaner's checkpoint does not say so yet."""
    change(segment(replicas[0], "orders-1", 0), thin)
    outcome = audit(*replicas)
    assert outcome.is_clean
    assert outcome.totals.differing_ranges == 1


def test_a_gap_behind_a_thinned_segment_is_compaction_too(replicas):
    """Which only shows where segments are looked at in a row."""
    change(segment(replicas[0], "orders-1", 0), thin)
    path = segment(replicas[0], "orders-1", 12)
    start, end = batches_of(path)[1:3]
    change(path, lambda data: data.__delitem__(slice(start, end)))
    found = audit(replicas[0]).findings
    assert {(one.severity, offsets(one)) for one in found if one.check == "offsets"} == {
        ("note", (15, 18))
    }


# ---- epochs


def test_an_epoch_that_falls(replicas):
    path = segment(replicas[0], "other-0", 16)
    at = batches_of(path)[2]
    change(path, lambda data: stamp(data, at, base_offset=20, leader_epoch=1))
    assert is_at(only(*replicas), 1, "epochs", 20, 22, "epoch 1 behind epoch 2")


def test_epochs_that_fall_where_segments_meet(replicas):
    path = segment(replicas[0], "other-0", 16)
    positions = batches_of(path)

    def lower(data: bytearray) -> None:
        for at in positions:
            header = read_header(data, at)
            stamp(data, at, base_offset=header.base_offset, leader_epoch=0)

    change(path, lower)
    checkpoint(replicas[0] / "other-0", "leader-epoch-checkpoint", "0 3", "1 8")
    found = [one for one in problems(replicas[0]) if one.severity == "error"]
    assert len(found) == 1
    assert is_at(
        found[0], 1, "epochs", 16, read_header(path.read_bytes(), positions[-1]).next_offset
    )


@pytest.mark.parametrize(
    ("lines", "first", "end", "text"),
    [
        (["0 3", "1 9", "2 16"], 8, 10, "epoch 1 begins at 9"),
        (["0 3", "2 16"], 8, 10, "epoch 1 is not there"),
        (["0 3", "1 8", "2 16", "3 25"], None, None, "epoch 3 begins at 25, behind the end"),
        (["0 3", "2 8", "1 16"], None, None, "behind"),
    ],
)
def test_an_epoch_checkpoint_that_contradicts_the_batches(replicas, lines, first, end, text):
    checkpoint(replicas[1] / "other-0", "leader-epoch-checkpoint", *lines)
    found = only(*replicas)
    assert (found.replica, found.check, *offsets(found)) == (2, "epochs", first, end)
    assert text in found.text


def test_an_epoch_checkpoint_that_is_gone(replicas):
    (replicas[1] / "other-0" / "leader-epoch-checkpoint").unlink()
    assert "is not there" in only(*replicas).text


# ---- what is made from segments


@pytest.mark.parametrize(
    ("suffix", "position"), [(".index", 3), (".index", 7), (".timeindex", 7), (".timeindex", 11)]
)
def test_an_index_that_does_not_fit(replicas, suffix, position):
    path = segment(replicas[1], "orders-0", 6, suffix)
    flip(path, position)
    found = {(one.replica, one.check, one.path) for one in problems(*replicas)}
    assert found == {(2, "index", str(path))}


def test_a_transaction_index_that_lacks_an_abort(replicas):
    path = segment(replicas[1], "orders-0", 18, ".txnindex")
    entries = list(TxnIndex.decode(str(path), path.read_bytes(), 18))
    path.write_bytes(TxnIndex(entries[:-1]).encode())
    found = only(*replicas)
    assert (found.replica, found.check) == (2, "txnindex")
    assert "lacks the transaction that producer 2 aborted" in found.text


@pytest.mark.parametrize("offset", [6, 13, 18])
def test_a_producer_snapshot_of_another_state(replicas, offset):
    path = segment(replicas[1], "orders-0", offset, ".snapshot")
    flip(path, 40)
    found = only(*replicas)
    assert (found.replica, found.check, found.path) == (2, "snapshot", str(path))


def test_checkpoints_behind_the_logs_end_of_an_empty_log(replicas):
    checkpoint(
        replicas[1], "recovery-point-offset-checkpoint", "orders 0 24", "orders 1 40", "other 0 24"
    )
    assert is_at(only(*replicas), 2, "offsets", 36, 40, "recovery point is 40")


def test_a_partition_that_is_gone(replicas):
    shutil.rmtree(replicas[1] / "orders-1")
    found = problems(*replicas)
    assert {one.check for one in found} == {"checkpoint"}
    assert all("names orders-1, which is not there" in one.text for one in found)


# ---- replicas


def rewrite(path: Path, number: int, *, epoch: int = 0) -> None:
    """Other records in the place of a batch's, sound by themselves."""
    at = batches_of(path)[number]

    def edit(data: bytearray) -> None:
        header = read_header(data, at)
        batch = data[at : at + header.size_bytes]
        batch[-5] ^= 1
        stamp_crc(batch)
        data[at : at + header.size_bytes] = batch
        stamp(data, at, base_offset=header.base_offset, leader_epoch=epoch)

    change(path, edit)


def test_a_replica_with_other_records(replicas):
    rewrite(segment(replicas[1], "orders-1", 12), 1)
    found = only(*replicas)
    assert is_at(found, 2, "divergence", 15, 18, "differ from replica 1, below the high watermark")
    assert (found.leader_epoch, found.other_replica, found.other_leader_epoch) == (0, 1, 0)


def test_the_replica_that_is_alone_is_the_one_that_differs(replicas):
    rewrite(segment(replicas[0], "orders-1", 12), 1)
    found = only(*replicas)
    assert (found.replica, found.other_replica) == (1, 2)


def test_of_two_the_one_with_the_older_epoch_differs(replicas):
    """As after an unclean election: each goes on from 16, with epochs of their own."""
    path = segment(replicas[0], "other-0", 16)
    for number in range(len(batches_of(path))):
        rewrite(path, number, epoch=1)
    checkpoint(replicas[0] / "other-0", "leader-epoch-checkpoint", "0 3", "1 8")
    last = batches_of(path)[-1]
    end = read_header(path.read_bytes(), last).next_offset
    found = [one for one in problems(*replicas[:2]) if one.check == "divergence"]
    assert len(found) == 1
    assert is_at(found[0], 1, "divergence", 16, end, "leader epoch 1 here, 2 there")


def test_two_places_are_two_findings(replicas):
    rewrite(segment(replicas[1], "orders-1", 0), 0)
    rewrite(segment(replicas[1], "orders-1", 12), 1)
    rewrite(segment(replicas[1], "orders-1", 12), 3)
    assert [offsets(one) for one in problems(*replicas)] == [(0, 3), (15, 18), (21, 24)]


def test_what_differs_above_the_high_watermark_is_a_tail(replicas):
    lines = [f"{t} {p} {16 if t == 'other' else at}" for (t, p), at in HIGH_WATERMARKS.items()]
    for replica in replicas:
        checkpoint(replica, "replication-offset-checkpoint", *lines)
    path = segment(replicas[0], "other-0", 16)
    for base in sorted(int(one.stem) for one in path.parent.glob("*.log")):
        if base >= 16:
            one = segment(replicas[0], "other-0", base)
            for number in range(len(batches_of(one))):
                rewrite(one, number, epoch=1)
    checkpoint(replicas[0] / "other-0", "leader-epoch-checkpoint", "0 3", "1 8")
    outcome = audit(*replicas)
    assert outcome.is_clean
    (tail,) = [one for one in outcome.findings if one.check == "tail"]
    assert is_at(tail, 1, "tail", 16, 24, "above the high watermark, 16")
    assert (tail.severity, tail.leader_epoch, tail.other_leader_epoch) == ("note", 1, 2)


def test_replicas_need_not_begin_at_the_same_offset(replicas):
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        segment(replicas[1], "orders-1", 0, suffix).unlink(missing_ok=True)
    outcome = audit(*replicas)
    assert outcome.is_clean
    assert {one.replicas for one in outcome.ranges if one.topic == "orders" and one.partition} == {
        (1, 3), (1, 2, 3),
    }  # fmt: skip


def test_without_high_watermarks_a_difference_is_a_warning(replicas):
    for replica in replicas[:2]:
        (replica / "replication-offset-checkpoint").unlink()
    rewrite(segment(replicas[1], "orders-1", 12), 1)
    found = only(*replicas[:2])
    assert (found.severity, found.check) == ("warning", "divergence")
    assert "no high watermark is known" in found.text


def test_a_topic_that_was_made_anew_is_not_compared(replicas):
    path = replicas[1] / "orders-1" / "partition.metadata"
    path.write_bytes((replicas[1] / "other-0" / "partition.metadata").read_bytes())
    rewrite(segment(replicas[1], "orders-1", 12), 1)
    found = only(*replicas)
    assert (found.replica, found.check) == (2, "document")
    assert "but other replicas have" in found.text


# ---- large segments, in parts


def split(*replicas: Path, **settings: int) -> list[Finding]:
    return problems(*replicas, split_bytes=300, **settings)


def test_parts_of_segments_find_what_a_whole_one_does(replicas):
    runner = InProcess()
    whole, parts = audit(*replicas), audit(*replicas, split_bytes=300, runner=runner)
    assert parts.findings == whole.findings
    assert parts.ranges == whole.ranges
    assert parts.totals.tasks > whole.totals.tasks
    assert "reading damaged segments" not in runner.titles


def test_damage_in_a_part_is_told_as_for_a_whole_segment(replicas):
    path = segment(replicas[1], "orders-1", 12)
    for at in batches_of(path):
        flip(path, at + 70)
        assert is_at(split(*replicas)[0], 2, "crc", *_offsets_at(path, at), "CRC mismatch")
        flip(path, at + 70)
    flip(path, batches_of(path)[2] + 10)
    assert split(*replicas) == problems(*replicas)


def _offsets_at(path: Path, at: int) -> tuple[int, int]:
    header = read_header(path.read_bytes(), at)
    return header.base_offset, header.next_offset


def test_an_index_that_is_wrong_where_a_part_begins(replicas):
    path = segment(replicas[1], "orders-1", 12, ".index")
    for position in range(len(path.read_bytes())):
        flip(path, position)
        assert {one.check for one in split(*replicas)} == {"index"}, position
        flip(path, position)


# ---- in use


def test_a_directory_in_use_is_looked_at_again(replicas):
    (replicas[0] / CLEAN).unlink()
    path = segment(replicas[0], "orders-0", 18)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])  # as if the broker were half-way through a write
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        path.write_bytes(whole)

    assert audit(*replicas, pause=pause).is_clean
    assert len(pauses) == 1


def test_a_log_that_is_appended_to_all_the_time_has_no_torn_tail(replicas):
    """Each look meets a write half done; but never the same."""
    (replicas[0] / CLEAN).unlink()
    path = segment(replicas[0], "orders-0", 18)
    whole = path.read_bytes()
    at = batches_of(path)
    path.write_bytes(whole[: at[-3] + 20])
    cuts = iter((at[-2] + 20, at[-1] + 20, len(whole) - 1))
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        checkpoint(replicas[0], name, "orders 0 18", "orders 1 36", "other 0 24")
    assert audit(*replicas, pause=lambda _: path.write_bytes(whole[: next(cuts)])).is_clean


def test_segments_that_are_deleted_meanwhile_are_no_damage(replicas):
    (replicas[0] / CLEAN).unlink()

    class Deleting(InProcess):
        def run(self, tasks, title):
            if title == "reading logs":
                for path in (replicas[0] / "orders-1").glob(f"{0:020d}.*"):
                    path.rename(f"{path}.deleted")
            return super().run(tasks, title)

    assert audit(*replicas, runner=Deleting()).is_clean


def test_a_partition_that_is_deleted_meanwhile_is_no_damage(replicas):
    (replicas[0] / CLEAN).unlink()

    class Deleting(InProcess):
        def run(self, tasks, title):
            if title == "reading logs":
                (replicas[0] / "orders-1").rename(replicas[0] / f"orders-1.{'0' * 32}-delete")
            return super().run(tasks, title)

    assert audit(*replicas, runner=Deleting()).is_clean


def test_files_of_a_compaction_at_work_are_no_damage(replicas):
    (replicas[0] / CLEAN).unlink()
    for name in (f"{6:020d}.log.cleaned", f"{6:020d}.index.swap", "leader-epoch-checkpoint.tmp"):
        (replicas[0] / "orders-0" / name).write_bytes(b"half")
    assert audit(*replicas).is_clean
    (replicas[0] / CLEAN).write_bytes(b'{"version":0,"brokerEpoch":5}')
    assert {one.check for one in problems(*replicas)} == {"leftover"}


def test_files_left_outside_of_what_is_missing_are_told_of(replicas):
    """Those within it are what remains of the segment that is missing."""
    segment(replicas[1], "orders-0", 6).unlink()
    told = {f"{3:020d}.log.cleaned", f"{13:020d}.log.cleaned", "leader-epoch-checkpoint.tmp"}
    for name in (*told, f"{6:020d}.log.cleaned", f"{12:020d}.log.cleaned"):
        (replicas[1] / "orders-0" / name).write_bytes(b"half")
    found = [one for one in problems(*replicas) if one.check == "leftover"]
    assert {Path(one.path).name for one in found} == told


# ---- hostile files


def test_what_stands_in_the_place_of_a_segment(replicas, tmp_path):
    path = segment(replicas[1], "orders-1", 12)
    kept = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    found = only(*replicas)
    assert (found.replica, found.check, found.path) == (2, "file", str(path))
    path.unlink()
    path.mkdir()
    assert only(*replicas).check == "file"
    path.rmdir()
    path.symlink_to(path)
    assert only(*replicas).check == "file"
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(kept)
    path.symlink_to(tmp_path / "elsewhere")
    assert audit(*replicas).is_clean


def test_a_file_in_the_place_of_a_partition(replicas):
    shutil.rmtree(replicas[1] / "orders-1")
    (replicas[1] / "orders-1").write_bytes(b"")
    assert all("names orders-1" in one.text for one in problems(*replicas))


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("content", [b"", b"\xff" * 100, bytes(100), b"\x7f" * 3])
def test_any_content_is_borne(replicas, suffix, content):
    segment(replicas[1], "orders-0", 13, suffix).write_bytes(content)
    found = problems(*replicas)
    assert all(one.replica == 2 for one in found), found
    assert found or (suffix, content) in ((".index", b""), (".index", bytes(100)))


def test_checkpoints_that_are_no_checkpoints(replicas):
    for name in ("replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (replicas[1] / name).write_bytes(b"\x00\xff not numbers")
    assert {one.check for one in problems(*replicas)} == {"checkpoint"}
    (replicas[1] / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"0\n99999\n")
    assert {one.check for one in problems(*replicas)} == {"checkpoint", "epochs"}
    assert encode_lines([]) == b"0\n0\n"
