"""The configs in force for a broker's topics."""

from __future__ import annotations

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.replicas.topic_configs import topic_configs_under
from fencepost.machines.image import RESOURCE_TOPIC, ClusterImage, apply_records
from fencepost.wire.records.metadata import ConfigRecord


def own(topic: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic, name=name, value=value)


def test_topics_that_set_the_same_share_their_configs() -> None:
    """A broker has thousands of topics, most of which set nothing."""
    image = apply_records(
        ClusterImage(),
        [
            own("a", "retention.ms", "5"),
            own("a", "segment.ms", "7"),
            own("b", "segment.ms", "7"),
            own("b", "retention.ms", "5"),
            own("c", "retention.ms", "6"),
            own("d", "retention.ms", "8"),
        ],
    )
    configs = topic_configs_under(BrokerConfig.load(None, {}), image)
    assert configs("plain") is configs("another")
    assert configs("a") is configs("b")
    assert (configs("a").log.retention_ms, configs("a").log.segment_ms) == (5, 7)
    assert [configs(topic).log.retention_ms for topic in "cdc"] == [6, 8, 6]
    assert configs("plain").log.retention_ms == 604_800_000


def test_configs_that_do_not_go_together_are_those_of_the_broker(caplog) -> None:
    image = apply_records(
        ClusterImage(),
        [
            own("bad", "min.compaction.lag.ms", "7"),
            own("bad", "max.compaction.lag.ms", "5"),
            own("bad", "retention.ms", "9"),
            own("unknown", "no.such.config", "1"),
        ],
    )
    configs = topic_configs_under(BrokerConfig.load(None, {}), image)
    assert configs("bad").log == configs("unknown").log == configs("plain").log
    for topic in ("bad", "unknown"):
        assert f"topic {topic}: ignoring its own configs" in caplog.text


def test_a_follower_may_lag_as_long_as_the_broker_says() -> None:
    broker = BrokerConfig.load(None, {"replica.lag.time.max.ms": "1234"})
    configs = topic_configs_under(broker, ClusterImage())
    assert configs("plain").machine.replica_lag_time_max_ms == 1234
