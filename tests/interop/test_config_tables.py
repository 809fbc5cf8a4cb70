"""Our tables of configuration keys against Apache Kafka's own classes.

Names, types, defaults, update modes and which keys are internal must be Kafka's, and so must the
values that are allowed, except for what is listed here with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from fencepost.broker.config.keys import BROKER_CONFIGS, DIFFERENT_DEFAULTS, DYNAMIC_ONLY
from fencepost.broker.config.keys.authorization import OF_THE_AUTHORIZER
from fencepost.broker.config.keys.definition import BrokerConfigDef
from fencepost.log.config import TOPIC_CONFIGS
from fencepost.log.configdef import ConfigDef, ConfigError, ConfigType

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OWN = {"log.flush.before.ack"} | {name for name in BROKER_CONFIGS if name.startswith("fencepost.")}
OWN |= set(OF_THE_AUTHORIZER)  # Kafka's authorizer reads them from what its brokers do not know
TABLES: Mapping[str, Mapping[str, ConfigDef]] = {"broker": BROKER_CONFIGS, "topic": TOPIC_CONFIGS}

STRICTER = {
    # No number (NaN), and a list of nothing (a comma).
    "remote.log.manager.task.retry.jitter",
    "min.cleanable.dirty.ratio",
    "log.cleaner.min.cleanable.ratio",
    # Classes of Kafka's, and no others: there are no classes of users to load here.
    "authorizer.class.name",
    "group.consumer.assignors",
    "group.share.assignors",
    "group.streams.assignors",
    "replica.selector.class",
    # Kafka checks these in code that runs later, or finds out at run time.
    "broker.heartbeat.interval.ms",
    "broker.id",
    "broker.session.timeout.ms",
    "connections.max.idle.ms",
    "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
    "default.replication.factor",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    "initial.broker.registration.timeout.ms",
    "internal.segment.bytes",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "max.connections.per.ip.overrides",
    "metadata.log.segment.ms",
    "offset.metadata.max.bytes",
    "offsets.topic.compression.codec",
    "replica.high.watermark.checkpoint.interval.ms",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    # Kafka finds out when it opens the store, or makes the engine of a connection.
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
    # With no mechanism no client could log in.
    "sasl.enabled.mechanisms",
}
"""Keys of which some values are refused here and not by Kafka's table."""

LAXER = {
    # Checked by a reader of their own, which wants more than Kafka's does.
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
}
"""Keys of which some values are refused by Kafka's table, and later here."""

OTHER_MODES = {
    # Names a class, and may have passwords: in a node's own file alone (docs/SECURING.md).
    "sasl.jaas.config": ("read-only", "per-broker"),
}
"""Keys that requests change otherwise than in Kafka: our mode and Kafka's."""


class Key(NamedTuple):
    """One of Kafka's keys, as the oracle says it."""

    table: str
    name: str
    type: str
    default: str | None
    internal: bool
    mode: str


def ask_kafka(jars: JarSet, questions: list[tuple[str, str, str]]) -> tuple[list[Key], list[bool]]:
    """Kafka's keys, and whether Kafka accepts each (table, name, value)."""
    said = ask(PROGRAMS / "ConfigOracle.java", jars=jars, questions=map("\t".join, questions))
    table, answers = said.split("\n\n", 1)
    keys = []
    for line in table.splitlines():
        place, name, kind, default, internal, mode, _ = line.split("\t")
        known = None if default == "-" else default
        keys.append(Key(place, name, kind, known, internal == "internal", mode))
    return keys, [answer == "OK" for answer in answers.split()]


@pytest.fixture(scope="module")
def kafka(kafka_jars: JarSet) -> dict[str, dict[str, Key]]:
    """Kafka's keys by table and name."""
    found: dict[str, dict[str, Key]] = {}
    for key in ask_kafka(kafka_jars, [])[0]:
        found.setdefault(key.table, {})[key.name] = key
    return found


def test_every_key_of_kafka_is_known_and_no_other(kafka):
    assert kafka["topic"].keys() == TOPIC_CONFIGS.keys()
    assert BROKER_CONFIGS.keys() - kafka["broker"].keys() == OWN | DYNAMIC_ONLY
    assert kafka["broker"].keys() <= BROKER_CONFIGS.keys()


def test_types_modes_and_what_is_internal_are_kafkas(kafka):
    for table, ours in TABLES.items():
        for name, key in kafka[table].items():
            definition = ours[name]
            assert (name, definition.type.name) == (name, key.type)
            assert (name, definition.internal) == (name, key.internal)
            if isinstance(definition, BrokerConfigDef):
                expected = OTHER_MODES.get(name, (key.mode, key.mode))
                assert (name, definition.mode.value, key.mode) == (name, *expected)


def test_defaults_are_kafkas_or_differ_as_documented(kafka):
    for table, ours in TABLES.items():
        for name, key in kafka[table].items():
            default = ours[name].format(ours[name].default)
            if table == "broker" and name in DIFFERENT_DEFAULTS:
                assert (name, DIFFERENT_DEFAULTS[name].kafka) == (name, key.default)
                assert default != key.default, f"{name} need not be listed"
            else:
                assert (name, default) == (name, key.default)


def probes(definition: ConfigDef) -> list[str]:
    """Values at and beside every bound that either side may have."""
    if definition.type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT):
        bits = {ConfigType.INT: 31, ConfigType.LONG: 63, ConfigType.SHORT: 15}[definition.type]
        near = [0, 1, 1 << bits, -(1 << bits), 1000, 10_000, 1 << 19, 1 << 20, 1 << 23]
        near += [2, 4, 5, 9, 10, 17, 22, 25, 100, 500, 1024, 2000, 30_000, 3_600_000, 86_400]
        near += [3600, -131_072]
        return sorted({str(base + step) for base in near for step in (-2, -1, 0, 1)})
    if definition.type is ConfigType.DOUBLE:
        return ["-1", "-0.1", "0", "0.1", "0.5", "0.51", "1", "1.1", "x", "NaN", "1e400"]
    if definition.type is ConfigType.BOOLEAN:
        return ["true", "FALSE", "yes", ""]
    if definition.type is ConfigType.LIST:
        names = ["delete", "compact", "broker", "classic", "0:1", "*"]
        return ["", "a", "a,b", "a,a", "a,,b", ",", *names, "delete,compact", "delete,delete"]
    return [
        "",
        " ",
        "a",
        "producer",
        "zstd",
        "none",
        "latest",
        "CreateTime",
        "PLAINTEXT",
        "upgrade",
    ]


def accepts(definition: ConfigDef, value: str) -> bool:
    try:
        definition.parse(value)
    except ConfigError:
        return False
    return True


def test_the_same_values_are_allowed(kafka_jars):
    questions = [
        (table, name, value)
        for table, ours in TABLES.items()
        for name, definition in ours.items()
        if name not in OWN | DYNAMIC_ONLY
        for value in probes(definition)
    ]
    _, theirs = ask_kafka(kafka_jars, questions)
    laxer: dict[str, list[str]] = {}
    stricter: dict[str, list[str]] = {}
    for (table, name, value), allowed in zip(questions, theirs, strict=True):
        definition = TABLES[table][name]
        if accepts(definition, value) == allowed:
            continue
        if isinstance(definition, BrokerConfigDef) and definition.refusal is not None:
            assert allowed, f"{name}={value} is nothing that Kafka accepts"
        else:
            (stricter if allowed else laxer).setdefault(name, []).append(value)
    assert stricter.keys() == STRICTER, {n: stricter.get(n) for n in stricter.keys() ^ STRICTER}
    assert laxer.keys() == LAXER, {name: laxer.get(name) for name in laxer.keys() ^ LAXER}
