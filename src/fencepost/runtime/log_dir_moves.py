"""Replicas move to another log directory of their broker: AlterReplicaLogDirs (KIP-113, KIP-858).

Theory of operation
-------------------
The replica's log is copied into a `-future` directory beside the partitions of the target, in
pieces between which other work has its turn, until the copy is near the log's end and durable. How
near grows from nothing to `NEAR_BYTES`, so that clients wait only for a log that grows faster than
it is copied and synced. Then the target is reported to the controller as the replica's directory,
and when the metadata say so, the rest is copied and synced in one turn of the event loop, and the
copy takes the log's place: it gets the partition's name, and the old log is renamed to be deleted.
The order makes sure that a crash at any point leaves one log that counts:

| crash                                   | found at the next start               | then           |
|-----------------------------------------|---------------------------------------|----------------|
| before the copy has its name, whatever  | the old log, a copy                   | copied further |
| the metadata say                        |                                       |                |
| when the copy has its name              | two logs; the metadata say the target | its log counts |
| when the old one is renamed, too        | the new log                           |                |

A move ends when another target is asked for, the target is where the replica is, the partition goes
away, or one of the directories fails. Then the copy is removed, and if the target was reported to
the controller already, the replica's directory is reported again.

The log is not compacted meanwhile. Old logs stay readable for `OLD_LOGS_MS`, for reads that have
begun. The node drives it over ports; no asyncio here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from fencepost.log import future_logs
from fencepost.log.checkpoints import TopicPartition
from fencepost.log.descriptors import is_shortage
from fencepost.log.errors import LogError
from fencepost.log.future_logs import Copying, SourceUnreadableError
from fencepost.log.log_dir import LogDir
from fencepost.log.names import is_future_dir_too_long
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.fetch import ByteRate
from fencepost.machines.image import ClusterImage
from fencepost.runtime.cooperative import Pieces, result_of
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 256 * 1024
NEAR_BYTES: Final = 1024 * 1024
"""How much may be left to copy and sync, in the end, while the event loop waits."""
NEARER_BYTES: Final = 4 * 1024
"""How much it is at the second look, after nothing at the first."""
WAIT_MS: Final = 20
PREFERRED_MAX: Final = 10_000
OLD_LOGS_MS: Final = 60_000
"""How long reads that began before a log was replaced can go on with it."""


class MovingDir(Protocol):
    """A log directory that replicas move to and from."""

    path: str
    partitions: set[TopicPartition]

    @property
    def directory_id(self) -> Uuid | None:
        """Its id; None if it could not be read."""
        ...

    @property
    def is_online(self) -> bool:
        """Whether it works."""
        ...

    @property
    def logs(self) -> LogDir:
        """The open directory."""
        ...

    def fail(self, reason: object) -> None:
        """Nothing is to be had from it any more."""
        ...


class FutureReplica(Struct, frozen=True):
    """A copy on its way, as DescribeLogDirs tells of it."""

    hosted: HostedPartition
    size_bytes: int
    offset_lag: int


class Move(Struct, eq=False):
    """One replica on its way."""

    hosted: HostedPartition
    target: MovingDir
    found: str | None
    """The directory of a copy that an earlier run has left."""
    copying: Copying | None = None
    near_bytes: int = 0
    """How much may be left now."""
    is_told: bool = False
    is_over: bool = False

    @property
    def copy(self) -> PartitionLog:
        """The copy; it must be open."""
        assert self.copying is not None, "it is open"
        return self.copying.copy

    def is_near(self) -> bool:
        """Whether so little is left that the event loop may wait for it; if not, next time more
        may be."""
        assert self.copying is not None, "it is open"
        if self.copying.left_bytes(self.near_bytes + 1) <= self.near_bytes:
            return True
        self.near_bytes = min(max(2 * self.near_bytes, NEARER_BYTES), NEAR_BYTES)
        return False


class LogDirMoves:
    """All moves of a node; see the module docstring."""

    def __init__(
        self,
        broker_id: int,
        replicas: ReplicaManager,
        ports: MachinePorts,
        dirs: Callable[[], Sequence[MovingDir]],
        image: Callable[[], ClusterImage],
        preferred: dict[TopicPartition, Any],
        is_cordoned: Callable[[str], bool],
    ) -> None:
        """`preferred` is where replicas go that are not here yet, as AlterReplicaLogDirs asked.

        `is_cordoned` says of a directory's path whether it takes new replicas (KIP-1066).
        """
        self._broker_id = broker_id
        self._replicas = replicas
        self._ports = ports
        self._dirs = dirs
        self._image = image
        self._lane = ports.scheduler.lane()
        self._moves: dict[TopicPartition, Move] = {}
        self._old_logs: list[PartitionLog] = []
        self.rate = ByteRate()
        """`replica.alter.log.dirs.io.max.bytes.per.second`."""
        self._preferred = preferred
        self._is_cordoned = is_cordoned
        self._closed = False

    # -- asked from outside ------------------------------------------------------------------

    def move(self, topic: str, index: int, path: str) -> ErrorCode:
        """Begin to move a replica to the directory at `path`; see `apis/alter_replica_log_dirs`."""
        if is_future_dir_too_long(topic, index):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        target = next((one for one in self._dirs() if one.path == path), None)
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not target.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._is_cordoned(path):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        found = self._replicas.get(topic, index)
        if found is ErrorCode.KAFKA_STORAGE_ERROR:
            return found
        key = topic, index
        present = self._moves.get(key)
        if present is not None and present.target is not target:
            self._end(present)
            present = None
        if isinstance(found, ErrorCode):
            self._prefer(key, target)
            is_known = found is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else found
        if found.data_dir is target or present is not None:
            return ErrorCode.NONE
        if not all(one.is_online for one in self._dirs()):
            return ErrorCode.KAFKA_STORAGE_ERROR  # a copy may be in the one that is not
        self._begin(found, target, None)
        return ErrorCode.NONE

    def _prefer(self, key: TopicPartition, target: MovingDir) -> None:
        """Remember where the replica is to go, and of too many the latest."""
        self._preferred.pop(key, None)
        while len(self._preferred) >= PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = target

    def futures(self) -> Iterator[tuple[Any, FutureReplica]]:
        """The copies that are on their way, with the directory each is in."""
        for move in self._moves.values():
            if move.copying is not None:
                lag = max(move.hosted.log.end_offset - move.copy.end_offset, 0)
                yield move.target, FutureReplica(move.hosted, move.copy.size_bytes, lag)

    def resume(self) -> None:
        """Go on with what an earlier run has left, or remove it."""
        for data_dir in self._dirs():
            if not data_dir.is_online:
                continue
            try:
                for key, directory in list(data_dir.logs.copies_on_disk()):
                    hosted = self._replicas.get(*key)
                    if (
                        isinstance(hosted, HostedPartition)
                        and hosted.data_dir is not data_dir
                        and key not in self._moves
                    ):
                        self._begin(hosted, data_dir, directory)
                    else:
                        future_logs.discard(data_dir.logs, key, directory)
            except OSError as error:
                self._replicas.dir_failed(data_dir, str(error))

    def close(self) -> None:
        """Stop copying; what is copied stays for the next start."""
        self._closed = True
        for move in self._moves.values():
            move.is_over = True
            move.hosted.is_moving = False
            if move.copying is not None:
                move.copy.close(clean=False)
        self._moves.clear()
        for old in self._old_logs:
            old.close(clean=False)
        self._old_logs.clear()

    # -- one move ----------------------------------------------------------------------------

    def _begin(self, hosted: HostedPartition, target: MovingDir, found: str | None) -> None:
        log.info("moving %s from %s to %s", hosted.key, hosted.data_dir.path, target.path)
        move = Move(hosted, target, found)
        hosted.is_moving = True
        self._moves[hosted.topic, hosted.index] = move
        self._lane.begin(self._guarded(move))

    def _guarded(self, move: Move) -> Pieces[None]:
        """Move it; whatever goes wrong with the target takes that offline and not the replica."""
        hosted = move.hosted
        try:
            yield from self._copied(move)
        except SourceUnreadableError as error:
            if not self._is_stale(move):
                self._replicas.storage_failed(hosted, f"{hosted.key}: {error}", error.error)
        except (LogError, OSError) as error:
            if self._is_stale(move):
                return
            if isinstance(error, OSError) and not is_shortage(error):
                self._replicas.dir_failed(move.target, f"a copy of {hosted.key}: {error}")
            else:
                log.error("cannot move %s: %s", hosted.key, error)
        finally:
            self._end(move)

    def _copied(self, move: Move) -> Pieces[None]:
        self._open(move)
        while True:
            while self._copy_some(move):
                yield self._throttled()
                if self._is_stale(move):
                    return
            error = yield from result_of(self._flushed(move))
            if self._is_stale(move):
                return
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback has this frame
            if not self._is_assigned(move):
                self._tell(move, move.target)
                yield self._later(WAIT_MS)
            elif move.hosted.log.is_being_cleaned:
                yield self._later(WAIT_MS)
            elif move.is_near():
                self._swap(move)
                return
            if self._is_stale(move):
                return

    def _open(self, move: Move) -> None:
        source = move.hosted.log
        logs = move.target.logs
        wall_ms = self._ports.wall_ms()
        copy: PartitionLog | None = None
        if move.found is not None:
            try:
                copy = future_logs.open_future(logs, source, wall_ms, move.found)
            except LogError as error:
                log.warning("discarding %s and copying again: %s", move.found, error)
                future_logs.discard(logs, (source.topic, source.partition), move.found)
        if copy is None:
            copy = future_logs.open_future(logs, source, wall_ms)
        move.copying = Copying(source, copy)

    def _copy_some(self, move: Move) -> bool:
        """Copy a piece; whether there is more."""
        copying = move.copying
        assert copying is not None, "it is open"
        copying.align()
        if copying.is_complete:
            return False
        found = copying.read_next(PIECE_BYTES)
        copying.append(found, self._ports.wall_ms())
        self.rate.record(found.size_bytes, self._ports.now_ms())
        return not copying.is_complete

    def _swap(self, move: Move) -> None:
        """The rest, and then the copy takes the log's place; all of it in one turn."""
        hosted, target, copying = move.hosted, move.target, move.copying
        assert copying is not None, "it is open"
        while self._copy_some(move):
            pass
        copying.finish()
        old, source_dir, copy = hosted.log, hosted.data_dir, copying.copy
        target.logs.take_in(copy)
        key = hosted.topic, hosted.index
        target.partitions.add(key)
        source_dir.partitions.discard(key)
        self._replicas.replace_log(hosted, copy, target)
        move.copying = None
        log.info("moved %s to %s", hosted.key, target.path)
        try:
            source_dir.logs.give_away(old)
        except OSError as error:
            self._replicas.dir_failed(source_dir, f"{old.directory}: {error}")
        self._old_logs.append(old)
        self._ports.timers.after(OLD_LOGS_MS, partial(self._close_old, old))

    def _close_old(self, old: PartitionLog) -> None:
        if old in self._old_logs:
            self._old_logs.remove(old)
            old.close(clean=False)

    # -- where it stands -----------------------------------------------------------------------

    def _is_stale(self, move: Move) -> bool:
        """Whether the move has lost its purpose: over, target offline, or the partition gone."""
        hosted = move.hosted
        return (
            move.is_over
            or not move.target.is_online
            or self._replicas.get(hosted.topic, hosted.index) is not hosted
        )

    def _is_assigned(self, move: Move) -> bool:
        """Whether the metadata say that the replica is in the target, if they speak of that."""
        image, hosted = self._image(), move.hosted
        if not image.has_directories:
            return True
        partition = image.partition(hosted.topic_id, hosted.index)
        if partition is None or self._broker_id not in partition.replicas:
            return False
        return partition.directory_of(self._broker_id) == move.target.directory_id

    def _tell(self, move: Move, data_dir: MovingDir) -> None:
        """Have the controller note where the replica is, once."""
        if move.is_told is (data_dir is move.target) or data_dir.directory_id is None:
            return
        move.is_told = data_dir is move.target
        hosted = move.hosted
        self._replicas.on_placed([(hosted.topic_id, hosted.index, data_dir.directory_id)])

    def _end(self, move: Move) -> None:
        """No move any more, whether it has come to its end or not."""
        if self._closed or move.is_over:
            return
        move.is_over = True
        hosted = move.hosted
        hosted.is_moving = False
        key = hosted.topic, hosted.index
        if self._moves.get(key) is move:
            del self._moves[key]
        if hosted.data_dir is not move.target and self._replicas.get(*key) is hosted:
            self._tell(move, hosted.data_dir)
        copying, move.copying = move.copying, None
        if copying is not None:
            copy = copying.copy
            copy.close(clean=False)
            if move.target.is_online:
                try:
                    future_logs.discard(move.target.logs, key, copy.directory)
                except OSError as error:
                    self._replicas.dir_failed(move.target, f"{copy.directory}: {error}")

    # -- waiting -------------------------------------------------------------------------------

    def _later(self, delay_ms: int) -> Future[Any]:
        """Done after a while."""
        done: Future[Any] = Future()
        self._ports.timers.after(delay_ms, lambda: done.set_result(None))
        return done

    def _throttled(self) -> Future[Any] | None:
        """Nothing, or what to wait for while too much was copied lately."""
        return self._later(WAIT_MS) if self.rate.is_exceeded(self._ports.now_ms()) else None

    def _flushed(self, move: Move) -> Future[Exception | None]:
        """Done when what is copied so far is durable; or with why it is not."""
        copy = move.copy
        job = copy.begin_flush()
        done: Future[Exception | None] = Future()

        def finish(error: Exception | None) -> None:
            if error is None and not move.is_over:
                copy.finish_flush(job)
            done.set_result(error)

        self._ports.run_in_background(job.run, finish)
        return done
