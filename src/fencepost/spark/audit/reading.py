"""Stored results of audits: what `AuditResult.write` wrote, read without Spark."""

from __future__ import annotations

import io
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.storage import Storage
from fencepost.spark.audit.frames import FORMATS
from fencepost.spark.audit.model import ComparedRange, Finding

Row = TypeVar("Row", Finding, ComparedRange)
READ_BYTES_MAX: Final = 64 << 20
ROWS_MAX: Final = 1_000_000


class StoredResult(NamedTuple):
    """What an audit has found, and the ranges that it compared."""

    findings: list[Finding]
    ranges: list[ComparedRange]


class NoResult(ValueError):
    """A directory has no result of an audit that can be read; the text says why."""


def read_result(storage: Storage) -> StoredResult:
    """Read what `AuditResult.write` wrote into a directory. NoResult, OSError."""
    return StoredResult(
        _rows(storage, "findings", Finding),
        _rows(storage, "ranges", ComparedRange),
    )


def _rows(storage: Storage, name: str, kind: type[Row]) -> list[Row]:
    place, data = _read(storage, name)
    try:
        rows = _lines(data) if place.endswith(".json") else _parquet(data)
        # A field without a value is left out of a line of JSON.
        return [msgspec.convert([row.get(one) for one in kind._fields], kind) for row in rows]
    except (msgspec.MsgspecError, ValueError, RecursionError, pa.ArrowException) as error:
        raise NoResult(f"{storage.uri_of(place)}: {error}") from None


def _lines(data: bytes) -> list[dict[str, Any]]:
    return msgspec.json.Decoder(dict[str, Any]).decode_lines(data)


def _parquet(data: bytes) -> list[dict[str, Any]]:
    file = pq.ParquetFile(io.BytesIO(data))
    if file.metadata.num_rows > ROWS_MAX:
        raise ValueError(f"more than {ROWS_MAX} rows")
    rows: list[dict[str, Any]] = file.read().to_pylist()
    return rows


def _read(storage: Storage, name: str) -> tuple[str, bytes]:
    for format in FORMATS:
        place = f"{name}/part-00000.{format}"
        try:
            return place, storage.read_bytes(place, READ_BYTES_MAX)
        except FileNotFoundError:
            continue
    raise NoResult(f"{storage.uri}: no {name} of an audit (`fencepost audit --output`)")
