"""The language of quorum transcripts: commands to a `World`, and what is seen after each.

A transcript is a text file. Lines that begin with `>` are commands; what follows up to the next is
the output; lines that begin with `#` are for the reader. After every command the script prints the
nodes that changed, and the messages that were sent:

    2 follower   e1 of 1   hw 1   [1 1 | 1]

reads: node 2 follows 1 in epoch 1, knows offset 1 as high watermark, and has three batches, all of
epoch 1, of which two are on its disk. `[7: 1]` is a log that begins at offset 7. A node that has
fetched a snapshot and is to install it shows `wants`, one that cannot read its log `damaged`.

    voters N [observers=M] [fetch_max_bytes=B] [snapshot_max_bytes=B] [retention_bytes=B]
                          the world; first. draftN=V: node N speaks V of the draft
    dynamic N [others=M] [joins=1] [static=1]    a world whose voters come and go; first
    start N...            boot nodes
    crash N [keep K]      power cut; K unflushed batches reach the disk
    crash-writing-state N power cut as soon as the node writes its quorum-state
    flush N               what N appended is durable
    fire N TIMER          let time pass until the timer is due
    deliver A->B [Kind]   the first such message arrives
    pass A->B             whatever is on that way now arrives, if anything is
    drop A->B [Kind]      it is lost, and its sender hears so
    settle                flush and deliver everything until only time could pass
    wait MS               let time pass, and everything happen that it brings
    append N NAME         ask N to append a record
    claim A B E           A is told by B that it leads epoch E
    cut A B / mend        nothing passes between A and B / everything does again
    add-voter A N         ask A to add N to the voters
    remove-voter A N      ask A to remove N, with the disk it has in A's voter set
    upgrade A             ask A to raise kraft.version to 1
    wipe N                N, which is down, gets an empty disk
    changes               what became of these
    voters-of N           the voters by the log of N, with the numbers of their disks
    outcomes              what became of the appends
    time                  the clock
    snapshot N            N takes a snapshot of what it knows to be committed
    install N             what N has fetched takes the place of its log
    crash-installing N    power cut when the snapshot is in place, and the log not yet emptied
    lose-snapshots N      N's snapshots are gone
    rot N OFFSET          a batch on N's disk rots; whoever reads it will notice
    rot-snapshot N        a byte of N's newest snapshot turns over
    scrub N               N reads its log, and notices what has rotted
    check                 invariants that need a look at all logs
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.machines.quorum import QuorumConfig, QuorumMachine, QuorumState
from fencepost.machines.quorum.messages import begin_request
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.api.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotRequest,
)
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import error_name

from .quorum_checks import Flight, Violation
from .quorum_world import CLUSTER_ID, World
from .voters_world import VotersWorld


def play(text: str, machine_class: type[QuorumMachine] = QuorumMachine) -> str:
    """The transcript with the outputs that the machines really give."""
    script = Script(machine_class)
    return "\n".join(script.lines(text)) + "\n"


class Script:
    """One run of a transcript."""

    def __init__(self, machine_class: type[QuorumMachine]) -> None:
        self._machine_class = machine_class
        self._world: World | None = None
        self._seen: dict[int, str] = {}
        self._last_flight = 0
        self._broken = False

    @property
    def world(self) -> World:
        assert self._world is not None, "a transcript begins with `> voters N`"
        return self._world

    def lines(self, text: str) -> Iterator[str]:
        """The lines of the transcript, outputs replaced."""
        for line in text.splitlines():
            if line.startswith("#") or not line.strip():
                yield line
            elif line.startswith(">") and not self._broken:
                yield line
                yield from self._run(line[1:].split())

    def _run(self, words: list[str]) -> Iterator[str]:
        try:
            output = list(self._command(words[0], words[1:]))
            output += self._news()
        except AssertionError as error:
            self._broken = True
            output = [f"VIOLATION {error}"]
        for line in output:
            yield "  " + line

    def _command(self, verb: str, words: list[str]) -> list[str]:
        if verb == "voters":
            numbers = {k: int(v) for k, v in (word.split("=") for word in words[1:])}
            drafts = {int(k[5:]): v for k, v in numbers.items() if k.startswith("draft")}
            options = {k: v for k, v in numbers.items() if not k.startswith("draft")}
            self._world = World(
                int(words[0]), machine_class=self._machine_class, drafts=drafts, **options
            )
            return []
        if verb == "dynamic":
            flags = {k: int(v) for k, v in (word.split("=") for word in words[1:])}
            self._world = VotersWorld(
                int(words[0]),
                others=flags.get("others", 0),
                joins=bool(flags.get("joins")),
                static=bool(flags.get("static")),
                machine_class=self._machine_class,
            )
            return []
        world = self.world
        if verb == "start":
            for word in words:
                world.start(int(word))
        elif verb == "crash":
            world.crash(int(words[0]), int(words[2]) if len(words) > 2 else 0)
        elif verb == "crash-writing-state":
            world.nodes[int(words[0])].dies_writing_state = True
        elif verb == "flush":
            world.flush(int(words[0]))
        elif verb == "fire":
            world.fire(int(words[0]), words[1])
        elif verb == "deliver":
            world.deliver(self._flight(words))
        elif verb == "pass":
            source, target = (int(word) for word in words[0].split("->"))
            for flight in list(world.flights):
                if (flight.source, flight.target) == (source, target):
                    world.deliver(flight)
        elif verb == "drop":
            world.drop(self._flight(words))
        elif verb == "settle":
            world.settle()
        elif verb == "wait":
            world.wait(int(words[0]))
        elif verb == "append":
            world.append(int(words[0]), words[1])
        elif verb == "claim":
            told, by, epoch = (int(word) for word in words)
            state = QuorumState(epoch, leader_id=by)
            request = begin_request(QuorumConfig(cluster_id=CLUSTER_ID), told, state)
            world.put("request", world.nodes[by], told, request, request)
        elif verb == "snapshot":
            world.take_snapshot(int(words[0]))
        elif verb == "install":
            world.install(int(words[0]))
        elif verb == "crash-installing":
            world.crash_installing(int(words[0]))
        elif verb == "rot":
            world.rot(int(words[0]), int(words[1]))
        elif verb == "rot-snapshot":
            world.rot_snapshot(int(words[0]))
        elif verb == "scrub":
            world.scrub(int(words[0]))
        elif verb == "lose-snapshots":
            world.nodes[int(words[0])].log.snapshots.files.clear()
        elif verb == "cut":
            a, b = int(words[0]), int(words[1])
            world.blocked |= {(a, b), (b, a)}
        elif verb == "mend":
            world.blocked.clear()
        elif not self._change(verb, words):
            return self._question(verb, words)
        return []

    def _change(self, verb: str, words: list[str]) -> bool:
        """Carry out a command about voters; whether it is one."""
        world = self.world
        if not isinstance(world, VotersWorld):
            return False
        ids = [int(word) for word in words]
        if verb == "add-voter":
            world.add_voter(*ids)
        elif verb == "remove-voter":
            voter = world.machine(ids[0]).voter_set.get(ids[1])
            assert voter is not None, f"{ids[1]} is no voter"
            world.remove_voter(ids[0], voter.key)
        elif verb == "upgrade":
            world.upgrade(ids[0])
        elif verb == "wipe":
            world.wipe(ids[0])
        else:
            return False
        return True

    def _question(self, verb: str, words: list[str]) -> list[str]:
        world = self.world
        if isinstance(world, VotersWorld) and verb == "changes":
            return [f"{name}: {error_name(error)}" for name, error in world.changes.items()]
        if isinstance(world, VotersWorld) and verb == "voters-of":
            voters = world.machine(int(words[0])).voter_set.voters
            return [" ".join(f"{v.id}/{v.key.directory_id[-2]}" for v in voters)]
        if verb == "outcomes":
            return [
                f"{name}: {error_name(outcome.error)} {outcome.base_offset}"
                for name, outcome in world.outcomes.items()
            ]
        if verb == "time":
            return [f"{world.now_ms} ms"]
        assert verb == "check", f"{verb} is no command"
        world.check_logs()
        world.check_promises()
        return ["ok"]

    def _flight(self, words: list[str]) -> Flight:
        """The first message on the named way, of the named kind if one is named."""
        source, target = (int(word) for word in words[0].split("->"))
        for flight in self.world.flights:
            if (flight.source, flight.target) == (source, target) and (
                len(words) < 2 or words[1] == kind_of(flight)
            ):
                return flight
        raise Violation(f"no {' '.join(words)} among {[describe(f) for f in self.world.flights]}")

    def _news(self) -> Iterator[str]:
        """Nodes that look different from when they were last seen, and new messages."""
        for id_ in self.world.nodes:
            shown = self._show(id_)
            if self._seen.get(id_) != shown:
                self._seen[id_] = shown
                yield shown
        for flight in self.world.flights:
            if flight.number > self._last_flight:
                yield describe(flight)
        self._last_flight = max(
            [self._last_flight, *(flight.number for flight in self.world.flights)]
        )

    def _show(self, node_id: int) -> str:
        node = self.world.nodes[node_id]
        log: list[str] = []
        if node.log.start_offset > 0:
            log.append(f"{node.log.start_offset}:")
        for entry in node.log.entries:
            if entry.base_offset == node.log.durable_offset:
                log.append("|")
            log.append(str(entry.epoch))
        shown = f"[{' '.join(log)}]"
        if node.wants_install is not None:
            shown += f" wants {node.wants_install.end_offset}-e{node.wants_install.epoch}"
        if node.machine is not None and node.machine.damaged_at is not None:
            shown += f" damaged at {node.machine.damaged_at}"
        if node.machine is None:
            return f"{node_id} is down   {shown}"
        machine = node.machine
        leader = f"of {machine.leader_id}" if machine.leader_id >= 0 else "of ?"
        role = machine.role.value.ljust(11)
        line = f"{node_id} {role} e{machine.epoch} {leader}   hw {machine.high_watermark}   {shown}"
        if isinstance(self.world, VotersWorld):
            line += f"   of {' '.join(map(str, machine.voters)) or 'nobody'}"
        return line


def kind_of(flight: Flight) -> str:
    """Vote, PreVote, Fetch, ...: the name of the API, with `Answer` or `Failure` behind it."""
    name = type(flight.request).__name__.removesuffix("Request")
    if isinstance(flight.request, VoteRequest) and flight.request.topics[0].partitions[0].pre_vote:
        name = "PreVote"
    return name + {"request": "", "response": "Answer", "failure": "Failure"}[flight.kind]


def describe(flight: Flight) -> str:
    """A message as one line."""
    return f"{flight.source}->{flight.target} {kind_of(flight)}{_details(flight)}"


def _details(flight: Flight) -> str:
    message = flight.message
    if isinstance(message, VoteRequest):
        asked = message.topics[0].partitions[0]
        return f" e{asked.replica_epoch}, log e{asked.last_offset_epoch} to {asked.last_offset}"
    if isinstance(message, VoteResponse):
        said = message.topics[0].partitions[0]
        verdict = "yes" if said.vote_granted else "no"
        return f" e{said.leader_epoch} {verdict if not said.error_code else _error(said)}"
    if isinstance(message, FetchRequest):
        asked_of = message.topics[0].partitions[0]
        return (
            f" e{asked_of.current_leader_epoch} from {asked_of.fetch_offset}, "
            f"last e{asked_of.last_fetched_epoch}"
        )
    if isinstance(message, FetchResponse):
        got = message.responses[0].partitions[0]
        if got.error_code:
            return f" {_error(got)}"
        if got.diverging_epoch.epoch >= 0:
            return f" diverges at e{got.diverging_epoch.epoch} to {got.diverging_epoch.end_offset}"
        if got.snapshot_id.epoch >= 0:
            return f" snapshot {got.snapshot_id.end_offset}-e{got.snapshot_id.epoch}"
        return f" hw {got.high_watermark}, {len(got.records)} bytes"
    if isinstance(message, FetchSnapshotRequest | FetchSnapshotResponse):
        return _snapshot_details(message)
    if isinstance(message, FetchQuorumRecordsRequest):
        return (
            f" e{message.leader_epoch} from {message.fetch_offset}, "
            f"last e{message.last_fetched_epoch}"
        )
    if isinstance(message, FetchQuorumRecordsResponse):
        error = f" {_error(message)}" if message.error_code else ""
        cut = f", cut to {message.next_fetch_offset}" if message.next_fetch_offset >= 0 else ""
        return f"{error} hw {message.high_watermark}, {len(message.records)} bytes{cut}"
    if message is None or isinstance(message, ApiVersionsRequest | ApiVersionsResponse):
        return ""
    if isinstance(message, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest):
        return f" {message.voter_id}/{message.voter_directory_id[-2]}"
    if isinstance(
        message, AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse
    ):
        return f" {_error(message)}"
    partition = message.topics[0].partitions[0]  # type: ignore[attr-defined]
    error = _error(partition) + " " if getattr(partition, "error_code", 0) else ""
    return f" {error}e{partition.leader_epoch} of {partition.leader_id}"


def _snapshot_details(message: FetchSnapshotRequest | FetchSnapshotResponse) -> str:
    partition = message.topics[0].partitions[0]
    id_ = f" {partition.snapshot_id.end_offset}-e{partition.snapshot_id.epoch}"
    if isinstance(partition, PartitionSnapshotRequest):
        return f" e{partition.current_leader_epoch}, {id_.strip()} from {partition.position}"
    if partition.error_code:
        return f" {_error(partition)}"
    size = len(partition.unaligned_records)
    return f"{id_} {partition.position}+{size} of {partition.size}"


def _error(partition: object) -> str:
    return error_name(partition.error_code)  # type: ignore[attr-defined]
