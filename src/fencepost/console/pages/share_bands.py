"""Where a share group is in each partition: a band from its start offset to the log's end.

The coordinator tells a share group's start offset (SPSO) and its lag, which leaves out offsets that
are settled behind the start offset (KIP-1226). Which offsets these are, what is acquired and by
whom, and where the group's end offset (SPEO) is, only the partition's leader knows, and Kafka has
no request by which a client could ask for it. So a band says how many are settled, not which.
"""

from __future__ import annotations

from typing import ClassVar, Final

from fencepost.console.asked import path_to
from fencepost.console.page import Block, Drawing, Section, Sentence, Table
from fencepost.views import svg
from fencepost.views.groups import GroupView, Progress
from fencepost.views.view import View, count

DRAWN_MAX: Final = 40
"""Bands; of more partitions, those with the longest ones."""
LEFT: Final = 280.0
WIDTH: Final = 520.0
ROW: Final = 26.0
BAR: Final = 16.0
LABEL_MAX: Final = 36


class ShareRow(View, frozen=True):
    """A partition that a share group reads. `settled` counts offsets behind the start offset that
    are acknowledged or given up; None where the coordinator does not tell."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "start offset": "start_offset",
        "log end": "end",
        "lag": "lag",
        "settled behind the start": "settled",
        "consumer-id": "member",
    }

    topic: str
    partition: int
    start_offset: int | None
    end: int | None
    lag: int | None
    settled: int | None
    member: str | None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def length(self) -> int:
        """Offsets from the start offset to the log's end."""
        if self.start_offset is None or self.end is None:
            return 0
        return max(0, self.end - self.start_offset)


def share_section(group: GroupView) -> Section:
    """The partitions as bands and as a table."""
    rows = [_row(one) for one in group.partitions if one.topic is not None]
    links = [_to_records(one) for one in rows]
    blocks: list[Block] = [Table("lag by partition", ShareRow, rows, {"lag": links})]
    if any(one.length for one in rows):
        blocks.insert(0, _bands(rows))
    return Section("Lag", [_sentence(group, rows)], blocks, {"partitions": rows})


def _row(one: Progress) -> ShareRow:
    settled = None
    if one.offset is not None and one.end is not None and one.lag is not None:
        settled = max(0, one.end - one.offset - one.lag)
    return ShareRow(
        one.topic or "", one.partition or 0, one.offset, one.end, one.lag, settled, one.member
    )


def _sentence(group: GroupView, rows: list[ShareRow]) -> Sentence:
    begun = [one for one in rows if one.start_offset is not None]
    if not begun:
        return Sentence(f"Of {count(len(rows), 'partition')} the group has read none yet.")
    unknown = sum(one.lag is None for one in begun)
    total = sum(one.lag or 0 for one in begun)
    if unknown:
        words = f"the coordinator does not tell the lag of {count(unknown, 'partition')}"
        return Sentence(f"{words[0].upper()}{words[1:]}; of the others it is {total:,} offsets.")
    if not total:
        return Sentence("The group has settled every record.", "good")
    without = "" if group.members else ", and has no members"
    lagging = count(sum(bool(one.lag) for one in begun), "partition")
    words = f"{total:,} offsets in {lagging} are not settled"
    return Sentence(f"{words}{without}.", "note" if group.members else "warning")


def _bands(rows: list[ShareRow]) -> Drawing:
    drawn = sorted(rows, key=lambda one: (-one.length, one.name))[:DRAWN_MAX]
    longest = max(one.length for one in drawn)
    parts, lines = [], []
    for number, one in enumerate(drawn):
        y = ROW * number + 8
        name = one.name if len(one.name) <= LABEL_MAX else f"{one.name[:16]}…{one.name[-16:]}"
        parts.append(svg.label(LEFT - 12, y + 12, name, text_anchor="end"))
        settled = one.settled or 0
        unsettled = WIDTH * (one.length - settled) / longest
        words = _words(one)
        if one.length:
            done = WIDTH * settled / longest
            parts.append(svg.bar(LEFT, y, max(done, 1), BAR, words, class_="settled"))
            parts.append(svg.bar(LEFT + done, y, max(unsettled, 1), BAR, words, class_="unsettled"))
        lines.append(f"{one.name}  {words}")
    if len(rows) > len(drawn):
        lines.append(f"and {count(len(rows) - len(drawn), 'partition')} with shorter bands")
    caption = "offsets from the group's start to the log's end: settled ones, then the others"
    height = ROW * len(drawn) + 8
    return Drawing(caption, svg.picture(caption, LEFT + WIDTH, height, parts), lines)


def _words(one: ShareRow) -> str:
    if one.start_offset is None:
        return "not read yet"
    end = "unknown" if one.end is None else str(one.end)
    if one.settled is None or one.lag is None:
        return f"start {one.start_offset}, end {end}"
    return f"start {one.start_offset}, end {end}: {one.settled} settled, {one.lag} not"


def _to_records(one: ShareRow) -> str | None:
    """The path of the first record that is not settled."""
    if one.start_offset is None or not one.lag:
        return None
    where = {"from": one.start_offset, "partitions": one.partition, "order": "oldest"}
    return path_to("topics", one.topic, "records", **where)
