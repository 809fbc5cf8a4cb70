"""An archived topic back into a topic: keys, values, headers, timestamps, partitions and order.

    DIR/_fencepost/replays/NAME/plan.json             what is replayed, where to, in which steps
                                records/                  of a table: copies, until it is done
                                offsets-000000.parquet    of step 0: old and new offsets
                                offsets-000001.staged     of a step that may be decided
                                target.json, end.json     `replay_target`

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

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.archive.layout import REPLAYS, ArchiveError, DataFile, Layout, place_of
from fencepost.arrow.storage import Storage
from fencepost.client.admin import TOPIC_RESOURCE, Admin
from fencepost.client.cluster import Cluster
from fencepost.spark.archive.offset_map import SCHEMA
from fencepost.spark.archive.replay_plan import (
    PLAN,
    RECORDS,
    Plan,
    Wanted,
    files_of,
    plan_replay,
    read_plan,
)
from fencepost.spark.archive.replay_target import keep_end, keep_target
from fencepost.spark.archive.replay_task import Piece, Replayed, Work, replay_piece
from fencepost.spark.archive.running import Run, here
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.options import SinkOptions
from fencepost.wire.errors import ErrorCode

STEP_RECORDS: Final = 250_000
"""Offsets of a partition in one step: what one transaction has."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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
    spark: Any = None,
    on_step: Callable[[StepDone], None] = lambda done: None,
) -> Plan:
    """Replay a topic of an archive into `options.topic`, or go on where the replay of that name
    was when it was ended.

    `topic` may be left out where the archive has one. The new topic is made if it is not there,
    with as many partitions and without retention by time, which would go by the old timestamps. It
    must not be of LogAppendTime. `spark`, a session, is needed where the archive is a table, whose
    records it copies. ArchiveError, ExactlyOnceError, ClientError, PySparkException.
    """
    layout.require()
    if not NAME.fullmatch(name):
        raise ArchiveError(f"{name!r}: a replay's name has letters, digits, dots, dashes and _")
    place = layout.storage.within(f"{REPLAYS}/{name}")
    with layout.lock(f"replay-{name}", wait=False, holder=f"the replay {name}"):
        wanted = Wanted(topic, str(options.topic), keep_partitions)
        plan = plan_replay(layout, place, wanted, step_records, run, spark)
        config = replace(options.client, allow_auto_create_topics=False)
        with Cluster(config=config) as cluster:
            _prepare_topic(cluster, plan)
            is_begun = any(place.exists(offsets_path(step)) for step in range(len(plan.steps)))
            topic_id = keep_target(cluster, place, plan.new_topic, is_begun=is_begun)
            timeout_ms = options.exactly_once.timeout_ms if options.exactly_once else None
            driver = SinkDriver(cluster, plan.sink, timeout_ms)
            for step in range(len(plan.steps)):
                if not place.exists(offsets_path(step)):
                    on_step(_step(layout, place, plan, step, options, run, driver))
            keep_end(cluster, place, topic_id, read_offsets(layout, name))
        place.delete_all(RECORDS)
    return plan


def _step(
    layout: Layout,
    place: Storage,
    plan: Plan,
    step: int,
    options: SinkOptions,
    run: Run,
    driver: SinkDriver,
) -> StepDone:
    final = offsets_path(step)
    staged = f"{final.removesuffix('.parquet')}.staged"
    count = len(plan.steps)
    grant = driver.open()
    if grant.query == plan.id and grant.batch >= step:
        if grant.batch > step or not place.exists(staged):
            raise ArchiveError(
                f"{place_of(place, '')}: step {step} was committed, but its offsets are not "
                "here: the archive is older than the replay"
            )
        place.move_all([(staged, final)])
        rows = _rows_in(place, final)
        return StepDone(step, count, rows, 0, was_decided=True)
    with layout.lock("compaction", wait=True):  # which would take files away
        files = files_of(layout, place, plan)
        works = [
            Work(number, piece, _overlapping(files, plan, piece), grant, plan.id, step)
            for number, piece in enumerate(plan.steps[step])
        ]
        done = run(partial(replay_piece, options, plan.new_topic, plan.keep_partitions), works)
    _write_offsets(place, staged, plan, plan.steps[step], done)
    driver.commit([one.result for one in done], step)
    place.move_all([(staged, final)])
    rows, size = sum(one.rows for one in done), sum(one.data_bytes for one in done)
    return StepDone(step, count, rows, size, was_decided=False)


def offsets_path(step: int) -> str:
    """Where a step's offsets are when it is committed, in the replay's directory."""
    return f"offsets-{step:06}.parquet"


def read_offsets(layout: Layout, name: str) -> pa.Table:
    """Old and new offsets of what a replay has committed (`offset_map.SCHEMA`). ArchiveError."""
    if not NAME.fullmatch(name) or not layout.storage.exists(f"{REPLAYS}/{name}/{PLAN}"):
        places = layout.storage.names(REPLAYS)
        found = [one for one in places if layout.storage.exists(f"{REPLAYS}/{one}/{PLAN}")]
        known = ", ".join(found) or "none"
        raise ArchiveError(f"{layout}: no replay {name!r}; there are: {known}")
    place = layout.storage.within(f"{REPLAYS}/{name}")
    paths = [one for one in place.names() if one.startswith("offsets-") and _is_parquet(one)]
    tables = [_read_table(place, one) for one in sorted(paths)]
    return pa.concat_tables([SCHEMA.empty_table(), *tables])


def last_topic_id(layout: Layout, name: str) -> list[str]:
    """The id of the topic that a replay's last records are of: whose offsets consumers committed
    last. Empty where brokers did not tell. ArchiveError."""
    plan = read_plan(layout.storage.within(f"{REPLAYS}/{name}"))
    return [piece.topic_id for step in plan.steps[-1:] for piece in step[:1] if piece.topic_id]


def _is_parquet(name: str) -> bool:
    return name.endswith(".parquet")


def _read_table(place: Storage, path: str, columns: list[str] | None = None) -> pa.Table:
    with place.open_input(path) as file:
        return pq.ParquetFile(file).read(columns)


def _overlapping(files: Iterable[DataFile], plan: Plan, piece: Piece) -> tuple[DataFile, ...]:
    return tuple(
        one
        for one in files
        if (one.topic, one.tag, one.partition) == (plan.topic, piece.tag, piece.partition)
        and one.first < piece.end
        and one.last >= piece.start
    )


def _rows_in(place: Storage, path: str) -> int:
    table = _read_table(place, path, ["first_offset", "last_offset"])
    first, last = (table[name].to_numpy() for name in ("first_offset", "last_offset"))
    return int((last - first + 1).sum())


def _write_offsets(
    place: Storage, path: str, plan: Plan, pieces: Iterable[Piece], done: Iterable[Replayed]
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
    with place.open_output(path) as file:
        pq.write_table(pa.concat_tables(tables), file, compression="zstd")


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
