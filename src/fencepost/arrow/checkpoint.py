"""Reading the checkpoint of any structured streaming query that reads topics, ours or the jar's.

A checkpoint has `offsets/N` (written before batch N runs: the offset where it ends, per source),
`commits/N` (written when it is done) and `metadata` (the query's id). A file of offsets is

    v1                                    or    v2
    {"batchWatermarkMs": ..., ...}              {"batchWatermarkMs": ..., ...}
    {"orders": {"0": 1200}}                     payments:{"orders": {"0": 1200}}

with one line per source, in v1 in their order and `-` for one that has no offset yet, in v2 by
name (spark.sql.streaming.offsetLog.formatVersion). Where a query of Spark's own connector starts
is in `sources/N/0` before it has committed anything.

Spark renames finished files into place, but other file systems and copies may leave parts of them,
so what is read is checked and its size bounded: CheckpointError says what is wrong and where.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from fencepost.arrow.offsets import StreamOffset
from fencepost.arrow.storage import LocalStorage, Storage

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Offsets of a million partitions; what is larger was not written by Spark."""
ENTRIES_MAX: Final = 1_000_000
SOURCES_MAX: Final = 1000
TEXT_MAX: Final = 200
READS_MAX: Final = 5
"""Spark deletes old files while we read, so we look again, so often."""
TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NO_OFFSET: Final = "-"


class CheckpointError(ValueError):
    """The directory is no checkpoint, or a file in it is not as Spark writes it."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a query: its number or name, and its offsets.

    `committed` is where the last committed batch ended, or where the query starts if there is none
    and the source has written that down. `planned` is where the newest batch ends. None: no offset
    yet. A source that does not read topics has `is_topics` False and no offsets.
    """

    name: str
    committed: StreamOffset | None
    planned: StreamOffset | None
    is_topics: bool = True


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says; batches are None before the first one."""

    query_id: str | None
    planned_batch: int | None
    committed_batch: int | None
    sources: tuple[Source, ...]

    @property
    def state(self) -> str:
        """`new`, `planned` (its newest batch runs, or will run again) or `committed`."""
        if self.planned_batch is None:
            return "new"
        return "committed" if self.planned_batch == self.committed_batch else "planned"


def read_checkpoint(place: Path | Storage) -> Checkpoint:
    """What the checkpoint in a directory says now; see the module for CheckpointError."""
    files = _files_of(place)
    missing = ""
    for _ in range(READS_MAX):
        planned = _last_batch(files, "offsets")
        committed = _last_batch(files, "commits")
        if planned is None and not files.exists("metadata"):
            raise CheckpointError(
                f"{files.where('')}: not a checkpoint: it has no offsets and no metadata"
            )
        if committed is not None and (planned is None or planned < committed):
            # Batch N may have been planned and committed between the two looks.
            planned = committed
        try:
            return _read(files, planned, committed)
        except FileNotFoundError as error:
            missing = error.filename
    raise CheckpointError(f"{missing}: is missing, though the batch is in commits or offsets")


class _Files(Protocol):
    """A directory's files, by paths from it."""

    def where(self, path: str) -> str:
        """The path as it is told to people."""
        ...

    def exists(self, path: str) -> bool: ...

    def names(self, path: str) -> Iterable[str]:
        """Of what is in a directory. FileNotFoundError, OSError."""
        ...

    def data(self, path: str) -> bytes:
        """At most FILE_BYTES_MAX + 1 bytes. FileNotFoundError, CheckpointError, OSError."""
        ...


class _LocalFiles:
    """Those of a local directory, in which anything may be: pipes, links to themselves."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def where(self, path: str) -> str:
        return str(self._directory / path)

    def exists(self, path: str) -> bool:
        return (self._directory / path).exists()

    def names(self, path: str) -> Iterable[str]:
        with os.scandir(self._directory / path) as entries:
            for entry in entries:
                yield entry.name

    def data(self, path: str) -> bytes:
        # Not blocking: a FIFO without a writer would be waited for.
        descriptor = os.open(self._directory / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CheckpointError(f"{self.where(path)}: is not a file")
            return file.read(FILE_BYTES_MAX + 1)


class _StoredFiles:
    """Those of a directory in a store."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def where(self, path: str) -> str:
        return self._storage.uri_of(path)

    def exists(self, path: str) -> bool:
        return self._storage.exists(path)

    def names(self, path: str) -> Iterable[str]:
        for entry in self._storage.list(path):
            yield entry.path.removeprefix(f"{path}/")

    def data(self, path: str) -> bytes:
        return self._storage.read_bytes(path, FILE_BYTES_MAX)


def _files_of(place: Path | Storage) -> _Files:
    if isinstance(place, LocalStorage):
        return _LocalFiles(Path(place.root or "/"))
    return _StoredFiles(place) if isinstance(place, Storage) else _LocalFiles(place)


def _read(files: _Files, planned: int | None, committed: int | None) -> Checkpoint:
    ends = {} if planned is None else _read_offsets(files, f"offsets/{planned}")
    begins: Mapping[str, _Line] = {}
    if committed is not None and committed == planned:
        begins = ends
    elif committed is not None:
        begins = _read_offsets(files, f"offsets/{committed}")
    sources = []
    for name in dict.fromkeys([*ends, *begins]):
        end, begin = ends.get(name, _Line()), begins.get(name, _Line())
        start = begin.offset
        if committed is None and start is None:
            start = _read_initial(files, f"sources/{name}/0")
        sources.append(Source(name, start, end.offset, end.is_topics and begin.is_topics))
    return Checkpoint(_read_id(files), planned, committed, tuple(sources))


def _last_batch(files: _Files, directory: str) -> int | None:
    """The highest number that a file is named by; other names are Spark's own business."""
    last: int | None = None
    try:
        for number, name in enumerate(files.names(directory)):
            if number >= ENTRIES_MAX:
                raise CheckpointError(f"{files.where(directory)}: more than {ENTRIES_MAX} files")
            if re.fullmatch(r"[0-9]{1,18}", name):
                last = max(int(name), -1 if last is None else last)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{files.where(directory)}: {error.strerror or error}") from error
    return last


@dataclass(frozen=True, slots=True)
class _Line:
    """One source's line of a file of offsets."""

    offset: StreamOffset | None = None
    is_topics: bool = True


def _read_offsets(files: _Files, place: str) -> dict[str, _Line]:
    path = files.where(place)
    lines = _lines(files, place)
    if lines[0] not in ("v1", "v2"):
        raise CheckpointError(f"{path}: begins with {_short(lines[:1])}, not with v1 or v2")
    if len(lines) < 3:
        raise CheckpointError(f"{path}: cut after {len(lines)} lines; offsets are in the third")
    _json_object(path, 2, lines[1])
    sources = lines[2:]
    if len(sources) > SOURCES_MAX:
        raise CheckpointError(f"{path}: {len(sources)} sources; at most {SOURCES_MAX} are read")
    found: dict[str, _Line] = {}
    for number, text in enumerate(sources):
        name = str(number)
        if lines[0] == "v2":
            name, colon, text = text.partition(":")
            if not colon or not re.fullmatch(r"[\w.-]{1,100}", name) or name in (".", ".."):
                raise CheckpointError(f"{path}: line {number + 3} has no NAME:OFFSET")
        found[name] = _read_line(path, number + 3, text)
    return found


def _read_line(path: str, number: int, text: str) -> _Line:
    if text == NO_OFFSET:
        return _Line()
    parsed = _json(path, number, text)
    try:
        return _Line(_topic_offset(parsed))
    except ValueError:
        # A file source's {"logOffset": 3}, a rate source's 17: none of our business.
        return _Line(is_topics=False)


def _topic_offset(parsed: Any) -> StreamOffset:
    """ValueError unless it is an offset of topics that brokers can be asked for."""
    offset = StreamOffset.from_json(parsed)
    for where in offset.positions:
        if not TOPIC.fullmatch(where.topic):
            raise ValueError("no topic's partition")
    return offset


def _read_initial(files: _Files, place: str) -> StreamOffset | None:
    """Where Spark's own connector starts (a zero byte, "v1", JSON); None where it says nothing."""
    try:
        lines = _lines(files, place)
    except FileNotFoundError:
        return None
    if len(lines) != 2 or lines[0].lstrip("\0") != "v1":
        return None
    try:
        return _topic_offset(_json(files.where(place), 2, lines[1]))
    except ValueError:
        return None


def _read_id(files: _Files) -> str | None:
    path = files.where("metadata")
    try:
        text = _text(files, "metadata")
    except FileNotFoundError:
        return None
    query_id = _json_object(path, 1, text).get("id")
    if not isinstance(query_id, str) or not query_id.isprintable() or len(query_id) > TEXT_MAX:
        raise CheckpointError(f"{path}: has no id")
    return query_id


def _lines(files: _Files, place: str) -> list[str]:
    """At least one. Not `splitlines`, which takes more for the end of a line than Spark does."""
    return _text(files, place).removesuffix("\n").split("\n")


def _text(files: _Files, place: str) -> str:
    """The file's text. FileNotFoundError, CheckpointError."""
    path = files.where(place)
    try:
        data = files.data(place)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise CheckpointError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    if not data:
        raise CheckpointError(f"{path}: is empty: the write did not finish")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: is not UTF-8: {error.reason}") from error


def _json(path: str, number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
        raise CheckpointError(
            f"{path}: line {number} is not JSON ({reason}): {_short(text)}"
        ) from error


def _json_object(path: str, number: int, text: str) -> Mapping[str, Any]:
    parsed = _json(path, number, text)
    if not isinstance(parsed, Mapping):
        raise CheckpointError(f"{path}: line {number} is no JSON object: {_short(text)}")
    return parsed


def _short(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= TEXT_MAX else f"{shown[:TEXT_MAX]}..."
