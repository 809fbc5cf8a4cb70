"""AlterReplicaLogDirs: replicas move between the log directories of a node that serves."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from fencepost.log.future_logs import Copying, SourceUnreadableError
from fencepost.machines.fetch import ByteRate
from fencepost.runtime import log_dir_moves
from fencepost.wire.api import (
    AlterReplicaLogDirsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
)
from fencepost.wire.api.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirTopic
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from .test_several_dirs import Dirs, batch, create, produce_to

DELETED = "*-delete"
FUTURE = "*-future"


@pytest.fixture
def dirs(tmp_path: Path) -> Any:
    started = Dirs(tmp_path)
    yield started
    started.running.close()


def move(client: Any, dirs: Dirs, to: str, *indexes: int, topic: str = "t") -> list[int]:
    """Have replicas moved; the error of each."""
    path = str(dirs.running.node.storage.data_dirs[0].path).rpartition("/")[0] + f"/{to}"
    asked = AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[asked])])
    [result] = client.ask(request, 2).results
    assert result.topic_name == topic
    return [one.error_code for one in result.partitions]


def files(dirs: Dirs, pattern: str) -> list[str]:
    return sorted(found.name for path in dirs.paths for found in path.glob(pattern))


def records(dirs: Dirs, index: int = 0) -> list[int]:
    """The offsets of the batches in the log."""
    log = dirs.replica(index).log
    read = dirs.running.call(lambda: list(log.read_all_batches(log.start_offset, log.end_offset)))
    return [header.base_offset for header, _ in read]


def elsewhere(dirs: Dirs, index: int = 0) -> str:
    return next(name for name in ("a", "b", "c") if name != dirs.place(index))


def test_a_replica_moves_with_what_it_has_and_goes_on(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=1)
    for value in (b"one", b"two", b"three"):
        assert produce_to(client, "t", 0, batch(value)).error_code == 0
    before, to = dirs.place(0), elsewhere(dirs)
    epoch = dirs.running.node.image.topics_by_name["t"].partitions[0].leader_epoch
    assert move(client, dirs, to, 0) == [0]
    eventually(lambda: dirs.place(0) == to)
    assert records(dirs) == [0, 1, 2]
    assert produce_to(client, "t", 0, batch(b"four")).base_offset == 3
    hosted = dirs.replica(0)
    assert hosted.log.directory.endswith(f"/{to}/t-0")
    assert dirs.image_directory(0) == hosted.data_dir.directory_id
    partition = dirs.running.node.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (1, epoch), "nobody lost the lead"
    assert not hosted.is_moving and files(dirs, FUTURE) == []
    known = [one.path for one in dirs.running.node.storage.data_dirs if ("t", 0) in one.partitions]
    assert known == [hosted.data_dir.path]
    [old] = files(dirs, DELETED)
    assert old.startswith("t-0.") and before != to
    back = move(client, dirs, before, 0)
    assert back == [0]
    eventually(lambda: dirs.place(0) == before)
    assert records(dirs) == [0, 1, 2, 3]


class StillLeft:
    """A log of which so much is always left, however much is copied."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.asked_for: list[int] = []

    def left_bytes(self, most: int) -> int:
        self.asked_for.append(most)
        return self.size_bytes


@pytest.mark.parametrize(
    ("left", "looks"),
    [(0, 1), (1, 2), (log_dir_moves.NEARER_BYTES + 1, 3), (log_dir_moves.NEAR_BYTES, 10)],
)
def test_the_faster_a_log_grows_the_more_may_be_left_for_the_end(left: int, looks: int) -> None:
    still = StillLeft(left)
    moving = log_dir_moves.Move(None, None, None, copying=still)  # type: ignore[arg-type]
    assert [moving.is_near() for _ in range(looks)] == [False] * (looks - 1) + [True]
    assert max(still.asked_for) <= log_dir_moves.NEAR_BYTES + 1


def test_a_log_that_grows_too_fast_is_never_near() -> None:
    still = StillLeft(log_dir_moves.NEAR_BYTES + 1)
    moving = log_dir_moves.Move(None, None, None, copying=still)  # type: ignore[arg-type]
    assert not any(moving.is_near() for _ in range(50))


def test_what_moved_is_there_after_a_restart(dirs: Dirs, tmp_path: Path) -> None:
    client = dirs.running.connect()
    create(client, partitions=2)
    assert produce_to(client, "t", 0, batch(b"one")).error_code == 0
    to = elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]
    eventually(lambda: dirs.place(0) == to)
    assert produce_to(client, "t", 0, batch(b"two")).error_code == 0
    dirs.running.restart()
    assert dirs.place(0) == to and records(dirs) == [0, 1]


def test_while_producers_write(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    """In small pieces, so that the log grows between them."""
    monkeypatch.setattr(log_dir_moves, "PIECE_BYTES", 1)
    client = dirs.running.connect()
    create(client, partitions=1)
    for _ in range(40):
        produce_to(client, "t", 0, batch(b"before"))
    to = elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]
    written = 40
    while dirs.place(0) != to:
        assert produce_to(client, "t", 0, batch(b"meanwhile")).base_offset == written
        written += 1
    assert records(dirs) == list(range(written))


def test_copying_is_held_back_by_its_rate(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_moves, "PIECE_BYTES", 1)
    client = dirs.running.connect()
    create(client, partitions=1)
    for _ in range(3):
        produce_to(client, "t", 0, batch(b"one"))
    asked: list[int] = []
    moves = dirs.running.node.broker.moves
    moves.rate = HeldRate(asked)
    to = elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]
    eventually(lambda: len(asked) >= 2)
    assert dirs.place(0) != to
    moves.rate = ByteRate()
    eventually(lambda: dirs.place(0) == to)


class HeldRate(ByteRate):
    """Always exceeded; notes who asks."""

    def __init__(self, asked: list[int]) -> None:
        super().__init__()
        self.asked = asked

    def is_exceeded(self, now_ms: int) -> bool:
        self.asked.append(now_ms)
        return True


def hold_back(dirs: Dirs) -> None:
    """Let copies come to the point where everything but the swap is done, and no further."""
    moves = dirs.running.node.broker.moves
    moves._is_assigned = lambda move: False


def let_go(dirs: Dirs) -> None:
    del dirs.running.node.broker.moves._is_assigned


def test_a_copy_on_its_way_is_described(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=1)
    produce_to(client, "t", 0, batch(b"one"))
    hold_back(dirs)
    to = elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]

    def found() -> dict[tuple[str, bool], int]:
        answer = client.ask(DescribeLogDirsRequest(topics=None), 4)
        return {
            (Path(one.log_dir).name, p.is_future_key): p.offset_lag
            for one in answer.results
            for t in one.topics
            for p in t.partitions
        }

    now = {(dirs.place(0), False): 0, (to, True): 0}
    eventually(lambda: found() == now)
    [copy] = files(dirs, FUTURE)
    assert copy.startswith("t-0.")
    let_go(dirs)
    eventually(lambda: found() == {(to, False): 0})


@pytest.mark.parametrize("how", ["back", "another", "deleted"])
def test_a_move_is_called_off(dirs: Dirs, how: str) -> None:
    client = dirs.running.connect()
    create(client, partitions=1)
    produce_to(client, "t", 0, batch(b"one"))
    hold_back(dirs)
    here, to = dirs.place(0), elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]
    eventually(lambda: len(files(dirs, FUTURE)) == 1)
    third = next(name for name in ("a", "b", "c") if name not in (here, to))
    target = next(one for one in dirs.running.node.storage.data_dirs if one.path.endswith(to))
    eventually(lambda: dirs.image_directory(0) == target.directory_id)
    if how == "back":
        assert move(client, dirs, here, 0) == [0]
        eventually(lambda: files(dirs, FUTURE) == [])
        assert dirs.place(0) == here
        # The controller has been told of the target, and is told of the truth again.
        eventually(lambda: dirs.image_directory(0) == dirs.replica(0).data_dir.directory_id)
    elif how == "another":
        assert move(client, dirs, third, 0) == [0]
        let_go(dirs)
        eventually(lambda: dirs.place(0) == third)
        assert files(dirs, FUTURE) == []
    else:
        client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000), 6)
        eventually(lambda: files(dirs, FUTURE) == [])
        eventually(lambda: isinstance(dirs.replica(0), ErrorCode))
    client.ask(DescribeLogDirsRequest(topics=None), 4)  # whatever was still to be done is done
    assert all(one.is_online for one in dirs.running.node.storage.data_dirs)


def test_a_copy_that_a_stop_left_is_gone_on_with(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=2)
    for value in (b"one", b"two"):
        produce_to(client, "t", 0, batch(value))
    hold_back(dirs)
    to = elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]
    eventually(lambda: len(files(dirs, FUTURE)) == 1)
    (dirs.paths[0] / "gone-0.0123-future").mkdir()
    (dirs.paths["abc".index(dirs.place(1))] / "t-1.0123-future").mkdir()
    place = dirs.place(1)
    dirs.running.restart()
    eventually(lambda: dirs.place(0) == to)
    assert records(dirs) == [0, 1] and files(dirs, FUTURE) == []
    assert dirs.place(1) == place


def test_what_is_refused(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=1)
    assert move(client, dirs, "nowhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
    for topic, index in (("t", -1), ("a b", 0), ("", 0)):
        unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert move(client, dirs, "nowhere", index, topic=topic) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert move(client, dirs, dirs.place(0), index, topic=topic) == unknown
    assert move(client, dirs, "a", 0, topic="x" * 240) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert move(client, dirs, dirs.place(0), 0) == [0], "it is there"
    paths = [str(path) for path in dirs.paths]
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])]
            )
            for path in paths
        ]
    )
    [result] = client.ask(request, 1).results
    errors = [one.error_code for one in result.partitions]
    assert errors[1:] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("method", "number", "is_source", "is_target"),
    [
        ("read_next", errno.EIO, False, True),
        ("append", errno.EIO, True, False),
        ("finish", errno.EIO, True, False),
        ("append", errno.EMFILE, True, True),
    ],
)
def test_whose_fault_it_is(
    dirs: Dirs,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    number: int,
    is_source: bool,
    is_target: bool,
) -> None:
    """A disk that refuses takes its own directory offline, and a want of files takes none."""
    client = dirs.running.connect()
    create(client, partitions=3)
    for index in range(3):
        produce_to(client, "t", index, batch(b"one"))

    def refuse(*_: Any) -> Any:
        error = OSError(number, "planted")
        raise SourceUnreadableError(error) if method == "read_next" else error

    monkeypatch.setattr(Copying, method, refuse)
    # In the first directory is the metadata log.
    [index] = [index for index in range(3) if dirs.place(index) == "b"]
    _, source, target = dirs.running.node.storage.data_dirs
    moves = dirs.running.node.broker.moves
    assert move(client, dirs, "c", index) == [0]
    eventually(lambda: ("t", index) not in moves._moves)
    assert (source.is_online, target.is_online) == (is_source, is_target)


def test_where_a_new_partition_goes_is_remembered(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=3)
    assert move(client, dirs, "b", 0, 1, topic="u") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    create(client, "u", partitions=2)
    eventually(lambda: not isinstance(dirs.replica(1, "u"), ErrorCode))
    assert {dirs.place(0, "u"), dirs.place(1, "u")} == {"b"}


def test_a_new_partition_goes_elsewhere_if_what_was_chosen_has_failed(dirs: Dirs) -> None:
    client = dirs.running.connect()
    assert move(client, dirs, "c", 0, topic="u") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    chosen = next(one for one in dirs.running.node.storage.data_dirs if one.path.endswith("c"))
    dirs.running.call(dirs.running.node.broker.replicas.dir_failed, chosen, "planted")
    create(client, "u", partitions=1)
    eventually(lambda: not isinstance(dirs.replica(0, "u"), ErrorCode))
    assert dirs.place(0, "u") in ("a", "b")
    assert produce_to(client, "u", 0, batch(b"one")).error_code == 0


def test_the_target_fails_while_it_is_copied(dirs: Dirs) -> None:
    client = dirs.running.connect()
    create(client, partitions=3)
    produce_to(client, "t", 0, batch(b"one"))
    hold_back(dirs)
    to = elsewhere(dirs)
    assert move(client, dirs, to, 0) == [0]
    eventually(lambda: len(files(dirs, FUTURE)) == 1)
    target = next(one for one in dirs.running.node.storage.data_dirs if one.path.endswith(to))
    dirs.running.call(dirs.running.node.broker.replicas.dir_failed, target, "planted")
    eventually(lambda: not dirs.replica(0).is_moving)
    assert dirs.place(0) != to
    assert produce_to(client, "t", 0, batch(b"two")).error_code == 0
    assert move(client, dirs, to, 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
    third = next(name for name in ("a", "b", "c") if name not in (dirs.place(0), to))
    assert move(client, dirs, third, 0) == [ErrorCode.KAFKA_STORAGE_ERROR], "a copy may be in it"
