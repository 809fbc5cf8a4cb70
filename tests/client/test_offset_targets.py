"""Words for where offsets are to be set."""

from __future__ import annotations

import pytest

from fencepost.client.offset_targets import INT64_MAX, OffsetTarget


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ("earliest", 0)),
        ("latest", ("latest", 0)),
        ("current", ("current", 0)),
        ("17", ("offset", 17)),
        (str(INT64_MAX), ("offset", INT64_MAX)),
        ("@1700000000123", ("time", 1700000000123)),
        ("2023-11-14T22:13:20.021", ("time", 1700000000021)),
        ("2023-11-14T23:13:20+01:00", ("time", 1700000000000)),
    ],
)
def test_each_kind_is_read(text: str, target: tuple[str, int]):
    assert OffsetTarget.of(text) == target


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-1", "@", "@-1", "1e3", str(INT64_MAX + 1), "9" * 5_000, "1900-01-01", "\u0663"],
)
def test_what_is_none_is_refused(text: str):
    with pytest.raises(ValueError, match=r"earliest|allowed is 0 to"):
        OffsetTarget.of(text)
