"""`fencepost wire decode` and `fencepost log dump` hide secrets unless they are asked for."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from pathlib import Path

import pytest

from fencepost.batch.records import build_batch
from fencepost.cli.main import main
from fencepost.wire.api import HeartbeatRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.frame import encode_request
from fencepost.wire.records.metadata import ConfigRecord, UserScramCredentialRecord, encode_record

from ...capture.packet_maker import PacketMaker, write_pcap

SECRET, ENCODED = b"hush-hush", "aHVzaC1odXNo"
USER = UserScramCredentialRecord(name="ada", mechanism=1, stored_key=SECRET, iterations=4096)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("more", [(), ("--int64-as-strings",)])
def test_frames(capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    frame = encode_request(RenewDelegationTokenRequest(hmac=SECRET, renew_period_ms=7), 2, 1, "me")
    ask = ("wire", "decode", "--request", "--hex", frame.hex(), *more)
    hidden = printed(capsys, *ask)
    assert json.loads(hidden)["body"]["hmac"] == "[hidden]"
    assert ENCODED not in hidden
    shown = json.loads(printed(capsys, *ask, "--show-secrets"))
    assert shown["body"]["hmac"] == ENCODED
    assert str(shown["body"]["renew_period_ms"]) == "7"


SECRET_FRAME = encode_request(
    RenewDelegationTokenRequest(hmac=SECRET, renew_period_ms=7), 2, 1, "me"
)
"""A request with a secret."""
OTHER_FRAME = encode_request(HeartbeatRequest(group_id="hush-hush"), 4, 1, "me")
"""A request that can hold none."""


def shortened(frame: bytes) -> bytes:
    """Such a frame that ends too early to be decoded, by the length that it says."""
    return struct.pack(">i", len(frame) - 5) + frame[4:-1]


def undecoded(capsys: pytest.CaptureFixture[str], frame: bytes, *words: str) -> str:
    assert main(["wire", "decode", "--frames", "--hex", frame.hex(), *words]) == 1
    printed = capsys.readouterr()
    [line] = printed.out.splitlines()
    document = json.loads(line)
    assert "error" in document["capture"] and ENCODED not in printed.err
    return str(document["raw"])


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def test_frames_that_cannot_be_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    secret, other = shortened(SECRET_FRAME), shortened(OTHER_FRAME)
    plain = b"\0Ada\0hush-hush"  # PLAIN after a SaslHandshake v0: byte 65 is an API's key, too
    token = struct.pack(">i", len(plain)) + plain
    for frame in (secret, token):
        assert undecoded(capsys, frame, "--request") == "[hidden]"
        assert undecoded(capsys, frame, "--request", "--show-secrets") == base64(frame)
    assert undecoded(capsys, other, "--request") == base64(other)


def test_responses_that_cannot_be_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    frame = struct.pack(">i", 6) + b"\0\0\0\1hu"
    words = ("--response", "--version", "3", "--api")
    assert undecoded(capsys, frame, *words, "CreateDelegationToken") == "[hidden]"
    assert undecoded(capsys, frame, *words, "Heartbeat") == base64(frame)


def test_bytes_behind_a_message_with_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """They are what the message has in another version."""
    for frame, expected in ((SECRET_FRAME, "[hidden]"), (OTHER_FRAME, ENCODED)):
        longer = struct.pack(">i", len(frame) - 4 + len(SECRET)) + frame[4:] + SECRET
        ask = ("wire", "decode", "--request", "--hex", longer.hex())
        assert json.loads(printed(capsys, *ask))["trailing"] == expected
        assert json.loads(printed(capsys, *ask, "--show-secrets"))["trailing"] == ENCODED


def test_captures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("cypcap")
    maker = PacketMaker(segment_bytes=1_000)
    secret, other = shortened(SECRET_FRAME), shortened(OTHER_FRAME)
    packets = [*maker.open(), *maker.send(secret), *maker.send(other), *maker.close()]
    path = tmp_path / "trace"
    write_pcap(path, packets)
    for more, expected in (((), "[hidden]"), (("--show-secrets",), base64(secret))):
        main(["wire", "decode", "--pcap", str(path), *more])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["raw"] for line in lines] == [expected, base64(other)]


def test_records(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("wire", "decode", "--record", "metadata", "--hex", encode_record(USER).hex())
    assert ENCODED not in printed(capsys, *ask)
    assert ENCODED in printed(capsys, *ask, "--show-secrets")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_the_metadata_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: tuple[str, ...]
) -> None:
    password = ConfigRecord(
        resource_type=4, resource_name="1", name="ssl.key.password", value=SECRET.decode()
    )
    values = [(None, encode_record(one)) for one in (USER, password)]
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(build_batch(values, timestamp_ms=1))
    ask = ("log", "dump", "--records", str(directory / f"{0:020}.log"), *more)
    hidden = printed(capsys, *ask)
    assert "ada" in hidden and "[hidden]" in hidden
    assert ENCODED not in hidden and "hush" not in hidden
    shown = printed(capsys, *ask, "--show-secrets")
    assert ENCODED in shown and "hush-hush" in shown
