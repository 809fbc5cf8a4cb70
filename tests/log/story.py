"""The life of one partition, and a model of what must survive when it is cut short.

The model is a list of batches and a few numbers. Every operation is done to both, to the model
first. When the disk stops in the midst of one, the log that is found afterwards must be a prefix of
the batches before or after that operation, and hold everything that had been made durable.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.batch.header import read_header
from fencepost.log.flush import FlushJob
from fencepost.log.partition_log import PartitionLog

from .helpers import NOW_MS, append, apply_retention, config, contents, epochs_of, make_batch

CONFIG = config(internal_segment_bytes=700, index_interval_bytes=150, retention_bytes=2500)

Batches = list[tuple[int, bytes]]


@dataclass
class Model:
    """What the log must be like."""

    batches: Batches = field(default_factory=list)
    start: int = 0
    end: int = 0
    durable_end: int = 0
    checkpointed_start: int = 0
    epoch: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    starts_over: bool = False

    @classmethod
    def of(cls, log: PartitionLog, epoch: int, checkpointed_start: int = 0) -> Model:
        """The log as it is, all of it durable."""
        return cls(
            contents(log),
            start=log.start_offset,
            end=log.end_offset,
            durable_end=log.end_offset,
            checkpointed_start=checkpointed_start,
            epoch=epoch,
            sequences={
                state.producer_id: state.last_sequence + 1 for state in log.producers.active()
            },
        )

    def copy(self) -> Model:
        return Model(
            list(self.batches),
            self.start,
            self.end,
            self.durable_end,
            self.checkpointed_start,
            self.epoch,
            dict(self.sequences),
        )

    def note_checkpoint(self) -> None:
        """The start is written down, as far as it is durable."""
        durable = max(self.durable_end, min(self.checkpointed_start, self.end))
        self.checkpointed_start = min(self.start, durable)

    def drop_below_start(self) -> None:
        self.batches = [
            (base, data)
            for base, data in self.batches
            if base + read_header(data).last_offset_delta >= self.start
        ]


class Story:
    """One partition's log and its model; `random` draws what is done to them."""

    def __init__(self, draw: random.Random) -> None:
        self.random = draw
        self.model = Model()
        self.before = Model()
        self.log: PartitionLog

    def announce(self) -> None:
        """The model has changed, the log has not yet: for those who watch."""

    def step(self, operation: Callable[[], None]) -> None:
        """Do one operation, whole or (if the disk stops) in part."""
        self.before = self.model.copy()
        operation()
        self.before = self.model.copy()

    # ---- operations

    def append(self) -> None:
        producer = self.random.randrange(4)
        records = self.random.randrange(1, 6)
        sequence = self.model.sequences.get(producer, 0)
        batch = make_batch(
            records,
            self.random.randrange(1, 90),
            timestamp_ms=NOW_MS + self.random.randrange(1000),
            producer_id=producer if producer else -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequence if producer else -1,
            fill=self.random.randrange(256),
        )
        # What the log will make of it is known before it is there.
        expected = bytearray(batch)
        expected[0:8] = self.model.end.to_bytes(8)
        expected[12:16] = self.model.epoch.to_bytes(4)
        self.model.batches.append((self.model.end, bytes(expected)))
        self.model.end += records
        if producer:
            self.model.sequences[producer] = sequence + records
        self.announce()
        append(self.log, batch, self.model.epoch)
        assert self.log.end_offset == self.model.end

    def flush(self) -> None:
        self.log.flush()
        self.model.durable_end = self.model.end

    def group_flush(self) -> None:
        """Appends go on while a flush runs, which covers none of them."""
        covered = self.model.end
        job = self.log.begin_flush()

        def meanwhile() -> None:
            for _ in range(self.random.randrange(4)):
                self.append()

        self.run_beside(job, meanwhile)
        self.log.finish_flush(job)
        self.model.durable_end = covered

    def run_beside(self, job: FlushJob, meanwhile: Callable[[], None]) -> None:
        """Run a flush; here, once everything else is done."""
        meanwhile()
        job.run()

    def new_epoch(self) -> None:
        self.model.epoch += 1
        self.log.epochs.assign(self.model.epoch, self.log.end_offset)

    def truncate(self) -> None:
        bases = [base for base, _ in self.model.batches] + [self.model.end]
        target = self.random.choice(bases[-6:])
        target = max(target, self.model.start)
        kept = [(base, data) for base, data in self.model.batches if base < target]
        self.model.batches = kept
        self.model.end = target
        self.model.durable_end = min(self.model.durable_end, target)
        if target == self.model.start and target not in bases:
            # The log starts within a batch, which goes as a whole, and all others with it.
            self.model.batches = kept = []
            self.model.starts_over = True
        self.model.sequences.clear()
        for _, data in kept:
            header = read_header(data)
            if header.producer_id >= 0:
                self.model.sequences[header.producer_id] = header.last_sequence + 1
        self.announce()
        self.log.truncate_to(target)
        self.model.starts_over = False
        assert self.log.end_offset == target

    def start_over(self) -> None:
        if self.random.random() < 0.7:
            return
        target = self.model.end + self.random.randrange(10)
        epoch = self.model.epoch
        self.model = Model(
            start=target, end=target, durable_end=target, epoch=epoch, starts_over=True
        )
        self.announce()
        self.log.truncate_fully_and_start_at(target)
        self.model.starts_over = False

    def advance(self) -> None:
        self.model.start = self.random.randrange(self.model.start, self.model.end + 1)
        self.model.drop_below_start()
        self.announce()
        self.log.advance_start_offset(self.model.start)

    def retain(self) -> None:
        # Which segments go is the log's decision; the model only follows.
        self.model.checkpointed_start = min(self.model.checkpointed_start, self.model.start)
        self.model.start = self.model.end
        self.announce()
        apply_retention(self.log, NOW_MS, self.log.end_offset)
        self.model.start = self.log.start_offset
        self.model.drop_below_start()

    def delete_files(self) -> None:
        self.log.delete_old_files(NOW_MS + 10**9 * self.random.randrange(3))

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    # ---- what must hold

    def check_equal(self, model: Model) -> None:
        assert self.log.start_offset == model.start
        assert self.log.end_offset == model.end
        assert contents(self.log) == model.batches

    def check_recovered(self, *, power: bool) -> None:
        """The log was opened again after a crash: is it what it may be?

        `before` and `model` are what it was when the operation amid which it happened began, and
        what it was to be.
        """
        before, after, log = self.before, self.model, self.log
        assert log.failure is None
        found = contents(log)
        assert matches(found, log, before) or matches(found, log, after)
        least = min(before.durable_end, after.durable_end)
        if not power:
            least = min(before.end, after.end)
        if after.starts_over:  # everything is to go; how much of it is gone does not matter
            least = 0
        assert log.end_offset >= least, f"durable up to {least}, found {log.end_offset}"
        assert log.recovery_point == log.end_offset
        low = min(before.checkpointed_start, after.checkpointed_start)
        assert min(low, log.end_offset) <= log.start_offset <= max(before.start, after.start)
        epochs = [tuple(entry) for entry in log.epochs if entry.start_offset < log.end_offset]
        assert epochs == epochs_of(found, log.start_offset)
        self.check_producers(found)
        self.check_reads(found)

    def check_producers(self, found: Batches) -> None:
        last = {}
        for _, data in found:
            header = read_header(data)
            if header.producer_id >= 0:
                last[header.producer_id] = header
        for producer_id, header in last.items():
            state = self.log.producers.get(producer_id)
            assert state is not None
            assert state.last_sequence == header.last_sequence
            assert state.last_offset == header.last_offset
            assert self.log.producers.check(header).is_duplicate
        assert self.log.producers.end_offset == self.log.end_offset

    def check_reads(self, found: Batches) -> None:
        for base, data in found:
            header = read_header(data)
            for offset in {max(base, self.log.start_offset), header.last_offset}:
                result = self.log.read(offset, 1, self.log.end_offset)
                assert bytes(result.buffers[0]) == data


def matches(found: Batches, log: PartitionLog, model: Model) -> bool:
    """Whether the log is a prefix of the model's batches, from its own start on.

    Its start may lie before the model's if that was not checkpointed: the batches in front were
    in the model once, but need not be there. It may lie behind it if the crash was amid a deletion.
    """
    tail = [(base, data) for base, data in found if base >= model_base(model)]
    expected = [
        (base, data) for base, data in model.batches if next_of(base, data) > log.start_offset
    ]
    if tail != expected[: len(tail)]:
        return False
    return not tail or log.end_offset == next_of(*tail[-1])


def next_of(base: int, data: bytes) -> int:
    """The offset behind a batch."""
    return base + read_header(data).last_offset_delta + 1


def model_base(model: Model) -> int:
    """Where the model's first batch begins."""
    return model.batches[0][0] if model.batches else model.end
