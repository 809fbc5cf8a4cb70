"""Which listeners a node may have together, and how brokers log in: beside Kafka's own class."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.settings import Settings
from fencepost.broker.security.peer_login import check_peer_mechanism

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,B:PLAINTEXT,"
    "D:PLAINTEXT,S:SASL_PLAINTEXT",
}
LISTENERS = [
    "PLAINTEXT://h:1,PLAINTEXT://h:1",
    "PLAINTEXT://h:1,PLAINTEXT://h:2",
    "PLAINTEXT://h:1,plaintext://h:1",
    "PLAINTEXT://h:1,B://h:1",
    "PLAINTEXT://h:1,B://i:1",
    "PLAINTEXT://h:0,B://h:0",
    "PLAINTEXT://127.0.0.1:1,B://127.0.0.2:1",
    "PLAINTEXT://127.0.0.1:1,B://h:1",
    "PLAINTEXT://127.0.0.1:1,B://[::1]:1",
    "PLAINTEXT://:1,B://[::1]:1",
    "PLAINTEXT://127.0.0.1:1,B://[::1]:1,D://[::2]:1",
    "PLAINTEXT://127.0.0.1:1,B://[::1]:1,D://:1",
    "PLAINTEXT://127.0.0.1:1,B://[::1]:1,D://h:2",
]
ADVERTISED = [
    "PLAINTEXT://h:1,B://h:1",
    "PLAINTEXT://h:1,B://i:1",
    "PLAINTEXT://h:1,PLAINTEXT://h:1",
    "PLAINTEXT://h:1,PLAINTEXT://h:2",
]
KEY = "sasl.mechanism.inter.broker.protocol"
ENABLED = "sasl.enabled.mechanisms"
LOGINS: list[dict[str, str]] = [
    {},
    {ENABLED: "PLAIN"},
    {ENABLED: "PLAIN", KEY: "PLAIN"},
    {ENABLED: "PLAIN", KEY: "SCRAM-SHA-256"},
    {ENABLED: "PLAIN,SCRAM-SHA-256", KEY: "SCRAM-SHA-256"},
    {ENABLED: "PLAIN", f"listener.name.s.{ENABLED}": "SCRAM-SHA-256", KEY: "PLAIN"},
    {ENABLED: "PLAIN", f"listener.name.s.{ENABLED}": "SCRAM-SHA-256", KEY: "SCRAM-SHA-256"},
]
CASES = [
    *({"listeners": f"{one},CONTROLLER://127.0.0.1:9093"} for one in LISTENERS),
    *(
        {
            "listeners": "PLAINTEXT://h:1,B://h:2,CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": one,
        }
        for one in ADVERTISED
    ),
    *(
        {
            "listeners": "S://h:1,CONTROLLER://127.0.0.1:9093",
            "inter.broker.listener.name": "S",
            **one,
        }
        for one in LOGINS
    ),
]


def ours(entries: dict[str, str]) -> str:
    """OK, or REFUSED and why."""
    try:
        config = BrokerConfig.load(None, entries)
        if "inter.broker.listener.name" in entries:
            check_peer_mechanism(Settings(config), config.inter_broker_listener)
    except ConfigError as error:
        return f"REFUSED {error}"
    return "OK"


def test_what_a_node_may_have_is_what_kafkas_may(kafka_jars: JarSet, tmp_path: Path) -> None:
    cases = [{**BASE, "log.dirs": str(tmp_path), **case} for case in CASES]
    lines = ["\t".join(f"{key}={text}" for key, text in case.items()) for case in cases]
    told = ask(PROGRAMS / "NodeConfigOracle.java", jars=kafka_jars, questions=lines).splitlines()
    theirs = [line for line in told if line.startswith(("OK", "REFUSED"))]
    differ = [
        f"{case}: {mine}, and Kafka: {its}"
        for case, mine, its in zip(CASES, map(ours, cases), theirs, strict=True)
        if mine.split(" ")[0] != its.split(" ")[0]
    ]
    assert not differ, "\n".join(differ)
    assert {line.split(" ")[0] for line in theirs} == {"OK", "REFUSED"}
