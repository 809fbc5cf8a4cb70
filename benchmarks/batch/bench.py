"""Record batches to Arrow and back: ours beside kafka-python and aiokafka, in one run.

    python benchmarks/batch/bench.py [--rounds 7] [--seconds 0.4] [--only SUBSTRING]

Every candidate turns the same bytes into the same columns (key, value, offset, timestamp), or the
same columns into batches of the same size, CRCs checked and computed. Rounds are interleaved, so
that a noisy neighbour hits everybody; the table has medians of records per second and, because
those move with the machine, the ratio of our kernels to each of the others in the same run. Results
are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import aiokafka.record.default_records as aiokafka_records
import numpy as np
import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords as AiokafkaMemoryRecords

from fencepost.batch import backend
from fencepost.batch.columns import decode_columns, encode_columns, partition_columns
from fencepost.batch.compression import CODECS
from fencepost.batch.header import stamp
from fencepost.batch.records import read_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records as kafka_records
    from kafka.partitioner.default import murmur2
    from kafka.record.memory_records import MemoryRecords as KafkaMemoryRecords

KERNELS = backend.kernels
COLUMNS = ["key", "value", "offset", "timestamp"]
TIMESTAMP = pa.timestamp("us", tz="UTC")
NOW_MS = 1_700_000_000_000
BLOB_BYTES = 4 << 20
OURS = "ours, C"
NUMPY = "ours, numpy"


class Case(NamedTuple):
    """One shape of data."""

    name: str
    value_bytes: int
    batch_bytes: int
    codec: str = "none"
    headers: int = 0


CASES = [
    Case("100 B, 1 MB batches", 100, 1 << 20),
    Case("100 B, 16 KB batches", 100, 1 << 14),
    Case("100 B + 2 headers, 1 MB", 100, 1 << 20, headers=2),
    Case("1 KB, 1 MB batches", 1000, 1 << 20),
    Case("100 B lz4, 1 MB", 100, 1 << 20, "lz4"),
    Case("100 B zstd, 1 MB", 100, 1 << 20, "zstd"),
]


class Work(NamedTuple):
    """What is timed: candidates over the same input, and how much of it there is."""

    records: int
    plain_bytes: int
    candidates: dict[str, Callable[[], Any]]


def make_rows(case: Case) -> pa.RecordBatch:
    rng = random.Random(case.name)
    count = BLOB_BYTES // (case.value_bytes + 20)
    words = [rng.randbytes(10) for _ in range(200)]
    values = [
        b"".join(rng.choices(words, k=case.value_bytes // 10)) for _ in range(min(count, 2000))
    ]
    columns: dict[str, pa.Array] = {
        "key": pa.array([b"%08d" % number for number in range(count)], pa.binary()),
        "value": pa.array([values[number % len(values)] for number in range(count)], pa.binary()),
        "timestamp": pa.array([NOW_MS + number for number in range(count)], pa.timestamp("ms")),
    }
    if case.headers:
        pairs = [{"key": f"header-{number}", "value": b"content"} for number in range(case.headers)]
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        columns["headers"] = pa.array([pairs] * count, kind)
    return pa.record_batch(columns)


def make_blob(case: Case, rows: pa.RecordBatch) -> bytes:
    """The rows as a partition's log has them."""
    blob, offset = bytearray(), 0
    for batch in encode_columns(
        rows, 0, timestamp_ms=0, max_batch_bytes=case.batch_bytes, compression=case.codec
    ):
        stamp(batch.data, 0, base_offset=offset, leader_epoch=0)
        offset += batch.records_count
        blob += batch.data
    return bytes(blob)


def decode_ours(blob: bytes, kernels: Any, columns: list[str]) -> list[pa.RecordBatch]:
    backend.kernels = kernels
    return list(decode_columns(blob, topic="t", partition=0, columns=columns))


def decode_foreign(blob: bytes, reader: Any) -> list[pa.RecordBatch]:
    keys, values, offsets, times = [], [], [], []
    records = reader(blob)
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise AssertionError("the blob is damaged")
        for record in batch:
            keys.append(record.key)
            values.append(record.value)
            offsets.append(record.offset)
            times.append(record.timestamp)
    microseconds = np.array(times, np.int64) * 1000
    return [
        pa.record_batch(
            {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "offset": pa.array(offsets, pa.int64()),
                "timestamp": pa.array(microseconds).cast(TIMESTAMP),
            }
        )
    ]


def encode_ours(case: Case, rows: pa.RecordBatch, kernels: Any) -> list[Any]:
    backend.kernels = kernels
    return encode_columns(
        rows, 0, timestamp_ms=0, max_batch_bytes=case.batch_bytes, compression=case.codec
    )


def encode_foreign(case: Case, rows: pa.RecordBatch, module: Any) -> list[bytes]:
    keys, values = rows["key"].to_pylist(), rows["value"].to_pylist()
    times = rows["timestamp"].cast(pa.int64()).to_pylist()
    headers = [[]] * len(keys)
    if case.headers:
        headers = [
            [(pair["key"], pair["value"]) for pair in row] for row in rows["headers"].to_pylist()
        ]
    batches: list[bytes] = []
    row = 0
    while row < len(keys):
        builder = module.DefaultRecordBatchBuilder(
            magic=2,
            compression_type=CODECS[case.codec],
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=case.batch_bytes,
        )
        first = row
        while row < len(keys) and builder.append(
            row - first, times[row], keys[row], values[row], headers[row]
        ):
            row += 1
        batches.append(bytes(builder.build()))
    return batches


def decode_work(case: Case) -> Work:
    rows = make_rows(case)
    blob = make_blob(case, rows)
    candidates: dict[str, Callable[[], Any]] = {
        OURS: lambda: decode_ours(blob, KERNELS, COLUMNS),
        NUMPY: lambda: decode_ours(blob, None, COLUMNS),
        "aiokafka": lambda: decode_foreign(blob, AiokafkaMemoryRecords),
        "kafka-python": lambda: decode_foreign(blob, KafkaMemoryRecords),
    }
    tables = [pa.Table.from_batches(decode()) for decode in candidates.values()]
    if any(not table.combine_chunks().equals(tables[0].combine_chunks()) for table in tables):
        raise AssertionError(f"candidates disagree about {case.name}")
    if case.headers:
        with_headers = [*COLUMNS, "headers"]
        candidates["ours, C, headers too"] = lambda: decode_ours(blob, KERNELS, with_headers)
        candidates["ours, numpy, headers too"] = lambda: decode_ours(blob, None, with_headers)
    return Work(rows.num_rows, rows["key"].nbytes + rows["value"].nbytes, candidates)


def encode_work(case: Case) -> Work:
    rows = make_rows(case)
    candidates: dict[str, Callable[[], Any]] = {
        OURS: lambda: encode_ours(case, rows, KERNELS),
        NUMPY: lambda: encode_ours(case, rows, None),
        "aiokafka": lambda: encode_foreign(case, rows, aiokafka_records),
        "kafka-python": lambda: encode_foreign(case, rows, kafka_records),
    }
    expected = rows["value"].to_pylist()
    for name, encode in candidates.items():
        batches = [batch.data if name.startswith("ours") else batch for batch in encode()]
        found = [record.value for batch in batches for record in read_records(batch)]
        if found != expected:
            raise AssertionError(f"{name} loses rows of {case.name}")
    return Work(rows.num_rows, rows["key"].nbytes + rows["value"].nbytes, candidates)


def partition_work() -> Work:
    keys = pa.array([b"key-%08d" % number for number in range(100_000)], pa.binary())
    single = keys.to_pylist()

    def ours(kernels: Any) -> Any:
        backend.kernels = kernels
        return partition_columns(keys, 12)

    return Work(
        len(keys),
        keys.nbytes,
        {
            OURS: lambda: ours(KERNELS),
            NUMPY: lambda: ours(None),
            "kafka-python": lambda: [(murmur2(key) & 0x7FFFFFFF) % 12 for key in single],
        },
    )


def measure(work: Work, rounds: int, seconds: float) -> dict[str, float]:
    """Median seconds of CPU per call of each candidate."""
    times: dict[str, list[float]] = {name: [] for name in work.candidates}
    for _ in range(rounds):
        for name, call in work.candidates.items():
            calls, started = 0, time.process_time()
            deadline = time.perf_counter() + seconds
            while calls == 0 or time.perf_counter() < deadline:
                call()
                calls += 1
            times[name].append((time.process_time() - started) / calls)
    return {name: statistics.median(found) for name, found in times.items()}


def report(title: str, work: Work, found: dict[str, float]) -> None:
    print(f"\n### {title} ({work.records} records)")
    print("| candidate | M records/s | GB/s | our C is faster by |")
    print("|--|--|--|--|")
    for name, seconds in found.items():
        ratio = "" if name == OURS else f"{seconds / found[OURS]:.1f}x"
        rate, volume = work.records / seconds / 1e6, work.plain_bytes / seconds / 1e9
        print(f"| {name} | {rate:.2f} | {volume:.2f} | {ratio} |", flush=True)


def main() -> None:
    """Run what was asked for and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="per candidate and round")
    parser.add_argument("--only", default="", help="run what has this in its title")
    options = parser.parse_args()
    if KERNELS is None:
        raise SystemExit("the kernels are not built: python setup.py build_ext --inplace")
    gc.disable()
    print(
        f"medians of {options.rounds} interleaved rounds, CPU time, load {os.getloadavg()[0]:.1f}"
    )
    plan: list[tuple[str, Callable[[], Work]]] = [
        *((f"decode {case.name}", lambda case=case: decode_work(case)) for case in CASES),
        *((f"encode {case.name}", lambda case=case: encode_work(case)) for case in CASES),
        ("partition 12 byte keys", partition_work),
    ]
    for title, prepare in plan:
        if options.only in title:
            work = prepare()
            report(title, work, measure(work, options.rounds, options.seconds))
            gc.collect()


if __name__ == "__main__":
    main()
