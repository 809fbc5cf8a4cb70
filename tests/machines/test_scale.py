"""A small cluster of the kind that benchmarks/scale makes large: its leaders come back."""

from __future__ import annotations

import pytest

from benchmarks.scale.scenarios import Play, Size

BROKERS, PARTITIONS, HEAVY = 10, 300, 30


@pytest.fixture(scope="module")
def play() -> Play:
    play = Play(Size(BROKERS, PARTITIONS, HEAVY))
    made = play.make()
    assert made.records == PARTITIONS - (PARTITIONS - HEAVY) % 100 + (PARTITIONS - HEAVY) // 100 + 1
    play.settle()
    return play


def first_alive(play: Play) -> int:
    """The broker that is the next to die."""
    return next(id_ for id_, one in play.cluster.brokers.items() if one.core.is_alive)


def test_a_round_of_each_fetcher_takes_half_a_second(play: Play) -> None:
    idle = play.idle()
    assert idle.fetchers > BROKERS
    assert idle.rounds == pytest.approx(2 * idle.fetchers, rel=0.1)
    # A session's request and answer, whatever the number of partitions.
    assert idle.bytes_each < 200 * idle.rounds / BROKERS * 2


def test_everything_that_a_dead_broker_led_is_led_and_acknowledged_again(play: Play) -> None:
    before, dies = play.cluster.metadata.image, first_alive(play)
    led = sum(one.leader == dies for _, _, one in before.partitions())
    in_sync = sum(dies in one.isr for _, _, one in before.partitions())
    happened = play.kill("a broker dies", [dies])
    course = happened.course
    assert led >= HEAVY
    assert course.decisions == 1
    assert course.records == in_sync + 1
    assert len(course.serving_ms) == len(course.acknowledging_ms) == led
    assert 100 < min(course.serving_ms) <= max(course.acknowledging_ms)
    assert play.leaderless() == 0


def test_the_next_controller_goes_on_where_the_last_one_was(play: Play) -> None:
    image, dies = play.cluster.metadata.image, first_alive(play)
    _, happened = play.fail_over()
    assert happened.course.decisions == 1
    assert not any(
        dies in one.isr and len(one.isr) > 1
        for _, _, one in play.cluster.metadata.image.partitions()
    )
    assert play.cluster.metadata.image.offset > image.offset
