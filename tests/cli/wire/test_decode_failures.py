"""`fencepost wire` given bytes that are none, or words that do not fit: one line, an exit code."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fencepost.wire.api import HeartbeatResponse
from fencepost.wire.frame import encode_response_parts
from fencepost.wire.records import metadata

from .wire_command import BATCH, Wire, answered, asked, produced


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
    ran = wire("decode", "--request", "--frames", "--show-secrets", stdin=data)
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
