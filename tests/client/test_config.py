"""Client properties: names, values, rules between them."""

from __future__ import annotations

import pickle
import re

import pytest

from fencepost.client.cluster import Cluster, parse_servers
from fencepost.client.config import KNOWN, ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.java_properties import JAVA_ONLY
from fencepost.client.protocol.oauthbearer import TokenSource


def test_properties_become_typed_values():
    config = ClientConfig.from_props(
        {
            "bootstrap.servers": "a:1,b:2",
            "acks": "all",
            "fetch.max.bytes": "1000",
            "check.crcs": "false",
            "isolation.level": "READ_COMMITTED",
            "compression.type": "ZSTD",
        }
    )
    assert config.bootstrap_servers == "a:1,b:2"
    assert (config.acks, config.fetch_max_bytes, config.check_crcs) == (-1, 1000, False)
    assert (config.isolation_level, config.compression_type) == ("read_committed", "zstd")


def test_limits_may_be_as_small_and_times_as_long_as_in_java():
    props = {"fetch.max.bytes": "0", "max.partition.fetch.bytes": "0", "batch.size": "0"}
    config = ClientConfig.from_props(
        {**props, "linger.ms": str(2**63 - 1), "retry.backoff.ms": "0"}
    )
    assert (config.fetch_max_bytes, config.max_partition_fetch_bytes, config.batch_size) == (0,) * 3
    assert (config.linger_ms, config.retry_backoff_ms) == (2**31 - 1, 0)


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(ConfigError, match=r"fetch\.max\.byte=.*did you mean fetch\.max\.bytes"):
        ClientConfig.from_props({"fetch.max.byte": "1"})
    with pytest.raises(ConfigError, match=r"zzz=.*known are bootstrap\.servers"):
        ClientConfig.from_props({"zzz": "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fetch.max.bytes", "-1"),
        ("fetch.max.bytes", "1_000"),
        ("fetch.max.bytes", "9" * 5000),
        ("metadata.max.age.ms", str(2**63)),
        ("fetch.max.bytes", "many"),
        ("fetch.max.bytes", str(2**31)),
        ("request.timeout.ms", "-1"),
        ("acks", "2"),
        ("check.crcs", "yes"),
        ("isolation.level", "serializable"),
        ("compression.type", "brotli"),
        ("max.in.flight.requests.per.connection", "0"),
        ("retries", "-1"),
        ("compression.zstd.level", "23"),
        ("partitioner.class", "com.example.Mine"),
        ("ssl.enabled.protocols", "SSLv3"),
        ("sasl.login.callback.handler.class", "com.example.Mine"),
        ("sasl.oauthbearer.jwt.retriever.class", "com.example.Mine"),
        ("client.dns.lookup", "default"),
        ("max.poll.records", "many"),
        ("reconnect.backoff.ms", "1.5"),
        ("metrics.num.samples", str(2**31)),
        ("enable.metrics.push", "yes"),
        ("sasl.kerberos.ticket.renew.jitter", "x"),
        ("security.protocol", "TELNET"),
        ("sasl.mechanism", "GSSAPI"),
        ("ssl.truststore.type", "BKS"),
        ("sasl.jaas.config", "Module required;"),
        ("bootstrap.servers", ""),
    ],
)
def test_wrong_values_are_refused_by_name(key: str, value: str):
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_props({key: value})
    assert caught.value.key == key
    assert str(caught.value).startswith(key)


def test_jaas_lines_of_java_clients_are_understood():
    config = ClientConfig.from_props(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="ada" password="it\'s; a = secret" ;'.replace("it's; a", "its; a"),
        }
    )
    assert config.security.username == "ada"
    assert config.security.password == "its; a = secret"
    assert "secret" not in repr(config)


def test_rules_between_properties():
    with pytest.raises(ConfigError, match="acks=all"):
        ClientConfig.from_props({"acks": "1", "enable.idempotence": "true"})
    assert ClientConfig.from_props({"acks": "1", "enable.idempotence": "false"}).acks == 1
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        ClientConfig.from_props({"security.protocol": "SASL_PLAINTEXT"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("acks", "1"), ("retries", "0"), ("max.in.flight.requests.per.connection", "6")],
)
def test_idempotence_is_off_with_what_forbids_it_unless_asked_for(key: str, value: str):
    assert not ClientConfig.from_props({key: value}).enable_idempotence
    with pytest.raises(ConfigError, match=key):
        ClientConfig.from_props({key: value, "enable.idempotence": "true"})
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        ClientConfig.from_props({key: value, "transactional.id": "x"})


def test_what_only_java_clients_use_is_named_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.client.java_properties._named", set())
    config = ClientConfig.from_props({"auto.commit.interval.ms": "5", "metrics.num.samples": " 3 "})
    assert config == ClientConfig()
    ClientConfig.from_props({"auto.commit.interval.ms": "5"})
    told = [record.getMessage() for record in caplog.records]
    assert len([line for line in told if "auto.commit.interval.ms (" in line]) == 1
    assert not set(JAVA_ONLY) & set(KNOWN)


def test_levels_belong_to_the_codec():
    levels = {"compression.gzip.level": "-1", "compression.lz4.level": "17"}
    assert ClientConfig.from_props({**levels, "compression.type": "lz4"}).compression_level == 16
    assert ClientConfig.from_props({**levels, "compression.type": "gzip"}).compression_level is None
    assert ClientConfig.from_props({**levels, "compression.type": "zstd"}).compression_level is None


def test_configs_can_be_pickled():
    config = ClientConfig.from_props({"client.id": "x"})
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(pickle.loads(pickle.dumps(config)))
    error = pickle.loads(pickle.dumps(ConfigError("a", 1, "no")))
    assert str(error) == "a=1: no"


def test_every_property_has_a_field():
    fields = ClientConfig.__dataclass_fields__.keys()
    security = type(ClientConfig().security).__dataclass_fields__.keys()
    tokens = TokenSource.__dataclass_fields__.keys()
    assert {prop.attribute for prop in KNOWN.values()} <= fields | security | tokens
    assert not (fields & security or fields & tokens or security & tokens)


@pytest.mark.parametrize("text", ["", ",", "a", "a:", ":1", "a:0", "a:70000", "a:b", "a:1,b"])
def test_malformed_bootstrap_servers_are_refused(text: str):
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_servers(text)


def test_bootstrap_servers_are_parsed():
    assert parse_servers(" a:1, [::1]:2 ,") == [("a", 1), ("::1", 2)]
    assert parse_servers("PLAINTEXT://a:1,SSL://b:2") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("transaction_two_phase_commit_enable", "did you mean two_phase_commit?"),
        ("group_idd", "did you mean group_id?"),
        ("colour", "see ClientConfig"),
    ],
)
def test_a_setting_that_is_none_is_refused_by_name(name: str, says: str):
    with pytest.raises(ConfigError, match=f"{name}.*{re.escape(says)}"):
        Cluster("127.0.0.1:1", **{name: 1})
    assert Cluster("127.0.0.1:1", group_id="g").config.group_id == "g"


def test_a_transactional_id_is_not_empty():
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        ClientConfig(transactional_id="").check()
