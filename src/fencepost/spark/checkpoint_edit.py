"""Moving a query to other offsets, and between connectors, without running a batch.

Spark goes on from the end of the last committed batch, which is in `offsets/N`; so that file is
written again with another end, under the same number. A further batch, `offsets/N+1` and
`commits/N+1`, would be taken as well, but leaves a hole in what batches a sink has seen and state
has versions of: Spark's file sink cannot compact its log over a hole, and a stateful query looks
for the state after batch N+1.

A batch that is planned and not committed may be in the sink already: sinks that remember numbers of
batches (Delta, file sinks, exactly-once topics) skip the next batch of that number. So it is to be
finished first, by starting the query once. Where that cannot be, as its records are gone, `abandon`
removes it, and says what that means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.arrow.checkpoint import Checkpoint, CheckpointError, Source, read_checkpoint
from fencepost.arrow.offsets import EXTRA, Position, StreamOffset
from fencepost.arrow.storage import Storage
from fencepost.client.metadata import TopicPartition
from fencepost.spark.checkpoint_files import (
    BACKUPS,
    NO_OFFSET,
    Change,
    OffsetsFile,
    apply_changes,
    batches_of,
    initial_offsets_file,
    offset_text,
    own_text,
    plain_text,
    read_offsets_file,
)

JAR: Final = "kafka"
OURS: Final = "fencepost"
OTHER: Final = "other"
ARCHIVE: Final = "/_fencepost/checkpoint"
QUIET_MS: Final = 10_000
NAME_CHARS_MAX: Final = 100
OPERATOR_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator of the query: its number and, where Spark tells, its name."""

    number: int
    name: str


@dataclass(frozen=True)
class Opened:
    """A checkpoint with what is needed to change it."""

    storage: Storage
    checkpoint: Checkpoint
    operators: tuple[Operator, ...]
    files: Mapping[int, OffsetsFile]
    """The last committed batch's and those behind it; all there are for a conversion."""

    @property
    def planned_only(self) -> list[int]:
        """Batches that are planned and not committed, in order."""
        committed = self.checkpoint.committed_batch
        last = -1 if committed is None else committed
        return [batch for batch in sorted(self.files) if batch > last]

    @property
    def newest(self) -> OffsetsFile | None:
        """Of the newest batch."""
        return self.files[max(self.files)] if self.files else None

    def connector(self, name: str) -> str:
        """Which connector wrote a source's newest offset: JAR, OURS, or OTHER where it is not one
        of topics or there is none. Ours with plainOffsets=true are told by their blanks."""
        source = next(one for one in self.checkpoint.sources if one.name == name)
        if not source.is_topics or self.newest is None:
            return OTHER
        text = dict(self.newest.sources).get(name, NO_OFFSET)
        if text == NO_OFFSET:
            return OTHER
        return OURS if EXTRA in text or '": ' in text else JAR


@dataclass(frozen=True, slots=True)
class Moved:
    """A partition's offset before and after; None where the partition was or is not read."""

    source: str
    topic: str
    partition: int
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Edit:
    """What is to be changed, what that means for each partition, and what there is to know."""

    newest_batch: int
    changes: tuple[Change, ...]
    moved: tuple[Moved, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def apply(self, storage: Storage) -> str:
        """Make the changes; where the backup is, "" if there was nothing to do. CheckpointError,
        OSError."""
        if not self.changes:
            return ""
        return apply_changes(storage, self.changes, self.newest_batch)


def open_checkpoint(storage: Storage, *, whole: bool = False, of_archive: bool = False) -> Opened:
    """Read a checkpoint for changing it (`whole`: with all files of offsets). CheckpointError."""
    if storage.uri.endswith(ARCHIVE) and not of_archive:
        raise CheckpointError(
            f"{storage.uri}: is the checkpoint of an archive, whose state.json says what is "
            "archived; `fencepost archive continue` has it go on where a replay ended, else begin "
            "another archive"
        )
    checkpoint = read_checkpoint(storage)
    first = checkpoint.committed_batch if checkpoint.committed_batch is not None else 0
    files = {
        batch: read_offsets_file(storage, batch)
        for batch in batches_of(storage)
        if whole or batch >= first
    }
    return Opened(storage, checkpoint, _operators(storage), files)


def _operators(storage: Storage) -> tuple[Operator, ...]:
    """Stateful operators, by their directories in `state`."""
    numbers = {
        parts[1]
        for entry in storage.list("state")
        if len(parts := entry.path.split("/")) > 2 and parts[1].isdecimal()
    }
    return tuple(
        Operator(int(number), _operator_name(storage, number))
        for number in sorted(numbers, key=int)
    )


def _operator_name(storage: Storage, number: str) -> str:
    """From `state/N/_metadata/metadata` (or in `v2/0` of it), which Spark writes since 3.5."""
    places = [f"state/{number}/_metadata/metadata"]
    later = storage.list(f"state/{number}/_metadata/v2")
    places += [entry.path for entry in later if entry.path.rpartition("/")[2].isdecimal()]
    for place in places:
        try:
            _, _, text = storage.read_bytes(place, OPERATOR_BYTES_MAX).partition(b"\n")
            name = json.loads(text)["operatorInfo"]["operatorName"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(name, str) and name.isprintable():
            return name[:NAME_CHARS_MAX]
    return ""


# -- other offsets ---------------------------------------------------------------------------------


def plan_offsets(
    opened: Opened, wanted: Mapping[str, StreamOffset], *, abandon: bool = False
) -> Edit:
    """Have sources go on elsewhere: `wanted` has a whole offset for each source to be changed.

    CheckpointError for a query without a committed batch, and for one with a planned one unless
    `abandon`.
    """
    committed = opened.checkpoint.committed_batch
    if committed is None:
        raise CheckpointError(
            f"{opened.storage.uri}: no batch is committed yet, so the query starts where its "
            "options say: start it with other startingOffsets and an empty checkpoint"
        )
    left = opened.planned_only
    if left and not abandon:
        raise CheckpointError(
            f"{opened.storage.uri}: batch {left[-1]} is planned and not committed: start the query "
            "once so that it finishes it (or it runs now: stop it). If it cannot finish, "
            "--abandon-batch gives it up"
        )
    file = opened.files[committed]
    texts = {name: offset_text(offset, dict(file.sources)[name]) for name, offset in wanted.items()}
    changed = file.with_texts(texts)
    changes = [
        Change(opened.files[batch].path, opened.files[batch].to_bytes(), None)
        for batch in reversed(left)
    ]
    if changed != file or changes:
        changes.append(Change(file.path, file.to_bytes(), changed.to_bytes()))
    return Edit(
        max(opened.files),
        tuple(_as_stored(opened, changes)),
        tuple(_moved(opened, wanted)),
        tuple(_warnings(opened, file, left)),
    )


def _as_stored(opened: Opened, changes: list[Change]) -> list[Change]:
    """With the bytes that are there now: a file may end in a line break that we would not write."""
    return [
        replace(change, before=opened.storage.read_bytes(change.path))
        if change.before is not None
        else change
        for change in changes
    ]


def _moved(opened: Opened, wanted: Mapping[str, StreamOffset]) -> list[Moved]:
    rows = []
    for source in opened.checkpoint.sources:
        if source.name not in wanted:
            continue
        before = source.committed.positions if source.committed else {}
        after = wanted[source.name].positions
        for where in sorted({*before, *after}):
            old, new = before.get(where), after.get(where)
            rows.append(
                Moved(
                    source.name,
                    where.topic,
                    where.partition,
                    None if old is None else old.offset,
                    None if new is None else new.offset,
                )
            )
    return rows


def _warnings(opened: Opened, file: OffsetsFile, left: list[int]) -> list[str]:
    found = []
    if opened.operators:
        names = ", ".join(one.name or str(one.number) for one in opened.operators)
        found.append(
            f"the query keeps state ({names}), which is that of the offsets before: records read "
            "again are counted again, and what is skipped is missing from it"
        )
    if opened.operators and file.watermark_ms:
        found.append(
            f"the watermark stays at {file.watermark_ms} ms: older records are late for it"
        )
    if left:
        numbers = ", ".join(map(str, left))
        found.append(
            f"batch {numbers} is given up: what of it is in the sink stays there, and a sink that "
            "had taken it (killed just then) skips the next batch of its number: look there first"
        )
    return found


def with_offsets(
    offset: StreamOffset, new: Mapping[TopicPartition, int], ids: Mapping[str, str]
) -> StreamOffset:
    """An offset with some partitions elsewhere, whose leader epochs are not known then.

    `ids` are those of topics now. CheckpointError where a topic has another one than the offset is
    of and not all of its partitions are moved: the others would be taken for the new topic's.
    """
    topics = {where.topic for where in new}
    for topic in sorted(topics):
        then, now = offset.topic_ids.get(topic), ids.get(topic)
        left = [one for one in offset.positions if one.topic == topic and one not in new]
        if then and now and then != now and left:
            raise CheckpointError(
                f"{topic} was deleted and created again (its id was {then} and is {now}): move all "
                f"of its partitions; {left[0]} is left"
            )
    known = {topic: one for topic, one in offset.topic_ids.items() if topic not in topics}
    known |= {topic: ids[topic] for topic in topics if topic in ids}
    positions = {**offset.positions, **{where: Position(at) for where, at in new.items()}}
    begins = {where: at for where, at in offset.begins.items() if where not in new}
    return StreamOffset(positions, known, begins)


def require_quiet(storage: Storage, now_ms: int) -> None:
    """CheckpointError if the query seems to run: a batch was planned or committed just now. A query
    without new records writes nothing, so silence is no proof that it is stopped."""
    entries = [*storage.list("offsets"), *storage.list("commits")]
    newest = max(entries, key=lambda one: one.modified_ms, default=None)
    if newest is not None and now_ms - newest.modified_ms < QUIET_MS:
        raise CheckpointError(
            f"{storage.uri_of(newest.path)}: was written less than {QUIET_MS // 1000} s ago: stop "
            "the query and wait that long, or give --force"
        )


# -- between connectors ----------------------------------------------------------------------------


def plan_conversion(
    opened: Opened, connector: str, known: Mapping[str, StreamOffset] | None = None
) -> Edit:
    """Have the checkpoint be one that `connector` (JAR or OURS) takes; open it `whole`.

    `known` has ids and epochs for the sources' newest offsets, for OURS. CheckpointError where the
    other connector would run the planned batch with other records.
    """
    newest = opened.newest
    if newest is None:
        raise CheckpointError(
            f"{opened.storage.uri}: has no offsets yet: any connector can take it"
        )
    changes, warnings = [], []
    topics = [source for source in opened.checkpoint.sources if source.is_topics]
    for source in topics:
        _require_same_batch(opened, source, connector)
        told, extra = _starts(opened, source, connector)
        warnings += told
        changes += extra
    for batch, file in sorted(opened.files.items()):
        texts = {}
        for source in topics:
            given = (known or {}).get(source.name) if batch == newest.batch else None
            text = dict(file.sources).get(source.name, NO_OFFSET)
            if text != NO_OFFSET:
                texts[source.name] = _converted(opened, source, file, text, connector, given)
        changed = file.with_texts(texts)
        if changed != file:
            changes.append(Change(file.path, file.to_bytes(), changed.to_bytes()))
    if connector == JAR and any(EXTRA in text for _, text in newest.sources):
        warnings.append(
            "topic ids and leader epochs are left out: Spark's own connector does not detect a "
            "topic that was created again, or rewritten records"
        )
    return Edit(max(opened.files), tuple(_as_stored(opened, changes)), (), tuple(warnings))


def _converted(
    opened: Opened,
    source: Source,
    file: OffsetsFile,
    text: str,
    connector: str,
    given: StreamOffset | None,
) -> str:
    try:
        offset = given or StreamOffset.from_json(json.loads(text))
    except ValueError:
        return text  # of another source, which had this place before
    if connector == JAR:
        return plain_text(offset)
    begins = dict(offset.begins)
    if file.batch in opened.planned_only and opened.checkpoint.committed_batch is None:
        start = source.committed.positions if source.committed else {}
        begins |= {one: at.offset for one, at in start.items() if one in offset.positions}
    if not (begins or offset.topic_ids or EXTRA in text) and '": ' in text:
        return text
    return own_text(replace(offset, begins=begins))


def _require_same_batch(opened: Opened, source: Source, connector: str) -> None:
    """A batch of ours may begin elsewhere than the one before ended, after data loss; Spark's own
    connector has no place for that."""
    if connector != JAR or source.planned is None or not opened.planned_only:
        return
    start = source.committed.positions if source.committed else {}
    for where, begin in source.planned.begins.items():
        if where in start and start[where].offset != begin:
            raise CheckpointError(
                f"{opened.storage.uri}: batch {opened.planned_only[-1]}, which is planned and not "
                f"committed, begins at offset {begin} of {where}, and the batch before ended at "
                f"{start[where].offset}: start the query once so that it finishes the batch"
            )


def _starts(opened: Opened, source: Source, connector: str) -> tuple[list[str], list[Change]]:
    """Where a first batch begins that is not committed: each connector keeps that elsewhere."""
    if opened.checkpoint.committed_batch is not None or source.planned is None:
        return [], []
    place = f"sources/{source.name}/0"
    if connector == OURS:
        missing = set(source.planned.positions) - set(
            source.committed.positions if source.committed else {}
        )
        if not missing or set(source.planned.begins) >= missing:
            return [], []
        return [_unknown_start(source, missing)], []
    begins = source.planned.begins
    missing = set(source.planned.positions) - set(begins)
    if missing:
        return ([] if source.committed else [_unknown_start(source, missing)]), []
    if opened.storage.exists(place):
        return [], []
    ends = source.planned.positions
    start = StreamOffset({one: Position(begins[one]) for one in ends})
    return [], [Change(place, None, initial_offsets_file(start))]


def _unknown_start(source: Source, missing: set[TopicPartition]) -> str:
    shown = ", ".join(map(str, sorted(missing)[:3]))
    return (
        f"source {source.name}: the first batch is not committed and the checkpoint does not say "
        f"where it begins in {shown}: the query's startingOffsets decide"
    )


def backups_of(storage: Storage) -> list[str]:
    """Where earlier commands left what they replaced."""
    paths = (entry.path.split("/") for entry in storage.list(BACKUPS))
    return sorted({f"{BACKUPS}/{parts[1]}" for parts in paths if len(parts) > 2})
