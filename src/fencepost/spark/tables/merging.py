"""Events of keys into a table of their latest values, as Arrow tables: nothing is read or written.

Events are taken in the order of the topic, partition by partition. Each is held against what is
known of its key, the row or its deletion, by the table's order (`order`):

* a later one replaces it; a deletion is kept as a row without values, so that an earlier event that
  comes after it changes nothing;
* an earlier one, or the same again, changes nothing. It is late if the table knew of a later one
  before the batch, and overtaken if that is in the same batch;
* a tombstone directly behind the key's `d` says nothing new. Any other is a deletion by the order
  of the topic: it has no position of its own, and keeps that of the row that it deletes. An event
  at exactly that position and behind the tombstone brings the row back, so that reading a stretch
  of the topic again ends where it ended before;
* a value that is not available is taken from what is replaced;
* truncation is a mark that is kept for all keys: rows up to it are gone, and events up to it are
  earlier ones, known keys or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.spark.evolution import fitted
from fencepost.spark.tables.columns import OWN
from fencepost.spark.tables.errors import UnorderedError
from fencepost.spark.tables.events import DELETE, TOMBSTONE, TRUNCATE, UPSERT
from fencepost.spark.tables.order import SOURCE, Place, in_topic, is_later

COUNTS: Final = (
    *("upserts", "deletes", "late", "overtaken", "repeated"),
    *("truncated", "unavailable", "purged"),
)


@dataclass(frozen=True)
class Rules:
    """How a table merges. `columns` are the table's own, without those of `OWN`."""

    columns: pa.Schema
    order: str
    generation: int = 0
    """Of the events."""
    marks: tuple[Place, ...] = ()
    """Truncations so far."""
    deleted_last: Mapping[int, bytes] = field(default_factory=dict)
    """Keys whose `d` was the last event of a partition: the tombstone behind it comes now."""
    purge_before_ms: int | None = None
    """Deletions of records older than this are forgotten."""

    @property
    def stored(self) -> pa.Schema:
        """The table's columns and its own."""
        return pa.schema([*self.columns, *OWN])


@dataclass
class Merged:
    """A bucket after a batch; `changed` says whether it is another than before."""

    rows: pa.Table
    new: pa.Table
    """Rows that were not there before, or other ones."""
    changed: bool
    marks: tuple[Place, ...]
    lasts: dict[int, tuple[int, bytes | None]] = field(default_factory=dict)
    """Per partition the last offset, and the key if the event there was a `d`."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))


@dataclass(slots=True)
class _State:
    """What is known of a key. `at` is where its row is: a row of the table, or behind those, of an
    event; `borrowed` are columns whose values are in other rows."""

    at: int
    place: Place
    deleted: bool
    op: str
    is_new: bool
    borrowed: dict[str, int] = field(default_factory=dict)

    def row_of(self, column: str) -> int:
        """Where a column's value is; -1 for nowhere."""
        return -1 if self.deleted else self.borrowed.get(column, self.at)


def merge(old: pa.Table, events: pa.Table, rules: Rules) -> Merged:
    """See the module. `old` has the columns of `Rules.stored` or fewer, `events` those of
    `events_schema`. Without events only deletions are purged. UnorderedError."""
    old = fitted(old, rules.stored)
    merged = Merged(old, old.slice(0, 0), False, _marks(events, rules))
    is_row = pc.is_in(events["kind"], value_set=pa.array([UPSERT, DELETE, TOMBSTONE]))
    by = [(name, "ascending") for name in ("partition", "offset", "part")]
    rows = events.filter(is_row).sort_by(by)
    merged.lasts = _lasts(rows)
    fold = _Fold(old, rows, replace(rules, marks=merged.marks), merged.counts, rules.marks)
    new = [state for state in fold.run() if state is not None and state.is_new]
    drop = fold.replaced()
    if merged.marks != rules.marks:
        drop |= _truncated(old, drop, rules.order, merged)
    if new or drop.any() or not events.num_rows:
        purge = _purgeable(old, rules) & ~drop
        merged.counts["purged"] = int(purge.sum())
        drop |= purge
    if new or drop.any():
        merged.changed = True
        kept = old.filter(pa.array(~drop))
        merged.new = _built(new, old, rows, rules)
        merged.rows = pa.concat_tables([kept, merged.new])
    return merged


def events_schema(columns: pa.Schema) -> pa.Schema:
    """Columns of events for a table of these columns. `part` counts the events of one record; `raw`
    are key and value of a record that is an error, as they are in the topic."""
    return pa.schema(
        [
            pa.field("bucket", pa.int32()),
            pa.field("kind", pa.string()),
            pa.field("key", pa.binary()),
            pa.field("row", pa.struct(list(columns))),
            pa.field("unavailable", pa.list_(pa.string())),
            pa.field("lineage", pa.string()),
            pa.field("position", pa.binary()),
            pa.field("op", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp_ms", pa.int64()),
            pa.field("part", pa.int32()),
            pa.field("error", pa.string()),
            pa.field("raw_key", pa.binary()),
            pa.field("raw_value", pa.binary()),
        ]
    )


class _Fold:
    """Takes events in, one after the other; see the module."""

    def __init__(
        self,
        old: pa.Table,
        events: pa.Table,
        rules: Rules,
        counts: dict[str, int],
        marks_before: tuple[Place, ...],
    ) -> None:
        self._rules = rules
        self._rules_before = replace(rules, marks=marks_before)
        self._counts = counts
        self._old_rows = old.num_rows
        encoded = events["key"].combine_chunks().dictionary_encode()
        self.keys = encoded.dictionary
        self._codes = encoded.indices.to_numpy(zero_copy_only=False).tolist()
        found = pc.index_in(old["__key"].combine_chunks(), value_set=self.keys)
        self._code_of_old = found.fill_null(-1).to_numpy(zero_copy_only=False)
        self._places = _places(events, rules.generation)
        self._kinds = events["kind"].to_pylist()
        self._ops = events["op"].to_pylist()
        none = events["unavailable"].null_count == events.num_rows
        self._unavailable = None if none else events["unavailable"].to_pylist()
        self._states = self._known(old)
        self._states_before = list(self._states)
        self._behind_delete: dict[int, int] = {}
        for partition, key in rules.deleted_last.items():
            code = pc.index(self.keys, pa.scalar(key, pa.binary())).as_py()
            if code >= 0:
                self._behind_delete[code] = partition

    def _known(self, old: pa.Table) -> list[_State | None]:
        """States of the keys that events are of, as the table has them."""
        states: list[_State | None] = [None] * len(self.keys)
        touched = np.flatnonzero(self._code_of_old >= 0)
        if not len(touched):
            return states
        part = old.select(OWN.names).take(pa.array(touched))
        deleted, ops = part["__deleted"].to_pylist(), part["__op"].to_pylist()
        for number, place in enumerate(stored_places(part)):
            at = int(touched[number])
            if not _is_covered(place, deleted[number], self._rules):
                states[self._code_of_old[at]] = _State(
                    at, place, deleted[number], ops[number] or "", False
                )
        return states

    def run(self) -> list[_State | None]:
        """All events; the keys' states behind them."""
        states, counts = self._states, self._counts
        for number, (code, kind) in enumerate(zip(self._codes, self._kinds, strict=True)):
            place = self._places[number]
            state = states[code]
            if _is_covered(place, kind != UPSERT, self._rules):
                verdict = -1
            elif kind == TOMBSTONE and self._rules.order == SOURCE:
                if self._behind_delete.get(code) == place.partition:
                    continue
                verdict, place = _tombstone(place, state)
            else:
                verdict = 1 if state is None else self._compare(place, kind, state)
            self._behind_delete.pop(code, None)
            if kind == DELETE:
                self._behind_delete[code] = place.partition
            if verdict > 0:
                states[code] = self._replaced(number, place, kind, state)
            elif verdict == 0:
                counts["repeated"] += 1
            else:
                counts["late" if self._is_late(code, place, kind) else "overtaken"] += 1
        return states

    def _is_late(self, code: int, place: Place, kind: str) -> bool:
        """Whether what the table knew before the batch is later than an event that changes nothing;
        not where nothing tells."""
        before = self._states_before[code]
        try:
            if _is_covered(place, kind != UPSERT, self._rules_before):
                return True
            if before is None:
                return False
            if kind == TOMBSTONE and self._rules.order == SOURCE:
                return in_topic(place, before.place) < 0
            return self._compare(place, kind, before) < 0
        except UnorderedError:
            return False

    def _compare(self, place: Place, kind: str, state: _State) -> int:
        verdict = is_later(place, state.place, self._rules.order)
        if verdict == 0 and kind == UPSERT and state.op == TOMBSTONE:
            return in_topic(place, state.place)
        return verdict

    def _replaced(self, number: int, place: Place, kind: str, state: _State | None) -> _State:
        at = self._old_rows + number
        if kind != UPSERT:
            self._counts["deletes"] += 1
            op = TOMBSTONE if kind == TOMBSTONE else self._ops[number] or ""
            return _State(at, place, True, op, True)
        self._counts["upserts"] += 1
        borrowed = {}
        for name in (self._unavailable[number] or ()) if self._unavailable else ():
            borrowed[name] = -1 if state is None else state.row_of(name)
            self._counts["unavailable"] += borrowed[name] < 0
        return _State(at, place, False, self._ops[number] or "", True, borrowed)

    def replaced(self) -> Any:
        """Which rows of the table have a newer state."""
        is_new = np.array([state is not None and state.is_new for state in self._states] + [False])
        return is_new[self._code_of_old]  # -1 is the last one


def _tombstone(place: Place, state: _State | None) -> tuple[int, Place]:
    """Whether a tombstone deletes, and the place of the deletion."""
    if state is None:
        return 1, place
    if state.deleted:
        return 0, place
    return in_topic(place, state.place), replace(place, position=state.place.position)


def _places(events: pa.Table, generation: int) -> list[Place]:
    positions = zip(events["lineage"].to_pylist(), events["position"].to_pylist(), strict=True)
    return [
        Place(generation, partition, offset, at, position if position[0] is not None else None)
        for partition, offset, at, position in zip(
            events["partition"].to_pylist(),
            events["offset"].to_pylist(),
            events["timestamp_ms"].to_pylist(),
            positions,
            strict=True,
        )
    ]


def stored_places(rows: pa.Table) -> list[Place]:
    """The places of rows of a table."""
    columns = [
        rows[name].to_pylist()
        for name in (
            *("__generation", "__partition", "__offset"),
            *("__timestamp_ms", "__lineage", "__position"),
        )
    ]
    return [
        Place(generation, partition, offset, at, None if lineage is None else (lineage, position))
        for generation, partition, offset, at, lineage, position in zip(*columns, strict=True)
    ]


def _lasts(rows: pa.Table) -> dict[int, tuple[int, bytes | None]]:
    """See `Merged.lasts`; `rows` are in order."""
    columns = (rows[name].to_pylist() for name in ("partition", "offset", "key", "kind"))
    return {
        partition: (offset, key if kind == DELETE else None)
        for partition, offset, key, kind in zip(*columns, strict=True)
    }


def deleted_last(
    lasts: Iterable[Mapping[int, tuple[int, bytes | None]]], before: Mapping[int, bytes]
) -> dict[int, bytes]:
    """The next batch's `Rules.deleted_last`, of what all buckets had and the batch's own."""
    newest: dict[int, tuple[int, bytes | None]] = {
        partition: (-1, key) for partition, key in before.items()
    }
    for one in lasts:
        for partition, (offset, key) in one.items():
            if offset > newest.get(partition, (-2, None))[0]:
                newest[partition] = (offset, key)
    return {partition: key for partition, (_, key) in newest.items() if key is not None}


def _marks(events: pa.Table, rules: Rules) -> tuple[Place, ...]:
    """The table's truncations and those among events, of each log and partition the last one."""
    found = events.filter(pc.equal(events["kind"], TRUNCATE))
    marks: dict[Any, Place] = {}
    for mark in (*rules.marks, *_places(found, rules.generation)):
        same = (mark.generation, mark.partition, mark.position and mark.position[0])
        known = marks.get(same)
        if known is None or is_later(mark, known, rules.order) > 0:
            marks[same] = mark
    return tuple(marks.values())


def _is_covered(place: Place, deleted: bool, rules: Rules) -> bool:
    """Whether a truncation came behind this place. A deletion that has no position cannot be told
    from that, and need not: it says no more than the truncation does."""
    if not rules.marks or (deleted and place.position is None and rules.order == SOURCE):
        return False
    return any(is_later(place, mark, rules.order) <= 0 for mark in rules.marks)


def _truncated(old: pa.Table, drop: Any, order: str, merged: Merged) -> Any:
    """Rows up to a truncation."""
    rules = Rules(pa.schema([]), order, marks=merged.marks)
    deleted = old["__deleted"].to_numpy()
    places = zip(stored_places(old), deleted.tolist(), strict=True)
    covered = np.array([_is_covered(place, gone, rules) for place, gone in places], dtype=bool)
    merged.counts["truncated"] = int((covered & ~deleted & ~drop).sum())
    return covered


def _purgeable(old: pa.Table, rules: Rules) -> Any:
    if rules.purge_before_ms is None:
        return np.zeros(old.num_rows, dtype=bool)
    is_old = pc.less(old["__timestamp_ms"], rules.purge_before_ms).fill_null(False)
    return pc.and_(old["__deleted"], is_old).to_numpy()


def _built(states: list[_State], old: pa.Table, events: pa.Table, rules: Rules) -> pa.Table:
    """Rows of new states."""
    at = np.array([state.at for state in states], dtype=np.int64)
    of_events = pa.array(at - old.num_rows)
    row = events["row"].combine_chunks()
    arrays = []
    for field_ in rules.columns:
        values = pc.struct_field(row, field_.name)
        patches = [n for n, state in enumerate(states) if field_.name in state.borrowed]
        if patches:
            both = pa.chunked_array([*old[field_.name].chunks, values], type=field_.type)
            indices = at.copy()
            indices[patches] = [states[n].borrowed[field_.name] for n in patches]
            arrays.append(both.take(pa.array(indices, mask=indices < 0)))
        else:
            arrays.append(pa.chunked_array([values.take(of_events)]))
    lineages = [state.place.position for state in states]
    own = {
        "__key": events["key"].take(of_events),
        "__deleted": [state.deleted for state in states],
        "__op": [state.op for state in states],
        "__generation": [state.place.generation for state in states],
        "__partition": [state.place.partition for state in states],
        "__offset": [state.place.offset for state in states],
        "__timestamp_ms": [state.place.timestamp_ms for state in states],
        "__lineage": [one and one[0] for one in lineages],
        "__position": [one and one[1] for one in lineages],
    }
    for field_ in OWN:
        values = own[field_.name]
        arrays.append(
            values if isinstance(values, pa.ChunkedArray) else pa.array(values, field_.type)
        )
    return pa.Table.from_arrays(arrays, schema=rules.stored)
