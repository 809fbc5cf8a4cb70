"""IncrementalAlterConfigs: what changes, what is refused, and that resources stand alone.

Where nothing is said, the error codes are those Apache Kafka 4.3 gave to the same requests.
"""

import logging

import pytest

from fencepost.broker.cluster.config_changes import KEY_STORE_KEYS
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys import BROKER_CONFIGS, DYNAMIC_BROKER_KEYS, UpdateMode
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import FeatureLevelRecord

from ...in_turn import in_turn
from .harness import StillNode, ask, broker, register, served_versions, topic

register("incremental_alter_configs")

VERSIONS = served_versions(IncrementalAlterConfigsRequest)
TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
A_LOGGER = "fencepost.broker.apis.describe_configs.test"


def a_node() -> StillNode:
    config = BrokerConfig.load(None, {})
    return StillNode(config).learn(broker(1), broker(2), *topic("events", {}))


def resource(resource_type, name, *changes):
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def alter(node, *resources, version=1, **options):
    request = IncrementalAlterConfigsRequest(resources=list(resources), **options)
    answers = ask(node, request, version).responses
    assert [(a.resource_type, a.resource_name) for a in answers] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    return [answer.error_code for answer in answers]


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_configs_are_set_and_deleted(version):
    node = a_node()
    changes = [("retention.ms", SET, "5"), ("segment.ms", SET, "6")]
    assert alter(node, resource(TOPIC, "events", *changes), version=version) == [0]
    assert node.image.topic_configs("events") == {"retention.ms": "5", "segment.ms": "6"}
    assert alter(node, resource(TOPIC, "events", ("retention.ms", DELETE, None))) == [0]
    assert node.image.topic_configs("events") == {"segment.ms": "6"}


def test_lists_grow_and_shrink():
    node = a_node()

    def policy(operation, value):
        code = alter(node, resource(TOPIC, "events", ("cleanup.policy", operation, value)))
        assert code == [0]
        return node.image.topic_configs("events").get("cleanup.policy")

    assert policy(APPEND, "compact") == "delete,compact"
    assert policy(APPEND, "compact") == "delete,compact"
    assert policy(SUBTRACT, "delete") == "compact"
    assert policy(SUBTRACT, "absent") == "compact"
    assert policy(SUBTRACT, "compact") == ""


@pytest.mark.parametrize("version", VERSIONS)
def test_validation_alone_changes_nothing(version):
    node = a_node()
    asked = [
        resource(TOPIC, "events", ("retention.ms", SET, "5")),
        resource(BROKER, "", ("log.retention.ms", SET, "5")),
    ]
    assert alter(node, *asked, version=version, validate_only=True) == [0, 0]
    assert node.image.topic_configs("events") == {}
    assert node.image.broker_configs() == {}


def test_broker_configs_for_one_and_for_all():
    node = a_node()
    asked = [
        resource(BROKER, "1", ("log.retention.ms", SET, "5")),
        resource(BROKER, "", ("log.retention.ms", SET, "6")),
    ]
    assert alter(node, *asked) == [0, 0]
    assert node.image.broker_configs(1) == {"log.retention.ms": "5"}
    assert node.image.broker_configs() == {"log.retention.ms": "6"}
    assert alter(node, resource(BROKER, "1", ("log.retention.ms", DELETE, None))) == [0]
    assert node.image.broker_configs(1) == {}


@pytest.mark.parametrize("name", ["1", ""])
def test_a_config_that_no_broker_has_is_stored(name, caplog):
    """KIP-226: a plugin may read it."""
    node, asked = a_node(), ("no.such", SET, "3")
    assert alter(node, resource(BROKER, name, asked)) == [0]
    stored = node.image.broker_configs(1 if name else None)
    assert stored == {"no.such": "3"}
    with caplog.at_level(logging.WARNING):
        node.settings.apply(node.image)
        node.settings.apply(node.image)
    assert caplog.text.count("no.such") == 1
    assert alter(node, resource(BROKER, name, ("no.such", DELETE, None))) == [0]
    assert node.image.broker_configs(1 if name else None) == {}


@pytest.mark.parametrize("prefix", ["", "listener.name.login."])
def test_the_mechanisms_of_a_listener_are_those_it_began_with(prefix):
    """Kafka stores others for an existing listener, which goes on with what it has."""
    keys = {
        "listeners": "LOGIN://127.0.0.1:0,OPEN://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,OPEN:PLAINTEXT",
        "inter.broker.listener.name": "OPEN",
        f"{prefix}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    config = BrokerConfig.load(None, keys)
    node = StillNode(config).learn(broker(1), broker(2))
    own = str(config.node_id)

    def change(key, operation, value):
        return alter(node, resource(BROKER, own, (key, operation, value)))

    key = f"{prefix}sasl.enabled.mechanisms"
    assert change(key, SET, "SCRAM-SHA-512") == [42]
    assert change(key, SET, "PLAIN") == [42]
    assert change(key, SET, "PLAIN,SCRAM-SHA-512") == [0]
    assert change("listener.name.open.sasl.enabled.mechanisms", SET, "PLAIN") == [0]
    assert change("listener.name.other.sasl.enabled.mechanisms", SET, "PLAIN") == [0]
    base = [42] if not prefix else [0]  # which the listener's own value hides
    assert change("sasl.enabled.mechanisms", SET, "PLAIN") == base


def test_more_configs_than_a_resource_may_have_are_refused_at_once():
    """By the broker that is asked, before it looks at each; the error is the controller's."""
    node = a_node()
    asked = [(f"no.such.{number}", SET, "1") for number in range(1_001)]
    node.controller.error = ErrorCode.NOT_CONTROLLER
    assert alter(node, resource(BROKER, "1", *asked)) == [ErrorCode.INVALID_CONFIG]


def test_every_dynamic_config_of_kafka_can_be_set_to_what_it_is():
    node = a_node().learn(FeatureLevelRecord(name="metadata.version", feature_level=30))
    for name in sorted(DYNAMIC_BROKER_KEYS):
        definition = BROKER_CONFIGS[name]
        text = definition.format(definition.default)
        if text is None:
            continue
        if name in KEY_STORE_KEYS:  # only for one listener
            assert alter(node, resource(BROKER, "1", (name, SET, text))) == [42], name
            name = f"listener.name.plaintext.{name}"
        shared = 42 if definition.mode is UpdateMode.PER_BROKER else 0
        assert alter(node, resource(BROKER, "1", (name, SET, text))) == [0], name
        assert alter(node, resource(BROKER, "", (name, SET, text))) == [shared], name
        assert node.image.broker_configs(1)[name] == text
    assert len(node.image.broker_configs(1)) > 75


def test_lists_of_a_broker_grow_and_shrink():
    node = a_node()
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
    ):
        asked = resource(BROKER, "1", ("log.cleanup.policy", operation, value))
        assert alter(node, asked) == [0]
        assert node.image.broker_configs(1) == {"log.cleanup.policy": expected}


def test_threads_are_doubled_or_halved_at_most_each_time():
    node = a_node()
    for value, code in (("16", 0), ("32", 0), ("65", 42), ("15", 42), ("16", 0), ("8", 0)):
        asked = resource(BROKER, "", ("num.io.threads", SET, value))
        assert alter(node, asked) == [code], value
        node.learn()


def test_a_value_is_checked_with_what_the_same_request_deletes():
    node = a_node()
    size, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    assert alter(node, resource(BROKER, "1", (size, SET, "1048576"))) == [0]
    node.learn()
    assert alter(node, resource(BROKER, "1", (threads, SET, "2"))) == [42]
    assert alter(node, resource(BROKER, "1", (threads, SET, "2"), (size, DELETE, None))) == [0]


def test_all_addresses_are_refused_only_while_some_are_named_that_are_not():
    node = a_node()
    limit, named = "max.connections.per.ip", "max.connections.per.ip.overrides"
    assert alter(node, resource(BROKER, "", (limit, SET, "0"), (named, SET, "::1:5"))) == [0]
    node.learn()
    assert alter(node, resource(BROKER, "", (named, DELETE, None))) == [42]
    assert alter(node, resource(BROKER, "", (named, DELETE, None), (limit, DELETE, None))) == [0]


def test_what_all_brokers_are_told_is_checked_with_this_brokers_own():
    node = a_node()
    size, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    assert alter(node, resource(BROKER, "1", (size, SET, "1048576"))) == [0]
    node.learn()
    assert alter(node, resource(BROKER, "", (threads, SET, "2"))) == [42]
    assert alter(node, resource(BROKER, "", (size, SET, "9000000"), (threads, SET, "2"))) == [42]


PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
REFUSED = [
    (resource(TOPIC, "events", ("retention.ms", SET, "x")), 40),
    (resource(TOPIC, "events", ("no.such", SET, "x")), 40),
    (resource(TOPIC, "events", ("retention.ms", SET, None)), 42),
    (resource(TOPIC, "events", ("retention.ms", APPEND, "1")), 40),
    (resource(TOPIC, "events", ("retention.ms", SUBTRACT, "1")), 40),
    (resource(TOPIC, "events", ("cleanup.policy", APPEND, "shred")), 40),
    (resource(TOPIC, "events", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")), 42),
    # Kafka fails with -1 here.
    (resource(TOPIC, "events", ("retention.ms", 9, "1")), 42),
    (resource(TOPIC, "absent", ("retention.ms", SET, "5")), 3),
    (resource(TOPIC, "", ("retention.ms", SET, "5")), 42),
    (resource(TOPIC, "a b", ("retention.ms", SET, "5")), 17),
    (resource(BROKER, "1", ("num.partitions", SET, "3")), 42),
    (resource(BROKER, "", ("num.partitions", SET, "3")), 42),
    (resource(BROKER, "1", ("log.retention.hours", SET, "3")), 42),
    (resource(BROKER, "1", ("log.retention.ms", SET, "x")), 42),
    (resource(BROKER, "1", ("log.retention.ms", SET, None)), 42),
    (resource(BROKER, "2", ("log.retention.ms", SET, "5")), 42),
    (resource(BROKER, "x", ("log.retention.ms", SET, "5")), 42),
    # Kafka stores what it does not know.
    (resource(BROKER, "1", ("fencepost.no.such", SET, "3")), 42),
    (resource(BROKER, "1", ("super.users", SET, "User:a")), 42),
    (resource(BROKER, "1", ("listener.name.plaintext.no.such", SET, "3")), 42),
    (resource(BROKER, "1", ("no such", SET, "3")), 42),
    (resource(BROKER, "1", ("log.cleanup.policy", APPEND, "shred")), 42),
    (resource(BROKER, "1", ("log.retention.ms", APPEND, "5")), 40),
    (resource(BROKER, "1", ("no.such", APPEND, "5")), 40),
    (resource(BROKER, "1", ("ssl.keystore.location", SET, "/x")), 42),
    (resource(BROKER, "1", ("config.providers", SET, "file")), 42),
    # No request names a class to be loaded, or a place to be read (CVE-2023-25194, CVE-2025-27817,
    # CVE-2025-27818, CVE-2025-27819); a value is text, whatever it looks like (CVE-2024-31141).
    *(
        (resource(BROKER, name, (f"{prefix}{key}", SET, value)), 42)
        for name in ("1", "")
        for prefix in ("", "listener.name.plaintext.", "listener.name.plaintext.plain.")
        for key, value in (
            ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;"),
            ("sasl.jaas.config", f'{PLAIN_MODULE} required user_eve="x";'),
            ("sasl.server.callback.handler.class", "x.Y"),
            ("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/passwd"),
            ("fencepost.sasl.plain.users.file", "/etc/passwd"),
        )
    ),
    (resource(TOPIC, "events", ("retention.ms", SET, "${file:/etc/passwd:root}")), 40),
    (resource(BROKER, "1", ("log.retention.ms", SET, "${env:HOME}")), 42),
    (resource(BROKER, "", ("ssl.client.auth", SET, "none")), 42),
    (resource(BROKER, "", ("listeners", SET, "PLAINTEXT://127.0.0.1:9092")), 42),
    (resource(BROKER, "1", ("listeners", SET, "PLAINTEXT://127.0.0.1:9099")), 42),
    (resource(BROKER, "1", ("advertised.listeners", SET, "PLAINTEXT://127.0.0.1:9092")), 42),
    (resource(BROKER, "", ("max.connections", SET, "-1")), 42),
    # Kafka accepts these two, and nobody can connect any more to take them back.
    (resource(BROKER, "", ("max.connections", SET, "0")), 42),
    (resource(BROKER, "", ("max.connection.creation.rate", SET, "0")), 42),
    (resource(BROKER, "", ("max.connections.per.ip", SET, "0")), 42),
    (resource(BROKER, "", ("max.connections.per.ip.overrides", SET, "localhost:5")), 42),
    (resource(BROKER, "", ("log.cleaner.threads", SET, "3")), 42),
    (resource(BROKER, "", ("log.cleaner.threads", SET, "0")), 42),
    (resource(BROKER, "", ("num.io.threads", SET, "3")), 42),
    (resource(BROKER, "", ("num.io.threads", SET, "17")), 42),
    (resource(BROKER, "", ("log.cleaner.dedupe.buffer.size", SET, "1048575")), 42),
    (
        resource(
            BROKER,
            "",
            ("log.cleaner.min.compaction.lag.ms", SET, "9"),
            ("log.cleaner.max.compaction.lag.ms", SET, "8"),
        ),
        42,
    ),
    (resource(LOGGER, "1", (A_LOGGER, SET, "LOUD")), 40),
    (resource(LOGGER, "1", ("no.such.logger", SET, "DEBUG")), 40),
    (resource(LOGGER, "1", (A_LOGGER, APPEND, "DEBUG")), 42),
    (resource(LOGGER, "1", (A_LOGGER, SET, None)), 42),
    (resource(LOGGER, "1", ("root", DELETE, None)), 42),
    (resource(LOGGER, "1", (A_LOGGER, SET, "INFO"), (A_LOGGER, SET, "DEBUG")), 42),
    (resource(LOGGER, "", ("root", SET, "INFO")), 42),
    (resource(LOGGER, "2", ("root", SET, "INFO")), 42),
    (resource(99, "events", ("retention.ms", SET, "5")), 42),
    (resource(0, "events", ("retention.ms", SET, "5")), 42),
]


@pytest.fixture
def a_logger():
    logger = logging.getLogger(A_LOGGER)
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("validate_only", [False, True])
@in_turn("asked, code", REFUSED)
def test_what_is_refused_is_refused_alone(asked, code, validate_only, a_logger):
    node = a_node()
    other = resource(TOPIC, "events", ("segment.ms", SET, "7"))
    if (asked.resource_type, asked.resource_name) == (TOPIC, "events"):
        other = resource(BROKER, "", ("log.roll.ms", SET, "7"))
    assert alter(node, asked, other, validate_only=validate_only) == [code, 0]
    assert "retention.ms" not in node.image.topic_configs("events")
    assert node.image.broker_configs(1) == {}
    assert a_logger.level == logging.NOTSET


def test_a_resource_named_twice_does_not_change():
    node = a_node()
    for kind, name, key in (
        (TOPIC, "events", "retention.ms"),
        (BROKER, "1", "log.retention.ms"),
        (LOGGER, "1", A_LOGGER),
    ):
        asked = [resource(kind, name, (key, SET, value)) for value in ("5", "6")]
        assert alter(node, *asked, resource(TOPIC, "events")) == [
            42,
            42,
            42 if kind == TOPIC else 0,
        ]
    assert node.image.topic_configs("events") == {}


def test_deleting_what_nobody_set_is_fine():
    node = a_node()
    assert alter(node, resource(TOPIC, "events", ("no.such", DELETE, None))) == [0]
    assert alter(node, resource(BROKER, "1", ("no.such", DELETE, None))) == [0]


def test_levels_of_loggers(a_logger):
    node = a_node()
    assert alter(node, resource(LOGGER, "1", (A_LOGGER, SET, " WARN "))) == [0]
    assert a_logger.level == logging.WARNING
    checked = alter(node, resource(LOGGER, "1", (A_LOGGER, SET, "DEBUG")), validate_only=True)
    assert checked == [0]
    assert a_logger.level == logging.WARNING
    assert alter(node, resource(LOGGER, "1", (A_LOGGER, DELETE, None))) == [0]
    assert a_logger.level == logging.NOTSET


def test_the_root_loggers_level_can_be_set():
    root = logging.getLogger("fencepost")
    before = root.level
    try:
        assert alter(a_node(), resource(LOGGER, "1", ("root", SET, "FATAL"))) == [0]
        assert root.level == logging.CRITICAL
    finally:
        root.setLevel(before)


def test_without_a_controller_only_loggers_change(a_logger):
    node = a_node()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    asked = [
        resource(TOPIC, "events", ("retention.ms", SET, "5")),
        resource(LOGGER, "1", (A_LOGGER, SET, "ERROR")),
        resource(BROKER, "2", ("log.retention.ms", SET, "5")),
        resource(BROKER, "1", ("log.retention.ms", SET, "5")),
    ]
    assert alter(node, *asked) == [41, 0, 42, 41]
    assert a_logger.level == logging.ERROR
    assert alter(node) == []


def test_a_controller_sets_its_own_loggers(a_logger):
    node = a_node()
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(LOGGER, "1", (A_LOGGER, SET, "ERROR")),
            resource(LOGGER, "2", (A_LOGGER, SET, "DEBUG")),
            resource(TOPIC, "events", ("retention.ms", SET, "5")),
            resource(99, "x"),
        ]
    )
    answers = ask(node, request, listener="CONTROLLER").responses
    assert [answer.error_code for answer in answers] == [0, 42, 0, 35]
    assert a_logger.level == logging.ERROR
    assert node.image.topic_configs("events") == {"retention.ms": "5"}


def test_loggers_change_without_a_controller_at_the_controllers_door(a_logger):
    node = a_node()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    request = IncrementalAlterConfigsRequest(
        resources=[resource(LOGGER, "1", (A_LOGGER, SET, "ERROR")), resource(TOPIC, "events")]
    )
    answers = ask(node, request, listener="CONTROLLER").responses
    assert [answer.error_code for answer in answers] == [0, 41]
    assert a_logger.level == logging.ERROR
