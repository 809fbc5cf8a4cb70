"""A compacted log beside a model: random lives, and after each step what Kafka promises of it.

The model keeps every batch that was appended, and which records the log is known to have. A
compaction may take records out, each for a reason the model can name; nothing else may change.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fencepost.batch.control import read_control
from fencepost.batch.records import read_batch
from fencepost.log.checkpoints import OffsetCheckpoint
from fencepost.log.cleaner.offset_map import ENTRY_BYTES
from fencepost.log.meta import format_log_dir
from fencepost.log.names import CLEANER_FILE
from fencepost.log.partition_log import PartitionLog
from fencepost.log.verify.directory import Verifier
from fencepost.log.verify.problems import Severity
from fencepost.sim.disk import SimDisk
from fencepost.wire.records.control import ControlType
from fencepost.wire.types import Uuid

from .cleaning import clean, put, put_marker
from .helpers import NOW_MS, config, open_log

CONFIG = config(
    internal_segment_bytes=400, index_interval_bytes=100, cleanup_policy="compact",
    delete_retention_ms=500,
)  # fmt: skip
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"long" * 20, None])
VALUES = st.sampled_from([None, b"", b"x", b"value" * 3])
PRODUCERS = st.sampled_from([-1, 0, 1, 2, 3])
"""-1: none; 0 and 1 are idempotent, the others transactional."""
Pair = tuple[bytes | None, bytes | None]


@dataclass
class Batch:
    """What was appended: data, or a marker (`committed` says which)."""

    base_offset: int
    items: list[Pair]
    producer: int = -1
    committed: bool | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + (len(self.items) if self.committed is None else 1)


class CompactedLog(RuleBasedStateMachine):
    """See the module docstring."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimDisk()
        format_log_dir(self.disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid.random())
        self.disk.mkdir("/data")
        self.disk.sync_dir("/")
        self.log: PartitionLog = open_log(self.disk, "/data/t-0", CONFIG)
        self.batches: list[Batch] = []
        self.gone: set[int] = set()
        self.cleaned: int | None = None
        self.high_watermark = 0
        self.epoch = 0
        self.wall_ms = NOW_MS

    # ---- the model

    def next_sequence(self, producer: int) -> int:
        return sum(len(one.items) for one in self.batches if one.producer == producer)

    def undecided(self) -> set[int]:
        return {
            batch.producer for at, batch in enumerate(self.batches) if self.fate(at) == "undecided"
        }

    def fate(self, at: int) -> str:
        """What became of a batch: plain, committed, aborted, undecided, marker."""
        batch = self.batches[at]
        if batch.committed is not None:
            return "marker"
        if batch.producer < 2:
            return "plain"
        for later in self.batches[at:]:
            if later.producer == batch.producer and later.committed is not None:
                return "committed" if later.committed else "aborted"
        return "undecided"

    def records(self) -> list[tuple[int, Pair, str]]:
        """Every record that was ever appended and not cut off."""
        found = []
        for at, batch in enumerate(self.batches):
            if batch.committed is None:
                fate = self.fate(at)
                found += [
                    (batch.base_offset + delta, item, fate)
                    for delta, item in enumerate(batch.items)
                ]
        return found

    def expected(self, *fates: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """The records that the log should have now."""
        return [
            (offset, *item)
            for offset, item, fate in self.records()
            if offset >= self.log.start_offset
            and offset not in self.gone
            and (not fates or fate in fates)
        ]

    def found(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """All data records that readers of uncommitted data see."""
        return [
            (record.offset, record.key, record.value)
            for header, batch in self.log.read_all_batches(
                self.log.start_offset, self.log.end_offset
            )
            if not header.is_control
            for record in read_batch(batch, 0, header)
            if record.offset >= self.log.start_offset
        ]

    def found_committed(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a reader of committed data makes of the log, told of aborted transactions."""
        log, found = self.log, []
        stable = log.last_stable_offset(log.end_offset)
        aborted = sorted(
            log.aborted_transactions(log.start_offset, stable), key=lambda one: one.first_offset
        )
        inside: set[int] = set()
        for header, batch in log.read_all_batches(log.start_offset, stable):
            while aborted and aborted[0].first_offset <= header.last_offset:
                inside.add(aborted.pop(0).producer_id)
            if header.is_control:
                if any(one.type == ControlType.ABORT for one in read_control(batch)):
                    inside.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in inside):
                found += [
                    (record.offset, record.key, record.value)
                    for record in read_batch(batch, 0, header)
                    if record.offset >= log.start_offset
                ]
        return found

    def tails(self) -> dict[int, tuple[int, int, int]]:
        return {
            one.producer_id: (one.producer_epoch, one.last_sequence, one.last_offset)
            for one in self.log.producers.active()
        }

    # ---- what happens

    @rule(
        producer=PRODUCERS,
        items=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
        compression=st.sampled_from(["none", "none", "gzip", "zstd"]),
    )
    def append(self, producer: int, items: list[Pair], compression: str) -> None:
        stamps: dict[str, int | bool] = {}
        if producer >= 0:
            stamps = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": self.next_sequence(producer),
                "transactional": producer >= 2,
            }
        base = self.log.end_offset
        self.batches.append(Batch(base, items, producer))
        assert base == put(self.log, *items, epoch=self.epoch, compression=compression, **stamps)

    @precondition(lambda self: self.undecided())
    @rule(data=st.data(), committed=st.booleans())
    def decide(self, data: st.DataObject, committed: bool) -> None:
        producer = data.draw(st.sampled_from(sorted(self.undecided())))
        self.batches.append(Batch(self.log.end_offset, [], producer, committed))
        put_marker(self.log, producer, committed=committed, epoch=self.epoch)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.wall_ms)

    @rule(share=st.floats(0, 1))
    def replicate(self, share: float) -> None:
        self.log.flush()
        self.high_watermark += int((self.log.end_offset - self.high_watermark) * share + 0.5)

    @rule(ms=st.sampled_from([1, 499, 500]))
    def wait(self, ms: int) -> None:
        self.wall_ms += ms

    @precondition(lambda self: self.log.end_offset > self.high_watermark)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        bases = [one.base_offset for one in self.batches if one.base_offset >= self.high_watermark]
        if not bases:
            return
        target = data.draw(st.sampled_from(bases))
        self.log.truncate_to(target)
        self.batches = [one for one in self.batches if one.base_offset < target]
        assert self.log.end_offset == target

    @rule(share=st.floats(0, 0.5))
    def delete_records(self, share: float) -> None:
        start = self.log.start_offset
        self.log.advance_start_offset(start + int((self.high_watermark - start) * share))

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        self.log.flush()
        tails, start, epochs = self.tails(), self.log.start_offset, list(self.log.epochs)
        point = self.log.recovery_point
        if is_clean:
            self.log.close()
            if self.cleaned is not None:
                checkpoint = OffsetCheckpoint(self.disk, f"/data/{CLEANER_FILE}")
                checkpoint.write({("t", 0): self.cleaned})
            problems = Verifier(self.disk, is_live=lambda _: False).run(["/data/t-0"])
            assert [str(one) for one in problems if one.severity is Severity.ERROR] == []
        else:
            self.disk.process_death()
        self.log = open_log(
            self.disk, "/data/t-0", CONFIG, recovery_point=point, start_offset=start,
            clean_shutdown=is_clean, cleaned_offset=self.cleaned or 0,
        )  # fmt: skip
        # What has no batch left, not even an emptied one, is known from a snapshot or not at all.
        now = self.tails()
        assert all(tails[producer] == tail for producer, tail in now.items() if tail[2] >= 0)
        assert list(self.log.epochs) == epochs

    @rule(keys=st.sampled_from([1, 2, 4, 100]))
    def compact(self, keys: int) -> None:
        before = self.expected()
        horizons = {
            record.offset
            for header, batch in self.log.read_all_batches(
                self.log.start_offset, self.log.end_offset
            )
            if header.has_delete_horizon and header.base_timestamp <= self.wall_ms
            for record in read_batch(batch, 0, header)
        }
        tails, end = self.tails(), self.log.end_offset
        epochs = list(self.log.epochs)
        cleaning = clean(
            self.log, self.cleaned, high_watermark=self.high_watermark, wall_ms=self.wall_ms,
            map_bytes=keys * (ENTRY_BYTES + 33), io_bytes=64,
        )  # fmt: skip
        self.cleaned = reach = cleaning.cleaned_offset
        assert reach <= max(self.high_watermark, self.log.start_offset)
        left = self.found()
        assert set(left) <= set(before)
        fates = {offset: fate for offset, _, fate in self.records()}
        last = {
            key: offset
            for offset, key, _ in before
            if fates[offset] != "aborted" and offset < self.high_watermark
        }
        for offset, key, value in set(before) - set(left):
            # Aborted records go from every segment that is cleaned, also beyond what the offset
            # map has keys of, as in Kafka.
            assert offset < reach or fates[offset] == "aborted"
            reasons = (
                fates[offset] == "aborted",
                key is None,
                last.get(key, -1) > offset,
                value is None and offset in horizons,
            )
            assert any(reasons), f"{offset} {key!r} {value!r} is gone without a reason"
            self.gone.add(offset)
        keys_below = [key for offset, key, _ in left if offset < reach]
        assert None not in keys_below
        assert len(keys_below) == len(set(keys_below))
        assert not [
            offset for offset, _, _ in left if offset < reach and fates[offset] == "aborted"
        ]
        assert (self.log.end_offset, self.tails()) == (end, tails)
        assert list(self.log.epochs) == epochs

    # ---- what always holds

    @invariant()
    def readers_see_what_they_should(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.found() == self.expected()
        stable = self.log.last_stable_offset(self.log.end_offset)
        assert self.found_committed() == [
            record for record in self.expected("plain", "committed") if record[0] < stable
        ]
        for offset in range(self.log.start_offset, self.log.end_offset, 3):
            for buffer in self.log.read(offset, 1, self.log.end_offset).buffers:
                header = next(iter(self.log.read_all_batches(offset, self.log.end_offset)))[0]
                assert bytes(buffer[:8]) == header.base_offset.to_bytes(8)
                assert header.last_offset >= offset


QUICK = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCompactedLog = CompactedLog.TestCase
TestCompactedLog.settings = QUICK


@pytest.mark.long
def test_many_lives_of_compacted_logs():
    run_state_machine_as_test(CompactedLog, settings=settings(QUICK, max_examples=1000))
