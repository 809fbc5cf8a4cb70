"""`fencepost wire decode` and `fencepost log dump` hide secrets unless they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.batch.records import build_batch
from fencepost.cli.main import main
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.frame import encode_request
from fencepost.wire.records.metadata import ConfigRecord, UserScramCredentialRecord, encode_record

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
