"""How old the oldest unread record of a query is, in words."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.views.queries import QueryPartition


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (None, None),
        (0, "0.0s"),
        (59_940, "59.9s"),
        (60_000, "1m00s"),
        (3_599_999, "59m59s"),
        (3_600_000, "1h00m"),
        (86_399_999, "23h59m"),
        (86_400_000, "1d00h"),
        ((3 * 86_400 + 5 * 3_600 + 7 * 60) * 1_000, "3d05h"),
    ],
)
def test_an_age_has_its_two_largest_units(age_ms: int | None, text: str | None) -> None:
    fields: dict[str, Any] = dict.fromkeys(QueryPartition.__struct_fields__)
    assert QueryPartition(**fields | {"oldest_unread_age_ms": age_ms}).oldest_unread == text
