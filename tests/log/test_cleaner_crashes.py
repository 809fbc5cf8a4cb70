"""A crash at every change to the disk that a compaction makes, by power loss or of the process.

Afterwards each stretch of the log has its records of before or those of after, nothing that was
durable is missing, and compacting once more gives what would have come out without a crash. S95.
"""

from __future__ import annotations

import errno
import random
from itertools import pairwise

import pytest

from fencepost.batch.header import read_header
from fencepost.batch.records import Record
from fencepost.log.errors import LogFailedError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.log.verify.directory import Verifier
from fencepost.sim.disk import Crash, SimDisk
from fencepost.wire.types import Uuid

from .cleaning import clean, put, put_marker, records_of, settle
from .helpers import NOW_MS, config, contents

PROPS = {"index_interval_bytes": 150, "cleanup_policy": "compact", "delete_retention_ms": 1000}
SMALL = config(internal_segment_bytes=500, **PROPS)
CONFIG = config(internal_segment_bytes=1800, **PROPS)
"""What the log is compacted with: several small segments become one."""
TOPIC_ID = Uuid(bytes(range(16)))
BATCHES = 40


class World:
    """A log with transactions, producers, epochs and tombstones in many small segments."""

    def __init__(self, seed: int, disk_seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.disk = SimDisk(disk_seed)
        format_log_dir(
            self.disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1")
        )
        self.wall_ms = NOW_MS
        self.epoch = 0
        self.start()
        self.log.config = SMALL
        self.fill()
        self.log.config = CONFIG
        self.before = records_of(self.log)
        self.batches = contents(self.log)
        self.end = self.log.end_offset
        self.epochs = list(self.log.epochs)
        self.tails = self.producer_tails()

    def start(self) -> None:
        self.log_dir = LogDir.open(self.disk, "/data")
        self.log: PartitionLog = self.log_dir.create("t", 0, TOPIC_ID, CONFIG, wall_ms=self.wall_ms)

    def fill(self) -> None:
        dice = self.random
        sequences: dict[int, int] = {}
        undecided: set[int] = set()
        for at in range(BATCHES):
            self.epoch = at // 15
            producer = dice.randrange(5) - 1
            items = [
                (b"k%d" % dice.randrange(9), None if dice.random() < 0.15 else b"v%d" % at * 4)
                for _ in range(dice.randrange(1, 4))
            ]
            stamps: dict[str, int | bool] = {}
            if producer >= 0:
                stamps = {
                    "producer_id": producer,
                    "producer_epoch": 0,
                    "base_sequence": sequences.get(producer, 0),
                    "transactional": producer >= 2,
                }
                sequences[producer] = sequences.get(producer, 0) + len(items)
                if producer >= 2:
                    undecided.add(producer)
            put(
                self.log,
                *items,
                epoch=self.epoch,
                compression=dice.choice(["none", "lz4"]),
                **stamps,
            )
            if undecided and dice.random() < 0.3:
                self.decide(undecided)
        while undecided:
            self.decide(undecided)
        settle(self.log)
        put(self.log, (b"k0", b"active"), epoch=self.epoch)
        self.log.flush()
        self.log_dir.checkpoint({("t", 0): self.log.end_offset})

    def decide(self, undecided: set[int]) -> None:
        producer = self.random.choice(sorted(undecided))
        undecided.discard(producer)
        put_marker(self.log, producer, committed=self.random.random() < 0.5, epoch=self.epoch)

    def producer_tails(self) -> dict[int, tuple[int, int, int]]:
        return {
            one.producer_id: (one.producer_epoch, one.last_sequence, one.last_offset)
            for one in self.log.producers.active()
        }

    def clean(self) -> None:
        cleaning = clean(self.log, self.log_dir.cleaned_offset(self.log), wall_ms=self.wall_ms)
        self.log_dir.note_cleaned(self.log, cleaning)

    def recover(self, *, power: bool) -> None:
        if power:
            self.disk.power_loss()
        else:
            self.disk.process_death()
        self.start()

    def verify(self) -> None:
        """Close in order, and let the verifier look at every file."""
        self.log_dir.close(high_watermarks={("t", 0): self.end})
        verifier = Verifier(self.disk, is_live=lambda _: False, is_deep=True)
        assert [str(one) for one in verifier.run(["/data"]) if one.is_problem] == []

    def check(self, after: list[Record]) -> None:
        """What holds wherever a compaction was stopped."""
        log = self.log
        assert log.failure is None
        assert (log.start_offset, log.end_offset) == (0, self.end)
        assert list(log.epochs) == self.epochs
        assert self.producer_tails() == self.tails
        found = records_of(log)
        known = {record.offset: record for record in self.before}
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(known[record.offset] == record for record in found)
        assert {record.offset for record in after} <= set(offsets)
        bases = [0, *log.segment_base_offsets[1:], self.end]
        for begin, end in pairwise(bases):
            here = [record for record in found if begin <= record.offset < end]
            assert here in (
                [record for record in self.before if begin <= record.offset < end],
                [record for record in after if begin <= record.offset < end],
            )
        for base, data in contents(log):
            result = log.read(read_header(data).last_offset, 1, log.end_offset)
            assert bytes(result.buffers[0]) == data
            assert result.first_offset == base
        assert (self.log_dir.cleaned_offset(log) or 0) <= self.end
        stages = {name.rpartition(".")[2] for name in self.disk.list("/data/t-0")}
        assert not stages & {"cleaned", "swap"}


def outcome(seed: int) -> tuple[list[Record], list[tuple[int, bytes]], int]:
    """The records and batches of a log that is compacted in peace, and the changes that takes."""
    world = World(seed)
    begin = world.disk.changes
    world.clean()
    changes = world.disk.changes - begin
    after = records_of(world.log)
    assert len(after) < len(world.before) * 0.8
    world.check(after)
    return after, contents(world.log), changes


def assert_crashes_survived(seed: int, power: bool, disk_seeds: range) -> None:
    after, batches, changes = outcome(seed)
    assert changes > 30
    for crash_at in range(1, changes + 1):
        for disk_seed in disk_seeds:
            world = World(seed, disk_seed * 7919 + crash_at)
            world.disk.crash_at = world.disk.changes + crash_at
            with pytest.raises(Crash):
                world.clean()
            try:
                world.recover(power=power)
                world.check(after)
                found = contents(world.log)
                world.recover(power=True)  # what was found is durable (S88)
                assert contents(world.log) == found
                world.clean()
                world.check(after)
                assert records_of(world.log) == after
                if found == world.batches:  # nothing had been put in place
                    assert contents(world.log) == batches
                if crash_at % 10 == 0:
                    world.verify()
            except Exception as error:
                error.add_note(f"seed {seed}, crash at {crash_at} of {changes}, disk {disk_seed}")
                raise


@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change(power: bool):
    assert_crashes_survived(0, power, range(1))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
def test_a_crash_at_every_change_of_other_logs(seed: int, power: bool):
    assert_crashes_survived(seed, power, range(3 if power else 1))


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_dir"])
def test_a_disk_that_refuses_takes_the_log_offline_or_changes_nothing(operation: str):
    after, _, _ = outcome(0)
    failures = 0
    for nth in range(1, 200):
        world = World(0)
        seen = sum(1 for done, _ in world.disk.operations if done == operation)

        def fault(done: str, at: str, count: int, wanted: int = seen + nth) -> OSError | None:
            if done == operation and count == wanted and "/t-0" in at:
                return OSError(errno.EIO, "injected", at)
            return None

        world.disk.fault = fault
        try:
            world.clean()
            break
        except OSError:
            failures += 1
        world.disk.fault = None
        if world.log.failure is not None:
            with pytest.raises(LogFailedError):
                world.log.read(0, 1, 1)
        else:
            assert records_of(world.log) == world.before or operation in ("create", "write", "sync")
        world.recover(power=True)
        world.check(after)
    else:
        pytest.fail("it never came to an end")
    assert failures > 1
