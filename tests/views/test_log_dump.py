"""Lines of a dump: every item has one kind, and its line for people is the item's."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.records import build_batch
from fencepost.log.dump import kinds
from fencepost.log.dump.files import dump
from fencepost.log.dump.items import Item, damage
from fencepost.log.dump.segments import DumpOptions
from fencepost.log.quorum_state import StoredQuorumState, encode_quorum_state
from fencepost.views import log_dump
from fencepost.views.log_dump import DumpedItem, view_of_item
from fencepost.wire.records.quorum_state import QuorumStateData

from ..log.data_dir import files_of, make_dir

KINDS = [
    kind
    for kind in vars(log_dump).values()
    if isinstance(kind, type) and issubclass(kind, DumpedItem) and kind is not DumpedItem
]
STORED = {"offset": 1, "timestamp_ms": 2, "record": "metadata", "value": {"version": 0}}
UNKNOWN = {"offset": 1, "timestamp_ms": 2, "undecoded": "unknown", "key": "k", "value": None}


class Memory:
    """Bytes as a `Readable`."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_at(self, size: int, position: int) -> bytes:
        return self.data[position : position + size]

    def size(self) -> int:
        return len(self.data)


def items_of(path: str, data: bytes) -> list[Item]:
    """All items of a file, with records."""
    options = DumpOptions(with_records=True, key_format=str, value_format=str)
    return list(dump(Memory(data), path, str(kinds.kind_of(path)), options))


def test_every_item_of_a_directory_has_a_kind_with_the_same_values():
    disk = make_dir()
    voter = StoredQuorumState(QuorumStateData(leader_epoch=5), 1, (4, 99))
    files = {path: disk.read(path) for path in files_of(disk)}
    files["/data/quorum-state"] = encode_quorum_state(voter)
    met: set[str] = set()
    for path, data in files.items():
        for item in items_of(path, data):
            view = view_of_item(item)
            met.add(type(view).__name__)
            document = json.loads(view.json_line)
            assert document.pop("type") == item.type
            assert list(document) == list(type(view).__struct_fields__)
            shown = document["content"] if item.type == "content" else document
            assert without_none(shown) == without_none(json.loads(json.dumps(item.fields)))
    # A heading is the command's, records are decoded by it, and this directory is sound.
    assert {one.__name__ for one in KINDS} - met == {
        *("DumpedFile", "DecodedRecord", "DumpedNote", "Damage"),
    }


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """What the line of a kind adds is None."""
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("item", "kind", "line"),
    [
        (Item("file", {"path": "a b", "kind": "k", "size_bytes": 3}), "DumpedFile",
         'file path="a b" kind=k size_bytes=3'),
        (Item("record", STORED), "DecodedRecord",
         'record offset=1 timestamp_ms=2 record=metadata value={"version":0}'),
        (Item("record", UNKNOWN), "DecodedRecord",
         "record offset=1 timestamp_ms=2 undecoded=unknown key=k"),
        (Item("note", {"position": 8, "size_bytes": 4, "what": "no use"}), "DumpedNote",
         'note position=8 size_bytes=4 what="no use"'),
        (damage(7, "cut", is_tail=True, size_bytes=2), "Damage",
         "damage position=7 size_bytes=2 tail reason=cut"),
        (damage(None, "bad", line=3), "Damage", "damage line=3 reason=bad"),
        (Item("content", {}), "DumpedContent", "content"),
        (Item("content", {"is_x": True, "y": None, "z": ""}), "DumpedContent",
         "content x z=\"\""),
    ],
)  # fmt: skip
def test_lines_for_people(item: Item, kind: str, line: str):
    view = view_of_item(item)
    assert (type(view).__name__, view.text_line) == (kind, line)


def test_a_file_cannot_say_what_kind_its_line_is():
    view = view_of_item(Item("content", {"type": "batch", "content": 1}))
    document = json.loads(view.json_line)
    assert document == {"type": "content", "content": {"type": "batch", "content": 1}}


def test_an_item_of_no_kind_is_the_dumps_fault():
    for item in (Item("other", {}), Item("entry", {"position": 1, "other": 2})):
        with pytest.raises(KeyError):
            view_of_item(item)


def test_batches_say_what_is_rare():
    marker = build_end_txn_marker(
        committed=True, producer_id=5, producer_epoch=1, coordinator_epoch=2, timestamp_ms=9
    )
    data = bytes(build_batch([(None, b"v")], timestamp_ms=1)) + bytes(marker)
    first, record, second, control = map(view_of_item, items_of(f"/t-0/{0:020d}.log", data))
    for usual in ("magic", "crc_right", "compression", "timestamp_type", "producer_id"):
        assert usual not in first.text_line
    assert "transactional control" in second.text_line
    assert record.text_line.startswith("record offset=0 timestamp_ms=1 key=None")
    assert "control_type=COMMIT" in control.text_line
    broken = msgspec.structs.replace(first, is_crc_right=False, magic=1, compression="zstd")
    assert "magic=1" in broken.text_line
    assert "compression=zstd" in broken.text_line
    assert json.loads(broken.json_line)["is_crc_right"] is False
