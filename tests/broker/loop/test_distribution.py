"""Distributions: counts and sums are exact, quantiles are up to a sixth of an octave too high."""

import random

import pytest

from fencepost.broker.loop.distribution import (
    BOUNDS,
    FRESH_MAX,
    MARK_EVERY_S,
    STEPS_PER_OCTAVE,
    WINDOW_S,
    Distribution,
    Recent,
)

STEP = 2 ** (1 / STEPS_PER_OCTAVE)


@pytest.mark.parametrize("count", [1, 7, FRESH_MAX, 3 * FRESH_MAX + 5])
def test_quantiles_are_a_little_too_high_and_never_too_low(count):
    draw = random.Random(count)
    values = [draw.lognormvariate(0, 2) for _ in range(count)]
    distribution = Distribution()
    for value in values:
        distribution.add(value)
        distribution.count_if_many()
    assert len(distribution.fresh) < FRESH_MAX
    assert distribution.count == count
    assert distribution.sum == pytest.approx(sum(values))
    recent = distribution.look(0.0)
    assert recent.count == count
    for share in (0.5, 0.75, 0.99, 1.0):
        exact = sorted(values)[max(0, -int(-share * count // 1) - 1)]
        assert exact <= recent.quantile(share) <= exact * STEP * 1.000001


@pytest.mark.parametrize("value", [0.0, BOUNDS[1] / 7, BOUNDS[1], BOUNDS[5], BOUNDS[-1], 1e30])
def test_values_at_the_ends_of_buckets(value):
    distribution = Distribution()
    distribution.add(value)
    expected = min((bound for bound in BOUNDS if bound >= value), default=BOUNDS[-1])
    assert distribution.look(0.0).quantile(0.5) == expected


def test_nothing_has_no_quantile():
    assert Distribution().look(0.0).quantile(0.5) is None


def test_what_is_old_does_not_count_and_what_nobody_has_looked_at_does():
    distribution = Distribution()
    distribution.add(100.0)
    assert distribution.look(0.0).count == 1
    distribution.add(1.0)
    recent = distribution.look(WINDOW_S)  # the first one was seen when the window began
    assert recent.count == 1 and recent.quantile(1.0) < 2
    assert distribution.look(3 * WINDOW_S).count == 0
    assert distribution.count == 2
    for _ in range(3):
        distribution.add(5.0)
    assert distribution.look(90 * WINDOW_S).count == 3


def test_looking_often_forgets_nothing_and_keeps_little():
    distribution = Distribution()
    for second in range(10 * int(WINDOW_S)):
        distribution.add(1.0)
        recent = distribution.look(float(second))
        assert min(second + 1, WINDOW_S) <= recent.count <= WINDOW_S + MARK_EVERY_S
    assert len(distribution._marks) <= WINDOW_S / MARK_EVERY_S + 2


def test_several_are_looked_at_together():
    both = Distribution(), Distribution()
    both[0].add(1.0)
    both[1].add(8.0)
    recent = Recent.of(one.look(0.0) for one in both)
    assert recent.count == 2
    assert recent.quantile(0.5) < 2 < 8 <= recent.quantile(1.0)
