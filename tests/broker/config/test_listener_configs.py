"""Security protocols of listeners, and configs that one listener or one mechanism has."""

import pytest

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.settings import Settings
from fencepost.broker.config.view import broker_entries
from fencepost.broker.net.listener_security import session_rules
from fencepost.machines.image import ClusterImage
from fencepost.machines.session import SecurityProtocol

MAP = "listener.security.protocol.map"
BROKER = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
REAUTH = "connections.max.reauth.ms"


def load(**keys: str) -> BrokerConfig:
    return BrokerConfig.load(None, {name.replace("_", "."): text for name, text in keys.items()})


def of(keys: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.load(None, keys)


@pytest.mark.parametrize("name", [one.name for one in SecurityProtocol])
def test_a_listener_named_after_a_protocol_has_it(name):
    config = load(listeners=f"{name}://127.0.0.1:0")
    assert config.protocol_of(name) is SecurityProtocol[name]
    assert config.protocol_of(name.lower()) is SecurityProtocol[name]
    assert config.inter_broker_listener == name


def test_the_map_gives_protocols_to_other_names():
    config = of(
        {
            "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
            MAP: "in:ssl , OUT:SASL_SSL,C:PLAINTEXT",
        }
    )
    assert config.protocol_of("IN") is SecurityProtocol.SSL
    assert config.protocol_of("OUT") is SecurityProtocol.SASL_SSL
    with pytest.raises(KeyError):
        config.protocol_of("OTHER")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"listeners": "IN://127.0.0.1:0"}, "IN:PROTOCOL"),
        ({MAP: "A:SSL"}, "PLAINTEXT:PROTOCOL"),
        ({MAP: "A:SSL,PLAINTEXT"}, "NAME:PROTOCOL"),
        ({MAP: ":SSL"}, "NAME:PROTOCOL"),
        ({MAP: "A:SSL,a:PLAINTEXT"}, "each listener once"),
        ({MAP: "A:TLS"}, "SASL_SSL"),
        # controllers' listeners: a written map has to name them, also on a broker
        ({**BROKER, MAP: "PLAINTEXT:PLAINTEXT"}, "CONTROLLER:PROTOCOL"),
        # and without one they are PLAINTEXT only where every listener is
        ({**BROKER, "listeners": "SSL://127.0.0.1:0"}, "CONTROLLER:PROTOCOL"),
    ],
)
def test_a_listener_without_a_protocol_is_no_start(keys, says):
    with pytest.raises(ConfigError) as caught:
        of(keys)
    assert caught.value.key == MAP
    assert says in str(caught.value)


def test_controllers_are_plaintext_where_nothing_says_otherwise():
    assert of(BROKER).protocol_of("CONTROLLER") is SecurityProtocol.PLAINTEXT
    named = {**BROKER, "controller.listener.names": "SSL"}
    assert of(named).protocol_of("SSL") is SecurityProtocol.SSL


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "A"),
        ({"inter.broker.listener.name": "ssl"}, "SSL"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_what_brokers_use_among_themselves(keys, expected):
    listeners = {"listeners": "A://127.0.0.1:0,SSL://127.0.0.1:0", MAP: "A:PLAINTEXT,SSL:SSL"}
    assert of({**listeners, **keys}).inter_broker_listener == expected


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "left out, because inter.broker.listener.name=PLAINTEXT",
        ),
        ({"security.inter.broker.protocol": "SSL"}, "one of the listeners PLAINTEXT"),
        ({"inter.broker.listener.name": "OTHER"}, "one of the listeners PLAINTEXT"),
        ({"security.inter.broker.protocol": "ssl"}, "one of PLAINTEXT, SSL"),
    ],
)
def test_brokers_need_one_listener_of_their_own(keys, says):
    with pytest.raises(ConfigError, match=says):
        of(keys)


PORTS = {MAP: "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"}


@pytest.mark.parametrize(
    "listeners",
    [
        "A://h:9,B://h:9",
        "A://h:9,B://i:9",
        "A://127.0.0.1:9,B://127.0.0.2:9",
        "A://127.0.0.1:9,B://h:9",
        "A://:9,B://[::1]:9",
        "A://127.0.0.1:9,B://[::1]:9,C://[::2]:9",
        "A://127.0.0.1:9,B://[::1]:9,C://:9",
    ],
)
def test_two_listeners_with_one_port_are_no_start(listeners: str):
    with pytest.raises(
        ConfigError, match=r"unless exactly one has an IPv4 .* have port 9"
    ) as found:
        of({**PORTS, "listeners": listeners})
    assert found.value.key == "listeners"
    assert "A://" in str(found.value.value) and "B://" in str(found.value.value)


def test_listeners_at_an_ipv4_and_an_ipv6_address_may_share_a_port():
    opened = of({**PORTS, "listeners": "A://127.0.0.1:9,B://[::1]:9,C://h:0"}).listeners
    assert [(one.host, one.port) for one in opened] == [("127.0.0.1", 9), ("::1", 9), ("h", 0)]


def test_listeners_may_be_advertised_at_one_address():
    told = {"listeners": "A://h:8,B://h:9", "advertised.listeners": "A://proxy:1,B://proxy:1"}
    assert [str(one) for one in of({**PORTS, **told}).advertised] == ["proxy:1", "proxy:1"]


def test_the_most_specific_value_holds():
    config = of(
        {
            "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
            MAP: "A:PLAINTEXT,B:PLAINTEXT",
            "max.connections": "7",
            "listener.name.a.max.connections": "5",
        }
    )
    assert config.for_listener("A").get("max.connections") == 5
    assert config.for_listener("B").get("max.connections") == 7
    assert config.for_listener("A").name_of("max.connections") == "listener.name.a.max.connections"
    assert config.for_listener("A").has_own("max.connections")
    assert not config.for_listener("B").has_own("max.connections")
    # what cannot differ is what all have
    assert config.for_listener("A").get("connections.max.idle.ms") == 600_000


def test_a_mechanisms_value_holds_before_its_listeners():
    texts = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        MAP: "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
        "connections.max.reauth.ms": "1",
        "listener.name.a.connections.max.reauth.ms": "2",
        "listener.name.a.plain.connections.max.reauth.ms": "3",
        "listener.name.b.scram-sha-256.connections.max.reauth.ms": "4",
    }
    config, key = of(texts), "connections.max.reauth.ms"
    for listener, mechanism, value in (
        ("A", "PLAIN", 3),
        ("A", "SCRAM-SHA-256", 2),
        ("A", None, 2),
        ("B", "PLAIN", 1),
        ("B", "SCRAM-SHA-256", 4),
        ("B", None, 1),
    ):
        found = config.for_listener(listener, mechanism)
        assert found.get(key) == value
        assert texts[found.name_of(key)] == str(value)


def test_values_that_change_while_the_node_runs():
    config = of({"max.connections": "7", "listener.name.plaintext.max.connections": "5"})
    settings = Settings(config)
    seen: list[int] = []
    plain = settings.for_listener("PLAINTEXT")
    settings.watch(["max.connections"], lambda: seen.append(plain.get("max.connections")))
    key = "listener.name.plaintext.max.connections"
    settings.apply(ClusterImage(configs={(4, str(config.node_id)): {key: "3"}}))
    settings.apply(ClusterImage(configs={(4, ""): {"max.connections": "9"}}))
    assert seen == [3, 5]
    assert settings.get("max.connections") == 9


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("listener.name.a.log.dirs", "log.dirs is the same for all listeners"),
        ("listener.name.A.max.connections", "lower case"),
        ("listener.name.a.PLAIN.sasl.jaas.config", "lower case"),
        ("listener.name.a.max.connection", "listener.name.a.max.connections?"),
        ("listener.name.a", "no config"),
        ("listener.name.", "no config"),
        ("listener.name.a.plain.max.connections", "no config"),
        ("listener.name.a.none.sasl.jaas.config", "no config"),
    ],
)
def test_a_key_that_no_listener_has_is_refused_and_its_value_is_not_shown(key, says):
    with pytest.raises(ConfigError) as caught:
        of({key: "hush"})
    assert says in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("key", ["ssl.cipher.suites", "sasl.oauthbearer.expected.audience"])
@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_lists_of_security_have_no_empty_items(prefix, key):
    for text in ("a,,b", ","):
        with pytest.raises(ConfigError, match=f"{prefix}{key}.*a list without empty values"):
            of({prefix + key: text})
    assert of({prefix + key: "a, b,a"}).for_listener("PLAINTEXT").get(key) == ("a", "b")
    assert of({prefix + key: ""}).for_listener("PLAINTEXT").get(key) == ()


def test_keys_of_a_listener_that_is_not_here_are_told():
    config = of({"listener.name.other.max.connections": "3"})
    assert any("listener.name.other.max.connections" in note for note in config.notes)


def test_the_delay_of_a_refusal_ends_before_idleness_does():
    with pytest.raises(ConfigError, match=r"less than connections\.max\.idle\.ms=50"):
        of({"connections.max.idle.ms": "50"})


def test_the_rules_of_sessions():
    config = of({"connection.failed.authentication.delay.ms": "40"})
    listener = config.for_listener
    rules = session_rules(SecurityProtocol.SASL_SSL, lambda one: listener("PLAINTEXT", one))
    assert rules.protocol is SecurityProtocol.SASL_SSL
    assert rules.mechanisms == ("GSSAPI",)
    assert rules.max_session_ms_of == {"GSSAPI": 0}
    assert rules.failure_delay_ms == 40
    plain = session_rules(SecurityProtocol.SSL, lambda one: listener("PLAINTEXT", one))
    assert plain.mechanisms == ()


def test_what_a_listener_has_is_described_and_its_secrets_are_not_shown():
    config = of(
        {
            "listener.name.plaintext.ssl.key.password": "hush",
            "listener.name.plaintext.ssl.client.auth": "none",
        }
    )
    dynamic = {"listener.name.plaintext.ssl.keystore.password": "hush"}
    image = ClusterImage(configs={(4, str(config.node_id)): dynamic})
    found = {one.name: one for one in broker_entries(config, image)}
    for key in ("key.password", "keystore.password"):
        one = found[f"listener.name.plaintext.ssl.{key}"]
        assert one.is_sensitive
        assert not one.read_only
        assert "hush" not in str(one)
    assert found["listener.name.plaintext.ssl.client.auth"].text == "none"
