"""Topics that are created because a client asked for them."""

import pytest

from fencepost.broker.cluster.topic_creation import topic_as_needed
from fencepost.broker.config.broker_config import BrokerConfig

PARTITIONS, REPLICAS = "num.partitions", "default.replication.factor"


@pytest.mark.parametrize(
    ("configs", "asked"),
    [
        ({}, (-1, -1)),
        ({PARTITIONS: "5"}, (5, -1)),
        ({REPLICAS: "2"}, (-1, 2)),
        ({PARTITIONS: "1", REPLICAS: "1"}, (1, 1)),
    ],
)
def test_what_the_brokers_file_does_not_say_the_controllers_does(configs, asked):
    """A default is none of its: Kafka's broker, too, sends -1 for what was not set."""
    topic = topic_as_needed(BrokerConfig.load(None, configs), "events")
    assert (topic.num_partitions, topic.replication_factor) == asked
