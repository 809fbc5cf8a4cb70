"""`fencepost wire encode`: JSON that `decode` did not write, and JSON that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.wire.encode import collect_object
from fencepost.wire.api import HeartbeatRequest
from fencepost.wire.frame import encode_request
from fencepost.wire.records import group

from .wire_command import Wire

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
def test_malformed_documents_are_refused(wire: Wire, change: dict[str, Any], error: str):
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
def test_malformed_json_is_refused(wire: Wire, text: bytes, error: str):
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
