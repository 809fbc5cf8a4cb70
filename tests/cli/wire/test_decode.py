"""`fencepost wire decode`: bytes to JSON, which `encode` makes the same bytes of."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, build_batch
from fencepost.cli.progress import Progress
from fencepost.cli.wire.convert.annotate import RECORDS_MAX
from fencepost.wire.api import FetchResponse, HeartbeatRequest, ProduceRequest
from fencepost.wire.api.fetch import FetchableTopicResponse, PartitionData
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.records import group, metadata
from fencepost.wire.records.control import (
    ControlType,
    EndTxnMarker,
    encode_control_key,
    encode_control_value,
)

from ...capture.packet_maker import PacketMaker, write_pcap
from .wire_command import BATCH, Wire, answered, asked, produced


def test_a_body(wire: Wire):
    ran = wire("decode", "--message", "metadatarequest", "--version", "1", "--hex", "ffffffff")
    assert ran.json == {"message": "MetadataRequest", "version": 1, "body": {"topics": None}}
    assert wire("encode", stdin=ran.raw).out == "ffffffff\n"


def test_frames_of_requests_there_and_back(wire: Wire, tmp_path: Path):
    path = tmp_path / "frames"
    path.write_bytes(asked() + produced())
    ran = wire("decode", "--request", "--frames", str(path))
    first, second = ran.lines
    assert first == {
        "request": "ApiVersions",
        "version": 3,
        "header": {
            "request_api_key": 18, "request_api_version": 3, "correlation_id": 7, "client_id": "ä",
        },
        "body": {"client_software_name": "me", "client_software_version": ""},
    }  # fmt: skip
    assert second["header"]["client_id"] is None
    assert wire("encode", stdin=ran.raw).out.split() == [asked().hex(), produced().hex()]
    back = tmp_path / "back"
    pretty = wire("decode", "--request", stdin=path.read_bytes())
    assert wire("encode", "--output", str(back), stdin=pretty.raw).raw == b""
    assert back.read_bytes() == path.read_bytes()
    assert wire("encode", "--output", "-", stdin=pretty.raw).raw == path.read_bytes()


def test_tags_of_strangers_survive_in_header_and_body(wire: Wire):
    header = struct.pack(">hhih", 12, 4, 5, -1) + b"\x01\x07\x02hi"
    body = HeartbeatRequest(unknown_tags={9: b"x"}).encode(4)
    frame = struct.pack(">i", len(header + body)) + header + body
    ran = wire("decode", "--request", stdin=frame)
    assert ran.json["header"]["_unknown_tags"] == {"7": "aGk="}
    assert ran.json["body"]["_unknown_tags"] == {"9": "eA=="}
    assert wire("encode", stdin=ran.raw).out.strip() == frame.hex()


def test_bytes_that_no_encoder_writes_are_pointed_out(wire: Wire):
    plain = HeartbeatRequest(group_id="g").encode(4)
    longer = b"\x82\x00" + plain[1:]  # the same length in two bytes
    words = ("decode", "--message", "HeartbeatRequest", "--version", "4")
    assert wire(*words, stdin=plain).err == ""
    ran = wire(*words, stdin=longer)
    assert (ran.code, ran.json) == (0, wire(*words, stdin=plain).json)
    assert "encode gives other bytes from its byte 0 on" in ran.err
    frame = struct.pack(">ihhihb", 11 + len(longer), 12, 4, 5, -1, 0) + longer
    ran = wire("decode", "--request", "--frames", stdin=frame)
    assert ran.err == (
        "frame 0 at byte 0 is not as encoders write it: "
        "encode gives other bytes from its byte 15 on\n"
    )


def test_responses_need_to_be_told_what_they_are(wire: Wire):
    words = ("decode", "--response", "--api", "heartbeat", "--version", "4")
    ran = wire(*words, "--frames", stdin=answered(25) + answered())
    assert [one["body"]["error_code"] for one in ran.lines] == [25, 0]
    assert ran.lines[0]["response"] == "Heartbeat" and ran.lines[0]["version"] == 4
    assert wire("encode", "--output", "-", stdin=ran.raw).raw == answered(25) + answered()


def test_records_are_shown_beside_the_message(wire: Wire):
    partition = PartitionData(partition_index=1, records=bytes(BATCH) * 2 + bytes(BATCH)[:70])
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    body = message.encode(12)
    words = ("decode", "--message", "FetchResponse", "--version", "12")
    plain, shown = wire(*words, stdin=body), wire(*words, "--records", stdin=body)
    (field,) = shown.json["decoded_records"]
    assert field["path"] == "responses[0].partitions[0].records"
    assert field["cut_bytes"] == 70 and len(field["batches"]) == 2
    assert field["batches"][0]["is_crc_right"]
    assert field["batches"][0]["records"][0] == {
        "offset": 0, "timestamp_ms": 5, "key": "k", "value": "v", "headers": [["h", {"hex": "ff"}]],
    }  # fmt: skip
    without = {k: v for k, v in shown.json.items() if k != "decoded_records"}
    assert without == plain.json
    assert wire("encode", stdin=shown.raw).out.strip() == body.hex()


def test_names_of_errors_beside_the_message(wire: Wire):
    words = ("decode", "--response", "--api", "Heartbeat", "--version", "4")
    ran = wire(*words, "--error-names", stdin=answered(25))
    assert ran.json["error_names"] == [
        {"path": "error_code", "code": 25, "name": "UNKNOWN_MEMBER_ID"}
    ]
    assert ran.json["body"]["error_code"] == 25
    assert wire("encode", "--output", "-", stdin=ran.raw).raw == answered(25)
    assert "error_names" not in wire(*words, "--error-names", stdin=answered()).json
    partitions = [PartitionData(error_code=0), PartitionData(error_code=999)]
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    words = ("decode", "--message", "FetchResponse", "--version", "12", "--error-names")
    assert wire(*words, stdin=message.encode(12)).json["error_names"] == [
        {"path": "responses[0].partitions[1].error_code", "code": 999, "name": "UNKNOWN(999)"}
    ]


def test_int64_as_strings_survives_what_keeps_53_bits(wire: Wire):
    partition = PartitionData(high_watermark=2**63 - 1, last_stable_offset=2**53 + 1)
    message = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    words = ("decode", "--message", "FetchResponse", "--version", "18")
    ran = wire(*words, "--int64-as-strings", stdin=message.encode(18))
    narrow = json.loads(ran.raw, parse_int=lambda digits: int(float(digits)))
    again = wire("encode", stdin=json.dumps(narrow).encode()).out.strip()
    assert again == message.encode(18).hex()
    spoilt = json.dumps(narrow).replace(f'"{2**63 - 1}"', "9223372036854776000")
    assert "jq before 1.7 has rounded it, decode with --int64-as-strings" in (
        wire("encode", stdin=spoilt.encode()).err
    )
    key = group.encode_key(group.OffsetCommitKey(group="g"))
    value = group.encode_value(group.OffsetCommitValue(offset=2**53 + 1), 3)
    words = ("decode", "--record", "group", "--key", key.hex(), "--hex", value.hex())
    ran = wire(*words, "--int64-as-strings")
    assert ran.json["value"]["body"]["offset"] == str(2**53 + 1)
    assert wire("encode", "--part", "value", stdin=ran.raw).out.strip() == value.hex()


def shown_of(wire: Wire, *fields: bytes, options: tuple[str, ...] = ()) -> list[Any]:
    """What --records shows of a Produce request with these records fields."""
    data = [PartitionProduceData(records=records) for records in fields]
    message = ProduceRequest(topic_data=[TopicProduceData(partition_data=data)])
    words = ("decode", "--message", "ProduceRequest", "--version", "9", "--records", *options)
    ran = wire(*words, stdin=message.encode(9))
    assert wire("encode", stdin=ran.raw).out.strip() == message.encode(9).hex()
    return list(ran.json["decoded_records"])


def test_a_few_bytes_that_are_many_records_are_not_all_shown(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
):
    from fencepost.cli.wire.convert import batches

    made = 0

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return describe_record(*arguments)

    describe_record = batches.describe_record
    monkeypatch.setattr(batches, "describe_record", counted)
    bomb = bytes(build_batch([(None, None)] * 15_000, timestamp_ms=5, compression="gzip"))
    first, second = shown_of(wire, bomb + bomb, BATCH)
    assert made == len(first["batches"][0]["records"]) == RECORDS_MAX - 1
    assert first["batches"][0]["records_left_out"] == 15_000 - made
    assert first["bytes_left_out"] == len(bomb) and "cut_bytes" not in first
    assert second["batches"] == [] and second["bytes_left_out"] == len(BATCH)


def test_how_many_records_are_shown_can_be_said(wire: Wire):
    batch = bytes(build_batch([(b"k", b"v")] * 5, timestamp_ms=5))
    headers = bytes(build_batch([(b"k", b"v", [("h", b"")] * 50)], timestamp_ms=5))
    control = bytes(build_end_txn_marker(
        committed=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp_ms=5,
    ))  # fmt: skip
    old = build_message_set([Record(i, 5, 0, b"k", b"v") for i in range(9)], magic=1, compression=1)

    def left_out(records: bytes, limit: int) -> Any:
        (field,) = shown_of(wire, records, options=("--records-limit", str(limit)))
        return [one.get("records_left_out", 0) for one in field["batches"]], field.get(
            "bytes_left_out"
        )

    assert left_out(batch + batch, 12) == ([0, 0], None)
    assert left_out(batch + batch, 11) == ([0, 1], None)
    assert left_out(batch + batch, 6) == ([0], len(batch))
    assert left_out(headers, 52) == ([0], None)
    assert left_out(headers + batch, 51) == ([1], len(batch))
    assert left_out(control * 3, 4) == ([0, 0], len(control))
    assert left_out(bytes(old), 10) == ([0], None)
    assert left_out(bytes(old), 9) == ([None], None)  # nothing says how many there are


def test_large_content_of_records_is_not_all_shown(wire: Wire):
    item = (None, bytes(5 << 20))
    batch = bytes(build_batch([item] * 4, timestamp_ms=5, compression="gzip"))
    (field,) = shown_of(wire, batch)
    assert field["batches"][0]["records_left_out"] == 1


def test_damaged_batches_are_described_as_far_as_they_go(wire: Wire):
    damaged = bytearray(BATCH)
    damaged[-1] ^= 1
    partition = PartitionProduceData(records=bytes(damaged) + b"\xff" * 80)
    message = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])])
    words = ("decode", "--message", "ProduceRequest", "--version", "9", "--records")
    (field,) = wire(*words, stdin=message.encode(9)).json["decoded_records"]
    assert not field["batches"][0]["is_crc_right"]
    assert "magic is -1" in field["error"]


def test_metadata_records(wire: Wire):
    value = metadata.encode_record(metadata.TopicRecord(name="orders"))
    ran = wire("decode", "--record", "metadata", "--hex", value.hex())
    assert ran.json["value"]["message"] == "TopicRecord"
    assert ran.json["value"]["body"]["name"] == "orders"
    assert wire("encode", stdin=ran.raw).out.split() == ["value", value.hex()]
    assert wire("encode", "--part", "value", "--output", "-", stdin=ran.raw).raw == value


def test_records_of_groups_and_their_tombstones(wire: Wire):
    key = group.encode_key(group.OffsetCommitKey(group="g", topic="t", partition=2))
    value = group.encode_value(group.OffsetCommitValue(offset=41), 3)
    words = ("decode", "--record", "group", "--key", key.hex())
    ran = wire(*words, "--hex", value.hex())
    assert ran.json["key"] == {
        "message": "OffsetCommitKey",
        "body": {"group": "g", "topic": "t", "partition": 2},
    }
    assert (ran.json["value"]["version"], ran.json["value"]["body"]["offset"]) == (3, 41)
    assert wire("encode", stdin=ran.raw).out.splitlines() == [
        f"key {key.hex()}", f"value {value.hex()}",
    ]  # fmt: skip
    assert wire("encode", "--part", "key", stdin=ran.raw).out == key.hex() + "\n"
    tombstone = wire(*words)
    assert tombstone.json["value"] is None
    assert wire("encode", stdin=tombstone.raw).out.splitlines()[1] == "value null"


@pytest.mark.parametrize("kind", ["transaction", "share"])
def test_records_of_other_coordinators(wire: Wire, kind: str):
    from importlib import import_module

    module = import_module(f"fencepost.wire.records.{kind}")
    classes = {
        "transaction": ("TransactionLogKey", "TransactionLogValue"),
        "share": ("ShareSnapshotKey", "ShareSnapshotValue"),
    }[kind]
    key_class, value_class = (getattr(module, name) for name in classes)
    key, value = module.encode_key(key_class()), module.encode_value(value_class(), 0)
    ran = wire("decode", "--record", kind, "--key", key.hex(), "--hex", value.hex())
    assert [ran.json[part]["message"] for part in ("key", "value")] == list(classes)
    encoded = wire("encode", stdin=ran.raw).out.split()
    assert encoded == ["key", key.hex(), "value", value.hex()]


def test_control_records(wire: Wire):
    key = encode_control_key(ControlType.COMMIT)
    value = encode_control_value(EndTxnMarker(coordinator_epoch=4))
    ran = wire("decode", "--record", "control", "--key", key.hex(), "--hex", value.hex())
    assert ran.json["key"] == {"type": 1}
    assert ran.json["value"]["body"] == {"coordinator_epoch": 4}
    assert wire("encode", stdin=ran.raw).out.split() == ["key", key.hex(), "value", value.hex()]


def test_what_consumers_tell_each_other(wire: Wire):
    from fencepost.wire.records.consumer import ConsumerProtocolSubscription, encode_prefixed

    value = encode_prefixed(ConsumerProtocolSubscription(topics=["t"]), 3)
    ran = wire("decode", "--record", "subscription", "--hex", value.hex())
    assert ran.json["value"]["version"] == 3 and ran.json["value"]["body"]["topics"] == ["t"]
    assert wire("encode", "--part", "value", stdin=ran.raw).out.strip() == value.hex()


class Terminal(io.StringIO):
    """Stderr, as on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "total_bytes", "shown"),
    [
        (Terminal(), 64 << 20, True),
        (Terminal(), 1000, False),
        (Terminal(), None, False),
        (io.StringIO(), 64 << 20, False),
    ],
)
def test_progress_is_for_large_inputs_and_terminals(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, total_bytes: int | None, shown: bool
):
    monkeypatch.setattr(sys, "stderr", stderr)
    progress = Progress(total_bytes)
    progress.show(16 << 20)
    progress.close()
    assert stderr.getvalue().startswith("\r 25 % of 64 MiB") == shown
    assert bool(stderr.getvalue()) == shown


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("assignment", "ConsumerProtocolAssignment"),
        ("principal", "DefaultPrincipalData"),
        ("remote-log", "RemotePartitionDeleteMetadataRecord"),
    ],
)
def test_kinds_of_records_without_a_key(wire: Wire, kind: str, message: str):
    document = {"record": kind, "value": {"message": message, "version": 0, "body": {}}}
    words = ("encode", "--part", "value")
    encoded = wire(*words, stdin=json.dumps(document).encode()).out.strip()
    ran = wire("decode", "--record", kind, "--hex", encoded)
    assert ran.json["value"]["message"] == message
    assert wire(*words, stdin=ran.raw).out.strip() == encoded
    assert wire("decode", "--record", kind, "--hex", encoded + "00").code == 1


@settings(max_examples=60, deadline=None, database=None)
@given(st.binary(max_size=80))
def test_no_bytes_end_in_anything_but_an_error(data: bytes):
    from fencepost.wire.documents import decode_request
    from fencepost.wire.errors import WireError

    for key in (0, 1, 3, 18):
        frame = b"\0\0\0\0" + struct.pack(">hh", key, 3) + data
        try:
            decode_request(frame)
        except WireError:
            continue


@pytest.mark.parametrize("is_capture", [False, True])
def test_the_command_itself_with_a_reader_that_leaves(tmp_path: Path, is_capture: bool):
    """The one test of a process: a real stdout, closed after the first line."""
    path = tmp_path / "input"
    if is_capture:
        pytest.importorskip("cypcap")
        maker = PacketMaker()
        write_pcap(path, [*maker.open(), *maker.send(asked() * 3000)])
        options = ["--pcap", str(path)]
    else:
        path.write_bytes(asked() * 3000)
        options = ["--request", "--frames", str(path)]
    command = [sys.executable, "-m", "fencepost.cli.main", "wire", "decode", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["request"] == "ApiVersions"
        process.stdout.close()
        assert process.stderr.read() == b""  # no sum of what was not read to its end
    assert process.returncode == 1


def test_api_takes_the_names_of_its_messages(wire: Wire):
    for name in ("Heartbeat", "heartbeatresponse", "HeartbeatRequest", "12"):
        ran = wire("decode", "--response", "--api", name, "--version", "4", stdin=answered())
        assert ran.json["response"] == "Heartbeat"
