"""An archive as the beginning of a log: what brokers have deleted is read from there.

Offsets are the only coordinate. Of every partition there is what the brokers have, from the log's
beginning on, and what the archive has read, in ranges; a read takes each offset from the brokers
where they have it, and from the archive where they have it no more. So "earliest" is where the
archive begins, and nothing is there twice. What neither has, between two things that are there, is
lost, and told as any other loss. Decisions, per partition:

| | the archive has | what is taken of it |
|---|---|---|
| A | the topic of that name and id | all that it has |
| B | only topics of that name with other ids | nothing: told as `recreated` |
| C | more than its last leader epoch has in the log now (unclean election) | what is below that |
|   |                                 | epoch's end: the log has other records from there on |
| D | the topic, read in an epoch that the leader does not know | nothing: told as |
|   |                                 | `history replaced`, as it is unknown where they part |
| E | more than the log has, and no epochs are known | what is below the log's end |
| F | nothing of the topic | nothing; a warning, once |

The table of `loss.judge` decides C, D and E: the archive's end is compared like the end of a query
that stopped there. The archive may grow, and brokers may delete, while a query runs: tasks that
find records deleted look into the archive again before they call them lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fencepost.arrow.archives import HeldTopic, Ranges, clipped
from fencepost.arrow.errors import DataLossError
from fencepost.arrow.loss import Loss, PartitionState, judge, recreated
from fencepost.arrow.offsets import INT64_MAX, Position, StreamOffset
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.survey import Look, Survey
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition

log = logging.getLogger("fencepost.arrow")

CUT: Final = ("truncated", "rewritten")
"""Kinds of losses that leave what is below them."""


def survey_for(options: SourceOptions, cluster: Cluster | None = None) -> Survey:
    """The survey of a read, with its archive if it has one; `cluster` as `Survey` takes it."""
    if options.archive is None:
        return Survey(options, cluster)
    return BackfilledSurvey(options, cluster)


def available(held: Ranges, log_start: int) -> list[tuple[int, int]]:
    """The ranges of offsets that can be read: those held, and the log from its beginning."""
    found: list[tuple[int, int]] = []
    for start, end in sorted([*held, (log_start, INT64_MAX)]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def believed(
    where: TopicPartition, ranges: Ranges, epoch: int, state: PartitionState | None
) -> tuple[Ranges, Loss | None]:
    """What the log, as it is now, does not contradict of what an archive has of a partition up to
    an end that was seen in `epoch` (-1: not known), and what it says against the rest: C, D and E
    of the table."""
    loss, _ = judge(where, Position(ranges[-1][1], epoch), "", state)
    if loss is None or loss.kind == "aged out":
        return ranges, None
    if loss.kind in CUT:
        return clipped(ranges, 0, loss.start), loss
    return (), loss


class BackfilledSurvey(Survey):
    """A survey whose logs begin where the archive does."""

    def __init__(self, options: SourceOptions, cluster: Cluster | None = None) -> None:
        super().__init__(options, cluster)
        assert options.archive is not None
        self.archive = options.archive
        self._held: dict[TopicPartition, Ranges] = {}
        self._until: dict[TopicPartition, int] = {}
        """From where on the archive is not to be believed, for partitions where that is so."""
        self._log_starts: dict[TopicPartition, int] = {}
        self._seen: object = None
        self._checked: set[tuple[TopicPartition, str]] = set()
        self._warned: set[str] = set()

    # -- what the archive has --------------------------------------------------------------------

    def look(self, *, new_query: bool = False) -> Look:
        look = super().look(new_query=new_query)
        self._compare(look)
        return look

    def _compare(self, look: Look) -> None:
        """Take in what the archive has of the topics of a look; see the module's table."""
        signature, topics = self.archive.topics()
        epochs = {where: end.leader_epoch for where, end in look.latest.items()}
        seen = (signature, look.topic_ids, epochs)
        if seen == self._seen:
            return
        held, losses = self._matching(look, topics)
        self._held, more = self._trusted(look, held)
        losses += more
        if losses and self.options.fail_on_data_loss:
            raise DataLossError(losses)
        for loss in losses:
            log.warning("the archive is not used: %s", loss)
        new = {(where, look.topic_ids.get(where.topic, "")) for where in self._held}
        if new - self._checked:
            self.archive.check(sorted(new - self._checked))
            self._checked |= new
        self._seen = seen

    def _matching(
        self, look: Look, topics: Sequence[HeldTopic]
    ) -> tuple[dict[TopicPartition, tuple[Ranges, int]], list[Loss]]:
        """What is held of the topics by id, with the epoch of its end; B and F of the table."""
        held: dict[TopicPartition, tuple[Ranges, int]] = {}
        losses: list[Loss] = []
        for topic in sorted({where.topic for where in look.latest}):
            now = look.topic_ids.get(topic, "")
            named = [one for one in topics if one.topic == topic]
            mine = [one for one in named if one.topic_id == now]
            for one in mine:
                for number, ranges in one.partitions.items():
                    where = TopicPartition(topic, number)
                    if ranges and where in look.latest:
                        held[where] = (ranges, one.epochs.get(number, -1))
            if named and not mine:
                losses += _of_others(named, look)
            if not named and topic not in self._warned:
                self._warned.add(topic)
                log.warning("the archive has nothing of topic %s", topic)
        return held, losses

    def _trusted(
        self, look: Look, held: Mapping[TopicPartition, tuple[Ranges, int]]
    ) -> tuple[dict[TopicPartition, Ranges], list[Loss]]:
        """What the log does not contradict: C, D and E of the table."""
        ends = {where: Position(ranges[-1][1], epoch) for where, (ranges, epoch) in held.items()}
        found: dict[TopicPartition, Ranges] = {}
        losses: list[Loss] = []
        self._until = {}
        for where, state in super().states(StreamOffset(ends, look.topic_ids), look).items():
            kept, loss = believed(where, *held[where], state)
            if loss is None:
                found[where] = kept
            elif loss.kind in CUT:
                log.warning("the archive is used up to offset %d only: %s", loss.start, loss)
                found[where] = kept
                self._until[where] = loss.start
            elif loss.kind != "deleted":
                self._until[where] = 0
                losses.append(loss)
        return found, losses

    # -- what a planner asks ---------------------------------------------------------------------

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the partitions begin: in the archive, or in the log."""
        starts = super().earliest(partitions)
        self._log_starts.update(starts)
        return {where: self._available(where, start)[0][0] for where, start in starts.items()}

    def _available(self, where: TopicPartition, log_start: int) -> list[tuple[int, int]]:
        return available(self._held.get(where, ()), log_start)

    def states(
        self, stored: StreamOffset, look: Look
    ) -> dict[TopicPartition, PartitionState | None]:
        """As the base's. A partition begins where the stretch begins that has the stored offset,
        or else the next one: what is between is lost, and nothing before it matters."""
        states = super().states(stored, look)
        for where, state in states.items():
            if state is None:
                continue
            there = self._available(where, self._log_starts[where])
            offset = stored.positions[where].offset
            if self._same_topic(stored, look, where.topic):
                start = next(low for low, high in there if offset < high)
                states[where] = replace(state, earliest=start)
        return states

    def since(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As the base's, of the archive's records as well."""
        found = super().since(times)
        starts = super().earliest(times)
        for where, time_ms in times.items():
            below = clipped(self._held.get(where, ()), 0, starts[where])
            if not below:
                continue
            topic_id = self._topic_ids.get(where.topic, "")
            first = self.archive.since(where, topic_id, time_ms, below[-1][1])
            if first is not None:
                found[where] = first if found[where] < 0 else min(first, found[where])
        return found

    def placed(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The ranges, with which of their offsets are the archive's."""
        return [
            replace(
                wanted,
                archive_below=self._log_starts.get(where, 0) if self._held.get(where) else 0,
                archive_until=self._until.get(where, INT64_MAX),
            )
            for wanted in ranges
            for where in (wanted.partition,)
        ]


def _of_others(named: Sequence[HeldTopic], look: Look) -> list[Loss]:
    """B: what the archive has is of topics that had the name before."""
    newest = named[-1]
    found = []
    for number, ranges in sorted(newest.partitions.items()):
        where = TopicPartition(newest.topic, number)
        if ranges and where in look.latest:
            now = look.topic_ids.get(newest.topic, "")
            loss = recreated(where, ranges[0][0], ranges[-1][1], newest.topic_id, now, 0)
            detail = (
                f"the archive has records of the topic with the id {newest.topic_id}, and the "
                f"topic's id is {now} now: it was deleted and created again, or is another copy, "
                "whose offsets are not the archive's"
            )
            found.append(replace(loss, detail=detail))
    return found
