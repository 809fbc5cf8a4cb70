"""DescribeConfigs: values, where they are from, and what is refused."""

import logging

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys import BROKER_CONFIGS, DYNAMIC_BROKER_KEYS, DYNAMIC_ONLY
from fencepost.broker.config.view import topic_log_config
from fencepost.log.config import TOPIC_CONFIGS
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.records.metadata import ConfigRecord

from .harness import StillNode, ask, broker, register, served_versions, topic

register("describe_configs")

TOPIC, BROKER, LOGGER = 2, 4, 8
VERSIONS = served_versions(DescribeConfigsRequest)


def a_node(**overrides: str) -> StillNode:
    config = BrokerConfig.load(None, {key.replace("_", "."): v for key, v in overrides.items()})
    return StillNode(config).learn(broker(1), *topic("events", {}))


def set_config(resource_type, name, key, value):
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


def describe(node, resource_type, name, *keys, version=4, **options):
    resource = DescribeConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configuration_keys=list(keys) if keys else None,
    )
    answer = ask(node, DescribeConfigsRequest(resources=[resource], **options), version)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


def stack(config):
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_topic_config_is_described_with_its_default(version):
    result = describe(a_node(), TOPIC, "events", version=version)
    assert result.error_code == 0
    configs = {config.name: config for config in result.configs}
    assert set(configs) == {name for name, d in TOPIC_CONFIGS.items() if not d.internal}
    assert configs["retention.ms"].value == "604800000"
    assert configs["retention.ms"].config_source == 5
    assert configs["cleanup.policy"].value == "delete"
    assert configs["preallocate"].value == "false"
    assert configs["leader.replication.throttled.replicas"].value == ""
    assert not any(c.read_only or c.is_sensitive or c.synonyms for c in result.configs)
    if version >= 3:
        assert configs["retention.ms"].config_type == 5
        assert configs["cleanup.policy"].config_type == 7
        assert configs["min.cleanable.dirty.ratio"].config_type == 6


def test_the_stack_behind_a_topic_config_is_kafkas():
    node = a_node(log_retention_ms="86400000").learn(
        set_config(TOPIC, "events", "retention.ms", "5"),
        set_config(BROKER, "", "log.retention.ms", "99999"),
        set_config(BROKER, "1", "log.retention.ms", "88888"),
        set_config(BROKER, "2", "log.retention.ms", "77777"),
    )
    (config,) = describe(node, TOPIC, "events", "retention.ms", include_synonyms=True).configs
    assert (config.value, config.config_source) == ("5", 1)
    assert stack(config) == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "88888", 2),
        ("log.retention.ms", "99999", 3),
        ("log.retention.ms", "86400000", 4),
        ("log.retention.hours", "168", 5),
    ]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], ("86400000", 4)),
        ([set_config(BROKER, "", "log.retention.ms", "99999")], ("99999", 3)),
        (
            [
                set_config(BROKER, "", "log.retention.ms", "99999"),
                set_config(BROKER, "1", "log.retention.ms", "88888"),
            ],
            ("88888", 2),
        ),
        (
            [
                set_config(BROKER, "", "log.retention.ms", "99999"),
                set_config(BROKER, "", "log.retention.ms", None),
            ],
            ("86400000", 4),
        ),
    ],
)
def test_a_topic_falls_back_to_the_strongest_broker_config(records, expected):
    node = a_node(log_retention_ms="86400000").learn(*records)
    (config,) = describe(node, TOPIC, "events", "retention.ms").configs
    assert (config.value, config.config_source) == expected
    assert config.synonyms == []
    # What is shown is what logs are run with.
    assert str(topic_log_config(node.config, node.image, "events").retention_ms) == expected[0]


def test_hours_become_milliseconds_for_topics():
    node = a_node(log_retention_hours="2")
    (config,) = describe(node, TOPIC, "events", "retention.ms", include_synonyms=True).configs
    assert (config.value, config.config_source) == ("7200000", 4)
    assert stack(config) == [("log.retention.hours", "2", 4), ("log.retention.hours", "168", 5)]


def test_lists_are_written_as_kafka_writes_them():
    node = a_node().learn(set_config(TOPIC, "events", "cleanup.policy", " compact , delete "))
    (config,) = describe(node, TOPIC, "events", "cleanup.policy").configs
    assert config.value == "compact,delete"
    node.learn(set_config(TOPIC, "events", "cleanup.policy", ""))
    (config,) = describe(node, TOPIC, "events", "cleanup.policy").configs
    assert (config.value, config.config_source) == ("", 1)


def test_keys_choose_and_unknown_ones_are_passed_over():
    result = describe(a_node(), TOPIC, "events", "segment.bytes", "no.such", "segment.bytes")
    assert [config.name for config in result.configs] == ["segment.bytes"]


def test_an_empty_list_of_keys_is_all_of_them():
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="events", configuration_keys=[]
    )
    (result,) = ask(a_node(), DescribeConfigsRequest(resources=[resource])).results
    assert len(result.configs) > 25


def test_a_resource_named_again_is_answered_once_for_the_same_keys():
    """Ten thousand repetitions of a broker would have been an answer of hundreds of megabytes."""
    node = a_node()
    asked = [
        DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=keys)
        for keys in [None, *[[]] * 1_000, ["log.retention.ms"], ["log.retention.ms"] * 2]
    ]
    results = ask(node, DescribeConfigsRequest(resources=asked), 4).results
    assert [len(result.configs) > 1 for result in results] == [True, False]


def test_documentation_comes_on_request_from_v3():
    (config,) = describe(
        a_node(), TOPIC, "events", "segment.bytes", include_documentation=True
    ).configs
    assert config.documentation == TOPIC_CONFIGS["segment.bytes"].doc
    (config,) = describe(a_node(), TOPIC, "events", "segment.bytes").configs
    assert config.documentation is None


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "absent", 3),
        (TOPIC, "", 17),
        (TOPIC, "a b", 17),
        (TOPIC, "..", 17),
        (BROKER, "2", 42),
        (BROKER, "x", 42),
        (BROKER, " 1", 42),
        (LOGGER, "", 42),
        (LOGGER, "2", 42),
        (0, "", 42),
        (16, "metrics", 42),
        (32, "", 42),
        (99, "events", 42),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_described(resource_type, name, code, version):
    result = describe(a_node(), resource_type, name, version=version)
    assert result.error_code == code
    assert result.configs == []
    assert (result.error_message is None) == (code == 3)


def test_refused_resources_do_not_disturb_the_others():
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((TOPIC, "absent"), (TOPIC, "events"), (BROKER, "9"))
    ]
    answer = ask(a_node(), DescribeConfigsRequest(resources=resources))
    assert [result.error_code for result in answer.results] == [3, 0, 42]


def test_this_broker_describes_itself():
    node = a_node(num_partitions="7").learn(set_config(BROKER, "1", "log.retention.ms", "88888"))
    configs = {config.name: config for config in describe(node, BROKER, "1").configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("7", 4)
    assert configs["num.partitions"].read_only
    assert configs["node.id"].value == "1"
    assert configs["log.retention.ms"].value == "88888"
    assert configs["log.retention.ms"].config_source == 2
    internal = {name for name, definition in BROKER_CONFIGS.items() if definition.internal}
    assert {name for name, config in configs.items() if not config.read_only} == (
        DYNAMIC_BROKER_KEYS - DYNAMIC_ONLY - internal
    )


def test_a_broker_config_without_a_value_shows_its_other_units():
    (config,) = describe(a_node(), BROKER, "1", "log.retention.ms", include_synonyms=True).configs
    assert (config.value, config.config_source) == (None, 5)
    assert stack(config) == [("log.retention.hours", "168", 5)]


def test_the_empty_broker_name_is_what_all_brokers_share():
    node = a_node()
    assert describe(node, BROKER, "").configs == []
    node.learn(set_config(BROKER, "", "log.retention.ms", "99999"))
    (config,) = describe(node, BROKER, "", include_synonyms=True).configs
    assert (config.name, config.value, config.config_source) == ("log.retention.ms", "99999", 3)
    assert stack(config) == [("log.retention.ms", "99999", 3)]


def test_loggers_and_their_levels():
    quiet = logging.getLogger("fencepost.broker.net.listener")
    before = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        configs = {config.name: config for config in describe(a_node(), LOGGER, "1").configs}
    finally:
        quiet.setLevel(before)
    assert configs["fencepost.broker.net.listener"].value == "ERROR"
    assert configs["fencepost.broker.net.listener"].config_source == 6
    assert configs["root"].value in {"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}
    (only,) = describe(a_node(), LOGGER, "1", "root").configs
    assert only.name == "root"


def test_dynamic_values_that_do_not_fit_leave_logs_usable():
    node = a_node().learn(
        set_config(TOPIC, "events", "max.compaction.lag.ms", "10"),
        set_config(BROKER, "", "log.cleaner.min.compaction.lag.ms", "99999"),
        set_config(BROKER, "", "log.segment.bytes", "nonsense"),
    )
    config = topic_log_config(node.config, node.image, "events")
    assert config.max_compaction_lag_ms == 10
    assert config.min_compaction_lag_ms == 0
    assert config.segment_bytes == 1 << 30
    node.learn(set_config(TOPIC, "events", "retention.ms", "nonsense"))
    assert topic_log_config(node.config, node.image, "events").retention_ms == 604_800_000


def test_a_config_without_a_value_anywhere_has_its_default():
    (config,) = describe(a_node(), BROKER, "1", "broker.rack").configs
    assert (config.value, config.config_source) == (None, 5)


def test_a_config_that_is_dynamic_alone_is_shown_once_it_is_set():
    key = "leader.replication.throttled.rate"
    node = a_node()
    assert describe(node, BROKER, "1", key).configs == []
    node.learn(set_config(BROKER, "", key, "1000"))
    (config,) = describe(node, BROKER, "1", key).configs
    assert (config.value, config.config_source, config.read_only) == ("1000", 3, False)


def test_what_is_set_and_no_broker_has_is_described_without_its_value(tmp_path):
    """As Kafka does (KIP-226): it may be a secret."""
    path = tmp_path / "server.properties"
    path.write_text("in.the.file=hush\nof.all=hush\n")
    node = StillNode(BrokerConfig.load(path, {})).learn(
        broker(1),
        set_config(BROKER, "", "of.all", "hush"),
        set_config(BROKER, "1", "of.one", "hush"),
        set_config(BROKER, "2", "of.another", "hush"),
    )
    options = {"include_synonyms": True, "include_documentation": True}
    described = {c.name: c for c in describe(node, BROKER, "1", **options).configs}
    assert "of.another" not in described
    for name, sources in (("in.the.file", [4]), ("of.all", [3, 4]), ("of.one", [2])):
        config = described[name]
        assert (config.value, config.is_sensitive, config.read_only) == (None, True, True)
        assert (config.config_type, config.documentation) == (0, None)
        assert config.config_source == sources[0]
        assert stack(config) == [(name, None, source) for source in sources]
    [shared] = describe(node, BROKER, "", **options).configs
    assert (shared.name, shared.value, shared.is_sensitive) == ("of.all", None, True)
    assert (shared.config_source, shared.config_type) == (3, 0)


def test_internal_configs_are_described_where_they_are_set():
    node = a_node(log_initial_task_delay_ms="1000").learn(
        set_config(TOPIC, "events", "internal.segment.bytes", "2000000")
    )
    names = {c.name: (c.value, c.config_source) for c in describe(node, BROKER, "1").configs}
    assert names["log.initial.task.delay.ms"] == ("1000", 4)
    assert "log.initial.task.delay.ms" not in {
        c.name for c in describe(a_node(), BROKER, "1").configs
    }
    configs = {c.name: (c.value, c.config_source) for c in describe(node, TOPIC, "events").configs}
    assert configs["internal.segment.bytes"] == ("2000000", 1)
