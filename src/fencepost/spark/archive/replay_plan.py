"""The plan of a replay: what goes where, in which steps, and from which files.

A plan is made once and kept in `plan.json`; a replay that goes on takes the one that is there. The
files are those of the archive or, of an archive that is a table, copies in `records/` that were
made for the plan and are on the disk before it is (`table_copy`).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.arrow.archive.layout import (
    ArchiveError,
    DataFile,
    Layout,
    data_file,
    place_of,
    tag_of,
)
from fencepost.arrow.archive.state import (
    PARQUET,
    Incarnation,
    State,
    checkpoint_of,
    counted_files,
    read_state,
    recover,
)
from fencepost.arrow.checkpoint import CheckpointError, read_checkpoint
from fencepost.arrow.storage import Storage
from fencepost.spark.archive.replay_task import Piece
from fencepost.spark.archive.running import Run
from fencepost.spark.archive.table_copy import copy_topic, topics_in
from fencepost.spark.archive.tables import read_table, told_plainly

FORMAT: Final = 1
RECORDS: Final = "records"
PLAN: Final = "plan.json"
STEPS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What `plan.json` says."""

    id: str
    topic: str
    new_topic: str
    keep_partitions: bool
    partitions: int
    """Of the archived topic."""
    steps: tuple[tuple[Piece, ...], ...]
    copies: tuple[str, ...] = ()
    """Files in `records/` that the steps take, of a table; none: those of the archive."""

    @property
    def sink(self) -> str:
        """The sink's name: the prefix of its transactional ids."""
        return f"fencepost-replay-{self.id}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a replay is asked to do, which a plan that is there must agree with."""

    topic: str | None
    """None: the archive's only one."""
    new_topic: str
    keep_partitions: bool


@dataclass(frozen=True, slots=True)
class _Contents:
    """What an archive has of a topic; `spans` are of the topics of that name, the oldest first."""

    topic: str
    partitions: int
    spans: Sequence[tuple[str, Mapping[int, tuple[int, int]]]]
    copies: tuple[str, ...] = ()


def plan_replay(
    layout: Layout, place: Storage, wanted: Wanted, step_records: int, run: Run, spark: Any
) -> Plan:
    """The plan that is there, or a new one. ArchiveError."""
    if place.exists(PLAN):
        plan = read_plan(place)
        asked = (wanted.topic or plan.topic, wanted.new_topic, wanted.keep_partitions)
        if asked != (plan.topic, plan.new_topic, plan.keep_partitions):
            raise ArchiveError(
                f"{place_of(place, PLAN)}: is of a replay of {plan.topic} into {plan.new_topic} "
                f"with partitions {'kept' if plan.keep_partitions else 'by key'}; give this one "
                "another name"
            )
        return plan
    if step_records < 1:
        raise ArchiveError(f"{step_records} records are no step")
    state = read_state(layout)
    if state.data_format == PARQUET:
        found = _in_files(layout, wanted.topic, run)
    else:
        found = _in_table(layout, state, wanted.topic, place.within(RECORDS), run, spark)
    steps: list[tuple[Piece, ...]] = []
    for topic_id, spans in found.spans:
        steps += _steps(spans, topic_id, step_records)
    plan = Plan(
        secrets.token_hex(8),
        found.topic,
        wanted.new_topic,
        wanted.keep_partitions,
        found.partitions,
        tuple(steps),
        found.copies,
    )
    content = {"format": FORMAT, **asdict(plan)}
    place.write_bytes(PLAN, json.dumps(content).encode())
    return plan


def read_plan(place: Storage) -> Plan:
    """The plan in a replay's directory. ArchiveError for what is no plan."""
    try:
        content: dict[str, Any] = json.loads(place.read_bytes(PLAN))
        if content.pop("format") != FORMAT:
            raise ValueError("of another format")
        steps = tuple(tuple(Piece(**piece) for piece in step) for step in content.pop("steps"))
        copies = tuple(map(str, content.pop("copies", ())))
        plan = Plan(**content, steps=steps, copies=copies)
        if not re.fullmatch("[0-9a-f]{16}", plan.id):
            raise ValueError("has no id")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        text = f"{place_of(place, PLAN)}: no plan of a replay: {error!r}"
        raise ArchiveError(text) from error
    return plan


def files_of(layout: Layout, place: Storage, plan: Plan) -> list[DataFile]:
    """The files that steps take their records from. ArchiveError where a copy is gone."""
    if not plan.copies:
        return counted_files(layout, read_state(layout))[0]
    files = []
    records = place.within(RECORDS)
    for name in plan.copies:
        path = name.rpartition("/")[2]
        found = data_file(records, path, 0, plan.topic) if records.exists(path) else None
        if found is None:
            raise ArchiveError(
                f"{place_of(records, path)}: is gone, and the replay is not done; begin another"
            )
        files.append(found)
    return files


def _in_files(layout: Layout, topic: str | None, run: Run) -> _Contents:
    state = recover(layout)
    chosen = _choose(layout, {one.topic for one in state.incarnations}, topic)
    found = state.of(chosen)
    if not layout.is_local:
        _require_all(layout, state, found, run)
    return _Contents(
        chosen,
        1 + max((p for one in found for p in one.partitions), default=0),
        [
            (one.topic_id, {p: (r[0][0], r[-1][1]) for p, r in one.partitions.items() if r})
            for one in found
        ],
    )


def _require_all(layout: Layout, state: State, found: Sequence[Incarnation], run: Run) -> None:
    """ArchiveError unless the files have as many records as were archived: a store's list may lack
    some of them, and nothing else would notice."""
    files, _ = counted_files(layout, state)
    mine = [one for one in files if any(one.topic == i.topic and one.tag == i.tag for i in found)]
    rows: dict[tuple[str, int], int] = {}
    for one, count in zip(mine, run(rows_in, mine), strict=True):
        name = (one.tag, one.partition)
        rows[name] = rows.get(name, 0) + count
    for incarnation in found:
        for partition, count in incarnation.records.items():
            there = rows.get((incarnation.tag, partition), 0)
            if there != count:
                raise ArchiveError(
                    f"{layout}: {incarnation.topic}-{partition} has {count} records, the files "
                    f"that the store lists have {there}: see fencepost archive verify"
                )


def rows_in(file: DataFile) -> int:
    """How many records a file has, by its footer. ArchiveError."""
    try:
        with file.opened() as parquet:
            return int(parquet.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{file.uri}: cannot be read: {error}") from error


def _in_table(
    layout: Layout, state: State, topic: str | None, place: Storage, run: Run, spark: Any
) -> _Contents:
    """Copied to `place`. Tables do not tell a topic from the one that had its name before."""
    if not state.stopped_at_loss:
        raise ArchiveError(
            f"{layout}: has records as {state.data_format}, which do not say of which "
            "topic of a name they are, and not every run is known to have had "
            "failOnDataLoss=true: records of a topic and of one that was created again may be mixed"
        )
    if spark is None:
        raise ArchiveError(f"{layout}: has records as {state.data_format}: give `spark`")
    with told_plainly(state.data_format, spark.version):
        table = read_table(spark, layout, state.data_format)
        chosen = _choose(layout, topics_in(table), topic)
        topic_id, partitions = _known_of(layout, state, chosen)
        copies = copy_topic(table, chosen, place, tag_of(topic_id), run)
    spans: dict[int, tuple[int, int]] = {}
    for one in copies:  # in order of offsets
        first, _ = spans.get(one.partition, (one.first, 0))
        spans[one.partition] = (first, one.last + 1)
    partitions = max([partitions, *(1 + p for p in spans)])
    names = tuple(one.name for one in copies)
    return _Contents(chosen, partitions, [(topic_id, spans)], names)


def _known_of(layout: Layout, state: State, topic: str) -> tuple[str, int]:
    """The id of a topic and how many partitions it has, as the query knows them."""
    try:
        place = checkpoint_of(layout, state)
        sources = read_checkpoint(place).sources
    except CheckpointError as error:
        raise ArchiveError(str(error)) from error
    planned = sources[0].planned if sources else None
    if planned is None:
        return "", 0
    partitions = [1 + where.partition for where in planned.positions if where.topic == topic]
    return planned.topic_ids.get(topic, ""), max(partitions, default=0)


def _choose(layout: Layout, topics: Iterable[str], topic: str | None) -> str:
    names = sorted(topics)
    if not names:
        raise ArchiveError(f"{layout}: has no topic yet")
    if topic is None and len(names) != 1:
        raise ArchiveError(f"{layout}: has topics {', '.join(names)}: say which")
    chosen = topic or names[0]
    if chosen not in names:
        raise ArchiveError(f"{layout}: has no topic {chosen!r}, but {', '.join(names)}")
    return chosen


def _steps(
    spans: Mapping[int, tuple[int, int]], topic_id: str, step_records: int
) -> list[tuple[Piece, ...]]:
    """Ranges of each partition, the first ones of all in the first step, and so on."""
    longest = max((end - start for start, end in spans.values()), default=0)
    if longest > STEPS_MAX * step_records:
        raise ArchiveError(
            f"offsets of a partition span {longest}: more than {STEPS_MAX} steps of {step_records}"
        )
    steps = []
    for number in range(-(-longest // step_records)):
        pieces = []
        for partition, (start, end) in sorted(spans.items()):
            low = start + number * step_records
            if low < end:
                high = min(low + step_records, end)
                pieces.append(Piece(tag_of(topic_id), topic_id, partition, low, high))
        steps.append(tuple(pieces))
    return steps
