"""Records of share and streams groups, and the frame that all coordinators' logs have in common."""

from __future__ import annotations

import importlib
import struct
from types import ModuleType
from typing import Any

import pytest

from fencepost.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from fencepost.wire.message import Message
from fencepost.wire.records import consumer, group, group_streams, metadata, principal, share
from fencepost.wire.records.coordinator import CoordinatorLog, UnknownRecordTypeError
from fencepost.wire.types import Uuid

from .catalogue import extreme

TOPIC_ID = Uuid(bytes(range(16)))
OF_KEYS = {"group_share": group, "group_streams": group, "share": share}


def pairs() -> list[Any]:
    """(the log's module, key class, value class) of every record of the modules above."""
    found = []
    for name, log in OF_KEYS.items():
        module = importlib.import_module(f"fencepost.wire.records.{name}")
        classes = {cls for cls in vars(module).values() if isinstance(cls, type)}
        keys = [cls for cls in classes if getattr(cls, "kind", None) == "coordinator-key"]
        for key in sorted(keys, key=lambda cls: cls.record_id):
            value = getattr(module, key.__name__.removesuffix("Key") + "Value")
            found.append(pytest.param(log, key, value, id=key.__name__.removesuffix("Key")))
    return found


PAIRS = pairs()


def test_the_types_are_kafkas() -> None:
    types: dict[str, list[int]] = {"group": [], "share": []}
    for log, key, value in (pair.values for pair in PAIRS):
        assert key.record_id == value.record_id
        types[log.__name__.rpartition(".")[2]].append(key.record_id)
    assert types == {"group": [*range(9, 16), 17, *range(19, 24)], "share": [0, 1]}


@pytest.mark.parametrize(("log", "key_class", "value_class"), PAIRS)
def test_keys_survive(log: ModuleType, key_class: Any, value_class: Any) -> None:
    for most in (False, True):
        key = extreme(key_class, 0, False, most=most)
        data = log.encode_key(key)
        assert struct.unpack_from(">h", data) == (key_class.record_id,)
        assert log.decode_key(data) == log.decode_key(memoryview(data)) == key
        for end in range(len(data)):
            with pytest.raises(DecodeError):
                log.decode_key(data[:end])
        with pytest.raises(DecodeError, match="1 bytes follow"):
            log.decode_key(data + b"\x00")


@pytest.mark.parametrize(("log", "key_class", "value_class"), PAIRS)
def test_values_survive(log: ModuleType, key_class: Any, value_class: Any) -> None:
    key = key_class()
    for most in (False, True):
        value = extreme(value_class, 0, True, most=most)
        data = log.encode_value(value, 0)
        assert data[:2] == b"\x00\x00"
        assert log.decode_value(key, data) == log.decode_value(key, memoryview(data)) == value
        for end in range(0, len(data), 1 if len(data) < 500 else 97):
            with pytest.raises(DecodeError):
                log.decode_value(key, data[:end])
        with pytest.raises(DecodeError, match="1 bytes follow"):
            log.decode_value(key, data + b"\x00")


@pytest.mark.parametrize(("log", "key_class", "value_class"), PAIRS)
def test_versions_nobody_has_written(log: ModuleType, key_class: Any, value_class: Any) -> None:
    body = value_class().encode(0)
    for version in (1, -1, 0x7FFF):
        with pytest.raises(DecodeError, match="has no version"):
            log.decode_value(key_class(), struct.pack(">h", version) + body)
    with pytest.raises(UnsupportedVersionError):
        log.encode_value(value_class(), 1)


# Bytes written out by hand from the layout


def test_share_group_bytes_are_kafkas() -> None:
    key = group.ShareGroupMetadataKey(group_id="g")
    assert group.encode_key(key) == b"\x00\x0b" + b"\x00\x01g"
    value = group.ShareGroupMetadataValue(epoch=3, metadata_hash=-2)
    data = b"\x00\x00" + b"\x00\x00\x00\x03" + b"\xff\xff\xff\xff\xff\xff\xff\xfe" + b"\x00"
    assert group.encode_value(value, 0) == data
    assert group.decode_value(key, data) == value


def test_streams_group_bytes_are_kafkas() -> None:
    key = group.StreamsGroupMetadataKey(group_id="app")
    assert group.encode_key(key) == b"\x00\x11" + b"\x00\x03app"
    config = group_streams.LastAssignmentConfig(key="k", value="v")
    value = group.StreamsGroupMetadataValue(
        epoch=1,
        metadata_hash=2,
        validated_topology_epoch=0,
        last_assignment_configs=[config],
        failed_description_topology_epoch=7,
    )
    data = (
        b"\x00\x00"  # version
        + b"\x00\x00\x00\x01"  # epoch
        + b"\x00\x00\x00\x00\x00\x00\x00\x02"  # hash
        + b"\x03"  # tagged fields
        + b"\x00\x04\x00\x00\x00\x00"
        + b"\x01\x06\x02\x02k\x02v\x00"
        + b"\x03\x04\x00\x00\x00\x07"
    )
    assert group.encode_value(value, 0) == data
    assert group.decode_value(key, data) == value


def test_share_state_bytes_are_kafkas() -> None:
    snapshot, update = (
        cls(group_id="g", topic_id=TOPIC_ID, partition=5)
        for cls in (share.ShareSnapshotKey, share.ShareUpdateKey)
    )
    where = b"\x00\x01g" + bytes(range(16)) + b"\x00\x00\x00\x05"
    assert share.encode_key(snapshot) == b"\x00\x00" + where
    assert share.encode_key(update) == b"\x00\x01" + where
    batch = share.StateBatch(first_offset=10, last_offset=12, delivery_state=2, delivery_count=1)
    batches = b"\x02" + struct.pack(">qqbh", 10, 12, 2, 1) + b"\x00"
    whole = share.ShareSnapshotValue(
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=4,
        create_timestamp=5,
        write_timestamp=6,
        state_batches=[batch],
    )
    data = b"\x00\x00" + struct.pack(">iiiqqq", 1, 2, 3, 4, 5, 6) + batches + b"\x00"
    assert share.encode_value(whole, 0) == data
    assert share.decode_value(snapshot, data) == whole
    change = share.ShareUpdateValue(
        snapshot_epoch=1,
        leader_epoch=3,
        start_offset=-1,
        delivery_complete_count=3,
        state_batches=[batch],
    )
    counted = b"\x01\x00\x04\x00\x00\x00\x03"  # one tagged field, tag 0, 4 bytes
    data = b"\x00\x00" + struct.pack(">iiq", 1, 3, -1) + batches + counted
    assert share.encode_value(change, 0) == data
    assert share.decode_value(update, data) == change


BATCH = struct.pack(">qqbh", 10, 12, 2, 1) + b"\x00"


@pytest.mark.parametrize(
    ("log", "key", "body"),
    [
        (group, group.ShareGroupMetadataKey(), b"\x00\x00\x00\x03" + b"\x00"),
        (group, group.ShareGroupStatePartitionMetadataKey(), b"\x01\x01\x00"),
        (
            group,
            group.ShareGroupStatePartitionMetadataKey(),
            b"\x02" + bytes(16) + b"\x02t\x02\x00\x00\x00\x00\x00" + b"\x01" + b"\x00",
        ),
        (share, share.ShareSnapshotKey(), struct.pack(">Hiiq", 1, 2, 3, 4) + b"\x01\x00"),
        (
            share,
            share.ShareSnapshotKey(),
            struct.pack(">Hiiq", 1, 2, 3, 4) + b"\x03" + 2 * BATCH + b"\x00",
        ),
        (share, share.ShareUpdateKey(), struct.pack(">Hiq", 1, 2, 3) + b"\x01\x00"),
        (share, share.ShareUpdateKey(), struct.pack(">Hiq", 1, 2, 3) + b"\x02" + BATCH + b"\x00"),
    ],
)
def test_values_of_early_access_are_refused(log: ModuleType, key: Message, body: bytes) -> None:
    with pytest.raises(DecodeError):
        log.decode_value(key, b"\x00\x00" + body)


# The frame itself


@pytest.mark.parametrize("log", [group, share])
def test_types_of_tomorrow_are_told_apart_from_damage(log: ModuleType) -> None:
    assert log.UnknownRecordTypeError is UnknownRecordTypeError
    for record_type in (18, 24, 999, -1):
        with pytest.raises(UnknownRecordTypeError, match=f"type {record_type} ") as caught:
            log.decode_key(struct.pack(">h", record_type) + b"\x00\x01g")
        assert caught.value.record_type == record_type
    for data in (b"", b"\x00"):
        with pytest.raises(DecodeError, match="has no record type") as damage:
            log.decode_key(data)
        assert not isinstance(damage.value, UnknownRecordTypeError)


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_a_value_without_a_version(data: bytes) -> None:
    with pytest.raises(DecodeError, match="has no version"):
        share.decode_value(share.ShareUpdateKey(), data)


def test_a_log_takes_its_own_records_only() -> None:
    """Type numbers repeat from log to log: 0 is an offset in one and a snapshot in the other."""
    strangers = [
        (share, group.OffsetCommitKey(), group.OffsetCommitValue()),
        (group, share.ShareSnapshotKey(), share.ShareSnapshotValue()),
        (group, metadata.NoOpRecord(), metadata.NoOpRecord()),  # 20, as of streams groups
    ]
    for log, key, value in strangers:
        with pytest.raises(EncodeError, match="is no key of __"):
            log.encode_key(key)
        with pytest.raises(EncodeError, match="is no value of __"):
            log.encode_value(value, 0)
        with pytest.raises(DecodeError, match="is no key of __"):
            log.decode_value(key, b"\x00\x00" + bytes(100))
    with pytest.raises(EncodeError, match="is no key of"):
        share.encode_key(share.ShareSnapshotValue())
    with pytest.raises(EncodeError, match="is no value of"):
        share.encode_value(share.ShareSnapshotKey(), 0)


def test_two_types_may_have_values_of_one_class() -> None:
    log = CoordinatorLog(
        "a log",
        {
            0: (share.ShareSnapshotKey, share.ShareUpdateValue),
            1: (share.ShareUpdateKey, share.ShareUpdateValue),
        },
    )
    value = share.ShareUpdateValue(start_offset=3)
    data = log.encode_value(value, 0)
    for key in (share.ShareSnapshotKey(), share.ShareUpdateKey()):
        assert log.decode_value(log.decode_key(log.encode_key(key)), data) == value


@pytest.mark.parametrize("version", [99999, -99999, 1 << 80, None])
def test_versions_that_are_none(version: Any) -> None:
    for encode, message in (
        (group.encode_value, group.OffsetCommitValue()),
        (consumer.encode_prefixed, consumer.ConsumerProtocolAssignment()),
        (principal.encode_principal, principal.DefaultPrincipalData()),
    ):
        with pytest.raises(UnsupportedVersionError):
            encode(message, version)
