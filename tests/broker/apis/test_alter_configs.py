"""AlterConfigs: what a resource has from now on, what is refused, and that each stands alone."""

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from fencepost.wire.errors import ErrorCode

from .harness import StillNode, ask, broker, register, served_versions, topic

register("alter_configs")

VERSIONS = served_versions(AlterConfigsRequest)
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
CONTROLLER = "CONTROLLER"


def a_node() -> StillNode:
    config = BrokerConfig.load(None, {})
    return StillNode(config).learn(broker(1), broker(2), *topic("events", {}))


def resource(resource_type, name, *given):
    configs = [AlterableConfig(name=key, value=value) for key, value in given]
    return AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)


def alter(node, *resources, version=2, listener="PLAINTEXT", **options):
    request = AlterConfigsRequest(resources=list(resources), **options)
    answers = ask(node, request, version, listener=listener).responses
    assert [(a.resource_type, a.resource_name) for a in answers] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    return [answer.error_code for answer in answers]


def test_every_version_there_is_is_served_at_both_doors():
    assert list(VERSIONS) == list(served_versions(AlterConfigsRequest, CONTROLLER)) == [0, 1, 2]


@pytest.mark.parametrize("listener", ["PLAINTEXT", CONTROLLER])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_named_goes_back_to_its_default(version, listener):
    node = a_node()
    at = {"version": version, "listener": listener}
    given = [("retention.ms", "5"), ("segment.ms", "6")]
    assert alter(node, resource(TOPIC, "events", *given), **at) == [0]
    assert node.image.topic_configs("events") == dict(given)
    assert alter(node, resource(TOPIC, "events", ("segment.ms", "7")), **at) == [0]
    assert node.image.topic_configs("events") == {"segment.ms": "7"}
    assert alter(node, resource(TOPIC, "events"), **at) == [0]
    assert node.image.topic_configs("events") == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_validation_alone_changes_nothing(version):
    node = a_node()
    asked = [
        resource(TOPIC, "events", ("retention.ms", "5")),
        resource(BROKER, "", ("log.retention.ms", "5")),
    ]
    assert alter(node, *asked, version=version, validate_only=True) == [0, 0]
    assert node.image.topic_configs("events") == {}
    assert node.image.broker_configs() == {}


def test_broker_configs_for_one_and_for_all():
    node = a_node()
    mine = resource(BROKER, "1", ("log.retention.ms", "5"), ("log.roll.ms", "6"))
    assert alter(node, mine, resource(BROKER, "", ("log.retention.ms", "7"))) == [0, 0]
    assert node.image.broker_configs(1) == {"log.retention.ms": "5", "log.roll.ms": "6"}
    assert node.image.broker_configs() == {"log.retention.ms": "7"}
    assert alter(node, resource(BROKER, "1", ("log.roll.ms", "8"))) == [0]
    assert node.image.broker_configs(1) == {"log.roll.ms": "8"}
    assert alter(node, resource(BROKER, "")) == [0]
    assert node.image.broker_configs() == {}


def test_values_are_checked_with_what_stays_and_not_with_what_goes():
    node = a_node()
    lags = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    assert alter(node, resource(BROKER, "1", (lags[0], "100"))) == [0]
    assert alter(node, resource(BROKER, "1", (lags[1], "50"))) == [0]
    assert node.image.broker_configs(1) == {lags[1]: "50"}
    assert alter(node, resource(BROKER, "", (lags[0], "100"))) == [42], "with broker 1's own 50"


REFUSED = [
    (resource(TOPIC, "events", ("retention.ms", "x")), 40),
    (resource(TOPIC, "events", ("no.such", "x")), 40),
    (resource(TOPIC, "events", ("retention.ms", None)), 42),
    (resource(TOPIC, "events", ("retention.ms", "5"), ("retention.ms", "5")), 42),
    (resource(TOPIC, "absent", ("retention.ms", "5")), 3),
    (resource(TOPIC, "", ("retention.ms", "5")), 42),
    (resource(TOPIC, "a b", ("retention.ms", "5")), 17),
    (resource(BROKER, "1", ("num.partitions", "3")), 42),
    (resource(BROKER, "", ("num.partitions", "3")), 42),
    (resource(BROKER, "1", ("log.retention.ms", "x")), 42),
    (resource(BROKER, "1", ("log.retention.ms", None)), 42),
    (resource(BROKER, "2", ("log.retention.ms", "5")), 42),
    (resource(BROKER, "x", ("log.retention.ms", "5")), 42),
    # Kafka stores what it does not know.
    (resource(BROKER, "1", ("fencepost.no.such", "3")), 42),
    (resource(LOGGER, "1", ("root", "DEBUG")), 42),
    (resource(METRICS, "m"), 42),
    (resource(99, "events"), 42),
    (resource(0, "events"), 42),
]


@pytest.mark.parametrize(("asked", "code"), REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_is_refused_is_refused_alone(asked, code, validate_only):
    node = a_node()
    other = resource(TOPIC, "events", ("segment.ms", "7"))
    if (asked.resource_type, asked.resource_name) == (TOPIC, "events"):
        other = resource(BROKER, "", ("log.roll.ms", "7"))
    assert alter(node, asked, other, validate_only=validate_only) == [code, 0]
    assert "retention.ms" not in node.image.topic_configs("events")
    assert node.image.broker_configs(1) == {}


def test_a_resource_named_twice_does_not_change():
    node = a_node()
    for kind, name, key in ((TOPIC, "events", "retention.ms"), (BROKER, "1", "log.retention.ms")):
        asked = [resource(kind, name, (key, value)) for value in ("5", "6")]
        assert alter(node, *asked, resource(BROKER, "", ("log.roll.ms", "7"))) == [42, 42, 0]
    assert node.image.topic_configs("events") == node.image.broker_configs(1) == {}


@pytest.mark.parametrize(("kind", "code"), [(LOGGER, 42), (METRICS, 42), (99, 35)])
def test_a_controller_says_of_types_whether_they_exist(kind, code):
    assert alter(a_node(), resource(kind, "x"), listener=CONTROLLER) == [code]


def test_without_a_controller_only_errors_are_as_usual():
    node = a_node()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    asked = [
        resource(TOPIC, "events", ("retention.ms", "5")),
        resource(BROKER, "2", ("log.retention.ms", "5")),
        resource(BROKER, "1", ("log.retention.ms", "5")),
    ]
    assert alter(node, *asked) == [41, 42, 41]
    assert alter(node, asked[1]) == [42], "this needs no controller"
    assert alter(node) == []
