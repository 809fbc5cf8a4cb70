"""`fencepost wire`: APIs, fields, bytes to JSON and back, capture files."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, build_batch
from fencepost.cli.main import main
from fencepost.cli.wire.bytes_input import Progress
from fencepost.cli.wire.encode import collect_object
from fencepost.cli.wire.names import message_names
from fencepost.cli.wire.output import RECORDS_MAX
from fencepost.cli.wire.packets import Endpoint
from fencepost.wire import api
from fencepost.wire.api import (
    ApiVersionsRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    SaslHandshakeRequest,
)
from fencepost.wire.api.fetch import FetchableTopicResponse, PartitionData
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.error_meanings import meaning
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request, encode_response_parts
from fencepost.wire.records import group, metadata
from fencepost.wire.records.control import (
    ControlType,
    EndTxnMarker,
    encode_control_key,
    encode_control_value,
)

from .packet_maker import PacketMaker, write_pcap, write_pcapng


class Ran(NamedTuple):
    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Wire = Callable[..., Ran]


@pytest.fixture
def wire(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Runs `fencepost wire ...` in this process; `stdin` is what it reads."""

    def run(*words: str, stdin: bytes = b"") -> Ran:
        capfdbinary.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            code = main(["wire", *words])
        except SystemExit as error:  # argparse's way to say that the command line is wrong
            code = int(error.code or 0)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out, captured.err.decode())

    return run


BATCH = build_batch([(b"k", b"v", [("h", b"\xff")]), (None, b"")], timestamp_ms=5)


def produced() -> bytes:
    partition = PartitionProduceData(index=3, records=BATCH)
    message = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )
    return encode_request(message, 9, 8, None)


def asked() -> bytes:
    return encode_request(ApiVersionsRequest(client_software_name="me"), 3, 7, "ä")


def answered(error_code: int = 0) -> bytes:
    return b"".join(encode_response_parts(HeartbeatResponse(error_code=error_code), 4, 9))


# -- apis and show ---------------------------------------------------------------------------


def test_apis_lists_every_api(wire: Wire):
    ran = wire("apis", "--json")
    assert ran.code == 0
    listed = {entry["key"]: entry for entry in ran.json}
    assert list(listed) == sorted(api.API_NAMES)
    fetch = listed[1]
    assert (fetch["name"], fetch["min_version"], fetch["max_version"]) == ("Fetch", 0, 18)
    assert fetch["flexible_from"] == 12 and fetch["oldest_served"] == 4
    assert fetch["request_header"] == [{"from": 0, "header": 1}, {"from": 12, "header": 2}]
    assert fetch["response_header"] == [{"from": 0, "header": 0}, {"from": 12, "header": 1}]
    assert listed[18]["response_header"] == [{"from": 0, "header": 0}]
    assert listed[19]["forwardable"] and not fetch["forwardable"]
    for key, entry in listed.items():
        assert entry["max_version"] == api.request_class(key).max_version


def test_apis_as_a_table(wire: Wire):
    lines = wire("apis").out.splitlines()
    assert len(lines) == 1 + len(api.API_NAMES)
    assert lines[0].split() == [
        "key", "API", "versions", "served", "flexible", "headers", "to", "from", "forwarded",
    ]  # fmt: skip
    unstable = [line for line in lines if "InitProducerId" in line]
    assert unstable[0].split()[2:4] == ["0-6*", "0-5"]
    gone = [line for line in lines if "StopReplica" in line]
    assert gone[0].split()[3:5] == ["until", "4.0"]


@pytest.mark.parametrize("name", ["fetch", "Fetch", "1"])
def test_show_an_api(wire: Wire, name: str):
    request, response = wire("show", name, "--json").json
    assert (request["name"], response["name"]) == ("FetchRequest", "FetchResponse")
    assert [field["name"] for field in request["fields"]][:3] == [
        "cluster_id", "replica_id", "replica_state",
    ]  # fmt: skip
    text = wire("show", name).out
    assert "Fetch request, API key 1" in text and "\n\nFetch response, API key 1" in text


@pytest.mark.parametrize("name", message_names())
def test_show_knows_every_message(wire: Wire, name: str):
    ran = wire("show", name.upper())
    assert (ran.code, ran.err) == (0, "")
    shown = wire("show", name, "--json").json
    assert shown["name"] == name
    version = str(shown["max_version"])
    at_version = wire("show", name, "--version", version)
    assert at_version.code == 0
    for field in shown["fields"]:
        assert field["name"] in ran.out
    for field in wire("show", name, "--version", version, "--json").json["fields"]:
        assert field["encoding"] and field["name"] in at_version.out


def test_show_one_version_says_how_it_is_written(wire: Wire):
    fields = {f["name"]: f for f in wire("show", "FetchRequest", "--version", "12", "--json").json[
        "fields"
    ]}  # fmt: skip
    assert "topic_id" not in fields  # of version 13
    assert fields["topic"]["encoding"] == "uvarint length + 1, UTF-8"
    assert fields["topics"]["encoding"] == "uvarint count + 1"
    assert fields["cluster_id"]["tag"] == 0
    plain = {f["name"]: f for f in wire("show", "FetchRequest", "--version", "4", "--json").json[
        "fields"
    ]}  # fmt: skip
    assert plain["topic"]["encoding"] == "int16 length, UTF-8"
    assert plain["topics"]["encoding"] == "int32 count"
    text = wire("show", "FetchRequest", "--version", "12").out
    assert text.count("tagged section") == 4
    assert text.index("\n(tags)") < text.index("\ncluster_id")
    assert "tagged section" not in wire("show", "FetchRequest", "--version", "4").out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_meaning_is_wrapped(wire: Wire, monkeypatch: pytest.MonkeyPatch, columns: int):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = wire("show", "HeartbeatRequest").out.splitlines()
    text = " ".join(" ".join(lines).split())
    for field in HeartbeatRequest.fields:
        assert field.name in text
    beside = [line for line in lines[2:] if not line.startswith(" ")]
    assert len(beside) == len(HeartbeatRequest.fields)
    if columns >= 80:
        assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Fecth", "no message is called 'Fecth'; did you mean Fetch?"),
        ("OffsetCommitValu", "did you mean OffsetCommitValue"),
        ("PartitionDat", "did you mean PartitionData"),
        ("xyzzy", "no message is called 'xyzzy'\n"),
        ("30000", "no API has the number 30000"),
    ],
)
def test_show_does_not_know_it(wire: Wire, name: str, error: str):
    ran = wire("show", name)
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert error in ran.err


def test_errors_by_number_and_by_name(wire: Wire):
    listed = wire("errors", "--json").json
    assert [one["code"] for one in listed] == [int(code) for code in ErrorCode]
    assert all(one["meaning"] for one in listed)
    fenced = {
        "code": 74, "name": "FENCED_LEADER_EPOCH", "retriable": True, "meaning": meaning(74),
    }  # fmt: skip
    for name in ("74", "fenced_leader_epoch", "Fenced-Leader-Epoch"):
        assert wire("errors", name, "--json").json == fenced
    assert wire("errors", "-1", "--json").json["name"] == "UNKNOWN_SERVER_ERROR"
    lines = wire("errors").out.splitlines()
    assert lines[0].split() == ["code", "name", "retriable", "meaning"]
    assert len(lines) == 1 + len(ErrorCode)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("999", "no error has the code 999, only -1 to "),
        ("-7", "no error has the code -7"),
        ("fenced_leader", "did you mean FENCED_LEADER_EPOCH"),
        ("FENCED", "FENCED_INSTANCE_ID or PRODUCER_FENCED or FENCED_MEMBER_EPOCH"),
        ("xyzzy", "no error is called 'xyzzy'\n"),
        ("²", "no error is called '²'"),
    ],
)
def test_errors_that_are_not(wire: Wire, name: str, error: str):
    ran = wire("errors", name)
    assert ran.code == 1 and ran.err.count("\n") == 1 and error in ran.err


@pytest.mark.parametrize("name", ["PartitionData", "partitiondata"])
def test_show_structs_of_every_message(wire: Wire, name: str):
    shown = {one["message"]: one for one in wire("show", name, "--json").json}
    assert {"FetchResponse", "AlterPartitionRequest", "AlterPartitionResponse"} <= shown.keys()
    fetch = shown["FetchResponse"]
    assert (fetch["name"], fetch["kind"], fetch["api_key"]) == ("PartitionData", "struct", 1)
    assert fetch["paths"] == ["responses.partitions"]
    names = {row["name"]: row["depth"] for row in fetch["fields"]}
    assert names["partition_index"] == 0 and names["producer_id"] == 1 and "topic" not in names
    text = wire("show", name).out
    assert (
        "PartitionData in Fetch response, API key 1, versions 0-18, flexible 12+: "
        "responses.partitions\n" in text
    )
    assert text.count("PartitionData in ") + text.count("(Kafka: PartitionData) in ") == len(shown)


def test_show_structs_of_one_version(wire: Wire):
    ran = wire("show", "PartitionData", "--version", "12")
    (heading,) = [line for line in ran.out.splitlines() if line.startswith("PartitionData in F")]
    assert "version 12 of 0-18" in heading and "AlterPartition" not in ran.out
    assert ran.out.count("tagged section") >= 2
    before = wire("show", "ReplicaState", "--version", "14")
    assert before.code == 1 and before.err.count("\n") == 1
    assert "ReplicaState is not in version 14 of FetchRequest" in before.err
    (state,) = [
        one
        for one in [wire("show", "ReplicaState", "--version", "15", "--json").json]
        if one["message"] == "FetchRequest"
    ]
    assert [field["name"] for field in state["fields"]] == ["replica_id", "replica_epoch"]
    assert all(field["encoding"] for field in state["fields"])


def test_api_takes_the_names_of_its_messages(wire: Wire):
    for name in ("Heartbeat", "heartbeatresponse", "HeartbeatRequest", "12"):
        ran = wire("decode", "--response", "--api", name, "--version", "4", stdin=answered())
        assert ran.json["response"] == "Heartbeat"


def test_show_versions_that_are_not(wire: Wire):
    assert wire("show", "Fetch", "--version", "99").code == 1
    assert wire("show", "Fetch", "--version", "-1").code == 2
    assert wire("show").code == 2


# -- decode and encode -----------------------------------------------------------------------


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
    from fencepost.cli.wire import batches

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
    """What stderr is when somebody is looking."""

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


# -- what goes wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "stdin", "error"),
    [
        ("--request", asked()[:-3], "frame 0 at byte 0: 18 bytes should follow, 15 do"),
        ("--request", asked() + b"\0\0", "frame 1 at byte 22: 2 bytes are no length"),
        ("--request", b"\x7f\xff\xff\xff", "its length cannot be 2147483647"),
        ("--request", b"\xff\xff\xff\xff", "its length cannot be -1"),
        ("--request", b"\0\0\0\x02ab", "header: a request header takes 8 bytes or more"),
        ("--request", b"\0\0\0\x08\x03\xe8" + bytes(6), "no API has the number 1000 (at byte 4 of"),
        ("--request", b"\0\0\0\x08\0\x01\0\x63" + bytes(4), "FetchRequest has no version 99"),
        ("--request", b"", "there is no frame in the input"),
        (
            "--response --api Fetch --version 12",
            struct.pack(">ii", 8, 1) + bytes(4),
            "throttle_time_ms: int32 takes 4 bytes, 3 are left (at byte 9 of the frame)",
        ),
        ("--response --api Fetch --version 99", b"", "FetchResponse has no version 99"),
        ("--response --api Fetsch --version 1", b"", "did you mean Fetch"),
        ("--message Fetch --version 1", b"", "Fetch is an API: FetchRequest or FetchResponse?"),
        ("--message 1 --version 1", b"", "1 is an API: FetchRequest or FetchResponse?"),
        ("--message FetchRequest --version -1", b"", "has no version -1"),
        ("--message MetadataRequest --version 1", bytes(3), "(at byte 0)"),
        ("--record metadata", b"\x02\0\0", "frame version 2 is not 1"),
        ("--record metadata", b"", "frame version"),
        ("--record group --key 7fff", b"", "unknown record type 32767"),
        ("--record group --key 0001 --hex 00", b"", "(at byte 2)"),
        ("--record metadata --max-frame-bytes 2", bytes(3), "larger than 2 bytes"),
    ],
)
def test_bad_bytes_are_one_line_and_exit_code_1(wire: Wire, words: str, stdin: bytes, error: str):
    ran = wire("decode", *words.split(), stdin=stdin)
    assert ran.code == 1
    assert ran.err.startswith("fencepost wire decode: ") and ran.err.count("\n") == 1
    assert error in ran.err


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--message FetchRequest",
        "--request --version 1",
        "--response --version 1",
        "--response --api Fetch",
        "--request --response",
        "--request --api Fetch",
        "--message FetchRequest --version 1 --frames",
        "--request --key 00",
        "--request --port 1",
        "--record group",
        "--record metadata --key 00",
        "--record metadata --records",
        "--record metadata --error-names",
        "--record nothing",
        "--request --hex 00 some-file",
        "--pcap x --hex 00",
        "--pcap x y",
        "--request --max-frame-bytes 0",
        "--request --records-limit 5",
        "--request --records --records-limit 0",
    ],
)
def test_a_wrong_command_line_is_exit_code_2(wire: Wire, words: str):
    ran = wire("decode", *words.split())
    assert ran.code == 2 and ran.raw == b""


BAD_FRAME = b"\0\0\0\x01x"


def test_a_bad_frame_does_not_end_it(wire: Wire):
    data = asked() + BAD_FRAME + produced() + BAD_FRAME
    ran = wire("decode", "--request", "--frames", stdin=data)
    assert ran.code == 1
    assert [one.get("request") for one in ran.lines] == ["ApiVersions", None, "Produce", None]
    error = "header: a request header takes 8 bytes or more (at byte 4 of the frame)"
    about = {"kind": "request", "frame": 1, "byte": 22, "error": error}
    assert ran.lines[1] == {"capture": about, "raw": "AAAAAXg="}
    assert ran.err == (
        f"fencepost wire decode: 2 of 4 frames could not be decoded; frame 1 at byte 22: {error}\n"
    )
    assert wire("encode", "--output", "-", stdin=ran.raw).raw == data
    cut = wire("decode", "--request", "--frames", stdin=data + b"\0")
    assert cut.code == 1 and len(cut.lines) == 4
    assert cut.err.endswith("are no length of a frame; 2 before it could not be decoded\n")


def test_without_frames_the_first_bad_frame_ends_it(wire: Wire):
    ran = wire("decode", "--request", stdin=asked() + BAD_FRAME + produced())
    assert ran.code == 1 and ran.json["request"] == "ApiVersions"
    assert "frame 1 at byte 22: header: a request header takes 8 bytes or more" in ran.err


def test_a_bad_response_among_others(wire: Wire):
    words = ("decode", "--response", "--api", "Heartbeat", "--version", "4", "--frames")
    ran = wire(*words, stdin=BAD_FRAME + answered())
    assert ran.code == 1 and ran.lines[0]["capture"]["kind"] == "response"
    assert ran.lines[1]["response"] == "Heartbeat"


def test_bytes_behind_a_message_are_kept(wire: Wire):
    """As librdkafka sends them behind its Metadata requests v13."""
    frame = "000000190003000d00000004000772646b61666b610000000000010000"
    for words in (("--frames",), ()):
        ran = wire("decode", "--request", *words, "--hex", frame)
        assert ran.code == 0
        assert ran.json["body"]["topics"] is None and ran.json["trailing"] == "AQAA"
        assert ran.err == "frame 0 at byte 0 has 3 bytes behind the message, kept as 'trailing'\n"
        assert wire("encode", stdin=ran.raw).out.strip() == frame
    longer = struct.pack(">i", len(answered()) - 3) + answered()[4:] + b"x"
    words = ("--response", "--api", "Heartbeat", "--version", "4")
    ran = wire("decode", *words, stdin=longer)
    assert ran.code == 0 and ran.err.endswith("kept as 'trailing'; is --version right?\n")
    assert wire("encode", "--output", "-", stdin=ran.raw).raw == longer


@pytest.mark.parametrize(
    ("words", "frame", "hint"),
    [
        (
            "--request",
            asked(),
            "With 00000012 before it, it reads as ApiVersionsRequest, version 3",
        ),
        (
            "--response --api Heartbeat --version 4",
            b"".join(encode_response_parts(HeartbeatResponse(), 4, 0x7FFFFFFF)),
            "With 0000000c before it, it reads as HeartbeatResponse, version 4",
        ),
    ],
)
def test_a_frame_without_its_length(wire: Wire, words: str, frame: bytes, hint: str):
    ran = wire("decode", *words.split(), stdin=frame[4:])
    assert ran.code == 1
    assert "; is its length missing? " + hint in ran.err
    assert "missing?" not in wire("decode", *words.split(), stdin=frame[:-1]).err


def test_a_log_segment_is_no_record(wire: Wire, tmp_path: Path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(BATCH) * 3)
    for words in ((), ("--max-frame-bytes", "120")):
        ran = wire("decode", "--record", "metadata", *words, str(path))
        assert ran.code == 1 and ran.err.count("\n") == 1
        assert "fencepost log dump FILE shows them" in ran.err
    value = metadata.encode_record(metadata.TopicRecord(name="orders"))
    assert "log dump" not in wire("decode", "--record", "metadata", stdin=value[:-1]).err


def test_a_file_that_is_not_there(wire: Wire, tmp_path: Path):
    missing = str(tmp_path / "missing")
    for words in (["decode", "--request", missing], ["encode", missing]):
        ran = wire(*words)
        assert ran.code == 1
        assert ran.err == f"fencepost wire {words[0]}: {missing}: No such file or directory\n"


DOCUMENT = {
    "request": "Heartbeat",
    "version": 3,
    "header": {"correlation_id": 1, "client_id": "c"},
    "body": {"group_id": "g"},
}


def test_a_document_written_by_hand_needs_little(wire: Wire):
    expected = encode_request(HeartbeatRequest(group_id="g"), 3, 1, "c").hex()
    assert wire("encode", stdin=json.dumps(DOCUMENT).encode()).out.strip() == expected


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"extra": 1}, "document 0: extra: no key of a request"),
        ({"version": None}, "document 0: version: a whole number is needed"),
        ({"version": 99}, "document 0: HeartbeatRequest has no version 99"),
        ({"request": "Heartbeet"}, "document 0: no API is called 'Heartbeet'; did you mean Heart"),
        ({"request": 12}, "document 0: request: a string is needed"),
        ({"response": "Heartbeat"}, "document 0: a document has one of the keys"),
        ({"body": {"group": ""}}, "document 0: body.group: no field of HeartbeatRequest"),
        ({"body": None}, "document 0: body: an object is needed, not null"),
        ({"header": {"correlation_id": 2**31}}, "header.correlation_id: 2147483648 does not fit"),
        ({"header": {"request_api_key": 1}}, "request_api_key: 1, but the document says 12"),
    ],
)
def test_documents_that_are_none(wire: Wire, change: dict[str, Any], error: str):
    ran = wire("encode", stdin=json.dumps({**DOCUMENT, **change}).encode())
    assert ran.code == 1 and ran.raw == b""
    assert error in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "there is no document in the input"),
        (b"[]", "document 0: a document is a JSON object"),
        (b"{}", "document 0: a document has one of the keys"),
        (b"{\n\n]", "line 3, column 1"),
        (b'{"message": 1, "message": 2}', "the key 'message' comes twice"),
        (b'{"raw": NaN}', "NaN is no JSON"),
        (b'{"raw": "!"}', "raw: not base64"),
        (b"[" * 100_000, "line 1: nested too deeply"),
        (b'{"version": ' + b"1" * 5000 + b"}", "line 1: "),
        (b"\xff", "not UTF-8"),
        (b'{"record": "group", "key": 1, "value": null}', "key: an object is needed"),
        (b'{"record": "none"}', "record: 'none' is none of"),
        (b'{"record": "metadata"}', "value: missing"),
        (b'{"record": "control", "key": {"type": 99999}, "value": {}}', "does not fit into int16"),
        (b'{"\\u001b[31mX": 1, "raw": ""}', "document 0: \\x1b[31mX: no key of a raw"),
        (
            b'{"message": "\\u001b]0;\\u0007\\u202e", "version": 0, "body": 0}',
            "\\x1b]0;\\x07\\u202e",
        ),
    ],
)
def test_json_that_is_none(wire: Wire, text: bytes, error: str):
    ran = wire("encode", stdin=text)
    assert ran.code == 1 and error in ran.err and ran.err.count("\n") == 1
    assert ran.err.removesuffix("\n").isprintable()


class Key(str):
    """A key that counts how often it is compared or hashed."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Key.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Key.looks += 1
        return str.__hash__(self)


def test_a_key_that_comes_twice_among_many_is_found_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Key, "looks", 0)
    pairs = [(Key(f"key {number}"), 0) for number in [*range(3000), 2999]]
    with pytest.raises(ValueError, match="the key 'key 2999' comes twice in one object"):
        collect_object(pairs)
    assert Key.looks < 10 * len(pairs)


@pytest.mark.parametrize(
    ("kind", "key", "value", "error"),
    [
        ("control", {"type": 99}, "EndTxnMarker", "no control record has the type 99"),
        ("control", {"type": 3}, "EndTxnMarker", "would find no EndTxnMarker here"),
        ("control", {"type": 4}, "KRaftVersionRecord", "would find a SnapshotFooterRecord here"),
        ("group", {"message": "OffsetCommitKey"}, "GroupMetadataValue", "no GroupMetadataValue"),
        ("group", {"message": "GroupMetadataKey"}, "OffsetCommitValue", "no OffsetCommitValue"),
        ("assignment", None, "ConsumerProtocolSubscription", "a ConsumerProtocolAssignment here"),
    ],
)
def test_a_value_that_readers_would_take_for_another_is_refused(
    wire: Wire, kind: str, key: dict[str, Any] | None, value: str, error: str
):
    document = {"record": kind, "value": {"message": value, "version": 0, "body": {}}}
    if key is not None:
        document["key"] = key
    ran = wire("encode", stdin=json.dumps(document).encode())
    assert ran.code == 1 and ran.raw == b""
    assert "document 0: value: readers would find" in ran.err and error in ran.err


def test_a_record_in_two_parts_does_not_go_into_one_file(wire: Wire, tmp_path: Path):
    key = group.encode_key(group.OffsetCommitKey())
    ran = wire("decode", "--record", "group", "--key", key.hex())
    assert wire("encode", "--output", str(tmp_path / "out"), stdin=ran.raw).code == 2


@settings(max_examples=60, deadline=None, database=None)
@given(st.binary(max_size=80))
def test_no_bytes_end_in_anything_but_an_error(data: bytes):
    from fencepost.cli.wire.documents import decode_request
    from fencepost.wire.errors import WireError

    for key in (0, 1, 3, 18):
        frame = b"\0\0\0\0" + struct.pack(">hh", key, 3) + data
        try:
            decode_request(frame)
        except WireError:
            continue


# -- capture files ---------------------------------------------------------------------------


def conversation() -> list[bytes]:
    maker = PacketMaker(segment_bytes=30)
    heartbeat = encode_request(HeartbeatRequest(group_id="g"), 4, 9, "c")
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 10, "c")
    return [
        *maker.open(),
        *maker.send(asked()),
        *maker.send(heartbeat),
        *maker.answer(answered(27)),
        *maker.send(produced()),
        *maker.send(handshake),
        *maker.close(),
    ]


@pytest.mark.parametrize("write", [write_pcap, write_pcapng])
def test_a_capture(wire: Wire, tmp_path: Path, write: Callable[..., None]):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write(path, conversation())
    ran = wire("decode", "--pcap", str(path), "--records")
    assert ran.code == 0
    names = [one.get("request") or one.get("response") for one in ran.lines]
    assert names == ["ApiVersions", "Heartbeat", "Heartbeat", "Produce", "SaslHandshake"]
    response = ran.lines[2]
    assert response["body"]["error_code"] == 27
    about = response["capture"]
    assert about["time"].startswith("2023-11-14T22:13:20.0")
    assert (about["source"], about["destination"]) == ("10.0.0.2:9092", "10.0.0.1:40000")
    assert about["latency_ms"] > 0
    assert ran.lines[3]["decoded_records"][0]["batches"][0]["records"][0]["key"] == "k"
    assert ran.err.endswith("1 connections, 5 messages, 0 not decoded, 0 bytes skipped\n")
    encoded = wire("encode", "--output", "-", stdin=ran.raw).raw
    assert encoded.startswith(asked()) and answered(27) in encoded and produced() in encoded


def test_times_beyond_the_calendar(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcapng(path, conversation(), time_us=2**62)
    ran = wire("decode", "--pcap", str(path))
    assert (ran.code, len(ran.lines)) == (0, 5)
    assert ran.lines[0]["capture"]["time"].endswith(" s since 1970")


def test_a_capture_with_holes_still_tells_the_rest(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    packets = conversation()
    write_pcap(path, [packet for index, packet in enumerate(packets) if index != 7])
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 0
    damaged = [one["capture"] for one in ran.lines if "error" in one["capture"]]
    assert len(damaged) == 1 and "bytes are not there" in damaged[0]["error"]
    assert wire("encode", stdin=ran.raw).code == 0


def test_a_capture_of_other_ports(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcap(path, conversation())
    for ports, wanted in ((["19092"], "19092"), (["1", "2"], "1 or 2")):
        ran = wire("decode", "--pcap", str(path), *(word for p in ports for word in ("--port", p)))
        assert ran.code == 1 and ran.raw == b""
        assert ran.err == (
            f"fencepost wire decode: no packets on port {wanted}; seen: 9092 (--port says which)\n"
        )
    assert wire("decode", "--pcap", str(path), "--port", "1", "--port", "9092").lines


def test_ports_seen_are_those_of_servers_and_not_too_many(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    packets: list[bytes] = []
    for port in range(50_001, 50_008):  # above those of the clients: only the SYN tells
        maker = PacketMaker(server=Endpoint("10.0.0.2", port))
        packets += [*maker.open(), *maker.send(asked() * (50_008 - port))]
    path = tmp_path / "trace"
    write_pcap(path, packets)
    ran = wire("decode", "--pcap", str(path))
    assert "; seen: 50001, 50002, 50003, 50004, 50005, and others (" in ran.err


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", ""),
        (b"garbage that is no capture at all", "unknown file format"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 99, 105), "link type 105"),
    ],
)
def test_what_is_no_capture(wire: Wire, tmp_path: Path, content: bytes, error: str):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    path.write_bytes(content)
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert f"{path}: " in ran.err and error in ran.err


def test_a_capture_that_breaks_off(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcap(path, conversation())
    path.write_bytes(path.read_bytes()[:-20])
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 1
    assert len(ran.lines) == 5
    totals, error = ran.err.splitlines()
    assert totals.startswith("so far: ") and "5 messages" in totals
    assert "truncated dump file" in error


def test_garbage_in_packets(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcap(path, [bytes(range(size)) for size in range(0, 200, 7)])
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 1 and ran.raw == b""
    assert ran.err == "fencepost wire decode: none of the 29 packets is TCP over IP\n"


def test_without_the_extra_it_says_what_to_install(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cypcap", None)
    ran = wire("decode", "--pcap", str(tmp_path / "trace"))
    assert ran.code == 2
    assert "pip install 'fencepost[pcap]'" in ran.err


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
