"""Versions of a table, each described by one file that is written once.

    PATH/_table/versions/00000000000000000012.json    what version 12 consists of
         _table/latest.json                           a hint where to look for the newest
         _table/checkpoint/                           the streaming query's
         data/b00003-0123456789ab.parquet             rows of bucket 3
         data/d00003-0123456789ab.parquet             its deletions
         errors/e-0123456789ab.parquet                records that could not be understood
         snapshots/00000000000000000012/*.parquet     rows of version 12, hard links (local disks)
         current -> snapshots/00000000000000000012    the newest of them (local disks)

A row is in the bucket that its key's CRC-32 says. A batch writes new files for the buckets that it
changes, under names that are not yet used, and then creates the file of the next version. That is
the moment at which the batch counts. It names query and batch, so that a batch that Spark runs
again is known. Of two writers one creates the version and the other fails, where the store can do
that in one step (`Storage.creates_atomically`).

No file is changed, so a reader that has a version has all of it, until the version expires. The
newest is found by reading the hint and asking for the files behind it by their names: no list of a
store is trusted.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fencepost.arrow.storage import LocalStorage, Storage
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.order import Place

FORMAT: Final = 1
PRIVATE: Final = "_table"
LATEST: Final = f"{PRIVATE}/latest.json"
CHECKPOINT: Final = f"{PRIVATE}/checkpoint"
NO_BATCH: Final = -1
PARQUET: Final = "parquet"

log = logging.getLogger("fencepost.spark.tables")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Files of one bucket; None where there are no such rows."""

    rows: str | None
    deletes: str | None
    row_count: int
    delete_count: int
    file_bytes: int

    @property
    def files(self) -> list[str]:
        return [one for one in (self.rows, self.deletes) if one is not None]


@dataclass(frozen=True)
class Settings:
    """What a table is, from its first version on."""

    decode: str
    key: tuple[str, ...]
    order: str
    buckets: int
    format: str = PARQUET


@dataclass(frozen=True)
class Version:
    """See the module. `removed` are files of the version before that are not in this one."""

    settings: Settings
    columns: pa.Schema
    number: int = 0
    published_ms: int = 0
    query: str = ""
    batch: int = NO_BATCH
    buckets: Mapping[int, Bucket] = field(default_factory=dict)
    generation: int = 0
    topic: str = ""
    topic_id: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Which offset comes next, per partition."""
    newest_ms: int | None = None
    """The largest timestamp of a record so far."""
    marks: tuple[Place, ...] = ()
    deleted_last: Mapping[int, bytes] = field(default_factory=dict)
    """Per partition the key of a `d` that was its last event: its tombstone comes next."""
    errors: tuple[str, ...] = ()
    """Files of records that could not be understood."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of the batch."""
    totals: Mapping[str, int] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    @property
    def files(self) -> list[str]:
        """All files of rows and deletions."""
        return [file for one in self.buckets.values() for file in one.files]

    @property
    def row_count(self) -> int:
        return sum(one.row_count for one in self.buckets.values())

    def to_json(self) -> dict[str, Any]:
        document = asdict(replace(self, columns=None, marks=(), buckets={}, deleted_last={}))
        document["format"] = FORMAT
        document["columns"] = base64.b64encode(self.columns.serialize()).decode()
        document["types"] = {one.name: str(one.type) for one in self.columns}
        document["ends"] = {str(partition): end for partition, end in self.ends.items()}
        document["deleted_last"] = {str(n): key.hex() for n, key in self.deleted_last.items()}
        document["buckets"] = {str(number): asdict(one) for number, one in self.buckets.items()}
        document["marks"] = [place_to_json(mark) for mark in self.marks]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Version:
        """ArithmeticError, AttributeError, LookupError, TypeError, ValueError for what is no
        version."""
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not known, only {FORMAT}")
        settings = document["settings"]
        _require_types(document)
        return cls(
            settings=Settings(**{**settings, "key": tuple(settings["key"])}),
            columns=_schema_of(document["columns"]),
            buckets={int(number): Bucket(**one) for number, one in document["buckets"].items()},
            ends={int(partition): int(end) for partition, end in document["ends"].items()},
            marks=tuple(place_from_json(mark) for mark in document["marks"]),
            deleted_last={
                int(number): bytes.fromhex(key) for number, key in document["deleted_last"].items()
            },
            errors=tuple(document["errors"]),
            removed=tuple(document["removed"]),
            **{name: document[name] for name in _PLAIN},
        )


def _schema_of(text: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"columns: {error}") from error


_PLAIN: Final = (
    *("number", "published_ms", "query", "batch", "generation", "topic", "topic_id"),
    *("newest_ms", "counts", "totals"),
)


_INT64: Final = 2**63
_NUMBERS: Final = ("number", "published_ms", "batch", "generation")
_TEXTS: Final = ("query", "topic", "topic_id")


def _require_types(document: Mapping[str, Any]) -> None:
    """That what is taken as it is has the types that it is used as. ValueError, and the errors of
    a document of another shape."""
    buckets = document["buckets"].values()
    newest_ms = document["newest_ms"]
    counts = (*document["counts"].values(), *document["totals"].values())
    files = [file for one in buckets for file in (one["rows"], one["deletes"]) if file is not None]
    sizes = [one[name] for one in buckets for name in ("row_count", "delete_count", "file_bytes")]
    numbers = [document[name] for name in _NUMBERS] + [*counts, *sizes]
    numbers += [newest_ms] if newest_ms is not None else []
    if not all(type(one) is int and -_INT64 <= one < _INT64 for one in numbers):
        raise ValueError("a number is none of 64 bits")
    if type(document["settings"]["buckets"]) is not int or document["settings"]["buckets"] < 1:
        raise ValueError("it has no number of buckets")
    texts = [document[name] for name in _TEXTS] + files
    for text in (*texts, *document["errors"], *document["removed"]):
        text.encode()  # ValueError for half a surrogate pair


def place_to_json(place: Place) -> list[Any]:
    position = place.position and [place.position[0], place.position[1].hex()]
    return [place.generation, place.partition, place.offset, place.timestamp_ms, position]


def place_from_json(document: Any) -> Place:
    generation, partition, offset, at, position = document
    if position is not None:
        position = (str(position[0]), bytes.fromhex(position[1]))
    return Place(int(generation), int(partition), int(offset), at, position)


class Versions:
    """The versions that a table has in a storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def newest(self) -> Version | None:
        """The newest version; None where there is no table. TableError, OSError."""
        number = self._hint()[1]
        if not self.storage.exists(_path(number)):
            # Not a new table then: to begin again would leave all its rows out.
            if self.storage.exists(LATEST) or self.storage.list(f"{PRIVATE}/versions"):
                raise TableError(
                    f"{self.storage.uri}: version {number}, where the newest is looked for, is "
                    f"missing; put {LATEST} and the versions back as they were"
                )
            return None
        while self.storage.exists(_path(number + 1)):
            number += 1
        return self.read(number)

    def _hint(self) -> tuple[int, int]:
        """About which version is the oldest, and which the newest."""
        try:
            document = json.loads(self.storage.read_bytes(LATEST))
            oldest, newest = int(document["oldest"]), int(document["newest"])
            if not 1 <= oldest <= newest < _INT64:
                raise ValueError(f"from {oldest} to {newest}")
            return oldest, newest
        except FileNotFoundError:
            return 1, 1
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise TableError(f"{self.storage.uri_of(LATEST)}: is no hint: {error!r}") from error

    def require_newest(self) -> Version:
        """The newest version. TableError where there is no table."""
        found = self.newest()
        if found is None:
            raise TableError(f"{self.storage.uri}: there is no table")
        return found

    def read(self, number: int) -> Version:
        """One version. TableError where it is not there, or not any more, or damaged."""
        path = _path(number)
        try:
            found = Version.from_json(json.loads(self.storage.read_bytes(path)))
        except FileNotFoundError:
            raise TableError(
                f"{self.storage.uri}: there is no version {number}; see `fencepost tables status`"
            ) from None
        except (
            ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError,
        ) as error:  # fmt: skip
            raise TableError(f"{self.storage.uri_of(path)}: is no version: {error!r}") from error
        if found.number != number:
            raise TableError(f"{self.storage.uri_of(path)}: says that it is {found.number}")
        return found

    def numbers(self) -> list[int]:
        """Of all versions that can be read, from the oldest."""
        newest = self.newest()
        if newest is None:
            return []
        oldest = self._hint()[0]
        while oldest < newest.number and not self.storage.exists(_path(oldest)):
            oldest += 1
        return list(range(oldest, newest.number + 1))

    def publish(self, version: Version) -> Version:
        """Make a version the newest, behind the one that it was made of. TableError where another
        writer was faster."""
        version = replace(
            version, number=version.number + 1, published_ms=time.time_ns() // 1_000_000
        )
        data = json.dumps(version.to_json()).encode()
        if not self.storage.create_bytes(_path(version.number), data):
            raise TableError(
                f"{self.storage.uri}: another writer published version {version.number} meanwhile; "
                "one query at a time may write to a table"
            )
        self.finish(version)
        return version

    def finish(self, version: Version) -> None:
        """What follows a version's publication, and is done again if it was cut short."""
        self._write_hint(self._hint()[0], version.number)
        if isinstance(self.storage, LocalStorage) and version.settings.format == PARQUET:
            try:
                _link_current(Path(self.storage.root), version)
            except OSError as error:
                log.warning(
                    "%s/current is not of version %d: %s", self.storage.uri, version.number, error
                )

    def _write_hint(self, oldest: int, newest: int) -> None:
        hint = {"oldest": oldest, "newest": newest}
        self.storage.write_bytes(LATEST, json.dumps(hint).encode())

    def expire(self, keep_versions: int, keep_ms: int) -> list[int]:
        """Remove versions that are neither among the last `keep_versions` nor were replaced within
        `keep_ms`, with the files that only they have; their numbers."""
        numbers = self.numbers()
        now_ms = time.time_ns() // 1_000_000
        gone: list[int] = []
        for number in numbers[: -max(1, keep_versions)]:
            following = self.read(number + 1)
            if now_ms - following.published_ms < keep_ms:
                break
            for file in following.removed:
                self.storage.delete(file)
            if isinstance(self.storage, LocalStorage):
                self.storage.delete_all(_snapshot(number))
            self.storage.delete(_path(number))
            gone.append(number)
        if gone:
            self._write_hint(gone[-1] + 1, numbers[-1])
        return gone


def _path(number: int) -> str:
    return f"{PRIVATE}/versions/{number:020}.json"


def _snapshot(number: int) -> str:
    return f"snapshots/{number:020}"


def new_file(kind: str, bucket: int) -> str:
    """A name that is not yet used, for rows (`b`) or deletions (`d`) of a bucket."""
    return f"data/{kind}{bucket:05}-{secrets.token_hex(6)}.parquet"


def _link_current(root: Path, version: Version) -> None:
    """Put the version's rows where programs that know nothing of versions find them."""
    place = root / _snapshot(version.number)
    if not place.is_dir():
        draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        draft.mkdir(parents=True)
        for bucket in version.buckets.values():
            if bucket.rows is not None:
                os.link(root / bucket.rows, draft / Path(bucket.rows).name)
        draft.rename(place)
    link = root / f".current.{secrets.token_hex(4)}"
    link.symlink_to(place.relative_to(root))
    link.replace(root / "current")
