"""When brokers were last heard of: a heartbeat counts for the broker epoch that sent it."""

from __future__ import annotations

from fencepost.machines.controller.sessions import Sessions

from .controller_fixtures import Bench

TIMEOUT_MS = 100
SINCE_MS = 1_000


def test_a_heartbeat_of_another_broker_epoch_keeps_no_session() -> None:
    bench = Bench()
    bench.brokers(1)
    broker = bench.image.brokers[1]
    sessions = Sessions(TIMEOUT_MS, SINCE_MS)
    for other_epoch in (broker.epoch - 1, broker.epoch + 1):
        sessions.hear(1, other_epoch, 50, SINCE_MS + 60)
        assert sessions.deadline_ms(broker) == SINCE_MS + TIMEOUT_MS
        assert not sessions.has_session(broker, SINCE_MS + TIMEOUT_MS)
    sessions.hear(1, broker.epoch, 50, SINCE_MS + 60)
    assert sessions.deadline_ms(broker) == SINCE_MS + 60 + TIMEOUT_MS
    assert sessions.has_session(broker, SINCE_MS + TIMEOUT_MS)


def test_what_another_broker_epoch_has_read_does_not_count_for_this_one() -> None:
    """Or a broker that stops would go before its successor knows whom it leads."""
    bench = Bench()
    bench.brokers(1, 2)
    sessions = Sessions(TIMEOUT_MS, SINCE_MS)
    assert sessions.lowest_active_offset(bench.image) == -1
    for broker in bench.image.brokers.values():
        sessions.hear(broker.broker_id, broker.epoch, 50 + broker.broker_id, SINCE_MS)
    assert sessions.lowest_active_offset(bench.image) == 51
    sessions.hear(2, bench.image.brokers[2].epoch - 1, 70, SINCE_MS)
    assert sessions.lowest_active_offset(bench.image) == -1
