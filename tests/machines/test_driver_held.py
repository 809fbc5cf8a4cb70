"""Messages that wait for the disk: when the driver lets them go, and when they never leave."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.effects import (
    Append,
    DiskFailed,
    Effect,
    InstallSnapshot,
    Persist,
    Persisted,
    Reply,
    Send,
    SendAfterPersist,
    SnapshotId,
    Truncate,
    TruncatedBelow,
)

from .test_driver_breaks import Obeying, Shell

KEY = "a"


class Listening(Obeying):
    """The same, and what it does when a flush is done is up to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.when_durable: list[Effect] = []
        self.when_truncated: list[Effect] = []

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        if isinstance(input_, Persisted):
            self.heard.append(input_)
            return self.when_durable
        if isinstance(input_, TruncatedBelow):
            self.heard.append(input_)
            return self.when_truncated
        return super().step(input_, now_ms, wall_ms)


class Node(Shell):
    """A log that ends where the test says, and notes in which order what was done."""

    def __init__(self) -> None:
        super().__init__()
        self.end_offset = 0
        self.batch_begins_at: int | None = None
        self.done: list[Any] = []
        self.flushes = 0
        self.refuses = False
        self.machine = Listening()
        self.driver.add(KEY, self.machine)

    def append(self, key: Any, work: Append, wall_ms: int) -> int:
        if self.refuses:
            raise OSError("ENOSPC")
        self.end_offset += len(work.batches)
        return self.end_offset

    def request_flush(self, key: Any) -> None:
        self.flushes += 1

    def truncate(self, key: Any, work: Truncate) -> int:
        begins_at, self.batch_begins_at = self.batch_begins_at, None
        self.end_offset = work.end_offset if begins_at is None else begins_at
        return self.end_offset

    def install_snapshot(self, key: Any, work: InstallSnapshot) -> None:
        pass

    def stepped(self, key: Any, machine: Any) -> None:
        self.done.append("stepped")

    def step(self, *effects: Effect) -> None:
        self.driver.feed(KEY, list(effects))

    def persisted(self, end_offset: int) -> None:
        self.driver.persisted(KEY, end_offset)


def appending(count: int) -> Persist:
    return Persist(Append([b""] * count, 1))


def test_a_message_leaves_when_all_appended_before_it_is_durable() -> None:
    node = Node()
    node.step(appending(2), SendAfterPersist(2, "first"), appending(1), SendAfterPersist(2, "two"))
    node.persisted(1)
    assert node.sent == []
    node.persisted(2)
    assert node.sent == ["first"]
    node.persisted(3)
    assert node.sent == ["first", "two"]


def test_a_message_without_an_append_before_it_leaves_at_once() -> None:
    node = Node()
    node.step(SendAfterPersist(2, "nothing to wait for"), Send(2, "behind it"))
    assert node.sent == ["nothing to wait for", "behind it"]


def test_a_message_that_is_held_asks_for_the_flush_that_it_waits_for() -> None:
    node = Node()
    node.step(appending(1))
    flushes = node.flushes
    node.step(SendAfterPersist(2, "held"))
    assert node.flushes == flushes + 1


def test_messages_leave_before_the_machine_hears_of_the_flush() -> None:
    """What it sends in answer is behind what had waited."""
    node = Node()
    node.step(appending(1), SendAfterPersist(2, "held"))
    node.machine.when_durable = [Send(2, "the answer")]
    node.persisted(1)
    assert node.sent == ["held", "the answer"]


@pytest.mark.parametrize(
    "cut", [Truncate(1), InstallSnapshot(SnapshotId(1, 1))], ids=["truncate", "install"]
)
def test_a_message_about_records_that_are_cut_off_never_leaves(cut: Any) -> None:
    """Others take their offsets, whose flush says nothing of them."""
    node = Node()
    node.step(appending(3), SendAfterPersist(2, "we hold three"))
    node.step(Persist(cut))
    node.step(appending(3))
    node.persisted(node.end_offset)
    assert node.sent == []


def test_a_message_behind_a_cut_waits_for_the_log_as_it_is_now() -> None:
    node = Node()
    node.step(appending(5))
    node.step(Persist(Truncate(2)), SendAfterPersist(2, "we hold two"))
    node.persisted(2)
    assert node.sent == ["we hold two"]


def test_no_message_leaves_after_a_flush_has_failed() -> None:
    node = Node()
    node.step(appending(1), SendAfterPersist(2, "held"))
    node.driver.disk_failed(KEY, "EIO")
    node.persisted(1)
    assert node.sent == [] and node.driver.disk_has_failed(KEY)


def test_no_message_leaves_after_an_append_has_failed() -> None:
    node = Node()
    node.step(appending(1), SendAfterPersist(2, "held"))
    node.refuses = True
    node.step(appending(1), SendAfterPersist(2, "dropped"), Reply("t", "dropped"))
    node.persisted(2)
    assert node.sent == [] and node.replies == ["refused"]


def test_the_machine_hears_of_its_failed_disk_before_anything_else() -> None:
    """An input that was waiting meanwhile must not be taken for one of a working log."""
    node = Node()
    node.refuses = True

    def feed_more() -> None:
        node.on_reply = None
        node.step(appending(1))
        node.step(Reply("t", "taken"))

    node.on_reply = feed_more
    node.step(Reply("t", "before"))
    failures = [at for at, input_ in enumerate(node.machine.heard) if type(input_) is DiskFailed]
    assert failures == [2], "right behind the append that failed"
    assert node.replies == ["before", "refused", "taken"]


def test_a_machine_hears_what_was_not_done_because_its_disk_failed() -> None:
    node = Node()
    node.refuses = True
    node.step(Reply("a", "told"), appending(1), Reply("b", "dropped"), Reply("c", "dropped"))
    (failed,) = [input_ for input_ in node.machine.heard if type(input_) is DiskFailed]
    assert failed.dropped == (Reply("b", "dropped"), Reply("c", "dropped"))


def test_a_step_that_failed_is_not_looked_at_until_the_machine_knows() -> None:
    node = Node()
    node.refuses = True
    node.step(appending(1))
    assert node.done == ["stepped"], "once, behind DiskFailed"


def test_what_the_shell_says_of_a_machine_that_is_gone_is_nothing() -> None:
    node = Node()
    node.step(appending(1), SendAfterPersist(2, "held"))
    node.driver.remove(KEY)
    node.persisted(1)
    node.driver.disk_failed(KEY, "EIO")
    assert node.sent == [] and not node.driver.disk_has_failed(KEY)
    assert Persisted(1) not in node.machine.heard


def test_what_waits_for_a_machine_is_stepped_before_it_is_removed() -> None:
    """A replica is deleted within a step of the metadata log's machine, which others wait for."""
    shell = Shell()
    metadata, partition = Obeying(), Obeying()
    shell.driver.add("metadata", metadata)
    shell.driver.add("partition", partition)

    def delete() -> None:
        if shell.replies == ["deleted"]:
            shell.driver.feed("other", [])
            shell.driver.feed("partition", [Reply("waiting", "gone")])
            assert not partition.heard, "it waits for the step that is being carried out"
            shell.driver.drain("partition")
            shell.driver.remove("partition")

    shell.on_reply = delete
    shell.driver.feed("metadata", [Reply("topic", "deleted")])
    assert partition.heard == [[Reply("waiting", "gone")]]
    assert shell.replies == ["deleted", "gone"]


def test_a_machine_hears_at_once_of_a_cut_that_took_more_than_it_asked_for() -> None:
    """The offset lay in a batch: nothing comes between, and what it answers is carried out."""
    node = Node()
    node.step(appending(5))
    node.batch_begins_at = 3
    node.machine.when_truncated = [Send(2, "it ends lower")]
    node.driver.feed(KEY, [Persist(Truncate(4)), Send(1, "it is cut")])
    assert node.machine.heard[-1] == TruncatedBelow(3)
    assert node.sent == ["it is cut", "it ends lower"]
    node.step(Persist(Truncate(2)))
    assert node.machine.heard.count(TruncatedBelow(2)) == 0, "this one is where it was asked for"
