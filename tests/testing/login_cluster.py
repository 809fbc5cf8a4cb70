"""Three nodes that log in at each other: SCRAM between brokers, PLAIN at controllers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fencepost.log.properties import encode_properties
from fencepost.testing.launcher import Launcher
from fencepost.testing.node_process import NodeProcess
from fencepost.testing.ports import free_ports

from ..waiting import DEADLINE_S, eventually

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
MODULES = "org.apache.kafka.common.security"
NODES = (1, 2, 3)
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ada",
    "sasl.password": "ada-password",
}


class LoginCluster:
    """The nodes, which are broker and controller; `config` are keys for all of them, `protocol`
    secures both of their listeners."""

    def __init__(
        self, directory: Path, protocol: str = "SASL_PLAINTEXT", config: Mapping[str, str] = {}
    ) -> None:
        self.launcher = Launcher()
        ports = free_ports(9)
        self.client: dict[str, str] = {}
        """What clients need besides `CLIENT`."""
        self.client_ports = dict(zip(NODES, ports[:3], strict=True))
        controller_ports = dict(zip(NODES, ports[3:6], strict=True))
        self.metrics_ports = dict(zip(NODES, ports[6:], strict=True))
        self.nodes = {
            id_: NodeProcess(f"node-{id_}", directory / f"node-{id_}", self.launcher)
            for id_ in NODES
        }
        scram = f'{MODULES}.scram.ScramLoginModule required username="brokers" password="b";'
        users = 'username="nodes" password="n" user_nodes="n"'
        plain = f"{MODULES}.plain.PlainLoginModule required {users};"
        for id_, node in self.nodes.items():
            node.directory.mkdir(parents=True)
            texts = {
                "node.id": str(id_),
                "process.roles": "broker,controller",
                "log.dirs": str(node.directory / "data"),
                "listeners": f"BROKER://127.0.0.1:{self.client_ports[id_]},"
                f"CONTROLLER://127.0.0.1:{controller_ports[id_]}",
                "listener.security.protocol.map": f"BROKER:{protocol},CONTROLLER:{protocol}",
                "inter.broker.listener.name": "BROKER",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": ",".join(
                    f"{one}@127.0.0.1:{port}" for one, port in controller_ports.items()
                ),
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.broker.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.broker.scram-sha-256.sasl.jaas.config": scram,
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": plain,
                "fencepost.metrics.listener": str(self.metrics_ports[id_]),
                "broker.session.timeout.ms": "4500",
                "broker.heartbeat.interval.ms": "500",
                "offsets.topic.num.partitions": "1",
                **config,
            }
            node.config_path.write_bytes(encode_properties(texts))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def format(self) -> None:
        for node in self.nodes.values():
            subprocess.run(
                [
                    *(
                        sys.executable,
                        "-m",
                        "fencepost.cli.main",
                        "format",
                        "--cluster-id",
                        CLUSTER_ID,
                    ),
                    *("--config", str(node.config_path)),
                    *("--add-scram", "SCRAM-SHA-256=[name=brokers,password=b]"),
                    *("--add-scram", "SCRAM-SHA-512=[name=ada,password=ada-password]"),
                ],
                check=True,
                capture_output=True,
            )

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_until_ready()

    def close(self) -> None:
        for node in self.nodes.values():
            if node.running:
                node.kill()
        self.launcher.close()


@contextlib.contextmanager
def login_cluster(
    directory: Path, protocol: str = "SASL_PLAINTEXT", config: Mapping[str, str] = {}
) -> Iterator[LoginCluster]:
    """A cluster that is formatted and started."""
    cluster = LoginCluster(directory, protocol, config)
    try:
        cluster.format()
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def make_topic(client: Mapping[str, Any]) -> int:
    """A topic "t" of one partition with three replicas, made by a client with these configs; its
    leader, once the broker that the client asks knows the topic: it need not be the controller."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(dict(client))
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(DEADLINE_S)

    def leader() -> list[int]:
        partitions = admin.list_topics("t", timeout=DEADLINE_S).topics["t"].partitions
        return [one.leader for one in partitions.values() if one.leader > 0]

    return eventually(leader, "the topic has a leader")[0]
