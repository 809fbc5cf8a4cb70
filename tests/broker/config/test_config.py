"""server.properties and overrides: what is taken, and that every mistake is named."""

from pathlib import Path

import pytest

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.keys import BROKER_CONFIGS, REFUSED, REMOVED


def load(**overrides: str) -> BrokerConfig:
    return BrokerConfig.load(None, {key.replace("_", "."): v for key, v in overrides.items()})


def test_defaults_start_a_loopback_node():
    config = BrokerConfig.load(None, {})
    assert config.node_id == 1
    assert [str(e) for e in config.listeners] == ["127.0.0.1:9092"]
    assert config.exposed_listeners() == []
    assert [path.name for path in config.log_dirs] == ["fencepost-data"]
    assert config.flush_before_ack is True


def test_a_kafka_sample_file_is_taken(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        f"num.network.threads=8\nlog.dirs={tmp_path / 'd'}\nnum.partitions=1\n"
        "offsets.topic.replication.factor=1\nlog.retention.hours=24\n"
        "log.segment.bytes=1073741824\n"
    )
    config = BrokerConfig.load(path, {"num.partitions": "4"})
    assert config.node_id == 7
    assert [e.name for e in config.listeners] == ["PLAINTEXT"]
    assert [str(e) for e in config.controller_listeners] == ["localhost:9093"]
    assert [str(server) for server in config.quorum.servers] == ["localhost:9093"]
    assert not config.formats_itself
    assert config.get("num.partitions") == 4
    assert config.log_config({}).retention_ms == 24 * 3_600_000
    assert config.log_config({"retention.ms": "5"}).retention_ms == 5
    assert [e.name for e in config.advertised] == ["PLAINTEXT"]
    assert config.notes == ("these keys have no effect here: num.network.threads",)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num.partition", "3", "did you mean num.partitions"),
        ("retention.ms", "3", "log.retention.ms"),
        ("num.partitions", "many", "int, at least 1"),
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "99999999999", "int"),
        ("log.segment.bytes", "99999999999", "at least 1048576, at most 2147483647"),
        ("auto.create.topics.enable", "yes", "boolean"),
        ("process.roles", "", "broker, controller, or both"),
        ("process.roles", "broker,broker", "broker, controller, or both"),
        ("process.roles", "zookeeper", "broker, controller, or both"),
        ("controller.listener.names", "C,c", "each name once"),
        ("listeners", "127.0.0.1:9092", "NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://127.0.0.1", "NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://127.0.0.1:70000", "NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://::1:9092", "brackets"),
        ("listeners", "PLAINTEXT://h:1,PLAINTEXT://h:2", "a different name for each listener"),
        ("listeners", "PLAINTEXT://h:1,plaintext://h:1", "a different name for each listener"),
        ("advertised.listeners", "PLAINTEXT://h:1,PLAINTEXT://h:2", "a different name for each"),
        ("advertised.listeners", "OTHER://h:1", "one of the listeners"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1", "clients can connect to"),
        ("listener.security.protocol.map", "PLAINTEXT:TLS", "one of PLAINTEXT, SSL, SASL_PLAIN"),
        ("controller.quorum.voters", "nobody", "ID@HOST:PORT"),
        ("controller.quorum.voters", "1@a", "ID@HOST:PORT"),
        ("controller.quorum.voters", "1@:9", "ID@HOST:PORT"),
        ("controller.quorum.voters", "1@a:0", "ID@HOST:PORT"),
        ("controller.quorum.voters", "-1@a:9", "ID@HOST:PORT"),
        ("controller.quorum.voters", "1@::1:9", "ID@HOST:PORT"),
        ("controller.quorum.voters", "1@a:9,1@b:9", "each id once"),
        ("controller.quorum.bootstrap.servers", "a", "HOST:PORT"),
        ("controller.quorum.bootstrap.servers", "a:99999", "HOST:PORT"),
        ("fencepost.draft.fetch.quorum.records.api.key", "53", "1000 to 32767"),
        ("log.cleanup.policy", "shred", "compact"),
        ("ssl.keystore.type", "BKS", "one of JKS, PKCS12, PEM"),
        ("sasl.login.class", "a.Login", "it must be left out"),
        ("ssl.provider", "x", "left out"),
        ("sasl.kerberos.service.name", "kafka", "GSSAPI (Kerberos) is not offered"),
        ("authorizer.class.name", "x", "no other authorizer"),
        ("super.users", "alice", "principals as Type:name"),
        ("super.users", "User:alice", "it needs authorizer.class.name="),
        ("allow.everyone.if.no.acl.found", "true", "it needs authorizer.class.name="),
        ("zookeeper.connect", "h:2181", "no ZooKeeper"),
        ("group.min.session.timeout.ms", "99999999", "group.max.session.timeout.ms"),
        ("fencepost.event.loop", "trio", "one of auto, asyncio, uvloop"),
    ],
)
def test_mistakes_name_key_value_and_what_is_allowed(key, value, says):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(None, {key: value})
    message = str(caught.value)
    assert message.startswith(f"{key}=")
    assert says in message


@pytest.mark.parametrize("codec", ["5", "99999999999"])
def test_a_number_out_of_bounds_is_told_one_upper_bound(codec):
    with pytest.raises(ConfigError, match=r"int, from 0 to 4$"):
        BrokerConfig.load(None, {"offsets.topic.compression.codec": codec})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("process.roles", "boss", "not allowed: it must be broker, controller, or both"),
        ("node.id", "-5", "not allowed: it must be an int, at least 0"),
        ("retention.ms", "x", "it must be a long"),
    ],
)
def test_what_a_value_must_be_is_a_sentence(key, value, says):
    with pytest.raises(ConfigError, match=says):
        BrokerConfig.load(None, {f"log.{key}" if key == "retention.ms" else key: value})


def test_the_old_name_of_a_key_must_not_contradict_the_new_one(tmp_path):
    with pytest.raises(ConfigError, match=r"they are one key"):
        BrokerConfig.load(None, {"node.id": "1", "broker.id": "2"})
    assert BrokerConfig.load(None, {"node.id": "2", "broker.id": "2"}).node_id == 2
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\n")
    assert BrokerConfig.load(file, {}).node_id == 3
    assert BrokerConfig.load(file, {"node.id": "4"}).node_id == 4


def test_a_file_without_end_is_not_read_to_its_end():
    with pytest.raises(ConfigError, match="it may have at most 1048576 bytes"):
        BrokerConfig.load(Path("/dev/zero"), {})


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"--config.*nowhere"):
        BrokerConfig.load(tmp_path / "nowhere", {})
    with pytest.raises(ConfigError, match=r"cannot be read: No such file or directory$"):
        BrokerConfig.load(tmp_path / "nowhere", {})
    broken = tmp_path / "broken"
    broken.write_text("a=\\u00zz")
    with pytest.raises(ConfigError, match="properties file: it"):
        BrokerConfig.load(broken, {})
    huge = tmp_path / "huge"
    huge.write_bytes(b"#" * (1 << 21))
    with pytest.raises(ConfigError, match="at most"):
        BrokerConfig.load(huge, {})


def test_every_interface_is_exposed_and_told_by_name():
    config = load(listeners="PLAINTEXT://0.0.0.0:9092")
    assert [e.host for e in config.exposed_listeners()] == ["0.0.0.0"]
    assert config.advertised[0].host not in ("", "0.0.0.0")


def test_port_zero_is_told_as_bound():
    from fencepost.broker.config.endpoints import Endpoint

    config = load(listeners="PLAINTEXT://127.0.0.1:0")
    told = config.advertised_endpoints([Endpoint("PLAINTEXT", "127.0.0.1", 4711)])
    assert told == [Endpoint("PLAINTEXT", "127.0.0.1", 4711)]


def test_defaults_are_allowed_values_and_every_key_is_described():
    for definition in BROKER_CONFIGS.values():
        if definition.default is not None:
            assert definition.parse(definition.default) == definition.default
        assert definition.doc
        assert definition.refusal is None or not definition.has_effect
    for prefix, _ in REFUSED:
        assert not any(key.startswith(prefix) for key in BROKER_CONFIGS)
    assert not REMOVED & BROKER_CONFIGS.keys()


def written_defaults() -> dict[str, str]:
    texts = {name: definition.format(definition.default) for name, definition in DEFAULTED.items()}
    return {name: text for name, text in texts.items() if text is not None}


DEFAULTED = {
    name: definition
    for name, definition in BROKER_CONFIGS.items()
    if definition.default is not None
}


def test_defaults_that_are_written_out_start_a_node_without_a_word():
    config = BrokerConfig.load(None, written_defaults())
    assert config.notes == ()
    assert config.get("security.inter.broker.protocol") == "PLAINTEXT"


def test_a_removed_key_of_an_older_file_has_no_effect():
    idle = "group.coordinator.threads"
    config = BrokerConfig.load(None, {"reserved.broker.max.id": "5", idle: "7"})
    (note,) = config.notes
    assert note == f"these keys have no effect here: {idle}, reserved.broker.max.id"
    assert config.get(idle) == 7


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("group.share.max.size", "1001", "an int, from 1 to 1000"),
        ("group.share.max.size", "0", "an int, from 1 to 1000"),
        ("num.io.threads", "0", "at least 1"),
        ("group.share.assignors", "", "a list out of simple"),
        ("group.share.assignors", "a,,b", "a list out of simple"),
        ("group.coordinator.rebalance.protocols", "modern", "a list out of consumer, classic"),
        ("group.coordinator.rebalance.protocols", "", "a list out of consumer, classic"),
        ("group.consumer.migration.policy", "sideways", "one of DISABLED, DOWNGRADE"),
        ("max.connections.per.ip.overrides", "127.0.0.1", "ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "localhost:3", "ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "h", "ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "127.0.0.1:-1", "ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", ":1", "ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "::1:2147483648", "ADDRESS:NUMBER"),
        ("replica.fetch.wait.max.ms", "30001", "not over replica.socket.timeout.ms=30000"),
        ("replica.lag.time.max.ms", "499", "not over replica.lag.time.max.ms=499"),
        ("inter.broker.listener.name", "OTHER", "one of the listeners PLAINTEXT"),
    ],
)
def test_keys_are_checked_whether_they_have_an_effect_or_not(key, value, says):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(None, {key: value})
    assert says in str(caught.value)


@pytest.mark.parametrize("policy", ["upgrade", "UPGRADE", "Downgrade"])
def test_names_that_kafka_reads_in_any_case(policy):
    key = "group.consumer.migration.policy"
    assert BrokerConfig.load(None, {key: policy}).get(key) == policy


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("authorizer.class.name", "an.Authorizer", "or left out: no other authorizer is offered"),
        ("ssl.engine.factory.class", "an.Engine", "it must be left out: OpenSSL does TLS here"),
        ("ssl.client.auth", "perhaps", "one of"),
        (
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "hush",
            "it must be left out: assertions are not offered",
        ),
        ("sasl.login.class", "com.example.Login", "it must be left out: classes of Java's"),
        ("config.providers", "file", "it must be left out: Java classes"),
        ("client.quota.callback.class", "a.Class", "it must be left out: Java classes"),
        ("remote.log.storage.system.enable", "true", "it must be false: there is no tiered"),
        ("cordoned.log.dirs", "/no/such", "a directory of log.dirs"),
        ("rsm.config.a", "b", "there is no tiered storage"),
        ("listener.name.PLAINTEXT.ssl.key.password", "hush", "lower case"),
        ("listener.name.plaintext.ssl.key.pasword", "hush", "ssl.key.password?"),
    ],
)
def test_a_promise_that_is_not_kept_is_refused_and_secrets_are_not_repeated(key, value, says):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(None, {key: value})
    assert says in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_mistyped_secret_is_not_repeated():
    with pytest.raises(ConfigError, match=r"did you mean ssl\.keystore\.password") as caught:
        BrokerConfig.load(None, {"ssl.keystore.pasword": "hush"})
    assert "hush" not in str(caught.value)


def test_a_mistake_in_a_file_names_its_line(tmp_path):
    path = tmp_path / "server.properties"
    lines = "# head\n\nnum.partitions=3\nbroker.id=1\nlog.dirs=\\\n  /a\n"
    for mistake, line in (
        ("num.partitions=none", 7),
        ("fencepost.no.such.key=1", 7),
        ("super.users=User:a", 7),
        ("node.id=5", 7),
        ("log.cleaner.dedupe.buffer.size=5", 7),
        ("max.connections.per.ip=0", 7),
        ("advertised.listeners=OTHER://h:1", 7),
    ):
        path.write_text(lines + mistake + "\n")
        with pytest.raises(ConfigError) as caught:
            BrokerConfig.load(path, {})
        assert str(caught.value).endswith(f"(line {line} of {path})"), mistake
        assert caught.value.key == mistake.partition("=")[0] or mistake.startswith("node.id")
    path.write_text(lines + "a=\\u00zz\n")
    with pytest.raises(ConfigError, match="in line 7"):
        BrokerConfig.load(path, {})


def test_keys_of_a_file_that_no_broker_has_warn_once_each_and_do_not_end_the_start(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        "num.partitons=3\nmy.plugin.password=hush\nretention.ms=5\n"
        "num.partitons=4\nssl.pasword=hush\n"
    )
    config = BrokerConfig.load(path, {})
    assert config.get("num.partitions") == 1
    assert config.unknown == {"num.partitons", "my.plugin.password", "retention.ms", "ssl.pasword"}
    *unknown, _ = (*config.notes, "")
    assert len(unknown) == 4
    assert f"line 4 of {path}: num.partitons has no effect" in unknown[0]
    assert "did you mean num.partitions?" in unknown[0]
    assert "the broker's is log.retention.ms or" in unknown[2]
    assert "hush" not in str(config.notes)


@pytest.mark.parametrize(
    ("key", "hint"),
    [("fencepost.event.lop", "did you mean fencepost.event.loop"), ("a b", "no broker config")],
)
def test_a_typing_error_in_our_own_keys_ends_the_start_and_so_does_what_is_no_key(
    tmp_path, key, hint
):
    path = tmp_path / "server.properties"
    path.write_text(f"{key.replace(' ', chr(92) + ' ')}=1\n")
    with pytest.raises(ConfigError, match=hint):
        BrokerConfig.load(path, {})


def test_a_lone_voter_is_reached_where_the_configuration_says():
    """Brokers may join it, and tools ask where it is (DescribeQuorum)."""
    named = BrokerConfig.load(None, {**BOTH, "controller.quorum.voters": "1@127.0.0.1:9093"})
    (voter,) = named.quorum.static_voters.voters
    assert voter.endpoint("CONTROLLER") == ("CONTROLLER", "127.0.0.1", 9093)
    (voter,) = BrokerConfig.load(None, {}).quorum.static_voters.voters
    assert (voter.id, voter.endpoints) == (1, ())


def test_empty_elements_of_lists_in_a_file_are_dropped(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller,\nnode.id=1\n"
        "listeners=,PLAINTEXT://127.0.0.1:9092, ,CONTROLLER://127.0.0.1:9093,\n"
        "advertised.listeners=PLAINTEXT://127.0.0.1:9092,\n"
        "controller.listener.names=CONTROLLER,\ncontroller.quorum.voters=1@127.0.0.1:9093,\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,,PLAINTEXT:PLAINTEXT,\n"
        f"log.dirs={tmp_path / 'a'},,{tmp_path / 'b'},\nlog.cleanup.policy=compact,,delete\n"
        "max.connections.per.ip.overrides=127.0.0.1:5,\n"
    )
    config = BrokerConfig.load(path, {})
    assert [str(one) for one in config.listeners] == ["127.0.0.1:9092"]
    assert [str(one) for one in config.controller_listeners] == ["127.0.0.1:9093"]
    assert config.log_dirs == [tmp_path / "a", tmp_path / "b"]
    assert config.get("log.cleanup.policy") == ("compact", "delete")
    assert (config.is_broker, config.is_controller) == (True, True)


def test_a_mistake_of_the_command_line_names_no_line_of_the_file(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\n")
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(path, {"num.partitions": "none"})
    assert "line" not in str(caught.value)


CONTROLLER = {
    "node.id": "1",
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@[::1]:9094,3@c:9095",
}
BROKER = {
    **CONTROLLER,
    "node.id": "9",
    "process.roles": "broker",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}
BOTH = {
    **CONTROLLER,
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
}


def test_a_controller_opens_its_listener_and_nothing_for_clients():
    config = BrokerConfig.load(None, CONTROLLER)
    assert config.is_controller and not config.is_broker and not config.formats_itself
    assert config.listeners == config.advertised == []
    assert [str(one) for one in config.controller_listeners] == ["127.0.0.1:9093"]
    assert config.quorum.static_voters.ids == (1, 2, 3)
    second = config.quorum.voters.get(2)
    assert second is not None and second.endpoints[0] == ("CONTROLLER", "::1", 9094)


def test_a_broker_knows_the_voters_and_is_none_of_them():
    config = BrokerConfig.load(None, BROKER)
    assert config.is_broker and not config.is_controller and not config.formats_itself
    assert config.controller_listeners == []
    assert [one.name for one in config.advertised] == ["PLAINTEXT"]


def test_both_roles_have_listeners_of_both_kinds():
    config = BrokerConfig.load(None, BOTH)
    assert config.is_broker and config.is_controller and not config.formats_itself
    assert [one.name for one in config.listeners] == ["PLAINTEXT"]
    assert [one.name for one in config.controller_listeners] == ["CONTROLLER"]
    assert config.advertised_controllers(config.controller_listeners) == config.controller_listeners


def test_a_lone_node_formats_its_directories_and_votes_for_itself():
    for overrides in ({}, {"controller.quorum.voters": "1@127.0.0.1:9093"}):
        config = BrokerConfig.load(None, overrides)
        assert config.formats_itself
        assert config.quorum.static_voters.ids == (1,)


@pytest.mark.parametrize(
    ("base", "key", "value", "named", "says"),
    [
        (CONTROLLER, "controller.quorum.voters", "", "controller.quorum.voters", "the voters"),
        (CONTROLLER, "controller.quorum.voters", "2@b:1", None, "node.id=1 in it"),
        (CONTROLLER, "controller.listener.names", None, None, "name of the controllers'"),
        (CONTROLLER, "controller.listener.names", "CONTROLLER,C", None, "names out of `listeners`"),
        (CONTROLLER, "listeners", "CONTROLLER://h:1,PLAINTEXT://h:2", None, "only listeners"),
        (CONTROLLER, "advertised.listeners", "PLAINTEXT://h:2", None, "only listeners"),
        (CONTROLLER, "advertised.listeners", "CONTROLLER://0.0.0.0:2", None, "can connect to"),
        (BROKER, "controller.quorum.voters", "9@a:1", None, "node.id=9"),
        (BROKER, "controller.listener.names", None, None, "name of the controllers'"),
        (BROKER, "listeners", "PLAINTEXT://h:1,CONTROLLER://h:2", None, "without CONTROLLER"),
        (BROKER, "advertised.listeners", "CONTROLLER://h:2", None, "no controller"),
        (BOTH, "listeners", "PLAINTEXT://h:1", "controller.listener.names", "names out of"),
        (BOTH, "listeners", "CONTROLLER://h:1", None, "at least one listener"),
        (BOTH, "controller.quorum.voters", "2@b:1", None, "node.id=1 in it"),
    ],
)
def test_roles_and_quorum_must_fit_each_other(base, key, value, named, says):
    given = {name: text for name, text in {**base, key: value}.items() if text is not None}
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(None, given)
    assert caught.value.key == (named or key)
    assert says in str(caught.value)


def test_a_controllers_listener_that_others_can_reach_is_exposed():
    keys = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": "CONTROLLER://h1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "h1:9093",
    }
    exposed = BrokerConfig.load(None, keys).exposed_listeners()
    assert [(one.name, one.host) for one in exposed] == [("CONTROLLER", "0.0.0.0")]


def test_session_timeouts_may_be_one_and_the_same():
    keys = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
    config = BrokerConfig.load(None, dict.fromkeys(keys, "7000"))
    assert [config.get(key) for key in keys] == [7000, 7000]


def test_a_file_of_the_largest_size_is_read(tmp_path):
    path = tmp_path / "server.properties"
    text = b"num.partitions=3\n#"
    path.write_bytes(text + b"x" * (1024 * 1024 - len(text)))
    assert BrokerConfig.load(path, {}).get("num.partitions") == 3


def test_group_offsets_have_three_replicas_except_on_a_node_without_a_quorum():
    key = "offsets.topic.replication.factor"
    quorum = {
        "process.roles": "broker",
        "controller.quorum.voters": "9@127.0.0.1:9",
        "controller.listener.names": "CONTROLLER",
    }
    assert BrokerConfig.load(None, {}).get(key) == 1
    assert BrokerConfig.load(None, {key: "2"}).get(key) == 2
    assert BrokerConfig.load(None, quorum).get(key) == 3


@pytest.mark.parametrize(
    ("listeners", "named", "expected"),
    [
        ("PLAINTEXT://127.0.0.1:0", None, "PLAINTEXT"),
        ("A://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", None, "PLAINTEXT"),
        ("A://127.0.0.1:0,B://127.0.0.1:0", None, "A"),
        ("A://127.0.0.1:0,B://127.0.0.1:0", "b", "B"),
    ],
)
def test_the_listener_that_brokers_use_among_themselves(listeners, named, expected):
    keys = {
        "listeners": listeners,
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    if named is not None:
        keys["inter.broker.listener.name"] = named
    assert BrokerConfig.load(None, keys).inter_broker_listener == expected


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("log.dirs", "/a,/b,/a", ("/a", "/b")),
        ("listeners", "PLAINTEXT://h:1, PLAINTEXT://h:1", ("PLAINTEXT://h:1",)),
        ("log.cleanup.policy", "compact,compact", ("compact",)),
        (
            "group.coordinator.rebalance.protocols",
            "classic,consumer,classic",
            ("classic", "consumer"),
        ),
    ],
)
def test_a_value_that_a_list_has_twice_is_kept_once(
    key: str, value: str, kept: tuple[str, ...]
) -> None:
    config = BrokerConfig.load(None, {key: value})
    assert config.get(key) == kept
    assert f"these keys have a value twice, which counts once: {key}" in config.notes


def test_a_list_that_has_no_value_twice_is_not_spoken_of() -> None:
    assert BrokerConfig.load(None, {"log.dirs": "/a,/b"}).notes == ()
