"""What a streaming query reads next: the decisions of a stream reader, without Spark's classes.

Spark asks in this order: `initial` (a new query, and again when batch 0 is run again), `next_end`
over and over, and `ranges` for a batch whose end it has written to its checkpoint, perhaps in
another process. Three rules follow from how Spark compares and stores offsets:

* nothing new is told by returning the very start that was given, never an equal object;
* a start that depends on the moment ("latest") must reach the checkpoint before anything is read,
  so the first end is the start itself, which makes Spark store an empty batch 0;
* a batch's range must not depend on when it is planned, so whatever deviates from "start to end"
  is part of the end (`StreamOffset.begins`).

Before offsets move on, and when a query comes back, the start is compared with the log as it is now
(`loss.judge`). Losses are raised together, or logged with failOnDataLoss=false.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.arrow.conditions import END_BEHIND_LATEST, LOST_PARTITIONS
from fencepost.arrow.errors import AvailableNowError, DataLossError, OffsetError
from fencepost.arrow.loss import Loss, PartitionState, judge, never_seen, unseen_beginning
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.arrow.options import AtTimestamps, BeforeEnd, Bound, Point, SourceOptions
from fencepost.arrow.planning import OffsetRange, limit_offsets, split_ranges
from fencepost.arrow.survey import Look
from fencepost.client.errors import UnknownTopic
from fencepost.client.metadata import TopicPartition

log = logging.getLogger("fencepost.arrow")

# An idle query asks every 10 ms; holding its question a little spares the brokers most of them.
HOLD_S = 0.5
HOLD_PAUSE_S = 0.005
HOLD_PAUSE_MAX_S = 0.05
REST_SHARE = 4
"""An idle query rests so many times as long as a look took."""
EAGER_S = 0.5
"""A question so soon after an answer is of a query without an interval: others are not held."""

# Batches of which Spark may ask again: the one that runs, and the one it begins at.
TOLD_MAX = 4

Json = dict[str, Any]


class Surveys(Protocol):
    """What a planner needs to ask; `survey.Survey` asks a cluster."""

    def peek(self) -> Look: ...
    def look(self, *, new_query: bool = False) -> Look: ...
    def confirm(self, seen: Look) -> Look | None: ...
    def earliest(self, partitions: Any) -> dict[TopicPartition, int]: ...
    def resolve(self, bound: Bound, look: Look, what: str) -> dict[TopicPartition, int]: ...
    def limit_bytes(
        self,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        limit: int,
    ) -> dict[TopicPartition, int]: ...
    def states(
        self, stored: StreamOffset, look: Look
    ) -> dict[TopicPartition, PartitionState | None]: ...
    def placed(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]: ...


class StreamPlanner:
    """One query's planner, alive as long as the query's process."""

    def __init__(
        self,
        options: SourceOptions,
        survey: Surveys,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.hold_s = HOLD_S
        self.options = options
        self.survey = survey
        self._clock = clock
        self._sleep = sleep
        self._initial: Json | None = None
        self._announce_initial = False
        self._last_end: Json | None = None
        # Offsets that were told, with all that is known of them, which plain ones leave out.
        self._told: deque[tuple[Json, StreamOffset]] = deque(maxlen=TOLD_MAX)
        self._warned_of_plain = False
        self._verified: Json | None = None  # the start that was compared with the log
        self._verified_epochs: dict[TopicPartition, int] = {}
        self._target: Mapping[TopicPartition, Position] | None = None
        self._target_ids: Mapping[str, str] = {}
        self._latest: Look | None = None
        self._last_batch_at = float("-inf")
        self._nothing_at = float("-inf")  # when Spark was told last that there is nothing new

    # -- Spark's questions -----------------------------------------------------------------------

    def initial(self) -> Json:
        """Where a new query starts; the same answer for as long as this process lives."""
        if self._initial is None:
            start = self.options.start
            look = self.survey.look(new_query=True)
            offsets = self.survey.resolve(start, look, "starting")
            positions = {
                partition: Position(offset, look.latest[partition].leader_epoch)
                if offset <= look.latest[partition].offset
                else Position(offset)
                for partition, offset in offsets.items()
            }
            self._initial = self._json(StreamOffset(positions, look.topic_ids))
            self._announce_initial = (
                start is Point.LATEST
                or isinstance(start, BeforeEnd)
                or (isinstance(start, AtTimestamps) and start.or_latest)
            )
        return self._initial

    def freeze(self) -> None:
        """Let the ends of this moment be the last ones planned (Trigger.AvailableNow)."""
        look = self.survey.look()
        self._target, self._target_ids = look.latest, look.topic_ids

    def latest(self) -> Json | None:
        """The ends last seen, for progress reports."""
        return (
            None if self._latest is None else StreamOffset(self._latest.latest).to_json(plain=True)
        )

    def next_end(self, start_json: Json | None, *, limited: bool) -> Json:
        """The end of the next batch; `start_json` itself when there is none to be run.

        `start_json` is None from Spark versions that do not tell it; all there is is the end
        then. `limited` applies maxOffsetsPerTrigger, maxBytesPerTrigger and minOffsetsPerTrigger.
        """
        if start_json is None:
            start_json = self._last_end if self._last_end is not None else self._initial
        if self._announce_initial and start_json is not None and start_json == self._initial:
            self._announce_initial = False
            return start_json
        if start_json is None:
            look = self.survey.look()
            self._last_batch_at = self._clock()
            return self._plan(StreamOffset(look.latest, look.topic_ids))
        start = self._offset(start_json)
        is_changed, seen = self._wait_for_change(start_json, start)
        if not is_changed:
            return self._nothing_new(start_json)
        look = (seen and self.survey.confirm(seen)) or self.survey.look()
        self._latest = look
        self._require_target(look)
        begins = self._begins(start, look)
        self._note_verified(start_json, look)
        end = self._end(start, begins, look, limited=limited)
        if end is None:
            return self._nothing_new(start_json)
        self._last_batch_at = self._clock()
        return self._plan(end)

    def ranges(self, start_json: Json, end_json: Json) -> list[OffsetRange]:
        """The ranges of a batch, split as options ask for."""
        if start_json == end_json:
            return []
        start, end = self._offset(start_json), self._offset(end_json)
        limits = {partition: position.offset for partition, position in end.positions.items()}
        begins = {partition: position.offset for partition, position in start.positions.items()}
        if end_json != self._last_end:
            look = self.survey.look()
            limits = self._still_there(end, look)
            # PySpark 4.1 has ends planned without their start: that is compared now.
            unknown = {p: at for p, at in start.positions.items() if p not in end.begins}
            begins.update(self._onward(StreamOffset(unknown, start.topic_ids), look))
        elif start_json != self._verified:
            look = self.survey.look()
            begins = self._begins(start, look)
            self._note_verified(start_json, look)
        begins.update(end.begins)
        unseen = [partition for partition in limits if partition not in begins]
        if unseen:
            begins.update(self.survey.earliest(unseen))
        whole = [
            OffsetRange(
                partition,
                begins[partition],
                limits[partition],
                end.positions[partition].leader_epoch,
                end.topic_ids.get(partition.topic, ""),
            )
            for partition in sorted(limits)
        ]
        return split_ranges(
            self.survey.placed(whole),
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
        )

    # -- deciding --------------------------------------------------------------------------------

    def _plan(self, end: StreamOffset) -> Json:
        self._last_end = self._json(end)
        return self._last_end

    def _nothing_new(self, start_json: Json) -> Json:
        self._nothing_at = self._clock()
        return start_json

    def _json(self, offset: StreamOffset) -> Json:
        told = offset.to_json(plain=self.options.plain_offsets)
        self._told.append((told, offset))
        return told

    def _offset(self, told: Json) -> StreamOffset:
        """What Spark hands back; if this process told it, as it was, with what plain offsets
        leave out.

        A Python source does not learn where the query's checkpoint is, so nothing can be kept
        beside it: what another process knew is gone, and every start says so.
        """
        for known, offset in reversed(self._told):
            if known == told:
                return offset
        try:
            offset = StreamOffset.from_json(told)
        except ValueError as error:
            raise OffsetError(told, str(error)) from error
        if self.options.plain_offsets and not self._warned_of_plain:
            self._warned_of_plain = True
            unchecked = sorted({p.topic for p in offset.positions} - set(offset.topic_ids))
            if unchecked:
                log.warning(
                    "plainOffsets=true: the checkpoint has no topic ids and leader epochs, so "
                    "this start cannot tell whether %s was deleted and created again, or "
                    "rewritten, while the query was stopped; first records may be missing",
                    ", ".join(unchecked),
                )
        return offset

    def _note_verified(self, start_json: Json, look: Look) -> None:
        self._verified = start_json
        self._verified_epochs = {p: end.leader_epoch for p, end in look.latest.items()}

    def _wait_for_change(self, start_json: Json, start: StreamOffset) -> tuple[bool, Look | None]:
        """Whether there may be something to do, waiting a little for it while there is not; and
        what was seen, if so.

        Spark asks a query without an interval again right after each answer, others once in their
        interval: these are answered at once. A look at very many partitions takes long; pauses are
        longer then, so that a query that waits keeps no core busy.
        """
        if start_json != self._verified:
            return True, None
        is_eager = self._clock() - self._nothing_at < EAGER_S
        until: float | None = None
        pause = HOLD_PAUSE_S
        while True:
            begun = self._clock()
            try:
                seen = self.survey.peek()
            except UnknownTopic:
                return True, None  # something vanished; a full look will tell what
            self._latest = seen
            if self._differs(start, seen):
                return True, seen
            now = self._clock()
            if until is None:
                until = now + (self.hold_s if is_eager else 0)
            if self._target is not None or now >= until:
                return False, None
            rest = REST_SHARE * (now - begun)
            if rest >= until - now:
                self._sleep(until - now)
                return False, None
            self._sleep(max(pause, rest))
            pause = min(2 * pause, HOLD_PAUSE_MAX_S)

    def _differs(self, start: StreamOffset, seen: Look) -> bool:
        if set(seen.latest) != set(start.positions):
            return True
        if any(start.topic_ids.get(t, seen_id) != seen_id for t, seen_id in seen.topic_ids.items()):
            return True
        for partition, end in seen.latest.items():
            position = start.positions[partition]
            if self._verified_epochs.get(partition) != end.leader_epoch:
                return True
            if end.offset > position.offset:
                return True
            if end.offset < position.offset and position.leader_epoch < 0:
                return True
        return False

    def _begins(self, start: StreamOffset, look: Look) -> dict[TopicPartition, int]:
        """Where each partition goes on from; raises or logs what was lost."""
        losses, begins = self._judged(start, look)
        new = [partition for partition in look.latest if partition not in start.positions]
        known_topics = {partition.topic for partition in start.positions}
        for partition, earliest in self._earliest(new, losses).items():
            begins[partition] = earliest
            # If the whole topic is new to the query, what was deleted before is not a loss.
            loss = unseen_beginning(partition, earliest)
            if loss is not None and partition.topic in known_topics:
                losses.append(loss)
        self.report(losses)
        return begins

    def _onward(self, start: StreamOffset, look: Look) -> dict[TopicPartition, int]:
        """Where partitions go on from; raises or logs what was lost."""
        losses, begins = self._judged(start, look)
        self.report(losses)
        return begins

    def _judged(
        self, start: StreamOffset, look: Look
    ) -> tuple[list[Loss], dict[TopicPartition, int]]:
        losses: list[Loss] = []
        begins: dict[TopicPartition, int] = {}
        for partition, state in self.survey.states(start, look).items():
            stored_id = start.topic_ids.get(partition.topic, "")
            loss, onward = judge(partition, start.positions[partition], stored_id, state)
            if loss is not None:
                losses.append(loss)
            if onward is not None:
                begins[partition] = onward
        return losses, begins

    def _earliest(
        self, new: Sequence[TopicPartition], losses: list[Loss]
    ) -> dict[TopicPartition, int]:
        """Where new partitions begin; those that are deleted meanwhile join the losses."""
        if not new:
            return {}
        try:
            return self.survey.earliest(new)
        except UnknownTopic:
            there = self.survey.look().latest
            gone = [partition for partition in new if partition not in there]
            if not gone:
                raise
            losses += map(never_seen, gone)
            return self._earliest([one for one in new if one in there], losses)

    def _require_target(self, look: Look) -> None:
        """What Trigger.AvailableNow is to read must still be there. AvailableNowError."""
        target = self._target or {}
        gone = sorted(set(target) - set(look.latest))
        if gone:
            raise AvailableNowError(
                LOST_PARTITIONS,
                f"{', '.join(map(str, gone))} vanished while Trigger.AvailableNow ran",
                {
                    "tpsForLatestOffset": ", ".join(map(str, sorted(look.latest))),
                    "tpsForEndOffset": ", ".join(map(str, sorted(target))),
                },
            )
        shorter = {p: end for p, end in target.items() if look.latest[p].offset < end.offset}
        if not shorter:
            return
        # A new leader's high watermark may lag; epochs tell that from a log that was cut.
        wanted = StreamOffset(shorter, self._target_ids)
        for partition, state in self.survey.states(wanted, look).items():
            stored_id = self._target_ids.get(partition.topic, "")
            loss, _ = judge(partition, shorter[partition], stored_id, state)
            if loss is not None and loss.kind != "recreated":
                raise AvailableNowError(
                    END_BEHIND_LATEST,
                    f"{partition} ended at {shorter[partition].offset} when Trigger.AvailableNow "
                    f"began and ends at {look.latest[partition].offset} now: {loss.detail}",
                    {
                        "latestOffset": json.dumps(StreamOffset(look.latest).to_json(plain=True)),
                        "endOffset": json.dumps(StreamOffset(target).to_json(plain=True)),
                    },
                )

    def report(self, losses: Sequence[Loss]) -> None:
        """Raise the losses, or log them where the user chose to go on."""
        if losses and self.options.fail_on_data_loss:
            raise DataLossError(losses)
        for loss in losses:
            log.warning("data loss: %s", loss)

    def _end(
        self,
        start: StreamOffset,
        begins: Mapping[TopicPartition, int],
        look: Look,
        *,
        limited: bool,
    ) -> StreamOffset | None:
        """The end of a batch from `begins`, None if there is no reason to run one."""
        latest = {partition: look.latest[partition].offset for partition in begins}
        if self._target is not None:
            latest = {
                partition: min(end, self._target[partition].offset)
                for partition, end in latest.items()
                if partition in self._target
            }
            begins = {partition: begins[partition] for partition in latest}
        if limited and self._should_wait(begins, latest):
            latest = {partition: begins[partition] for partition in latest}
        limit = self.options.max_offsets_per_trigger if limited else None
        ends = limit_offsets(begins, latest, limit)
        most_bytes = self.options.max_bytes_per_trigger if limited else None
        if most_bytes is not None:
            ends = self.survey.limit_bytes(begins, ends, most_bytes)
        moved = {
            partition: begin
            for partition, begin in begins.items()
            if partition not in start.positions or start.positions[partition].offset != begin
        }
        unchanged = all(ends[partition] == begin for partition, begin in begins.items())
        if unchanged and not moved and set(ends) == set(start.positions):
            return None
        positions = {}
        for partition, offset in ends.items():
            before = start.positions.get(partition)
            still = before is not None and partition not in moved and before.offset == offset
            positions[partition] = (
                before
                if still and before is not None
                else Position(offset, look.latest[partition].leader_epoch)
            )
        return StreamOffset(positions, look.topic_ids, moved)

    def _should_wait(
        self, begins: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether minOffsetsPerTrigger is not reached and maxTriggerDelay not yet over."""
        least = self.options.min_offsets_per_trigger
        if least is None or self._target is not None:
            return False
        there = sum(max(0, latest[partition] - begin) for partition, begin in begins.items())
        waited_ms = (self._clock() - self._last_batch_at) * 1000
        return there < least and waited_ms < self.options.max_trigger_delay_ms

    def _still_there(self, end: StreamOffset, look: Look) -> dict[TopicPartition, int]:
        """Ends of a batch that another process planned, checked and, where records are gone,
        clipped to what is left."""
        losses: list[Loss] = []
        limits: dict[TopicPartition, int] = {}
        for partition, state in self.survey.states(end, look).items():
            position = end.positions[partition]
            stored_id = end.topic_ids.get(partition.topic, "")
            loss, onward = judge(partition, position, stored_id, state)
            if loss is not None:
                losses.append(loss)
            if onward is not None and (loss is None or loss.kind != "recreated"):
                limits[partition] = min(position.offset, onward)
        self.report(losses)
        return limits
