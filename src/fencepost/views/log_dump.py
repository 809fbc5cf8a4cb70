"""What is in the files of a data directory, a value per line of `fencepost log dump`.

The items of `fencepost.log.dump` have as many values as their files have. Each becomes one of the
kinds below, whose fields do not depend on the file: what an item does not have is None. The kind
that it is comes first in its JSON, as `type`. Keys that a file chose itself (`meta.properties`, a
file of JSON) are within `content`, where they cannot be mistaken for those of the line.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from fencepost.log.dump.items import Item
from fencepost.views.rendering import document_of
from fencepost.views.view import View


class DumpedItem(View, frozen=True, tag_field="type"):
    """A line of a dump."""

    left_out: ClassVar[dict[str, Any]] = {}
    """Values that nearly every line of the kind has, and people need not read every time."""

    @property
    def text_line(self) -> str:
        """For people: the kind and `name=value`, without what says "none"."""
        document = document_of(self)
        return _words(document.pop("type"), document, self.left_out)

    @property
    def json_line(self) -> str:
        """One JSON object without a line's end."""
        return json.dumps(document_of(self), separators=(",", ":"))


def _words(kind: str, values: dict[str, Any], left_out: dict[str, Any]) -> str:
    words = [kind]
    for name, value in values.items():
        if type(value) is int:
            if value != -1 and left_out.get(name) != value:
                words.append(f"{name}={value}")
        elif value is None or value is False or left_out.get(name) == value:
            continue
        elif value is True:
            words.append(name.removeprefix("is_"))
        else:
            words.append(f"{name}={_text_of(value)}")
    return " ".join(words)


def _text_of(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class DumpedFile(DumpedItem, frozen=True, tag="file"):
    """The file whose items follow; `kind` is one of `fencepost.log.dump.kinds.KINDS`."""

    path: str
    kind: str
    size_bytes: int


class DumpedBatch(DumpedItem, frozen=True, tag="batch"):
    """A batch of a segment; -1 stands for "none", as it does in the file.

    Compaction writes `delete_horizon_ms` in place of the base timestamp.
    """

    left_out: ClassVar = {
        "magic": 2,
        "compression": "none",
        "timestamp_type": "create",
        "is_crc_right": True,
    }

    position: int
    magic: int
    size_bytes: int
    base_offset: int
    last_offset: int
    records_count: int
    partition_leader_epoch: int
    compression: str
    timestamp_type: str
    base_timestamp_ms: int | None
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    crc: int
    is_crc_right: bool


class DumpedRecord(DumpedItem, frozen=True, tag="record"):
    """A record; keys and values as the command was asked to show them."""

    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: list[Any]


class DecodedRecord(DumpedItem, frozen=True, tag="record"):
    """A record of one of Kafka's own logs, `record` says which; or why it is not decoded."""

    offset: int
    timestamp_ms: int
    record: str | None
    undecoded: str | None
    key: Any
    value: Any


class DumpedControl(DumpedItem, frozen=True, tag="control"):
    """A control record. Its type is a number where it is of a later release."""

    offset: int
    timestamp_ms: int
    value: Any
    control_type: str | int


class OffsetIndexEntry(DumpedItem, frozen=True, tag="entry"):
    """An entry of an offset index: at which byte of the segment the batch of an offset begins."""

    position: int
    offset: int
    batch_position: int


class TimeIndexEntry(DumpedItem, frozen=True, tag="entry"):
    """An entry of a time index."""

    position: int
    timestamp_ms: int
    offset: int


class AbortedTransaction(DumpedItem, frozen=True, tag="entry"):
    """An entry of a transaction index."""

    position: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(DumpedItem, frozen=True, tag="entry"):
    """A producer of a producer snapshot."""

    position: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    current_txn_first_offset: int


class OffsetEntry(DumpedItem, frozen=True, tag="entry"):
    """A line of a checkpoint file of one offset per partition."""

    line: int
    topic: str
    partition: int
    offset: int


class EpochEntry(DumpedItem, frozen=True, tag="entry"):
    """A line of a `leader-epoch-checkpoint`."""

    line: int
    epoch: int
    start_offset: int


class DumpedContent(DumpedItem, frozen=True, tag="content"):
    """All of a small file, or the head of a producer snapshot, by the file's own names."""

    content: dict[str, Any]

    @property
    def text_line(self) -> str:
        return _words("content", self.content, self.left_out)


class AcknowledgedEnd(DumpedItem, frozen=True, tag="acknowledged_end"):
    """Up to where a voter's log was acknowledged to a leader, of `quorum-state`."""

    epoch: int
    end_offset: int


class DumpedNote(DumpedItem, frozen=True, tag="note"):
    """Something worth knowing that is no damage."""

    position: int
    size_bytes: int
    what: str


class Damage(DumpedItem, frozen=True, tag="damage"):
    """What cannot be. `is_tail`: the file's end is missing, as after a crash."""

    position: int | None
    size_bytes: int | None
    line: int | None
    is_tail: bool
    reason: str


_KINDS: Final[dict[str, tuple[type[DumpedItem], ...]]] = {
    "file": (DumpedFile,),
    "batch": (DumpedBatch,),
    "record": (DumpedRecord, DecodedRecord),
    "control": (DumpedControl,),
    "entry": (
        *(OffsetIndexEntry, TimeIndexEntry, AbortedTransaction, ProducerEntry),
        *(OffsetEntry, EpochEntry),
    ),
    "acknowledged_end": (AcknowledgedEnd,),
    "note": (DumpedNote,),
}


def view_of_item(item: Item) -> DumpedItem:
    """The view of an item. Raises KeyError for one of no kind, which is a fault of the dump's."""
    fields = item.fields
    if item.type == "content":
        return DumpedContent(dict(fields))
    if item.type == "damage":
        return _damage(fields)
    for kind in _KINDS[item.type]:
        names = kind.__struct_fields__
        if fields.keys() <= set(names):
            return kind(**{name: fields.get(name) for name in names})
    raise KeyError(f"no kind of {item.type} has {sorted(fields)}")


def _damage(fields: dict[str, Any]) -> Damage:
    return Damage(
        fields.get("position"),
        fields.get("size_bytes"),
        fields.get("line"),
        fields.get("is_tail", False),
        fields["reason"],
    )
