"""A quorum in a bottle whose voters come and go, and lose their disks.

The first nodes are the founding voters: their disks are formatted with a bootstrap snapshot that
names them. The others are controllers that know nothing but the nodes' addresses, as bootstrap
servers. Static voters (kraft.version 0) are possible, too, for the way from there to here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fencepost.batch.header import read_header
from fencepost.machines.quorum import AppendOutcome, QuorumMachine, QuorumState, inputs, received
from fencepost.machines.quorum.endpoints import listeners
from fencepost.machines.quorum.voter_history import BEFORE_THE_LOG, VoterHistory
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from fencepost.wire.api.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from .quorum_checks import Flight, Node, Violation
from .quorum_log import Entry, ListLog
from .quorum_world import CLUSTER_ID, KEY, World


class VotersWorld(World):
    """Nodes 1 to n, the first `voters` of them founders; see the module docstring.

    `joins` makes every controller join on its own, `static` begins with static voters.
    """

    def __init__(
        self,
        voters: int,
        others: int = 0,
        joins: bool = False,
        static: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(voters, observers=others, **options)
        self.changes: dict[str, ErrorCode] = {}
        self.disks = dict.fromkeys(self.nodes, 1)
        self.moved: dict[int, tuple[Endpoint, ...]] = {}
        self.versions = dict.fromkeys(self.nodes, (0, 1))
        self._founders = self.voters
        self._joins = joins
        self._static = static
        self._lost: dict[tuple[int, Uuid], ListLog] = {}
        self._asked_as: list[tuple[Message, int]] = []

    # -- nodes and disks -----------------------------------------------------------------------

    def directory(self, node_id: int) -> Uuid:
        """The directory id of the disk that a node has now."""
        return Uuid(bytes(14) + bytes([self.disks[node_id], node_id]))

    def voter(self, node_id: int, disk: int | None = None) -> Voter:
        """A node as a voter set has it."""
        directory = Uuid(bytes(14) + bytes([disk or self.disks[node_id], node_id]))
        endpoints = (Endpoint("CONTROLLER", f"node{node_id}", 9000 + node_id),)
        endpoints = self.moved.get(node_id, endpoints)
        return Voter(ReplicaKey(node_id, directory), endpoints, *self.versions[node_id])

    def history(self, node: Node) -> VoterHistory:
        """What the disk of a node says of the voters."""
        if self._static:
            founders = VoterSet(
                tuple(replace(self.voter(i), key=ReplicaKey(i)) for i in self._founders)
            )
            history = VoterHistory(founders)
        else:
            history = VoterHistory(VoterSet())
            if node.id in self._founders and self.disks[node.id] == 1:
                founders = VoterSet(tuple(self.voter(i, disk=1) for i in self._founders))
                history.note_kraft_version(BEFORE_THE_LOG, 1)
                history.note_voters(BEFORE_THE_LOG, founders)
        for entry in node.log.entries:
            history.take_batch(entry.base_offset, entry.data)
        return history

    def make_machine(self, node: Node) -> QuorumMachine:
        low, high = self.versions[node.id]
        config = replace(
            self._config,
            directory_id=self.directory(node.id),
            endpoints=self.voter(node.id).endpoints,
            min_kraft_version=low,
            max_kraft_version=high,
            bootstrap_servers=len(self.nodes),
            auto_join=self._joins,
        )
        return self._machine_class(
            node.id, self.history(node), node.log, node.state, config, self._rules
        )

    def wipe(self, node_id: int) -> None:
        """A node that is down gets another disk, an empty one."""
        node = self.nodes[node_id]
        assert node.driver is None, "it runs"
        self._lost[(node_id, self.directory(node_id))] = node.log
        node.log, node.state = ListLog(), QuorumState()
        self.disks[node_id] += 1

    # -- changes -------------------------------------------------------------------------------

    def add_voter(self, leader: int, node_id: int, name: str = "", timeout_ms: int = 0) -> None:
        """Ask a node to add another to the voters; the outcome goes to `changes`."""
        voter = self.voter(node_id)
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=timeout_ms,
            voter_id=node_id,
            voter_directory_id=voter.key.directory_id,
            listeners=listeners(Listener, voter.endpoints),
        )
        self._change(leader, request, name or f"add {node_id}")

    def remove_voter(self, leader: int, key: ReplicaKey, name: str = "") -> None:
        """Ask a node to remove a voter; the outcome goes to `changes`."""
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.directory_id
        )
        self._change(leader, request, name or f"remove {key.id}")

    def upgrade(self, leader: int, level: int = 1) -> None:
        """Ask a node to raise kraft.version; the outcome goes to `changes`."""

        def note(outcome: AppendOutcome) -> None:
            self.changes[f"upgrade {level}"] = outcome.error

        epoch = self.machine(leader).epoch
        self.driver(leader).feed(KEY, inputs.UpgradeKRaftVersion(note, level, epoch))

    def _change(self, leader: int, request: Message, name: str) -> None:
        def note(response: Any) -> None:
            self.changes[name] = ErrorCode(response.error_code)

        self.driver(leader).feed(KEY, received(note, request))

    # -- the network ---------------------------------------------------------------------------

    def put(self, kind: str, source: Node, target: int, message: Message, request: Message) -> None:
        if target < -1:
            self._asked_as.append((request, target))
            target = sorted(self.nodes)[-2 - target]
        elif source.machine is not None and source.machine.address_of(target) is None:
            self._put("failure", target, source.id, None, request, source.life)
            return
        super().put(kind, source, target, message, request)

    def peer_of(self, flight: Flight) -> int:
        for request, name in self._asked_as:
            if request is flight.request:
                return name
        return flight.source

    def _feed(self, flight: Flight) -> None:
        reached = (flight.source, flight.target) not in self.blocked
        target = self.nodes[flight.target]
        is_question = flight.kind == "request" and isinstance(flight.request, ApiVersionsRequest)
        if not is_question or target.driver is None or not reached:
            super()._feed(flight)
            return
        low, high = self.versions[target.id]
        feature = SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)
        answer = ApiVersionsResponse(supported_features=[feature])
        self._put("response", target.id, flight.source, answer, flight.request, flight.life)

    # -- what must hold ------------------------------------------------------------------------

    def _note_vote(self, voter: int, epoch: int, candidate: int) -> None:
        # A node with another disk is another voter.
        super()._note_vote(voter * 1_000 + self.disks[voter], epoch, candidate)

    def voters_of(self, node: Node) -> Sequence[int]:
        assert node.machine is not None
        return node.machine.voters

    def holds(self, node: Node, voter: int, entry: Entry) -> bool:
        assert node.machine is not None
        counted = node.machine.voter_set.get(voter)
        if counted is None:
            return False
        # A disk that is gone held what it held: it was counted before anybody knew.
        log = self._lost.get(counted.key, self.nodes[voter].log)
        return entry in log.entries and entry.next_offset <= log.durable_offset

    def check(self, node: Node) -> None:
        super().check(node)
        machine = node.machine
        if machine is None or machine.role.value == "failed":
            return
        said = self.history(node)
        if (said.latest, said.kraft_version) != (machine.voter_set, machine.kraft_version):
            raise Violation(
                f"I30: {node.id} goes by voters {machine.voters}, its log says {said.latest.ids}"
            )

    def lost_disks(self, voters: VoterSet) -> list[int]:
        """The voters whose disk is gone."""
        return [
            v.id
            for v in voters.voters
            if v.key.directory_id not in (Uuid.ZERO, self.directory(v.id))
        ]


def control_entries(log: ListLog) -> list[Entry]:
    """The batches of a log that hold control records."""
    return [entry for entry in log.entries if read_header(entry.data).is_control]
