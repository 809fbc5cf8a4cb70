"""An archived topic back into a topic: keys, values, headers, timestamps, partitions and order.

    DIR/_fencepost/replays/NAME/plan.json             what is replayed, where to, in which steps
                                offsets-000000.parquet    of step 0: old and new offsets
                                offsets-000001.staged     of a step that may be decided

A replay has a plan, made once, and a name, under which it goes on after a kill. A step is a range
of offsets of each partition; each is the work of one task, in a transaction of its own, which the
task leaves open. The driver writes the offsets that the records got to `.staged`, then decides and
commits as the exactly-once sink does (`exactly_once`; its name is the replay's), then renames the
file. At the next start the sink knows whether the last step was decided: if so, its file gets its
name and the step is not done again; if not, its transactions are aborted and it is.

Steps follow each other, and a partition's records of one step are written by one producer in their
order; so order is kept per partition. Topics of one name that followed each other are replayed one
after the other.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.client.admin import TOPIC_RESOURCE, Admin
from fencepost.client.cluster import Cluster
from fencepost.spark.archive.batches import recover
from fencepost.spark.archive.layout import ArchiveError, DataFile, Layout, sync, write_whole
from fencepost.spark.archive.offset_map import SCHEMA
from fencepost.spark.archive.replay_task import Piece, Replayed, Work, replay_piece
from fencepost.spark.archive.running import Run, here
from fencepost.spark.archive.state import read_parquet_state
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.options import SinkOptions
from fencepost.wire.errors import ErrorCode

FORMAT: Final = 1
STEP_RECORDS: Final = 250_000
"""Offsets of a partition in one step: what one transaction has."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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

    @property
    def sink(self) -> str:
        """The sink's name: the prefix of its transactional ids."""
        return f"fencepost-replay-{self.id}"


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step that is committed; `was_decided` by an earlier run."""

    step: int
    steps: int
    rows: int
    data_bytes: int
    was_decided: bool


def replay(
    layout: Layout,
    options: SinkOptions,
    run: Run = here,
    *,
    name: str,
    topic: str | None = None,
    keep_partitions: bool = True,
    step_records: int = STEP_RECORDS,
    on_step: Callable[[StepDone], None] = lambda done: None,
) -> Plan:
    """Replay a topic of an archive into `options.topic`, or go on where the replay of that name
    was when it was ended.

    `topic` may be left out where the archive has one. The new topic is made if it is not there,
    with as many partitions and without retention by time, which would go by the old timestamps. It
    must not be of LogAppendTime. ArchiveError, ExactlyOnceError, ClientError.
    """
    layout.require()
    if not NAME.fullmatch(name):
        raise ArchiveError(f"{name!r}: a replay's name has letters, digits, dots, dashes and _")
    place = layout.replays / name
    with layout.lock(f"replay-{name}", wait=False, holder=f"the replay {name}"):
        place.mkdir(parents=True, exist_ok=True)
        plan = _plan(layout, place, options, topic, keep_partitions, step_records)
        config = replace(options.client, allow_auto_create_topics=False)
        with Cluster(config=config) as cluster:
            _prepare_topic(cluster, plan)
            timeout_ms = options.exactly_once.timeout_ms if options.exactly_once else None
            driver = SinkDriver(cluster, plan.sink, timeout_ms)
            for step in range(len(plan.steps)):
                if not offsets_path(place, step).exists():
                    on_step(_step(layout, place, plan, step, options, run, driver))
    return plan


def _step(
    layout: Layout,
    place: Path,
    plan: Plan,
    step: int,
    options: SinkOptions,
    run: Run,
    driver: SinkDriver,
) -> StepDone:
    staged = offsets_path(place, step).with_suffix(".staged")
    count = len(plan.steps)
    grant = driver.open()
    if grant.query == plan.id and grant.batch >= step:
        if grant.batch > step or not staged.exists():
            raise ArchiveError(
                f"{place}: step {step} was committed, but its offsets are not here: the archive "
                "is older than the replay"
            )
        staged.rename(offsets_path(place, step))
        rows = _rows_in(offsets_path(place, step))
        return StepDone(step, count, rows, 0, was_decided=True)
    with layout.lock("compaction", wait=True):  # which would take files away
        files, _ = layout.listing()
        works = [
            Work(number, piece, _files_of(files, plan, piece), grant, plan.id, step)
            for number, piece in enumerate(plan.steps[step])
        ]
        done = run(partial(replay_piece, options, plan.new_topic, plan.keep_partitions), works)
    _write_offsets(staged, plan, plan.steps[step], done)
    driver.commit([one.result for one in done], step)
    staged.rename(offsets_path(place, step))
    sync(place)
    rows, size = sum(one.rows for one in done), sum(one.data_bytes for one in done)
    return StepDone(step, count, rows, size, was_decided=False)


def offsets_path(place: Path, step: int) -> Path:
    """Where a step's offsets are when it is committed."""
    return place / f"offsets-{step:06}.parquet"


def read_offsets(layout: Layout, name: str) -> pa.Table:
    """Old and new offsets of what a replay has committed (`offset_map.SCHEMA`). ArchiveError."""
    place = layout.replays / name
    if not NAME.fullmatch(name) or not (place / "plan.json").exists():
        known = ", ".join(sorted(one.parent.name for one in layout.replays.glob("*/plan.json")))
        raise ArchiveError(f"{layout.directory}: no replay {name!r}; there are: {known or 'none'}")
    tables = [pq.read_table(path) for path in sorted(place.glob("offsets-*.parquet"))]
    return pa.concat_tables([SCHEMA.empty_table(), *tables])


def last_topic_id(layout: Layout, name: str) -> list[str]:
    """The id of the topic that a replay's last records are of: whose offsets consumers committed
    last. Empty where brokers did not tell. ArchiveError."""
    plan = _read_plan(layout.replays / name / "plan.json")
    return [piece.topic_id for step in plan.steps[-1:] for piece in step[:1] if piece.topic_id]


def _files_of(files: Iterable[DataFile], plan: Plan, piece: Piece) -> tuple[DataFile, ...]:
    return tuple(
        one
        for one in files
        if (one.topic, one.tag, one.partition) == (plan.topic, piece.tag, piece.partition)
        and one.first < piece.end
        and one.last >= piece.start
    )


def _rows_in(path: Path) -> int:
    table = pq.read_table(path, columns=["first_offset", "last_offset"])
    first, last = (table[name].to_numpy() for name in ("first_offset", "last_offset"))
    return int((last - first + 1).sum())


def _write_offsets(
    path: Path, plan: Plan, pieces: Iterable[Piece], done: Iterable[Replayed]
) -> None:
    tables = [SCHEMA.empty_table()]
    for piece, one in zip(pieces, done, strict=True):
        count = len(one.runs["first_offset"])
        columns = {
            "topic": pa.repeat(plan.topic, count),
            "topic_id": pa.repeat(piece.topic_id, count),
            "partition": np.full(count, piece.partition, np.int32),
            "new_topic": pa.repeat(plan.new_topic, count),
            **one.runs,
        }
        tables.append(pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA))
    draft = path.with_suffix(".draft")
    pq.write_table(pa.concat_tables(tables), draft, compression="zstd")
    sync(draft)
    draft.rename(path)
    sync(path.parent)


# -- the plan ------------------------------------------------------------------------------------


def _plan(
    layout: Layout,
    place: Path,
    options: SinkOptions,
    topic: str | None,
    keep_partitions: bool,
    step_records: int,
) -> Plan:
    """The plan that is there, or a new one."""
    path = place / "plan.json"
    if path.exists():
        plan = _read_plan(path)
        wanted = (topic or plan.topic, options.topic, keep_partitions)
        if wanted != (plan.topic, plan.new_topic, plan.keep_partitions):
            raise ArchiveError(
                f"{path}: is of a replay of {plan.topic} into {plan.new_topic} with partitions "
                f"{'kept' if plan.keep_partitions else 'by key'}; give this one another name"
            )
        return plan
    read_parquet_state(layout)
    with layout.lock("layout", wait=True):
        state = recover(layout)
    topics = sorted({one.topic for one in state.incarnations})
    if topic is None and len(topics) != 1:
        raise ArchiveError(f"{layout.directory}: has topics {', '.join(topics)}: say which")
    chosen = topic or topics[0]
    if chosen not in topics:
        raise ArchiveError(f"{layout.directory}: has no topic {chosen!r}, but {', '.join(topics)}")
    steps: list[tuple[Piece, ...]] = []
    for one in state.of(chosen):
        spans = {p: (ranges[0][0], ranges[-1][1]) for p, ranges in one.partitions.items() if ranges}
        steps += _steps(spans, one.tag, one.topic_id, step_records)
    partitions = 1 + max((p for one in state.of(chosen) for p in one.partitions), default=0)
    plan = Plan(
        secrets.token_hex(8), chosen, str(options.topic), keep_partitions, partitions, tuple(steps)
    )
    content = {"format": FORMAT, **asdict(plan)}
    write_whole(path, json.dumps(content).encode())
    return plan


def _steps(
    spans: Mapping[int, tuple[int, int]], tag: str, topic_id: str, step_records: int
) -> list[tuple[Piece, ...]]:
    """Ranges of each partition, the first ones of all in the first step, and so on."""
    if step_records < 1:
        raise ArchiveError(f"{step_records} records are no step")
    longest = max((end - start for start, end in spans.values()), default=0)
    steps = []
    for number in range(-(-longest // step_records)):
        pieces = []
        for partition, (start, end) in sorted(spans.items()):
            low = start + number * step_records
            if low < end:
                high = min(low + step_records, end)
                pieces.append(Piece(tag, topic_id, partition, low, high))
        steps.append(tuple(pieces))
    return steps


def _read_plan(path: Path) -> Plan:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError("of another format")
        steps = tuple(tuple(Piece(**piece) for piece in step) for step in content.pop("steps"))
        plan = Plan(**content, steps=steps)
        if not re.fullmatch("[0-9a-f]{16}", plan.id):
            raise ValueError("has no id")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError(f"{path}: no plan of a replay: {error!r}") from error
    return plan


def _prepare_topic(cluster: Cluster, plan: Plan) -> None:
    """Make the new topic, or see that it can take the records as they are."""
    admin = Admin(cluster)
    name = plan.new_topic
    found = next(iter(cluster.describe([name])), None)
    if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        admin.create_topic(name, plan.partitions, configs={"retention.ms": "-1"})
        admin.wait_for_topic(name)
        return
    there = len(admin.describe_topic(name).partitions)
    if plan.keep_partitions and there < plan.partitions:
        raise ArchiveError(
            f"topic {name} has {there} partitions, and {plan.topic} had {plan.partitions}: add "
            "some, or have records dealt out by key"
        )
    configs = admin.describe_configs(TOPIC_RESOURCE, name, ["message.timestamp.type"])
    if any(one.value == "LogAppendTime" for one in configs):
        raise ArchiveError(f"topic {name} has LogAppendTime: it would not keep timestamps")
