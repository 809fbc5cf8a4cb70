"""`Cluster`: real brokers in processes of their own, on loopback ports, with faults on demand.

    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=3)
        cluster.kill(2)

A node is what `fencepost serve` runs, so a test talks to the thing that users run: real sockets,
real files, a process that can be killed. Its log is part of every error, and it ends with the test
process even if that forgets to end it.

Brokers have the ids 1, 2, ... One broker alone is its own controller; of several, the controllers
have the ids that follow, so that any broker can be killed and the others still elect leaders.

Every node is reached through a proxy (`faults.gate`), by clients and by other nodes: it is the port
of the proxy that a node advertises. There, requests meet the faults of `FaultInjector`, and links
can be cut. `faults=False` leaves the proxies out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.client.cluster import Cluster as Client
from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.log.errors import LogError
from fencepost.log.properties import decode_properties, encode_properties
from fencepost.testing import groups
from fencepost.testing.faults.gate import Gate
from fencepost.testing.faults.injector import FaultInjector
from fencepost.testing.node_process import ClusterError, NodeProcess
from fencepost.testing.ports import LOOPBACK, free_ports
from fencepost.testing.quorum_cluster import ASK_TIMEOUT_MS, QuorumCluster, config_text
from fencepost.testing.truncation import Truncation, cut_log
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from fencepost.testing.cluster_security import ClusterSecurity

__all__ = ["Cluster", "ClusterError"]

LATEST: Final = -1
"""The timestamp that asks ListOffsets for the end."""
DEFAULTS: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 4_500,
}
"""Where a test's cluster is quicker than a broker by itself."""


class Cluster(FaultInjector, QuorumCluster):
    """A cluster for tests; a context manager, started on entry.

    Keyword arguments are broker configs with underscores for dots: `Cluster(num_partitions=3)`.
    `config` takes them under their own names. `data_dir` keeps the data of a lone broker there,
    and of several nodes, each in a directory named for it, with their configurations and logs;
    without it the data is in a temporary directory that goes with the cluster. Three defaults are
    not the broker's (`DEFAULTS`): groups form at once, because a test's few consumers need not be
    waited for, and brokers that are silent are noticed earlier.

    With `security` clients have to log in, and `cluster.security` gives them what they need for it
    (`ClusterSecurity`; True: the usual one). Where connections are encrypted there are no proxies,
    and `faults` are not to be had.

    `controllers` is 0 for one broker and 1 for several unless it is said. With `listeners` in the
    config there are no proxies, and `faults` are not to be had.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        controllers: int | None = None,
        faults: bool = True,
        data_dir: Path | str | None = None,
        config: dict[str, Any] | None = None,
        security: ClusterSecurity | bool = False,
        **options: Any,
    ) -> None:
        chosen = {key.replace("_", "."): value for key, value in options.items()} | (config or {})
        if controllers is None:
            controllers = 0 if brokers == 1 else 1
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: at least one is wanted")
        directory = None
        if data_dir is not None and (brokers != 1 or controllers):
            directory = Path(data_dir).absolute()
        elif data_dir is not None:
            chosen["log.dirs"] = Path(data_dir).absolute()
        if controllers and "listeners" in chosen:
            raise ValueError("listeners are for one broker without other controllers")
        if security is not False and "listeners" in chosen:
            raise ValueError("a secured cluster has listeners of its own: leave them out")
        FaultInjector.__init__(self)
        secured = _secured(security)
        is_encrypted = secured is not None and secured.protocol.endswith("SSL")
        self._has_gates = faults and "listeners" not in chosen and not is_encrypted
        self._gates_of: dict[int, Gate] = {}
        self._direct_ports: dict[int, int] = {}
        self._addresses: list[str] = []
        QuorumCluster.__init__(
            self,
            controllers,
            brokers,
            directory=directory,
            brokers_first=True,
            config={**DEFAULTS, **chosen},
            security=secured,
        )

    # -- start and end --------------------------------------------------------------------------

    def start(self, node_id: int | None = None) -> None:
        """Start a node, or all that do not run, and wait until they serve. ClusterError."""
        if self._has_gates:
            FaultInjector.start(self)
        if node_id is None:
            QuorumCluster.start(self)
        else:
            self._start([node_id])
        if not self._has_gates and not self.controllers:
            self._addresses = self._node(None).addresses
        self._add_users()

    def _start(self, ids: Iterable[int]) -> None:
        """Open proxies for the time that their nodes listen: controllers first, they elect."""
        chosen = {id_: self._node(id_) for id_ in ids}
        self._open(id_ for id_ in chosen if id_ in self.controllers)
        for node in chosen.values():
            node.start()
        for id_, node in chosen.items():
            node.wait_until_ready()
            self._open([id_])

    def stop(self, node_id: int | None = None) -> int:
        """SIGTERM to a node, or to all of them, and wait; the exit code, the worst of all.

        ClusterError if one does not end.
        """
        ids = list(self.nodes) if node_id is None else [node_id]
        self._refuse(id_ for id_ in ids if id_ in self.brokers)
        if node_id is None:
            self.stop_all()
        else:
            self._node(node_id).resume()
            self._node(node_id).stop()
        self._refuse(ids)
        return max((self.nodes[id_].exit_code or 0 for id_ in ids), key=abs)

    def kill(self, node_id: int | None = None) -> int:
        """SIGKILL: the exit code, -9. The id may be left out if there is only one node.

        As when a process crashes: what it has not written is lost, and what it has written to
        files, synced or not, is there, because the machine lives on. Its connections are reset,
        and new ones are refused. ClusterError for an id that there is not.
        """
        id_ = self._only() if node_id is None else node_id
        code = self._node(id_).kill()
        self._refuse([id_])
        return code

    def restart(self, node_id: int | None = None) -> None:
        """Stop a node, or all, where they run, and start them at the same port with their data."""
        nodes = self.nodes.values() if node_id is None else [self._node(node_id)]
        if any(node.running for node in nodes):
            self.stop(node_id)
        self.start(node_id)

    def configure(self, config: dict[str, Any], node_id: int | None = None) -> None:
        """Set broker configs of a node, or of all, for its next start."""
        for id_ in list(self.nodes) if node_id is None else [node_id]:
            path = self._node(id_).config_path
            entries = decode_properties(str(path), path.read_bytes())
            entries |= {key: config_text(value) for key, value in config.items()}
            path.write_bytes(encode_properties(entries))

    def pause(self, node_id: int | None = None) -> None:
        """SIGSTOP: the node keeps its connections, takes new ones, and does nothing."""
        self._running(node_id).pause()

    def resume(self, node_id: int | None = None) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        self._running(node_id).resume()

    def reset(self) -> None:
        """Lift all faults, heal all links, resume what is paused, start what does not run."""
        if self._is_injecting:
            self.clear()
        for node in self.nodes.values():
            if node.running and node.is_paused:
                node.resume()
        if not self.running:
            self.start()

    def close(self) -> None:
        """Lift all faults, stop all nodes in order, and remove what is temporary."""
        try:
            if self._is_injecting:
                self.clear()
            QuorumCluster.close(self)
        finally:
            FaultInjector.close(self)

    # -- records taken back ---------------------------------------------------------------------

    def truncate(self, topic: str, partition: int, to: int) -> Truncation:
        """Take back the records from offset `to` on, and have a leader elected without them.

        A real cut, a real election, a real leader epoch: see `fencepost.testing.truncation`. The
        brokers of the partition's replicas restart, so clients are disconnected for about a second.
        Other partitions keep their records. ClusterError if it cannot be done; ValueError if the
        log does not reach to `to`, or starts behind it.
        """
        if isinstance(to, bool) or to < 0:
            raise ValueError(f"to {to}: an offset is 0 or more")
        before = self._partition(topic, partition)
        stopped = [id_ for id_ in before.replica_nodes if self.nodes[id_].running]
        if before.leader_id not in stopped:
            raise ClusterError(f"{topic}-{partition} has no leader, so nothing to take back")
        self._check_reaches(before.leader_id, topic, partition, to)
        heirs = [id_ for id_ in before.isr_nodes if id_ in stopped and id_ != before.leader_id]
        heir = heirs[0] if heirs else before.leader_id
        others = [id_ for id_ in stopped if id_ != heir]
        try:
            for id_ in sorted(others, key=lambda id_: id_ != before.leader_id):
                self.stop(id_)
            self.stop(heir)
            end = self._cut(heir, topic, partition, to)
        except BaseException:
            self._start_all([heir, *others])
            raise
        self._start_all([heir])
        after = self._wait_for_election(topic, partition, heir, before.leader_epoch)
        self._start_all(others)
        return Truncation(topic, partition, end, heir, after, before.leader_epoch)

    def _check_reaches(self, leader: int, topic: str, partition: int, to: int) -> None:
        """Whether there are records up to this offset, before anything is done. ValueError."""
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
        try:
            with self.connect(leader) as asked:
                answer = asked.request(ListOffsetsRequest(replica_id=-1, topics=topics))
        except (ClientError, OSError) as error:
            raise ClusterError(f"broker {leader} does not answer: {error}") from error
        (said,) = answer.topics[0].partitions
        if not said.error_code and to > said.offset:
            raise ValueError(f"to {to}: {topic}-{partition} ends at {said.offset}")

    def _cut(self, node_id: int, topic: str, partition: int, to: int) -> int:
        """Cut the log of a broker that does not run. ValueError, ClusterError."""
        config = BrokerConfig.load(self.nodes[node_id].config_path, {})
        for path in config.log_dirs:
            try:
                return cut_log(Path(path), topic, partition, to)
            except FileNotFoundError:
                continue
            except (LogError, OSError) as error:
                raise ClusterError(f"{topic}-{partition} cannot be cut: {error}") from error
        raise ClusterError(f"broker {node_id} has no files of {topic}-{partition}")

    def _start_all(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            if not self.nodes[id_].running:
                self.start(id_)

    def _wait_for_election(self, topic: str, partition: int, leader: int, epoch: int) -> int:
        """Wait until all brokers that run say that `leader` leads under a new epoch; which."""
        found: list[int] = []

        def look() -> bool:
            said = [
                self._partition_at(id_, topic, partition)
                for id_, node in self.brokers.items()
                if node.running
            ]
            found[:] = [one.leader_epoch for one in said if one is not None]
            return all(
                one is not None and one.leader_id == leader and one.leader_epoch > epoch
                for one in said
            )

        self.wait_until(look, f"broker {leader} was not elected for {topic}-{partition}")
        return max(found)

    def _partition(self, topic: str, partition: int) -> Any:
        """The partition as the brokers see it. ClusterError if there is none."""
        for id_, node in self.brokers.items():
            said = self._partition_at(id_, topic, partition) if node.running else None
            if said is not None:
                return said
        raise ClusterError(f"no broker knows of {topic}-{partition}")

    def _partition_at(self, node_id: int, topic: str, partition: int) -> Any:
        """The partition as one broker sees it; None if it does not answer, or knows of none."""
        try:
            with self.connect(node_id) as asked:
                answer = asked.request(
                    MetadataRequest(
                        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
                    )
                )
        except (ClientError, OSError):
            return None
        for one in answer.topics[0].partitions:
            if one.partition_index == partition:
                return one
        return None

    # -- groups ---------------------------------------------------------------------------------

    def expire_member(self, group: str, member_id: str) -> None:
        """Have a member removed from its group, of any type, as when its session ends: others get
        its partitions, and its next heartbeat is refused. ClusterError if there is no such one."""
        with self._client() as client:
            groups.expire_member(client, group, member_id)

    def move_group(self, group: str, to: int | None = None) -> int:
        """Have broker `to`, or another one than now, coordinate a group; its id. Clients find it by
        NOT_COORDINATOR. ClusterError if no other broker runs, or it does not come about."""
        running = [id_ for id_, node in self.brokers.items() if node.running]
        with self._client() as client:
            return groups.move_group(client, group, running, to, self.wait_until)

    def _client(self) -> Client:
        limit_ms = ASK_TIMEOUT_MS
        return Client(self.bootstrap_servers, api_timeout_ms=limit_ms, security=self._login())

    # -- security ---------------------------------------------------------------------------

    @property
    def security(self) -> ClusterSecurity:
        """What clients need to log in. ClusterError if the cluster is not secured."""
        if self._security is None:
            raise ClusterError("this cluster asks for no login: Cluster(security=True) has one")
        return self._security

    # -- looking inside --------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every broker, for clients; the same over restarts."""
        return ",".join(self._addresses) if self._addresses else super().bootstrap_servers

    @property
    def running(self) -> bool:
        """Whether all nodes are alive."""
        return all(node.running for node in self.nodes.values())

    @property
    def pid(self) -> int:
        """The process id of the only node; ClusterError if it does not run, or there are more."""
        return self._node(None).pid

    @property
    def data_dir(self) -> Path:
        """Where the only node has its data. ClusterError if there are more."""
        return self.data_dir_of(self._only())

    def data_dir_of(self, node_id: int) -> Path:
        """Where a node has its data."""
        return Path(str(self._config.get("log.dirs", self.nodes[node_id].directory / "data")))

    @property
    def log_path(self) -> Path:
        """Where the log of the only node goes. ClusterError if there are more."""
        return self._node(None).log_path

    @property
    def log_text(self) -> str:
        """The log so far of all nodes."""
        return "".join(node.log_text for node in self.nodes.values())

    def connect(self, node_id: int) -> Connection:
        """A connection past the proxy. ClientError, OSError."""
        port = self._direct_ports.get(self._ports[node_id], self._ports[node_id])
        limit_ms = ASK_TIMEOUT_MS
        return Connection(LOOPBACK, port, timeout_ms=limit_ms, security=self._login())

    # -- inside ----------------------------------------------------------------------------

    def properties_of(self, id_: int) -> dict[str, str]:
        """A node listens at a port of its own and advertises that of the proxy in front of it."""
        entries = super().properties_of(id_)
        if self._has_gates:
            told = self._ports[id_]
            (direct,) = free_ports(1)
            self._direct_ports[told] = direct
            self._gates_of[id_] = self.add_gate(id_, (LOOPBACK, direct), told)
            entries["advertised.listeners"] = entries["listeners"]
            entries["listeners"] = entries["listeners"].replace(f":{told}", f":{direct}")
        return entries

    def _open(self, ids: Iterable[int]) -> None:
        if self._is_injecting:
            for id_ in ids:
                self.open_gate(self._gates_of[id_])

    def _refuse(self, ids: Iterable[int]) -> None:
        if self._is_injecting:
            for id_ in ids:
                self.close_gate(self._gates_of[id_])

    def _only(self) -> int:
        """The id of the only node. ClusterError if there are more."""
        if len(self.nodes) > 1:
            raise ClusterError(f"which node? there are {', '.join(map(str, self.nodes))}")
        return next(iter(self.nodes))

    def _node(self, node_id: int | None) -> NodeProcess:
        """A node, by its id if there are several. ClusterError."""
        id_ = self._only() if node_id is None else node_id
        if id_ not in self.nodes:
            raise ClusterError(f"no node {id_!r}; there are {', '.join(map(str, self.nodes))}")
        return self.nodes[id_]

    def _running(self, node_id: int | None) -> NodeProcess:
        """A node that runs. ClusterError."""
        node = self._node(node_id)
        if not node.running:
            raise ClusterError(f"{node.name} is not running")
        return node


def _secured(security: ClusterSecurity | bool) -> ClusterSecurity | None:
    if isinstance(security, bool):
        from fencepost.testing.cluster_security import ClusterSecurity  # few clusters have one

        return ClusterSecurity() if security else None
    return security
