"""Topic configs: Kafka's names, types, defaults and limits, and how text becomes values."""

from __future__ import annotations

import pytest

from fencepost.log.config import TOPIC_CONFIGS, LogConfig
from fencepost.log.configdef import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Validator,
    at_least,
    between,
    closest,
    distinct,
    each_of,
    non_empty,
    one_of,
)

LONG_MAX = (1 << 63) - 1
DAY_MS = 86_400_000

# name, type, default and first broker synonym, as Apache Kafka 4.4.0's own LogConfig reports them
KAFKA_4_4 = [
    ("cleanup.policy", "LIST", ("delete",), "log.cleanup.policy"),
    ("compression.gzip.level", "INT", -1, "compression.gzip.level"),
    ("compression.lz4.level", "INT", 9, "compression.lz4.level"),
    ("compression.type", "STRING", "producer", "compression.type"),
    ("compression.zstd.level", "INT", 3, "compression.zstd.level"),
    ("delete.retention.ms", "LONG", DAY_MS, "log.cleaner.delete.retention.ms"),
    ("errors.deadletterqueue.group.enable", "BOOLEAN", False, None),
    ("file.delete.delay.ms", "LONG", 60000, "log.segment.delete.delay.ms"),
    ("flush.messages", "LONG", LONG_MAX, "log.flush.interval.messages"),
    ("flush.ms", "LONG", LONG_MAX, "log.flush.interval.ms"),
    ("follower.replication.throttled.replicas", "LIST", (), None),
    ("index.interval.bytes", "INT", 4096, "log.index.interval.bytes"),
    ("internal.segment.bytes", "INT", None, None),
    ("leader.replication.throttled.replicas", "LIST", (), None),
    ("local.retention.bytes", "LONG", -2, "log.local.retention.bytes"),
    ("local.retention.ms", "LONG", -2, "log.local.retention.ms"),
    ("max.compaction.lag.ms", "LONG", LONG_MAX, "log.cleaner.max.compaction.lag.ms"),
    (
        "max.decompressed.message.bytes",
        "INT",
        (1 << 31) - 9,
        "max.decompressed.message.bytes",
    ),
    ("max.message.bytes", "INT", 1048588, "message.max.bytes"),
    ("message.timestamp.after.max.ms", "LONG", 3600000, "log.message.timestamp.after.max.ms"),
    ("message.timestamp.before.max.ms", "LONG", LONG_MAX, "log.message.timestamp.before.max.ms"),
    ("message.timestamp.type", "STRING", "CreateTime", "log.message.timestamp.type"),
    ("min.cleanable.dirty.ratio", "DOUBLE", 0.5, "log.cleaner.min.cleanable.ratio"),
    ("min.compaction.lag.ms", "LONG", 0, "log.cleaner.min.compaction.lag.ms"),
    ("min.insync.replicas", "INT", 1, "min.insync.replicas"),
    ("preallocate", "BOOLEAN", False, "log.preallocate"),
    ("remote.copy.lag.bytes", "LONG", -1, "log.remote.copy.lag.bytes"),
    ("remote.copy.lag.ms", "LONG", 0, "log.remote.copy.lag.ms"),
    ("remote.log.copy.disable", "BOOLEAN", False, None),
    ("remote.log.delete.on.disable", "BOOLEAN", False, None),
    ("remote.storage.enable", "BOOLEAN", False, None),
    ("retention.bytes", "LONG", -1, "log.retention.bytes"),
    ("retention.ms", "LONG", 7 * DAY_MS, "log.retention.ms"),
    ("segment.bytes", "INT", 1 << 30, "log.segment.bytes"),
    ("segment.index.bytes", "INT", 10485760, "log.index.size.max.bytes"),
    ("segment.jitter.ms", "LONG", 0, "log.roll.jitter.ms"),
    ("segment.ms", "LONG", 7 * DAY_MS, "log.roll.ms"),
    ("unclean.leader.election.enable", "BOOLEAN", False, "unclean.leader.election.enable"),
]


def test_the_table_is_kafka_4_4s():
    ours = [
        (item.name, item.type.name, item.default, item.synonyms[0].key if item.synonyms else None)
        for item in sorted(TOPIC_CONFIGS.values(), key=lambda item: item.name)
    ]
    assert ours == KAFKA_4_4


def test_defaults_without_any_setting():
    config = LogConfig.from_props({})
    for name, _, default, _ in KAFKA_4_4:
        assert config.get(name) == default
    assert config.is_deleted
    assert not config.is_compacted
    assert config.roll_bytes == 1 << 30
    assert config.max_index_entries == 1310720
    assert config.max_time_index_entries == 873813
    assert config.overridden == frozenset()


def test_text_and_typed_values_are_read():
    config = LogConfig.from_props(
        {
            "retention.ms": " 1000 ",
            "segment.bytes": 1 << 20,
            "cleanup.policy": "compact, delete",
            "unclean.leader.election.enable": "TRUE",
            "min.cleanable.dirty.ratio": "0.25",
            "message.timestamp.type": "LogAppendTime",
            "internal.segment.bytes": "512",
            "max.compaction.lag.ms": "77",
        }
    )
    assert config.retention_ms == 1000
    assert config.is_compacted
    assert config.is_deleted
    assert config.unclean_leader_election_enable is True
    assert config.min_cleanable_dirty_ratio == 0.25
    assert config.is_log_append_time
    assert config.roll_bytes == 512
    assert config.roll_ms == 77
    assert "retention.ms" in config.overridden
    with pytest.raises(AttributeError):
        config.retention_ms = 5  # type: ignore[misc]


def test_digits_of_any_script_are_numbers_as_in_java():
    config = LogConfig.from_props({"retention.ms": "٣", "segment.ms": "+٣1"})
    assert (config.retention_ms, config.segment_ms) == (3, 31)


def test_an_empty_cleanup_policy_keeps_everything():
    config = LogConfig.from_props({"cleanup.policy": ""})
    assert not config.is_deleted
    assert not config.is_compacted


def test_errors_have_nothing_that_a_terminal_acts_on() -> None:
    """A binary file that is taken for a properties file can have any key."""
    text = str(ConfigError("a\nb\x1b[31m\0", "c\nd", "there is no such config"))
    assert text.isprintable()
    assert r"a\nb\x1b[31m\x00" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "1e3"),
        ("retention.ms", ""),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "9" * 5000),
        ("retention.ms", True),
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("segment.ms", "0"),
        ("segment.index.bytes", "3"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "delete,,compact"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("preallocate", "yes"),
        ("leader.replication.throttled.replicas", "0:1,x"),
        ("leader.replication.throttled.replicas", "0:1,*"),
        ("leader.replication.throttled.replicas", "*,*"),
        ("remote.storage.enable", "true"),
        ("no.such.config", "1"),
    ],
)
def test_what_is_not_allowed_names_the_key_the_value_and_what_is(name, value):
    with pytest.raises(ConfigError) as raised:
        LogConfig.from_props({name: value})
    assert raised.value.key == name
    assert name in str(raised.value)
    assert raised.value.allowed


def test_lags_that_contradict_each_other():
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms"):
        LogConfig.from_props({"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("broker", "name", "expected"),
    [
        ({"log.retention.hours": "2"}, "retention.ms", 7_200_000),
        ({"log.retention.hours": 2, "log.retention.minutes": "3"}, "retention.ms", 180_000),
        ({"log.retention.hours": 2, "log.retention.ms": "5"}, "retention.ms", 5),
        ({"log.retention.hours": -1}, "retention.ms", -1),
        ({"log.retention.ms": None, "log.retention.hours": 1}, "retention.ms", 3_600_000),
        ({"log.roll.hours": 1}, "segment.ms", 3_600_000),
        ({"message.max.bytes": "99"}, "max.message.bytes", 99),
        ({"log.flush.scheduler.interval.ms": "99"}, "flush.ms", 99),
        ({"log.cleanup.policy": "compact"}, "cleanup.policy", ("compact",)),
        ({"min.insync.replicas": 2}, "min.insync.replicas", 2),
    ],
)
def test_broker_configs_stand_in_for_topic_configs(broker, name, expected):
    assert LogConfig.from_props({}, broker).get(name) == expected


def test_a_topic_overrides_its_broker():
    config = LogConfig.from_props({"retention.ms": "7"}, {"log.retention.ms": "8"})
    assert config.retention_ms == 7


def test_a_broker_config_out_of_range_is_named_by_its_own_key():
    with pytest.raises(ConfigError, match=r"log\.roll\.hours"):
        LogConfig.from_props({}, {"log.roll.hours": "0"})
    with pytest.raises(ConfigError, match=r"log\.roll\.hours"):
        LogConfig.from_props({}, {"log.roll.hours": "one"})


def test_values_are_shown_as_text_again():
    definition = TOPIC_CONFIGS["cleanup.policy"]
    assert definition.format(("compact", "delete")) == "compact,delete"
    assert TOPIC_CONFIGS["preallocate"].format(False) == "false"
    assert TOPIC_CONFIGS["retention.ms"].format(5) == "5"
    assert TOPIC_CONFIGS["internal.segment.bytes"].format(None) is None


def test_passwords_are_never_shown():
    secret = ConfigDef("ssl.key", ConfigType.PASSWORD, None, "", non_empty())
    assert secret.format("hush") is None
    with pytest.raises(ConfigError) as raised:
        secret.parse("")
    assert "hidden" in str(raised.value)
    assert secret.parse(" x ") == " x "
    with pytest.raises(ConfigError) as raised:
        ConfigDef("ssl.key", ConfigType.PASSWORD, None, "", one_of("a")).parse("hush")
    assert "hush" not in str(raised.value) + raised.value.answer


@pytest.mark.parametrize(
    ("kind", "validator", "value", "answer"),
    [
        (ConfigType.DOUBLE, between(0, 1), 1e10, "1.0E10 for configuration x: Value must be no"),
        (ConfigType.LIST, each_of("a", may_be_empty=False), "", "[] for configuration x: String"),
        (ConfigType.LIST, each_of("a"), "a,b", "b for configuration x: String must be one of: a"),
        (ConfigType.INT, between(1, 2), 0, "0 for configuration x: Value must be at least 1"),
    ],
)
def test_a_refused_value_is_answered_as_kafka_writes_it(kind, validator, value, answer):
    with pytest.raises(ConfigError) as raised:
        ConfigDef("x", kind, None, "", validator).parse(value)
    assert raised.value.answer.startswith(f"Invalid value {answer}")
    assert raised.value.at("line 3").answer == raised.value.answer, "clients have no lines"


def test_lists_of_the_wrong_type_are_refused():
    definition = ConfigDef("a.list", ConfigType.LIST, (), "", each_of("a", "b"))
    assert definition.parse(["a", "b"]) == ("a", "b")
    for wrong in (5, [1], {"a": 1}):
        with pytest.raises(ConfigError):
            definition.parse(wrong)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.5, "0.5"), (1, "1.0"), (0, "0.0"), (0.001, "0.001"), (0.00015, "1.5E-4"),
        (9_999_999.5, "9999999.5"), (1e7, "1.0E7"), (12_345_678.0, "1.2345678E7"),
        (-2e-9, "-2.0E-9"), (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
    ],
)  # fmt: skip
def test_fractions_are_written_as_java_writes_them(number, text):
    definition = ConfigDef("x", ConfigType.DOUBLE, 0.0, "")
    assert definition.format(number) == text
    assert definition.parse(text) == number


# -- bounds --------------------------------------------------------------------------------------


def accepted(kind: ConfigType, validator: Validator | None, values: list[object]) -> list[object]:
    """Those of the values that a config of this type and rule takes."""
    definition = ConfigDef("x", kind, None, "", validator)
    found = []
    for value in values:
        try:
            found.append(definition.parse(value))
        except ConfigError:
            continue
    return found


@pytest.mark.parametrize(
    ("kind", "bits"), [(ConfigType.SHORT, 16), (ConfigType.INT, 32), (ConfigType.LONG, 64)]
)
@pytest.mark.parametrize("as_text", [False, True])
def test_a_number_may_be_all_that_its_type_has_room_for_and_no_more(kind, bits, as_text):
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    values = [least - 1, least, least + 1, most - 1, most, most + 1]
    given = [str(value) for value in values] if as_text else values
    assert accepted(kind, None, given) == [least, least + 1, most - 1, most]
    with pytest.raises(ConfigError, match=f"at most {most}$"):
        ConfigDef("x", kind, None, "").parse(most + 1)


def test_bounds_belong_to_what_is_allowed():
    numbers: list[object] = [1, 2, 3, 4, 5, 6]
    assert accepted(ConfigType.INT, at_least(3), numbers) == [3, 4, 5, 6]
    assert accepted(ConfigType.INT, between(3, 5), numbers) == [3, 4, 5]
    shares: list[object] = ["-0.001", "0", "1", "1.001", "NaN"]
    assert accepted(ConfigType.DOUBLE, between(0, 1), shares) == [0.0, 1.0]
    assert accepted(ConfigType.DOUBLE, at_least(0), shares) == [0.0, 1.0, 1.001]


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("compression.gzip.level", 1, 9),
        ("compression.lz4.level", 1, 17),
        ("compression.zstd.level", -131072, 22),
        ("segment.bytes", 1 << 20, (1 << 31) - 1),
        ("max.message.bytes", 0, (1 << 31) - 1),
        ("segment.index.bytes", 4, (1 << 31) - 1),
        ("retention.ms", -1, LONG_MAX),
        ("segment.ms", 1, LONG_MAX),
        ("local.retention.ms", -2, LONG_MAX),
        ("min.insync.replicas", 1, (1 << 31) - 1),
    ],
)
def test_topic_configs_take_their_bounds_and_nothing_beyond_them(name, least, most):
    definition = TOPIC_CONFIGS[name]
    for value in (least, most):
        assert definition.parse(str(value)) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError):
            definition.parse(str(value))


def test_compaction_lags_may_be_equal():
    config = LogConfig.from_props({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"})
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (10, 10)


def test_lists_keep_a_value_once_and_have_at_least_one_unless_they_may_be_empty():
    texts: list[object] = ["", "a", "a,b", "a,a", "b, a,b ,a", "a,,b", ",", ("b", "b")]
    filled: list[object] = [("a",), ("a", "b"), ("a",), ("b", "a"), ("b",)]
    assert accepted(ConfigType.LIST, distinct(), texts) == filled
    assert accepted(ConfigType.LIST, distinct(may_be_empty=True), texts) == [(), *filled]
    assert accepted(ConfigType.LIST, each_of("a", "b"), texts) == [(), *filled]
    assert accepted(ConfigType.LIST, each_of("a", "b", may_be_empty=False), texts) == filled


def test_a_name_that_is_near_no_other_has_no_closest_one():
    assert closest("retention.mss", TOPIC_CONFIGS) == "retention.ms"
    assert closest("xyz", TOPIC_CONFIGS) is None
