"""Records of the metadata log, control records, principals; and a record's class by its name."""

import struct
import subprocess
import sys

import pytest

from fencepost.wire import records
from fencepost.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from fencepost.wire.records import (
    control,
    group,
    metadata,
    principal,
)
from fencepost.wire.types import Uuid

from .catalogue import RELEASED
from .record_samples import TOPIC_ID, varied

# -- metadata ----------------------------------------------------------------------------------


def test_metadata_record_bytes_are_kafkas():
    record = metadata.TopicRecord(name="events", topic_id=TOPIC_ID)
    expected = b"\x01\x02\x00" + b"\x07events" + bytes(range(16)) + b"\x00"
    assert metadata.encode_record(record) == expected
    assert metadata.decode_record(expected) == record


@pytest.mark.parametrize("record_id", sorted(metadata.RECORD_CLASSES))
def test_every_metadata_record_survives_every_version(record_id):
    record_class = metadata.RECORD_CLASSES[record_id]
    for version in range(record_class.min_version, record_class.max_version + 1):
        record = varied(record_class, version)
        data = metadata.encode_record(record, version)
        assert data[:3] == bytes((1, record_id, version))
        assert metadata.decode_record(data) == record
        assert metadata.decode_record(memoryview(bytearray(data))) == record


def test_metadata_ids_are_kafkas():
    unused = {6, 13, 16}
    assert set(metadata.RECORD_CLASSES) == set(range(30)) - unused


def test_the_newest_version_is_written_unless_another_is_asked_for():
    record = metadata.RegisterBrokerRecord(cordoned_log_dirs=[TOPIC_ID])
    assert metadata.encode_record(record)[2] == 4
    with pytest.raises(EncodeError):
        metadata.encode_record(record, 3)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x01\x02",
        b"\x00\x02\x00",  # frame version 0
        b"\x02\x02\x00\x01" + bytes(17),  # frame version 2
        b"\x01\x06\x00\x00",  # an id that no record has
        b"\x01\x02\x01\x01" + bytes(17),  # a version TopicRecord does not have
        b"\xff\xff\xff\xff\xff\xff",  # a number without end
        b"\x01\x14\x00\x00\x00",  # a byte too many
        b"\x01\x02\x00\x05ab",  # a name that is cut off
    ],
)
def test_damaged_metadata_records_are_decode_errors(data):
    with pytest.raises(DecodeError):
        metadata.decode_record(data)


def test_a_metadata_record_cut_anywhere_is_a_decode_error():
    record = metadata.PartitionRecord(topic_id=TOPIC_ID, replicas=[1, 2], isr=[1], leader=1)
    whole = metadata.encode_record(record)
    for end in range(len(whole)):
        with pytest.raises(DecodeError):
            metadata.decode_record(whole[:end])


def test_only_metadata_records_get_the_frame():
    with pytest.raises(EncodeError):
        metadata.encode_record(control.EndTxnMarker())
    with pytest.raises(EncodeError):
        metadata.encode_record(group.OffsetCommitKey())


# -- control -----------------------------------------------------------------------------------


def test_control_keys():
    assert control.encode_control_key(control.ControlType.LEADER_CHANGE) == b"\x00\x00\x00\x02"
    assert control.decode_control_key(b"\x00\x00\x00\x01") == control.ControlType.COMMIT
    # A later version of the key may say more behind the type.
    assert control.decode_control_key(b"\x00\x09\x00\x01extra") == control.ControlType.COMMIT
    for bad in (b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"):
        with pytest.raises(DecodeError):
            control.decode_control_key(bad)


def test_an_end_marker_has_a_version_in_front_and_raft_records_have_it_inside():
    marker = control.EndTxnMarker(coordinator_epoch=5)
    assert control.encode_control_value(marker) == b"\x00\x00\x00\x00\x00\x05"
    assert control.decode_control_value(1, b"\x00\x00\x00\x00\x00\x05") == marker
    change = control.LeaderChangeMessage(
        leader_id=1, voters=[control.LeaderChangeVoter(voter_id=1)]
    )
    data = control.encode_control_value(change)
    assert (
        data == b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x02\x00\x00\x00\x01\x00" + b"\x01" + b"\x00"
    )
    assert control.decode_control_value(control.ControlType.LEADER_CHANGE, data) == change


@pytest.mark.parametrize(
    ("control_type", "record"),
    [
        (3, control.SnapshotHeaderRecord(last_contained_log_timestamp=12345)),
        (4, control.SnapshotFooterRecord()),
        (5, control.KRaftVersionRecord(kraft_version=1)),
        (
            6,
            control.VotersRecord(
                voters=[
                    control.Voter(
                        voter_id=3,
                        voter_directory_id=TOPIC_ID,
                        endpoints=[control.Endpoint(name="C", host="h", port=65535)],
                        kraft_version_feature=control.KRaftVersionFeature(max_supported_version=1),
                    )
                ]
            ),
        ),
    ],
)
def test_raft_control_records(control_type, record):
    assert (
        control.decode_control_value(control_type, control.encode_control_value(record)) == record
    )


def test_control_values_of_tomorrow_and_damaged_ones():
    assert control.decode_control_value(7, b"whatever") is None
    assert control.decode_control_value(-1, b"") is None
    for data in (b"", b"\x00", b"\x00\x00\x00", b"\xff\xff\x00\x00\x00\x05"):
        with pytest.raises(DecodeError):
            control.decode_control_value(0, data)
    with pytest.raises(DecodeError):
        control.decode_control_value(2, b"\x00\x00\x00")
    with pytest.raises(EncodeError):
        control.encode_control_value(metadata.NoOpRecord())


def test_control_records_at_every_version_and_cut_anywhere():
    key = control.encode_control_key(6)
    assert key == b"\x00\x00" + control.ControlRecordTypeSchema(type=6).encode(0)
    with pytest.raises(EncodeError):
        control.encode_control_key(1 << 15)
    voter = control.LeaderChangeVoter(voter_id=2, voter_directory_id=TOPIC_ID)
    change = control.LeaderChangeMessage(version=1, leader_id=2, voters=[voter])
    assert change.encode(1) == (
        b"\x00\x01\x00\x00\x00\x02" + b"\x02\x00\x00\x00\x02" + TOPIC_ID + b"\x00" + b"\x01\x00"
    )
    assert control.LeaderChangeMessage.decode(change.encode(1), 1) == change
    with pytest.raises(EncodeError):  # written at v0, which has no directory ids
        control.encode_control_value(change)
    voter.voter_directory_id = Uuid.ZERO
    # The version it carries says nothing about its layout.
    assert control.decode_control_value(2, control.encode_control_value(change)) == change
    values = {
        0: control.EndTxnMarker(coordinator_epoch=5),
        2: change,
        3: control.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=7),
        4: control.SnapshotFooterRecord(version=0),
        5: control.KRaftVersionRecord(version=0, kraft_version=1),
        6: control.VotersRecord(voters=[control.Voter(voter_id=3)]),
    }
    for control_type, record in values.items():
        whole = control.encode_control_value(record)
        assert control.decode_control_value(control_type, memoryview(whole)) == record
        for end in range(len(whole)):
            with pytest.raises(DecodeError):
                control.decode_control_value(control_type, whole[:end])
    assert control.encode_control_value(values[3]) == b"\x00\x00" + struct.pack(">q", 7) + b"\x00"
    assert control.encode_control_value(values[4]) == b"\x00\x00\x00"
    assert control.encode_control_value(values[5]) == b"\x00\x00\x00\x01\x00"


# -- principals --------------------------------------------------------------------------------


def test_principal_bytes_are_kafkas():
    found = principal.DefaultPrincipalData(type="User", name="ada", token_authenticated=True)
    data = b"\x00\x00" + b"\x05User" + b"\x04ada" + b"\x01" + b"\x00"
    assert principal.encode_principal(found) == data
    assert principal.decode_principal(memoryview(data)) == found
    for damaged in [data[:end] for end in range(len(data))] + [data + b"\x00"]:
        with pytest.raises(DecodeError):
            principal.decode_principal(damaged)
    for version in (b"\x00\x01", b"\xff\xff"):
        with pytest.raises(DecodeError, match="has no version"):
            principal.decode_principal(version + data[2:])
    with pytest.raises(UnsupportedVersionError):
        principal.encode_principal(found, 1)


# -- by name -----------------------------------------------------------------------------------


def test_every_record_class_is_found_by_its_name():
    declared = {cls.__name__: cls for cls in RELEASED if cls.kind not in ("request", "response")}
    assert records.names() == sorted(declared)
    for name in records.names():
        cls = records.message_class(name)
        assert cls is declared[name]
        assert cls.kafka_name == name
    for absent in ("FetchRequest", "NoSuchRecord", "Voter", ""):
        with pytest.raises(KeyError):
            records.message_class(absent)


def test_looking_up_one_record_loads_one_module():
    code = (
        "import sys\n"
        "from fencepost.wire import records\n"
        "records.names()\n"
        "assert not [name for name in sys.modules if name.startswith('fencepost.wire.records.')]\n"
        "records.message_class('EndTxnMarker')\n"
        "loaded = [name for name in sys.modules if name.startswith('fencepost.wire.records.')]\n"
        "assert loaded == ['fencepost.wire.records.control'], loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
