"""Pauses double, vary by a fifth, and stay within the maximum."""

from __future__ import annotations

import pytest

from fencepost.machines.backoff import backoff_ms


@pytest.mark.parametrize(
    ("attempts", "random", "pause_ms"),
    [
        (0, 0.5, 100),
        (1, 0.5, 200),
        (2, 0.5, 400),
        (0, 0.0, 80),
        (0, 1.0, 120),
        (3, 0.5, 800),
        (3, 1.0, 960),
        (4, 0.0, 1000),  # 1280, cut
        (4, 1.0, 1000),
        (10_000, 0.0, 1000),
    ],
)
def test_a_pause_doubles_with_every_attempt_up_to_the_maximum(
    attempts: int, random: float, pause_ms: float
):
    assert backoff_ms(attempts, 100, 1000, random) == pytest.approx(pause_ms)


def test_without_a_drawn_number_there_is_no_jitter():
    assert backoff_ms(2, 100, 1000) == 400


def test_a_first_pause_of_0_means_no_pause_at_all():
    assert backoff_ms(7, 0, 1000, 1.0) == 0
