"""One machine and its snapshots on a bench: leading, following, fetching one piece after another.

The node is 1 of the voters 1, 2, 3, in epoch 5, with a log of epochs that a test chooses.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import (
    Append,
    DropPrefix,
    Effect,
    InstallSnapshot,
    Persist,
    Persisted,
    Reply,
    Send,
    SendAfterPersist,
    StoreSnapshot,
    TimerFired,
    Truncate,
)
from fencepost.machines.quorum import (
    DraftAdapter,
    FetchBounds,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    Role,
    SnapshotBounds,
    SnapshotInstalled,
    SnapshotTaken,
    Start,
    answered,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.machines.quorum.draft import NOT_SPOKEN
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.wire.api.fetch_snapshot import FetchSnapshotResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from .quorum_log import ListLog

NODE = 1


EPOCH = 5


LATER = 10_000_000


CONFIG = QuorumConfig(cluster_id="world", fetch_snapshot_max_bytes=100)


class Bench:
    """A machine on a log with one batch per epoch in `epochs`, beginning at `start`."""

    def __init__(
        self,
        epochs: tuple[int, ...] = (1, 1, 2, 3, 3),
        snapshots: tuple[tuple[int, int], ...] = (),
        start: int = 0,
        state: QuorumState | None = None,
        voters: tuple[int, ...] = (1, 2, 3),
        config: QuorumConfig = CONFIG,
        follows_with: int = NOT_SPOKEN,
    ) -> None:
        self.log = ListLog()
        for epoch in epochs:
            self.log.append(Append([RecordBatch.parse(build_batch([(None, b"old")]))], epoch))
        for end_offset, epoch in snapshots:
            entries = [e for e in self.log.entries if e.next_offset <= end_offset]
            self.log.snapshots.put(SnapshotId(end_offset, epoch), entries)
        if start:
            self.log.drop_prefix(start)
        self.log.durable_offset = self.log.end_offset
        self.machine = QuorumMachine(
            NODE, voters, self.log, state or QuorumState(EPOCH, leader_id=2), config
        )
        self.adapter = DraftAdapter(self.machine, self.log, follows_with)
        self.now_ms = 1_000
        self.wall_ahead_ms = 600_000
        self.effects = self.step(Start([0]))

    @property
    def wall_ms(self) -> int:
        """What the wall clock shows; `wall_ahead_ms` sets it."""
        return self.now_ms + self.wall_ahead_ms

    def step(self, input_: Any, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        effects = self.adapter.step(input_, self.now_ms, self.wall_ms)
        for work in works(effects):
            if isinstance(work, Append):
                self.log.append(work)
            elif isinstance(work, Truncate):
                self.log.cut(work.end_offset)
            elif isinstance(work, StoreSnapshot):
                self.log.snapshots.store(work)
            elif isinstance(work, DropPrefix):
                self.log.drop_prefix(work.start_offset)
        return effects

    def flush(self) -> list[Effect]:
        self.log.durable_offset = self.log.end_offset
        return self.step(Persisted(self.log.end_offset))

    def reply(self, request: Message) -> Any:
        """What the request is answered with at once; None if it waits."""
        effects = self.step(received("t", request))
        return next((e.value for e in effects if isinstance(e, Reply)), None)

    def asks(self, effects: list[Effect]) -> Any:
        """The last message that is sent to the leader among the effects."""
        sent = [e.message for e in effects if isinstance(e, Send | SendAfterPersist) and e.to == 2]
        return sent[-1] if sent else None


def works(effects: list[Effect]) -> list[Any]:
    return [effect.work for effect in effects if isinstance(effect, Persist)]


def leader(**options: Any) -> Bench:
    """Leads epoch 5; its log and its first record are on disk and committed."""
    bench = Bench(state=QuorumState(EPOCH - 1), **options)
    asked = bench.asks(bench.step(TimerFired(inputs.ELECTION), LATER))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH - 1, True)
    asked = bench.asks(bench.step(answered(2, asked, yes)))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH, True)
    bench.step(answered(2, asked, yes))
    bench.flush()
    assert bench.machine.role is Role.LEADER
    bench.reply(fetch(bench.log.end_offset, EPOCH, replica=2))
    assert bench.machine.is_active_leader
    return bench


def fetch(
    offset: int, last: int, replica: int = 3, known: int = -1, wait_ms: int = 500, **fields: Any
) -> Any:
    request = messages.fetch_request(CONFIG, replica, EPOCH, (last, offset), known)
    request.max_wait_ms = wait_ms
    return request


DROPPED = {"epochs": (1, 1, 2, 3, 3), "snapshots": ((2, 1), (3, 2)), "start": 2}


WHOLE = {"epochs": (1, 1, 2, 3, 3), "snapshots": ((0, 0), (3, 2))}


FRESH = {"epochs": (1, 1, 2, 3, 3), "snapshots": ((0, 0),)}


BARE: dict[str, Any] = {"epochs": (1, 1, 2, 3, 3)}


END = 6  # five batches and the LeaderChange


def fetch_snapshot(
    id_: tuple[int, int] = (3, 2), position: int = 0, epoch: int = EPOCH, replica: int = 3
) -> Any:
    return messages.fetch_snapshot_request(CONFIG, replica, epoch, SnapshotId(*id_), position)


OFFERED = SnapshotId(9, 4)


OTHER = Bench((1, 1, 2, 3, 3, 3, 3, 3, 4), snapshots=(OFFERED,))


DATA = OTHER.log.snapshots.files[OFFERED]


def offer(bench: Bench, snapshot_id: tuple[int, int] = OFFERED, epoch: int = EPOCH) -> list[Effect]:
    """The leader answers the fetch that is under way with a snapshot's id."""
    asked = bench.machine.requests.in_flight[2][0]
    bounds = FetchBounds(ErrorCode.NONE, 2, epoch, 5, 5, 9, 9, snapshot_id=SnapshotId(*snapshot_id))
    return bench.step(answered(2, asked, fetch_response(bounds)))


def piece(
    position: int,
    size: int = 100,
    total: int = len(DATA),
    id_: SnapshotId = OFFERED,
    error: ErrorCode = ErrorCode.NONE,
    leader: tuple[int, int] = (2, EPOCH),
) -> FetchSnapshotResponse:
    bounds = SnapshotBounds(error, *leader, None if error else id_, total, position)
    return messages.fetch_snapshot_response(bounds, DATA[position : position + size])


def give(bench: Bench, response: FetchSnapshotResponse) -> list[Effect]:
    """The leader's answer to the request that is under way."""
    return bench.step(answered(2, bench.machine.requests.in_flight[2][0], response))


def loading(bench: Bench | None = None) -> Bench:
    """A follower that has the first piece and asks for the second."""
    bench = bench or Bench()
    asked = bench.asks(offer(bench))
    partition = asked.topics[0].partitions[0]
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == OFFERED
    assert (partition.position, partition.current_leader_epoch) == (0, EPOCH)
    assert asked.max_bytes == CONFIG.fetch_snapshot_max_bytes
    give(bench, piece(0))
    return bench


def loaded(bench: Bench | None = None) -> Bench:
    """A follower that has all pieces and waits for them to be installed."""
    bench = loading(bench)
    effects: list[Effect] = []
    for position in range(100, len(DATA), 100):
        assert not [w for w in works(effects) if isinstance(w, InstallSnapshot)]
        effects = give(bench, piece(position))
    assert isinstance(works(effects)[-1], InstallSnapshot)
    assert bench.asks(effects) is None, "the log is left alone"
    return bench


def again(bench: Bench) -> str:
    """What is asked of the leader once the retry is due."""
    effects = bench.step(TimerFired(inputs.RETRY), CONFIG.request_timeout_ms)
    return type(bench.asks(effects)).__name__


def install(bench: Bench, history: VoterHistory | None = None) -> list[Effect]:
    shelf = bench.log.snapshots
    assert shelf.finish(OFFERED) is None
    bench.log.start_over(OFFERED)
    return bench.step(SnapshotInstalled(OFFERED, history))


def take(bench: Bench, end_offset: int, time_ms: int = 1_000) -> list[Effect]:
    entries = [e for e in bench.log.all_entries if e.next_offset <= end_offset]
    snapshot_id = SnapshotId(end_offset, entries[-1].epoch)
    bench.log.snapshots.put(snapshot_id, entries, time_ms)
    return bench.step(SnapshotTaken(snapshot_id))


def keeping(bytes_: int, ms: int = -1) -> dict[str, Any]:
    return {"config": replace(CONFIG, retention_bytes=bytes_, retention_ms=ms)}


def damage(offset: int) -> inputs.LogDamaged:
    return inputs.LogDamaged(offset, "crc")
