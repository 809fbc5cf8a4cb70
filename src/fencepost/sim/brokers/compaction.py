"""Log compaction in a simulated broker: the product's cleaner, at once and on the broker's thread.

What chooses logs and lends threads to them (`broker/replicas/compaction.py`) is not here: a timer
of `Cleaners` or a scenario calls `compact`. The observer is shown the log before and after.
"""

from __future__ import annotations

from typing import Final

from fencepost.batch.header import iter_headers
from fencepost.batch.records import read_batch
from fencepost.log.cleaner.job import CleaningStats, Copied
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.names import LOG_SUFFIX, SWAP_SUFFIX
from fencepost.log.partition_log import PartitionLog
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.brokers.checkpoints import key_of
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.cleaned_batches import KeyedRecord, LogLook
from fencepost.sim.disk import Crash
from fencepost.sim.partition_oracle import PartitionBatch, partition_batch

MAP_BYTES: Final = 1 << 16


def compact(broker: BrokerProcess, hosted: HostedPartition) -> CleaningStats:
    """Clean what may be cleaned, be it worth it or not. LogError, OSError."""
    log, wall_ms = hosted.log, broker.clocks.wall_ms()
    cleaned_offset = broker.log_dir.cleaned_offset(log)
    dirt = log.measure_dirt(cleaned_offset, hosted.machine.high_watermark, wall_ms)
    before = contents_of(broker, log, wall_ms)
    cleaning = log.begin_cleaning(dirt, wall_ms)

    def put_in_place(copied: Copied) -> None:
        swap = log.begin_swap(cleaning, copied)
        swap.run()
        log.finish_swap(swap)

    observer, key = broker.world.observer, key_of(hosted)
    try:
        cleaning.run(OffsetMap(MAP_BYTES), put_in_place)
        broker.log_dir.note_cleaned(log, cleaning)
    except Crash:  # the next start may finish the swap or undo it
        after = contents_of(broker, log, wall_ms, suffix=LOG_SUFFIX + SWAP_SUFFIX)
        observer.oracle.partitions.cleaned(key).note(before, after)
        raise
    except Exception:
        observer.replica_cleaned(broker.id, key, before, contents_of(broker, log, wall_ms))
        raise
    finally:
        log.end_cleaning(cleaning)
    observer.replica_cleaned(broker.id, key, before, contents_of(broker, log, wall_ms))
    return cleaning.stats


def contents_of(
    broker: BrokerProcess, log: PartitionLog, wall_ms: int, *, suffix: str = LOG_SUFFIX
) -> LogLook[PartitionBatch]:
    """Everything that is in a log's files, whether readers may see it or not: also below the log's
    start, which a broker that is killed may forget. A disk that fails does not fail us."""
    batches, records = [], []
    fault, broker.disk.fault = broker.disk.fault, None
    try:
        names = sorted(one for one in broker.disk.list(log.directory) if one.endswith(suffix))
        files = [broker.disk.read(f"{log.directory}/{name}") for name in names]
    finally:
        broker.disk.fault = fault
    for data in files:
        for position, header in iter_headers(data):
            batch = memoryview(data)[position : position + header.size_bytes]
            batches.append(partition_batch(batch))
            has_passed = header.has_delete_horizon and header.base_timestamp <= wall_ms
            for one in () if header.is_control else read_batch(batch, 0, header):
                may_go = has_passed and one.value is None
                records.append(
                    KeyedRecord(one.offset, header.base_offset, one.key, one.value, may_go)
                )
    return LogLook(batches, records)
