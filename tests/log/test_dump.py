"""Dumps: what is in files, what is left of damaged ones, and no more memory than a batch."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import read_header, stamp, stamp_crc
from fencepost.batch.records import build_batch
from fencepost.log.dump import batches as batches_module, kinds
from fencepost.log.dump.batches import FoundBatch, UnreadableBytes, scan_batches
from fencepost.log.dump.files import PlainFile, dump, files_of
from fencepost.log.dump.items import Item
from fencepost.log.dump.segments import DumpOptions
from fencepost.log.durable_end import encode_durable_end
from fencepost.log.quorum_state import StoredQuorumState, encode_quorum_state
from fencepost.wire.records import metadata
from fencepost.wire.records.quorum_state import QuorumStateData

from .data_dir import TXN, files_of as all_files, make_dir

BASE = f"{100:020d}"


class Memory:
    """Bytes as a `Readable`; notes the largest piece that was asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.largest = 0

    def read_at(self, size: int, position: int) -> bytes:
        self.largest = max(self.largest, size)
        return self.data[position : position + size]

    def size(self) -> int:
        return len(self.data)


def segment(count: int = 5, base: int = 100, **kinds_of: Any) -> tuple[bytes, list[int]]:
    """A segment of batches of two records, and where they begin."""
    data, starts = bytearray(), []
    for number in range(count):
        starts.append(len(data))
        batch = build_batch(
            [(b"k%d" % number, b"value"), (b"k", None)], timestamp_ms=1000 + number, **kinds_of
        )
        stamp(batch, 0, base_offset=base + 2 * number, leader_epoch=3)
        data += batch
    return bytes(data), starts


def items(data: bytes, path: str = f"/d/t-0/{BASE}.log", kind: str | None = None, **options: Any):
    found = dump(Memory(data), path, kind or str(kinds.kind_of(path)), DumpOptions(**options))
    return list(found)


def damages(found: list[Item]) -> list[dict[str, Any]]:
    return [item.fields for item in found if item.is_damage]


def of_type(found: list[Item], kind: str) -> list[dict[str, Any]]:
    return [item.fields for item in found if item.type == kind]


# ---- kinds


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"/d/orders-0/{BASE}.log", "segment"),
        (f"/d/orders-0/{BASE}.log.deleted", "segment"),
        (f"/d/__consumer_offsets-12/{BASE}.log.swap", "group"),
        (f"/d/__consumer_offsets-1.{'a' * 32}-delete/{BASE}.log", "group"),
        (f"/d/__transaction_state-12/{BASE}.log", "transaction"),
        (f"/d/__share_group_state-3/{BASE}.log", "share"),
        (f"/d/__cluster_metadata-0/{BASE}.log", "metadata"),
        (f"/d/__cluster_metadata-0/{BASE}-0000000003.checkpoint", "metadata"),
        (f"/d/__cluster_metadata-0/{BASE}-0000000003-71.checkpoint.part", "metadata"),
        ("/d/bootstrap.checkpoint", "metadata"),
        (f"/d/__remote_log_metadata-5/{BASE}.log", "remote-log"),
        (f"/d/t-0/{BASE}.index", "index"),
        (f"/d/t-0/{BASE}.timeindex.cleaned", "timeindex"),
        (f"/d/t-0/{BASE}.txnindex", "txnindex"),
        (f"/d/t-0/{BASE}.snapshot", "snapshot"),
        ("/d/recovery-point-offset-checkpoint", "offset-checkpoint"),
        ("/d/cleaner-offset-checkpoint.tmp", "offset-checkpoint"),
        ("/d/t-0/leader-epoch-checkpoint", "epoch-checkpoint"),
        ("/d/t-0/partition.metadata", "partition-metadata"),
        ("/d/meta.properties", "meta-properties"),
        ("/d/t-0/quorum-state", "quorum-state"),
        ("/d/.kafka_cleanshutdown", "clean-shutdown"),
        ("/d/__cluster_metadata-0.durable-end", "durable-end"),
        ("/d/t-0/notes.txt", None),
        ("/d/.lock", None),
    ],
)
def test_kinds(path, kind):
    assert kinds.kind_of(path) == kind
    assert kind is None or kind in kinds.KINDS


# ---- segments


def test_batches_and_records():
    data, starts = segment(2, compression="lz4", producer_id=7, producer_epoch=1, base_sequence=4)
    found = items(data, with_records=True, key_format=bytes, value_format=lambda value: value)
    batches = of_type(found, "batch")
    assert [one["position"] for one in batches] == starts
    assert [(one["base_offset"], one["last_offset"]) for one in batches] == [(100, 101), (102, 103)]
    first = batches[0]
    assert first["crc"] == read_header(data).crc
    assert first["is_crc_right"] is True
    assert first["compression"] == "lz4"
    assert (first["producer_id"], first["base_sequence"], first["last_sequence"]) == (7, 4, 5)
    assert first["partition_leader_epoch"] == 3
    records = of_type(found, "record")
    assert [(one["offset"], one["key"], one["value"]) for one in records] == [
        (100, b"k0", b"value"), (101, b"k", None), (102, b"k1", b"value"), (103, b"k", None),
    ]  # fmt: skip
    assert not of_type(items(data), "record")


def test_from_an_offset_on_earlier_batches_are_not_looked_at():
    data, starts = segment()
    broken = bytearray(data)
    broken[starts[0] + 65] ^= 1
    found = items(bytes(broken), from_offset=105, with_records=True)
    assert [one["position"] for one in of_type(found, "batch")] == starts[2:]
    assert [one["offset"] for one in of_type(found, "record")] == [105, 106, 107, 108, 109]
    assert not damages(found)
    assert items(data, from_offset=110) == []


def test_markers():
    marker = build_end_txn_marker(
        committed=False, coordinator_epoch=4, producer_id=9, producer_epoch=0, timestamp_ms=5
    )
    (record,) = of_type(items(bytes(marker), with_records=True), "control")
    assert record == {
        "offset": 0, "timestamp_ms": 5, "control_type": "ABORT", "value": {"coordinator_epoch": 4},
    }  # fmt: skip


def test_records_of_kafkas_logs_go_through_the_decoder():
    value = metadata.encode_record(metadata.NoOpRecord())
    data = bytes(build_batch([(None, value), (None, b"\xff")], timestamp_ms=1))

    def decode(key: bytes | None, value: bytes | None) -> dict[str, Any]:
        return {"key": key, "value": type(metadata.decode_record(value or b"")).__name__}

    found = items(
        data, "/d/__cluster_metadata-0/x.log", with_records=True, decode=decode,
        key_format=lambda key: key, value_format=lambda value: value,
    )  # fmt: skip
    records = of_type(found, "record")
    assert records[0]["value"] == "NoOpRecord"
    assert records[1]["value"] == b"\xff"
    assert "the record at offset 1" in damages(found)[0]["reason"]


# ---- damage


def test_a_flipped_bit_in_the_records():
    data, starts = segment()
    broken = bytearray(data)
    broken[starts[2] + 65] ^= 1
    found = items(bytes(broken))
    assert [one["is_crc_right"] for one in of_type(found, "batch")] == [True, True, False] + [
        True, True,
    ]  # fmt: skip
    (one,) = damages(found)
    assert one["position"] == starts[2]
    assert "CRC" in one["reason"]


@pytest.mark.parametrize("at", [8, 9, 10, 11, 16, 57])
def test_behind_a_header_that_cannot_be_the_next_batch_is_found(at):
    data, starts = segment()
    broken = bytearray(data)
    broken[starts[2] + at] ^= 0xFF
    found = items(bytes(broken))
    (one,) = damages(found)
    assert one["position"] == starts[2]
    assert one["size_bytes"] == starts[3] - starts[2]
    assert [two["position"] for two in of_type(found, "batch")] == starts[:2] + starts[3:]


@pytest.mark.parametrize("cut", [1, 20, 60, 70])
def test_a_torn_tail(cut):
    data, starts = segment()
    found = items(data[:-cut])
    (one,) = damages(found)
    assert one["position"] == starts[-1]
    assert one["is_tail"]
    assert len(of_type(found, "batch")) == 4


def test_zeros_that_were_allocated():
    data, _ = segment()
    (one,) = damages(items(data + bytes(3 << 20)))
    assert (one["position"], one["reason"]) == (len(data), f"{3 << 20} zero bytes at the end")


def test_garbage_between_batches_across_chunks():
    data, starts = segment(4)
    garbage = random.Random(7).randbytes((2 << 20) + 17)
    found = items(data[: starts[2]] + garbage + data[starts[2] :])
    (one,) = damages(found)
    assert (one["position"], one["size_bytes"]) == (starts[2], len(garbage))
    assert [two["base_offset"] for two in of_type(found, "batch")] == [100, 102, 104, 106]


def test_a_batch_inside_of_garbage_that_runs_backwards_is_not_taken():
    data, starts = segment(4)
    old = bytearray(data[: starts[1]])  # offset 100 once more
    found = items(data + bytes(30) + bytes(old))
    assert len(of_type(found, "batch")) == 4
    assert damages(found)[0]["size_bytes"] == 30 + len(old)


def test_records_that_cannot_be_parsed_are_found_deeply():
    data, starts = segment()
    broken = bytearray(data)
    broken[starts[1] + 61] = 0xFF
    batch = broken[starts[1] : starts[2]]
    stamp_crc(batch)
    broken[starts[1] : starts[2]] = batch
    assert not damages(items(bytes(broken)))
    (one,) = damages(items(bytes(broken), is_deep=True))
    assert one["position"] == starts[1]
    assert len(of_type(items(bytes(broken), with_records=True), "record")) == 8


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_any_damage_ends_and_leaves_no_byte_out(data):
    whole, _ = segment(4)
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                changed[at] ^= data.draw(st.integers(1, 255))
            case 1:
                del changed[at : at + data.draw(st.integers(1, 80))]
                if not changed:
                    changed = bytearray(b"x")
            case 2:
                changed[at:at] = data.draw(st.binary(max_size=100))
    position = 0
    for found in scan_batches(Memory(bytes(changed)), base_offset=100):
        assert found.position == position
        position += (
            found.size_bytes if isinstance(found, UnreadableBytes) else found.header.size_bytes
        )
    assert position == len(changed)


def test_memory_does_not_grow_with_the_segment(tmp_path, monkeypatch):
    monkeypatch.setattr(batches_module, "_DATA_BYTES_MAX", 1 << 20)
    path = tmp_path / f"{0:020d}.log"
    with path.open("wb") as file:
        for number in range(16):
            batch = build_batch([(None, bytes(4 << 20))], timestamp_ms=1)
            stamp(batch, 0, base_offset=number, leader_epoch=0)
            file.write(batch)
    with PlainFile(str(path)) as opened:
        tracemalloc.start()
        try:
            found = list(scan_batches(opened, base_offset=0))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(found) == 16
    assert all(isinstance(one, FoundBatch) and one.is_sound for one in found)
    assert peak < 8 << 20


# ---- indexes and snapshots


def test_indexes():
    data = struct.pack(">IiIi", 3, 70, 9, 200) + bytes(8 * 20000)
    found = items(data, f"/d/t-0/{BASE}.index")
    assert [(one["offset"], one["batch_position"]) for one in of_type(found, "entry")] == [
        (103, 70), (109, 200),
    ]  # fmt: skip
    assert of_type(found, "note")[0]["position"] == 16
    data = struct.pack(">qIqI", 5000, 1, 6000, 4)
    found = items(data + b"123", f"/d/t-0/{BASE}.timeindex")
    assert [(one["timestamp_ms"], one["offset"]) for one in of_type(found, "entry")] == [
        (5000, 101), (6000, 104),
    ]  # fmt: skip
    assert damages(found)[0]["reason"] == "3 bytes are left of an entry of 12"


def test_entries_that_run_backwards():
    data = struct.pack(">IiIi", 9, 70, 3, 200)
    assert damages(items(data, f"/d/t-0/{BASE}.index"))[0]["position"] == 8
    data = struct.pack(">IiIiIi", 9, 70, 0, 0, 12, 300)
    assert damages(items(data, f"/d/t-0/{BASE}.index"))[0]["position"] == 8
    data = struct.pack(">qIqI", 5000, 4, 5000, 5)
    assert damages(items(data, f"/d/t-0/{BASE}.timeindex"))[0]["position"] == 12


def test_transaction_indexes_and_snapshots_of_a_log():
    disk = make_dir()
    path = f"{TXN}/{6:020d}.txnindex"
    found = list(dump(disk.open(path), path, "txnindex", DumpOptions()))
    assert [(one["producer_id"], one["first_offset"]) for one in of_type(found, "entry")]
    assert not damages(found)
    path = f"{TXN}/{18:020d}.snapshot"
    whole = disk.read(path)
    found = items(whole, path)
    assert of_type(found, "content")[0]["entries_count"] == 3
    assert {one["producer_id"] for one in of_type(found, "entry")} == {1, 2, 3}
    assert not damages(found)
    for size in range(len(whole)):
        assert damages(items(whole[:size], path)), size
    assert damages(items(whole + b"x", path))
    assert damages(items(b"\0\2" + whole[2:], path))[0]["reason"] == "version 2, not 1"


def test_every_file_of_a_directory_has_a_dump():
    disk = make_dir()

    for path in all_files(disk):
        kind = kinds.kind_of(path)
        assert kind is not None, path
        found = list(dump(disk.open(path), path, kind, DumpOptions(with_records=True)))
        assert not damages(found), path
        assert found or not disk.size(path)


# ---- text files


@pytest.mark.parametrize(
    ("name", "content", "entries", "damaged"),
    [
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 5\n", [("t", 0, 5)], 0),
        ("recovery-point-offset-checkpoint", b"0\n2\nt 0 5\n", [("t", 0, 5)], 1),
        ("recovery-point-offset-checkpoint", b"0\n2\nt 0 5\nt 1\n", [("t", 0, 5)], 1),
        ("recovery-point-offset-checkpoint", b"", [], 0),
        ("recovery-point-offset-checkpoint", b"0\n", [], 1),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n3 7\n", [(0, 0), (3, 7)], 0),
        ("leader-epoch-checkpoint", b"0\n2\n3 7\n0 0\n", [(3, 7), (0, 0)], 1),
        ("leader-epoch-checkpoint", b"0\n1\n3 x\n", [], 2),
    ],
)
def test_checkpoints(name, content, entries, damaged):
    found = items(content, f"/d/{name}")
    told = [tuple(one.values())[1:] for one in of_type(found, "entry")]
    assert told == entries
    assert len(damages(found)) == damaged


@pytest.mark.parametrize(
    ("name", "content", "told", "damaged"),
    [
        ("meta.properties", b"version=1\ncluster.id=c\nnode.id=1\n", {"cluster.id": "c"}, 0),
        ("meta.properties", b"version=1\ncluster.id=c\n", {"cluster.id": "c"}, 1),
        (
            "partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
            {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, 0,
        ),
        ("partition.metadata", b"version: 0\n", {}, 1),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":7}', {"brokerEpoch": 7}, 0),
        (".kafka_cleanshutdown", b"", {}, 0),
        (".kafka_cleanshutdown", b"[]", {}, 1),
        (".kafka_cleanshutdown", b"{", {}, 1),
        (
            "quorum-state",
            b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,'
            b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
            {"leaderEpoch": 5}, 0,
        ),
        ("quorum-state", b"{", {}, 1),
        ("quorum-state", b'{"leaderId":1}', {}, 1),
        ("t-0.durable-end", encode_durable_end(77), {"offset": 77}, 0),
        ("t-0.durable-end", encode_durable_end(77)[:-2], {}, 1),
    ],
)  # fmt: skip
def test_documents(name, content, told, damaged):
    found = items(content, f"/d/{name}")
    shown = {key: value for one in of_type(found, "content") for key, value in one.items()}
    assert told.items() <= shown.items()
    assert len(damages(found)) == damaged


def test_a_promise_in_quorum_state_is_shown():
    state = QuorumStateData(leader_epoch=5, leader_id=1)
    stored = StoredQuorumState(state, 1, acknowledged_end=(4, 99))
    found = items(encode_quorum_state(stored), "/d/quorum-state")
    assert of_type(found, "acknowledged_end") == [{"epoch": 4, "end_offset": 99}]
    assert not damages(found)


def test_files_of_a_directory(tmp_path):
    below = tmp_path / "t-0"
    below.mkdir()
    for name in (f"{BASE}.log", f"{BASE}.index", "notes.txt"):
        (below / name).touch()
    (tmp_path / "meta.properties").touch()
    assert files_of(str(tmp_path)) == [
        str(tmp_path / "meta.properties"), str(below / f"{BASE}.index"), str(below / f"{BASE}.log"),
    ]  # fmt: skip
    assert files_of("/nowhere") == ["/nowhere"]
