"""An archive as the beginning of its topics' logs: what a read asks of it (`arrow.archives`).

What is archived is what `state.json` says at the moment; files are those of the listing that was
made after the state was read, so they have at least that. Two things move under a reader:

* the last batch's files may still be in staging, if its driver has decided and not yet moved them
  (or was killed in between): they are read from there;
* a compaction replaces files: one that is gone means that the listing is old, so it is made again,
  and reading goes on behind the last offset that was given out.

A file that is missing for another reason would be a gap that looks like one of compaction in the
topic. So before a query begins, the records of its partitions are counted by the files' footers and
held against the state (`check`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from fencepost.arrow.archive.layout import (
    STAGING,
    ArchiveError,
    DataFile,
    Layout,
    data_file,
    tag_of,
)
from fencepost.arrow.archive.reading import column_statistics, records_in_order
from fencepost.arrow.archive.schema import require_columns
from fencepost.arrow.archive.state import (
    Incarnation,
    State,
    checkpoint_of,
    counted_files,
    read_parquet_state,
)
from fencepost.arrow.archives import HeldTopic
from fencepost.arrow.checkpoint import CheckpointError, read_checkpoint
from fencepost.arrow.errors import ArchiveReadError
from fencepost.batch.columns import SCHEMA
from fencepost.client.metadata import TopicPartition

TRIES: Final = 5
"""Listings that may be out of date one after the other, before a missing file is an error."""
FOOTERS_AT_ONCE: Final = 16
OPENED_MAX: Final = 8
ROWS: Final = 32_768
"""In a record batch, as reading from brokers gives them."""

_Name = tuple[str, str, int]


@dataclass
class _Opened:
    """An archive as this process knows it."""

    layout: Layout
    state: State | None = None
    version: int = 0
    """How many states were seen."""
    topics: Sequence[HeldTopic] = ()
    files: Mapping[_Name, Sequence[DataFile]] | None = None
    rows: dict[str, int] = field(default_factory=dict)


_opened: dict[tuple[int, ServedArchive], _Opened] = {}
_lock = threading.RLock()
"""Held while `_opened` or one of its archives changes: a scan reads in several threads."""


def _renew_lock() -> None:
    """Another thread of the parent may have had it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@dataclass(frozen=True, slots=True)
class ServedArchive:
    """An archive of Parquet files by its directory, with options as `storage_at` takes them; see
    `arrow.archives.Archive`."""

    directory: str
    options: tuple[tuple[str, str], ...] = ()

    def topics(self) -> tuple[object, Sequence[HeldTopic]]:
        opened = self._refreshed()
        return opened.version, opened.topics

    def read(
        self, where: TopicPartition, topic_id: str, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        name = (where.topic, tag_of(topic_id), where.partition)
        wanted = [column for column in columns if column != "topic"]
        for left in reversed(range(TRIES)):
            try:
                for rows in records_in_order(self._files(name), start, end, wanted, ROWS):
                    start = int(rows.column("offset")[-1].as_py()) + 1
                    yield _shaped(rows, where.topic, columns)
                return
            except ArchiveError as error:
                if left == 0 or not isinstance(error.__cause__, FileNotFoundError):
                    raise ArchiveReadError(self.directory, f"{where}: {error}") from error
                self._forget_files()

    def since(self, where: TopicPartition, topic_id: str, time_ms: int, end: int) -> int | None:
        name = (where.topic, tag_of(topic_id), where.partition)
        for left in reversed(range(TRIES)):
            try:
                return _first_since(self._files(name), time_ms * 1000, end)
            except FileNotFoundError as error:
                if left == 0:
                    raise ArchiveReadError(self.directory, f"{where}: {error}") from error
                self._forget_files()
            except (pa.ArrowException, OSError, ArchiveError) as error:
                raise ArchiveReadError(self.directory, f"{where}: {error}") from error
        return None

    def check(self, held: Iterable[tuple[TopicPartition, str]]) -> None:
        """Hold the numbers of records in the footers against the state. ArchiveReadError."""
        wanted = list(held)
        wrong = ""
        for _ in range(TRIES):
            state = self._refreshed().state
            assert state is not None
            wrong = self._miscounted(state, wanted)
            if not wrong:
                return
            self._forget_files()
        raise ArchiveReadError(self.directory, f"{wrong}; see fencepost archive verify")

    def _miscounted(self, state: State, wanted: Sequence[tuple[TopicPartition, str]]) -> str:
        """What does not have as many records as were archived."""
        known = {(one.topic, one.tag): one for one in state.incarnations}
        rows = self._opened().rows
        try:
            files = {
                (where, topic_id): self._files((where.topic, tag_of(topic_id), where.partition))
                for where, topic_id in wanted
            }
            new = [one for mine in files.values() for one in mine if one.path not in rows]
            with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
                counts = pool.map(_rows_in, new)
                rows.update((one.path, count) for one, count in zip(new, counts, strict=True))
        except (pa.ArrowException, OSError) as error:
            return f"a file cannot be read: {error}"
        for (where, topic_id), mine in files.items():
            expected = known[where.topic, tag_of(topic_id)].records.get(where.partition, 0)
            there = sum(rows[one.path] for one in mine)
            if there != expected:
                return f"{where}: {expected} records were archived, the files have {there}"
        return ""

    # -- what there is ---------------------------------------------------------------------------

    def _opened(self) -> _Opened:
        """A forked worker must not go on with what its parent saw: hence the process id."""
        key = (os.getpid(), self)
        with _lock:
            if key not in _opened:
                while len(_opened) >= OPENED_MAX:
                    _opened.pop(next(iter(_opened)))
                try:
                    _opened[key] = _Opened(Layout(self.directory, dict(self.options)))
                except ArchiveError as error:
                    raise ArchiveReadError(self.directory, str(error)) from error
            return _opened[key]

    def _refreshed(self) -> _Opened:
        """With the state as it is now. ArchiveReadError."""
        opened = self._opened()
        with _lock:
            try:
                state = read_parquet_state(opened.layout)
                if state != opened.state:
                    opened.topics = _held(opened.layout, state)
                    opened.state, opened.files = state, None
                    opened.version += 1
            except (ArchiveError, OSError) as error:
                raise ArchiveReadError(self.directory, str(error)) from error
        return opened

    def _forget_files(self) -> None:
        with _lock:
            self._refreshed().files = None

    def _files(self, name: _Name) -> Sequence[DataFile]:
        """Of a partition, in order. ArchiveReadError."""
        opened = self._opened()
        with _lock:
            if opened.files is None:
                if opened.state is None:
                    self._refreshed()
                assert opened.state is not None
                try:
                    opened.files = _listed(opened.layout, opened.state)
                except (ArchiveError, OSError) as error:
                    raise ArchiveReadError(self.directory, str(error)) from error
            return opened.files.get(name, ())


def _held(layout: Layout, state: State) -> list[HeldTopic]:
    epochs = _epochs(layout, state)
    return [
        HeldTopic(one.topic, one.topic_id, one.partitions, _of_ends(one, epochs))
        for one in state.incarnations
    ]


def _epochs(layout: Layout, state: State) -> dict[tuple[str, str, int, int], int]:
    """Leader epochs that the archive's query saw, by topic, id, partition and offset. None without
    its checkpoint, as in a copy: then only an end before the archive's shows a rewritten log."""
    try:
        sources = read_checkpoint(checkpoint_of(layout, state)).sources
    except CheckpointError:
        return {}
    found = {}
    for source in sources:
        for offset in (source.committed, source.planned):
            for where, at in offset.positions.items() if offset else ():
                topic_id = offset.topic_ids.get(where.topic, "") if offset else ""
                found[where.topic, topic_id, where.partition, at.offset] = at.leader_epoch
    return found


def _of_ends(one: Incarnation, epochs: Mapping[tuple[str, str, int, int], int]) -> dict[int, int]:
    return {
        number: epochs.get((one.topic, one.topic_id, number, ranges[-1][1]), -1)
        for number, ranges in one.partitions.items()
        if ranges
    }


def _listed(layout: Layout, state: State) -> dict[_Name, list[DataFile]]:
    """The files by partition, those of the last batch that are not in their places among them."""
    storage = layout.storage
    waiting = {}
    if layout.is_local:  # elsewhere `counted_files` looks
        moves = [(f"{STAGING}/{source}", target) for source, target in state.moves]
        waiting = {target: source for source, target in moves if storage.exists(source)}
    files, _ = counted_files(layout, state)
    there = {one.path for one in files}
    for target, source in waiting.items():
        one = data_file(storage, target, 0)
        if one is not None and target not in there:
            files.append(replace(one, path=source))
    found: dict[_Name, list[DataFile]] = {}
    for one in sorted(files, key=lambda file: file.first):
        found.setdefault((one.topic, one.tag, one.partition), []).append(one)
    return found


def _rows_in(file: DataFile) -> int:
    with file.opened() as parquet:
        return int(parquet.metadata.num_rows)


# -- rows ------------------------------------------------------------------------------------------


def _shaped(rows: pa.RecordBatch, topic: str, columns: Sequence[str]) -> pa.RecordBatch:
    """The columns as reading from brokers gives them."""
    arrays = []
    for name in columns:
        kind = SCHEMA.field(name).type
        array = pa.repeat(topic, rows.num_rows) if name == "topic" else rows.column(name)
        arrays.append(array if array.type.equals(kind) else array.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _first_since(files: Sequence[DataFile], time_us: int, end: int) -> int | None:
    """The lowest offset below `end` with a timestamp of at least that, us since 1970."""
    best: int | None = None
    for file in files:
        if file.first >= (end if best is None else min(end, best)):
            break
        found = _first_in(file, time_us, end)
        if found is not None and (best is None or found < best):
            best = found
    return best


def _first_in(file: DataFile, time_us: int, end: int) -> int | None:
    with file.opened() as parquet:
        require_columns(parquet.schema_arrow, ("offset", "timestamp"), file.uri)
        latest = column_statistics(parquet, "timestamp")
        for group, known in enumerate(latest):
            if known is not None and _micros(known[1]) < time_us:
                continue
            rows = parquet.read_row_group(group, columns=["offset", "timestamp"])
            times = rows["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            late = times.fill_null(-1).to_numpy() >= time_us
            offsets = rows["offset"].to_numpy()[late]
            if len(offsets) and offsets[0] < end:
                return int(offsets[0])
    return None


def _micros(moment: Any) -> int:
    """Of a statistic, which is a datetime."""
    return int(pa.scalar(moment, pa.timestamp("us", "UTC")).cast(pa.int64()).as_py())
