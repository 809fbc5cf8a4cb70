"""Dead letters: which topics take them, what is tried again, and how they are cut (KIP-1191)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.batch.records import read_records
from fencepost.machines.group.settings import ShareSettings
from fencepost.machines.share.inputs import LetterRange
from fencepost.machines.share.records import DeadLetterCause
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.cooperative import Scheduler
from fencepost.runtime.dead_letters import ATTEMPTS_MAX, LETTERS_PER_BATCH, DeadLetters
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..timers import ManualTimers

KEY = SharePartitionKey("group", Uuid(b"t" * 16), 5)


class Box:
    """A `LetterBox` in memory, whose next answers are given."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.may_create = False
        self.prefix = "dlq."
        self.taking: set[str] = set()
        self.answers: list[ErrorCode] = []
        self.created: list[str] = []
        self.batches: list[tuple[int, bytes]] = []
        self.most = 1_000_000

    def takes_letters(self, topic: str) -> bool:
        return topic in self.taking

    def max_batch_bytes(self, topic: str) -> int:
        return self.most

    def _answer(self) -> ErrorCode:
        return self.answers.pop(0) if self.answers else ErrorCode.NONE

    def create(self, topic: str, done: Any) -> None:
        self.created.append(topic)
        error = self._answer()
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self.world.topics[topic] = SimpleNamespace(partitions=[0, 1])
            self.taking.add(topic)
        done(error)

    def write(self, topic: Any, partition: int, batch: bytearray, done: Any) -> None:
        error = self._answer()
        if error is ErrorCode.NONE:
            self.batches.append((partition, bytes(batch)))
        done(error)

    @property
    def letters(self) -> list[Any]:
        return [record for _, batch in self.batches for record in read_records(batch)]


class World:
    """Dead letters of one node."""

    def __init__(self) -> None:
        self.topics: dict[str, Any] = {}
        self.timers = ManualTimers()
        self.box = Box(self)
        self.done = 0
        clocks = SimpleNamespace(now_ms=lambda: 0, wall_ms=lambda: 77)
        loop = SimpleNamespace(
            call_soon=lambda callback: self.timers.after(0, callback),
            call_soon_threadsafe=lambda callback: self.timers.after(0, callback),
        )
        image = SimpleNamespace(topics_by_name=self.topics, features={"share.version": 2})
        self.image = image
        self.queue = DeadLetters(
            self.timers,
            clocks,
            Scheduler(loop).lane(),
            None,  # type: ignore[arg-type] - no copies
            lambda: image,  # type: ignore[arg-type,return-value]
            self.box,
        )

    def send(self, topic: str, first: int = 0, last: int = 0) -> None:
        def done() -> None:
            self.done += 1

        hosted: Any = SimpleNamespace(topic="source", index=5, key="source-5", log=None)
        letters = LetterRange(first, last, 3, DeadLetterCause.DELIVERY_COUNT)
        self.queue.send(KEY, hosted, letters, ShareSettings(dead_letter_topic=topic), done)
        self.timers.advance(0)


@pytest.mark.parametrize(
    ("name", "exists", "takes", "may_create", "written"),
    [
        ("any", True, True, False, True),
        ("any", True, False, True, False),
        ("dlq.any", False, False, True, True),
        ("dlq.any", False, False, False, False),
        ("any", False, False, True, False),
        ("__any", True, True, True, False),
    ],
)
def test_which_topics_take_letters(
    name: str, exists: bool, takes: bool, may_create: bool, written: bool
) -> None:
    world = World()
    if exists:
        world.topics[name] = SimpleNamespace(partitions=[0, 1])
    if takes:
        world.box.taking.add(name)
    world.box.may_create = may_create
    world.send(name)
    assert (bool(world.box.batches), world.done) == (written, 1)


def test_there_are_letters_from_level_2_on_for_groups_that_name_a_topic() -> None:
    world = World()
    assert world.queue.is_active(ShareSettings(dead_letter_topic="x"))
    assert not world.queue.is_active(ShareSettings())
    world.image.features["share.version"] = 1
    assert not world.queue.is_active(ShareSettings(dead_letter_topic="x"))


def ready() -> World:
    world = World()
    world.topics["dlq"] = SimpleNamespace(partitions=[0, 1])
    world.box.taking.add("dlq")
    return world


def test_letters_say_what_they_are_about_and_go_to_the_partition_of_the_number() -> None:
    world = ready()
    world.send("dlq", 7, 8)
    assert [partition for partition, _ in world.box.batches] == [5 % 2]
    assert [dict(one.headers)["__dlq.errors.offset"] for one in world.box.letters] == [b"7", b"8"]
    headers = dict(world.box.letters[0].headers)
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert headers["__dlq.errors.delivery.count"] == b"3"
    assert world.box.letters[0].timestamp_ms == 77


@pytest.mark.parametrize("error", [6, 7, 13])
def test_writes_are_tried_again_and_then_given_up(error: int) -> None:
    world = ready()
    world.box.answers = [ErrorCode(error)] * (ATTEMPTS_MAX - 1)
    world.send("dlq")
    assert world.done == 0
    world.timers.advance(120_000)
    assert world.done == 1 and len(world.box.letters) == 1
    world.box.answers = [ErrorCode(error)] * ATTEMPTS_MAX
    world.send("dlq")
    world.timers.advance(120_000)
    assert world.done == 2 and len(world.box.letters) == 1 and not world.box.answers


def test_another_error_is_not_tried_again() -> None:
    world = ready()
    world.box.answers = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    world.send("dlq")
    assert world.done == 1 and not world.box.letters


@pytest.mark.parametrize(("error", "written"), [(36, True), (89, True), (41, False)])
def test_creations_are_tried_again(error: int, written: bool) -> None:
    world = World()
    world.box.may_create = True
    world.box.answers = [ErrorCode(error)]
    world.send("dlq.x")
    world.timers.advance(10_000)
    assert (len(world.box.letters), world.done) == (int(written), 1)


def test_many_letters_are_cut_into_batches_that_the_topic_takes() -> None:
    world = ready()
    last = LETTERS_PER_BATCH * 2 + 10
    world.send("dlq", 0, last)
    world.timers.advance(0)
    offsets = [int(dict(one.headers)["__dlq.errors.offset"]) for one in world.box.letters]
    assert offsets == list(range(last + 1)) and len(world.box.batches) == 3
    small = ready()
    small.box.most = 1_000
    small.send("dlq", 0, 20)
    small.timers.advance(0)
    assert len(small.box.letters) == 21 and small.done == 1
    assert all(len(batch) <= 1_000 for _, batch in small.box.batches)
