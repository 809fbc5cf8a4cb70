"""Progress on standard error: what is done, and how long the rest will take."""

from __future__ import annotations

import pytest

from fencepost.cli.rates import Rates, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (3 * 3600 + 25 * 60 + 59, "3 h 25 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str):
    assert duration(seconds) == text


def test_what_is_left_takes_as_long_as_what_was_done(capsys: pytest.CaptureFixture[str]):
    rates = Rates(200)
    rates._started -= 36_000  # ten hours ago
    rates.add(rows=3_000, data_bytes=5_000_000, done=50)
    assert capsys.readouterr().err == (
        "3,000 records, 0 records/s, 5.0 MB, 0.0 MB/s, 25% done, 30 h 00 min left\n"
    )
    rates.add(rows=0, data_bytes=0, done=150)  # too early for another line
    assert capsys.readouterr().err == ""
    assert rates.line().endswith("100% done, 0 s left")
    rates.add(rows=0, data_bytes=0, done=1)  # more than was known of
    assert rates.line().endswith("100% done, 0 s left")
