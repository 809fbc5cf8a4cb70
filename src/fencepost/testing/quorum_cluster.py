"""`QuorumCluster`: controllers and brokers on loopback, one process each, in one directory.

    with QuorumCluster(controllers=3, brokers=1) as cluster:
        client = Admin(bootstrap_servers=cluster.bootstrap_servers)
        cluster.leader().kill()

This is what `fencepost cluster up` runs and what `Cluster` puts proxies in front of. Controllers
have the node ids 1, 2, ... and brokers those that follow, or the other way round with
`brokers_first`. Every node has a directory named for it with its `server.properties`, its log and
its data. Voters are dynamic (KIP-853) unless `static_voters` puts them into the configuration. With
`combined` every controller is a broker, too. A broker without controllers is a node with both
roles, which formats its data directory itself.

`directory` may hold a cluster that was made here before: its nodes keep their configuration and
their data.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.storage.formatting import (
    FormatPlan,
    choose_features,
    format_directories,
    parse_voters,
    random_id,
)
from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.client.security import Security as ClientSecurity
from fencepost.log.disk import OsDisk
from fencepost.log.errors import LogError, in_words
from fencepost.log.meta import read_meta_properties
from fencepost.log.properties import decode_properties, encode_properties
from fencepost.testing.launcher import Launcher
from fencepost.testing.login_files import CLIENT_LISTENER, security_in
from fencepost.testing.node_process import ClusterError, NodeProcess
from fencepost.testing.ports import LOOPBACK as HOST, free_ports
from fencepost.wire.api import describe_quorum as describe

if TYPE_CHECKING:
    from fencepost.testing.cluster_security import ClusterSecurity

LISTENER = "CONTROLLER"
LEADER_TIMEOUT_S = 60.0
POLL_S = 0.02
ASK_TIMEOUT_MS = 2_000


class QuorumCluster:
    """See the module. `config` are keys for all nodes, `controller_config` for controllers.

    A context manager: started on entry, and gone at the end, whatever happened. Without a
    `directory` the cluster is in a temporary one that goes with it. Free ports are found for
    controllers and brokers whose ports are not given.
    """

    def __init__(
        self,
        controllers: int = 3,
        brokers: int = 1,
        *,
        directory: Path | None = None,
        controller_ports: list[int] | None = None,
        broker_ports: list[int] | None = None,
        static_voters: bool = False,
        combined: bool = False,
        brokers_first: bool = False,
        config: Mapping[str, Any] | None = None,
        controller_config: Mapping[str, Any] | None = None,
        security: ClusterSecurity | None = None,
    ) -> None:
        if controllers < 0 or brokers < 0 or (controllers == 0 and brokers != 1):
            raise ValueError(f"{controllers} controllers and {brokers} brokers are no cluster")
        self._launcher = Launcher()
        self.is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="fencepost-"))
        holders = brokers + (controllers if combined else 0)
        replicas = max(1, min(3, holders))
        self._config: dict[str, Any] = {
            "offsets.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min(2, replicas),
            "share.coordinator.state.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            **({"group.initial.rebalance.delay.ms": 0} if config is None else config),
        }
        self._controller_config = dict(controller_config or {})
        self._static_voters = static_voters
        self._security = security
        self._is_set_up = False
        self._combined = combined
        self._given_up = False
        first_controller, first_broker = (brokers + 1, 1) if brokers_first else (1, controllers + 1)
        self.controllers = self._nodes("controller", first_controller, controllers)
        """The controllers by node id."""
        self.brokers = self._nodes("broker", first_broker, brokers)
        """The brokers by node id."""
        self.cluster_id = ""
        self._ports: dict[int, int] = {}
        self._client_ports: dict[int, int] = {}
        if security is not None:
            security.prepare(self.directory)
        self._set_up(controller_ports, broker_ports)
        if security is not None:
            security.attach(self)

    def _nodes(self, role: str, first: int, count: int) -> dict[int, NodeProcess]:
        names = {id_: f"{role}-{id_}" for id_ in range(first, first + count)}
        return {
            id_: NodeProcess(name, self.directory / name, self._launcher)
            for id_, name in names.items()
        }

    # -- life ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything and remove what is temporary."""
        try:
            if any(node.running for node in self.nodes.values()):
                self.stop_all()
        finally:
            for node in self.nodes.values():
                if node.running:
                    node.kill()
            self._launcher.close()
            if self.is_temporary:
                shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def nodes(self) -> dict[int, NodeProcess]:
        """All nodes by id."""
        return {**self.controllers, **self.brokers}

    def prepare(self) -> None:
        """Have the process load that nodes are copies of, with the environment as it is now."""
        self._launcher.prepare()

    def start(self) -> None:
        """Start what does not run, all at once, and wait for a leader. ClusterError."""
        self._start([id_ for id_, node in self.nodes.items() if not node.running])
        if self.controllers:
            self.wait_until(self._is_led, "no controller leads")
        self._add_users()

    def _add_users(self) -> None:
        """The users and ACLs of a secured cluster, once. ClusterError."""
        if self._security is None or self._is_set_up:
            return
        try:
            self._security.set_up()
        except ClientError as error:
            raise ClusterError(f"users and ACLs could not be added: {error}") from error
        self._is_set_up = True

    def _start(self, ids: Iterable[int]) -> None:
        """Start nodes, all at once, and wait until each accepts connections. ClusterError."""
        started = {id_: self.nodes[id_] for id_ in ids}
        for node in started.values():
            node.start()
        for node in started.values():
            node.wait_until_ready(is_wanted=lambda: not self._given_up)

    def give_up(self) -> None:
        """From another thread, or a signal's handler: have waiting for the cluster end."""
        self._given_up = True

    def stop(self) -> object:
        """Stop all nodes in order, brokers first. ClusterError."""
        self.stop_all()
        return None

    def stop_all(self) -> None:
        """Stop all nodes in order, brokers first. ClusterError."""
        for nodes in (self.brokers, self.controllers):
            running = [node for node in nodes.values() if node.running]
            for node in running:
                node.resume()
                node.terminate()
            for node in running:
                node.wait()

    # -- looking ---------------------------------------------------------------------------

    def address_of(self, node_id: int) -> str:
        """HOST:PORT of the node's listener; of the quorum's, if it is a controller."""
        return f"{HOST}:{self._ports[node_id]}"

    def port_of(self, node_id: int) -> int:
        """Of the node's listener; of the quorum's, if it is a controller."""
        return self._ports[node_id]

    def client_address_of(self, node_id: int) -> str | None:
        """HOST:PORT for clients; None of a node that is no broker."""
        port = self._client_ports.get(node_id)
        return None if port is None else f"{HOST}:{port}"

    @property
    def client_ports(self) -> list[int]:
        """The ports for clients: of the brokers, then of controllers that are brokers."""
        ids = [*self.brokers, *self.controllers]
        return [self._client_ports[id_] for id_ in ids if id_ in self._client_ports]

    @property
    def bootstrap_servers(self) -> str:
        """The brokers, for clients."""
        return ",".join(f"{HOST}:{port}" for port in self._client_ports.values())

    @property
    def bootstrap_controllers(self) -> str:
        """The controllers, for tools of the quorum."""
        return ",".join(self.address_of(id_) for id_ in self.controllers)

    def connect(self, node_id: int) -> Connection:
        """A connection to the listener that `address_of` names. ClientError, OSError."""
        port = self._ports[node_id]
        return Connection(HOST, port, timeout_ms=ASK_TIMEOUT_MS, security=self._login())

    def _login(self) -> ClientSecurity:
        """Of connections that look at the cluster."""
        return security_in(self.directory)

    def describe(self, node_id: int) -> describe.PartitionDataResponse | None:
        """What a node says of the quorum; None if it does not answer."""
        topic = describe.TopicDataRequest(
            topic_name="__cluster_metadata",
            partitions=[describe.PartitionDataRequest(partition_index=0)],
        )
        try:
            with self.connect(node_id) as asked:
                answer = asked.request(describe.DescribeQuorumRequest(topics=[topic]))
        except (ClientError, OSError):
            return None
        if answer.error_code or not answer.topics:
            return None
        return answer.topics[0].partitions[0]

    def find_leader(self, *, but: int = -1) -> int | None:
        """The controller that says it leads, unless it is `but`; None if there is none now."""
        for id_, node in self.controllers.items():
            if id_ == but or not node.running:
                continue
            said = self.describe(id_)
            if said is not None and not said.error_code and said.high_watermark >= 0:
                return id_
        return None

    def leader_id(self, *, but: int = -1, timeout_s: float = LEADER_TIMEOUT_S) -> int:
        """The leader, once there is one that has committed something. ClusterError."""
        found: list[int] = []

        def look() -> bool:
            leader = self.find_leader(but=but)
            found[:] = [] if leader is None else [leader]
            return bool(found)

        self.wait_until(look, "no controller leads", timeout_s)
        return found[0]

    def _is_led(self) -> bool:
        """Whether the quorum has a leader: one of ours, or one that was added since."""
        if self.find_leader() is not None:
            return True
        told = [self.describe(id_) for id_, node in self.controllers.items() if node.running]
        leaders = {said.leader_id for said in told if said is not None}
        return any(id_ >= 0 and id_ not in self.controllers for id_ in leaders)

    def leader(self) -> NodeProcess:
        """The process of the leader. ClusterError."""
        return self.controllers[self.leader_id()]

    def wait_until(
        self, condition: Callable[[], bool], otherwise: str, timeout_s: float = LEADER_TIMEOUT_S
    ) -> None:
        """Look at `condition` until it holds. ClusterError, with the ends of all logs."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._given_up:
                raise ClusterError("this cluster is not wanted any more")
            if time.monotonic() > deadline:
                tails = [f"--- {node.name}\n{node.log_tail}" for node in self.nodes.values()]
                raise ClusterError(f"{otherwise} after {timeout_s} s\n" + "\n".join(tails))
            time.sleep(POLL_S)

    # -- setting up ------------------------------------------------------------------------

    def add_controller(self) -> int:
        """One more controller, formatted and not started; it observes until it is made a voter.

        Its node id. Only with dynamic voters.
        """
        assert not self._static_voters, "static voters do not change"
        id_ = max(self.nodes) + 1
        name = f"controller-{id_}"
        self.controllers[id_] = NodeProcess(name, self.directory / name, self._launcher)
        self._ports[id_] = free_ports(1)[0]
        plan = FormatPlan(self.cluster_id, random_id(), self._features())
        self._make({id_: plan})
        return id_

    def _set_up(self, controller_ports: list[int] | None, broker_ports: list[int] | None) -> None:
        """Make the nodes' files, unless they are there. ClusterError."""
        present = [id_ for id_, node in self.nodes.items() if node.config_path.exists()]
        if present:
            self._take_over(present)
            return
        begun = [node for node in self.nodes.values() if (node.directory / "data").exists()]
        if begun:
            raise ClusterError(_unfinished(self.directory, begun[0].name))
        free = free_ports(len(self.nodes))
        for nodes, given in ((self.controllers, controller_ports), (self.brokers, broker_ports)):
            for place, id_ in enumerate(nodes):
                self._ports[id_] = free.pop() if given is None else given[place]
        self._client_ports = {id_: self._ports[id_] for id_ in self.brokers}
        if self._combined:
            free = free_ports(len(self.controllers))
            given = free if broker_ports is None else broker_ports[len(self.brokers) :]
            self._client_ports.update(zip(self.controllers, given, strict=True))
        self.cluster_id = str(random_id())
        directories = {id_: random_id() for id_ in self.nodes}
        voters = None
        if self.controllers and not self._static_voters:
            text = ",".join(f"{i}@{self.address_of(i)}:{directories[i]}" for i in self.controllers)
            voters = parse_voters(text, LISTENER)
        plans = {
            id_: FormatPlan(self.cluster_id, directories[id_], self._features(), voters)
            for id_ in self.nodes
        }
        self._make(plans)

    def _take_over(self, present: list[int]) -> None:
        """The directory has a cluster; it must be the one that is meant. ClusterError."""
        missing = [node.name for id_, node in self.nodes.items() if id_ not in present]
        if missing:
            raise ClusterError(_unfinished(self.directory, missing[0]))
        for id_, node in self.nodes.items():
            path = node.config_path
            try:
                entries = decode_properties(str(path), path.read_bytes())
                listeners = entries["listeners"].split(",")
                self._ports[id_] = int(listeners[-1].rpartition(":")[2])
                if id_ in self.brokers or len(listeners) > 1:
                    self._client_ports[id_] = int(listeners[0].rpartition(":")[2])
            except (LogError, OSError) as error:
                raise ClusterError(in_words(error)) from error
            except (KeyError, ValueError):
                raise ClusterError(f"{path}: `listeners` does not say a port") from None
        try:
            config = BrokerConfig.load(self.nodes[present[0]].config_path, {})
            meta = read_meta_properties(OsDisk(), str(config.metadata_log_dir))
        except (LogError, OSError) as error:
            raise ClusterError(f"{self.directory}: {in_words(error)}") from error
        self.cluster_id = meta.cluster_id or ""

    def _features(self) -> dict[str, int]:
        return choose_features({}, has_dynamic_voters=not self._static_voters)

    def _make(self, plans: Mapping[int, FormatPlan]) -> None:
        """Format nodes and write their configurations. ConfigError before anything is written.

        A node without others formats its data itself when it starts, and says then what is wrong
        with its configuration. The configuration comes last: a node that has one is whole. If it
        cannot be done, what was made is removed, so that it can be tried again. ClusterError.
        """
        texts = {id_: self.properties_of(id_) for id_ in plans}
        configs = {}
        if self.controllers:
            configs = {id_: BrokerConfig.load(None, text) for id_, text in texts.items()}
        new = [self.nodes[id_] for id_ in plans if not self.nodes[id_].directory.exists()]
        for id_, plan in plans.items():
            node = self.nodes[id_]
            try:
                node.directory.mkdir(parents=True, exist_ok=True)
                if configs:
                    format_directories(OsDisk(), configs[id_], plan, int(time.time() * 1000))
                # It has passwords where the cluster is secured.
                node.config_path.touch(mode=0o600)
                node.config_path.write_bytes(encode_properties(texts[id_]))
            except (LogError, OSError) as error:
                for made in new:
                    shutil.rmtree(made.directory, ignore_errors=True)
                raise ClusterError(f"{node.name}: {in_words(error)}") from error

    def properties_of(self, id_: int) -> dict[str, str]:
        """The configuration of a node."""
        is_controller = id_ in self.controllers
        listeners = {}
        if id_ in self._client_ports:
            name = "PLAINTEXT" if self._security is None else CLIENT_LISTENER
            listeners["broker"] = f"{name}://{HOST}:{self._client_ports[id_]}"
        if is_controller:
            listeners["controller"] = f"{LISTENER}://{self.address_of(id_)}"
        entries: dict[str, Any] = {
            "node.id": id_,
            "listeners": ",".join(listeners.values()),
            "log.dirs": str(self.nodes[id_].directory / "data"),
        }
        if self.controllers:
            entries["process.roles"] = ",".join(listeners)
            entries["controller.listener.names"] = LISTENER
        if self._security is not None:
            quorum = [LISTENER] if self.controllers else []
            entries.update(self._security.properties_of(id_, "broker" in listeners, quorum))
        entries.update(self._config)
        entries.update(self._controller_config if is_controller else {})
        if not self.controllers:
            pass
        elif self._static_voters:
            voters = [f"{voter}@{self.address_of(voter)}" for voter in self.controllers]
            entries["controller.quorum.voters"] = ",".join(voters)
        else:
            entries["controller.quorum.bootstrap.servers"] = self.bootstrap_controllers
        return {key: config_text(value) for key, value in entries.items()}


def config_text(value: object) -> str:
    """A config value as it stands in a file of properties."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(config_text(item) for item in value)
    return str(value)


def _unfinished(directory: Path, name: str) -> str:
    return (
        f"{name} in {directory} has no server.properties: making the cluster was cut short, or"
        " the file was taken away; put it back, or remove the directory and make it again"
    )
