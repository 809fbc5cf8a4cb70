"""`fencepost wire errors`: by number and by name."""

from __future__ import annotations

import pytest

from fencepost.wire.error_meanings import meaning
from fencepost.wire.errors import ErrorCode

from .wire_command import Wire


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
def test_unknown_error_codes_are_refused_with_a_hint(wire: Wire, name: str, error: str):
    ran = wire("errors", name)
    assert ran.code == 1 and ran.err.count("\n") == 1 and error in ran.err
