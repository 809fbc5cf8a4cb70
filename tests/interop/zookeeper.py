"""Brokers of Apache Kafka 2, which need a ZooKeeper beside them, on free loopback ports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fencepost.testing.ports import free_ports

from .apache import BROKER, HOST, QUICK_JVM, java_command, listening
from .maven import JarSet

ZOOKEEPER: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# Without log4j on the class path ZooKeeper would not start for want of its JMX beans.
JVM: Final = (*QUICK_JVM, "-Dzookeeper.jmx.log4j.disable=true")


def kafka_2(kafka: str, scala: str, *more: str) -> JarSet:
    """The jars of a release of Kafka 2 with its ZooKeeper; `more` wins over what it asks for."""
    broker = f"org.apache.kafka:kafka_{scala}:{kafka}"
    return JarSet(f"kafka-{kafka}", (broker, *more, "org.slf4j:slf4j-simple:1.7.36"))


# The clients of ZooKeeper 3.4, which Kafka 2.0 came with, find no host in Java 14 and newer.
OLDEST: Final = kafka_2("2.0.1", "2.12", "org.apache.zookeeper:zookeeper:3.5.9")
NEWEST: Final = kafka_2("2.8.2", "2.13")


@contextlib.contextmanager
def kafka_with_zookeeper(directory: Path, jars: JarSet) -> Iterator[str]:
    """The address of a broker of these jars; it and its ZooKeeper end with the block."""
    zookeeper_port, port = free_ports(2)
    zookeeper, broker = directory / "zookeeper.properties", directory / "server.properties"
    _write(
        zookeeper,
        {
            "dataDir": str(directory / "zookeeper"),
            "clientPort": str(zookeeper_port),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
        },
    )
    _write(
        broker,
        {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "zookeeper.connect": f"{HOST}:{zookeeper_port}",
            "zookeeper.connection.timeout.ms": "60000",
            "log.dirs": str(directory / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        },
    )
    first = java_command(ZOOKEEPER, str(zookeeper), jvm=JVM, jars=jars)
    second = java_command(BROKER, str(broker), jvm=JVM, jars=jars)
    with (
        listening(first, zookeeper_port, directory / "zookeeper.log"),
        listening(second, port, directory / "broker.log"),
    ):
        yield f"{HOST}:{port}"


def _write(path: Path, properties: dict[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
