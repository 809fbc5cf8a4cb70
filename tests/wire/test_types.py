"""Uuids, error codes and the switch between backends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fencepost.wire import backend
from fencepost.wire.errors import (
    DecodeError,
    EncodeError,
    ErrorCode,
    UnsupportedVersionError,
    WireError,
    error_name,
    is_retriable,
)
from fencepost.wire.types import Uuid


def test_uuid_text_is_kafkas() -> None:
    # The reserved ids as Kafka prints them.
    assert str(Uuid.ZERO) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert str(Uuid.METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    value = Uuid(bytes(range(16)))
    assert Uuid.from_string(str(value)) == value
    assert repr(value) == f"Uuid.from_string('{value}')"
    assert value == bytes(range(16))
    assert {value: 1}[Uuid(bytes(range(16)))] == 1


@pytest.mark.parametrize("text", ["", "A", "A" * 21, "A" * 23, "A" * 22 + "==", "é" * 22, "*" * 22])
def test_uuid_text_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a Uuid"):
        Uuid.from_string(text)


def test_uuid_has_sixteen_bytes() -> None:
    for size in (0, 15, 17):
        with pytest.raises(ValueError, match="16 bytes"):
            Uuid(bytes(size))
    assert Uuid(bytearray(16)) == Uuid(memoryview(bytes(16))) == Uuid.ZERO


def test_random_uuids_can_stand_on_a_command_line() -> None:
    drawn = {Uuid.random() for _ in range(300)}
    assert len(drawn) == 300
    assert not any(str(value).startswith("-") for value in drawn)


def test_error_codes_are_complete() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))
    assert error_name(74) == "FENCED_LEADER_EPOCH"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(999) == "UNKNOWN(999)"


def test_retriable_codes() -> None:
    assert is_retriable(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert is_retriable(75)
    for code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, -1, 999):
        assert not is_retriable(code)


def test_error_texts() -> None:
    assert str(DecodeError("cut off", "a.b[1]", 7)) == "a.b[1]: cut off (at byte 7)"
    assert str(DecodeError("cut off")) == "cut off (at byte 0)"
    assert str(EncodeError("too long", "a")) == "a: too long"
    assert "no version 9, only 0 to 3" in str(UnsupportedVersionError("X", 9, 0, 3))
    for error in (DecodeError("x"), EncodeError("x"), UnsupportedVersionError("x", 1, 2, 3)):
        assert isinstance(error, WireError)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_pure_backend_on_request() -> None:
    code = (
        "from fencepost.wire import backend\n"
        "from fencepost.wire.api import ApiVersionsRequest as R\n"
        "data = R(client_software_name='a').encode(3)\n"
        "print(backend.name(), R.decode(data, 3).client_software_name)"
    )
    assert run(code, FENCEPOST_PURE="1") == "python a"
    assert run(code, FENCEPOST_PURE="0") in ("python a", "c a")
    assert backend.name() in ("c", "python")


def test_import_is_light() -> None:
    code = (
        "import sys, typing\n"
        "typing.NamedTuple('Any', [('one', 'int')])\n"  # from Python 3.14 on this loads `ast`
        "before = set(sys.modules)\n"
        "import fencepost.wire.api.fetch, fencepost.wire.frame\n"
        "heavy = {'dataclasses', 'inspect', 'asyncio', 'socket', 'json', 'subprocess', 'ast'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    for pure in ("0", "1"):
        assert run(code, FENCEPOST_PURE=pure) == "[]"
