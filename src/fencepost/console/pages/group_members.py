"""Members of a group, and how far each has come with the group's epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.client.consumer_membership import LEAVE_FOR_A_WHILE_EPOCH
from fencepost.console.page import Drawing, Section, Sentence, Table
from fencepost.views import svg
from fencepost.views.groups import GroupView, MemberView, StreamsGroupView, StreamsMemberView
from fencepost.views.view import count

DRAWN_MAX: Final = 40
"""Members of a ladder; of more, those that are furthest behind."""

RUNGS_MAX: Final = 12
ROW: Final = 22.0
LEFT: Final = 280.0
RUNG: Final = 56.0


def members_section(group: GroupView | StreamsGroupView) -> Section:
    """The members as a table."""
    sentence = Sentence(f"{count(len(group.members), 'member')}.")
    table = (
        Table("members", StreamsMemberView, group.members)
        if isinstance(group, StreamsGroupView)
        else Table("members", MemberView, group.members)
    )
    return Section("Members", [sentence], [table], group.members)


def epochs_section(group: GroupView | StreamsGroupView) -> Iterator[Section]:
    """The epochs of the group, of its assignment and of its members; none of a classic group, or
    of one without members."""
    if group.group_epoch is None or group.assignment_epoch is None or not group.members:
        return
    epochs = [(one.member, one.epoch if one.epoch is not None else -1) for one in group.members]
    late = [name for name, epoch in epochs if 0 <= epoch < group.assignment_epoch]
    away = [name for name, epoch in epochs if epoch == LEAVE_FOR_A_WHILE_EPOCH]
    sentences = []
    if group.group_epoch > group.assignment_epoch:
        sentences.append(
            Sentence(
                f"An assignment for epoch {group.group_epoch} is not computed yet; the last one is"
                f" of epoch {group.assignment_epoch}.",
                "warning",
            )
        )
    if late:
        words = f"{count(len(late), 'member')} behind epoch {group.assignment_epoch}"
        sentences.append(Sentence(f"{words}: {', '.join(sorted(late)[:5])}.", "warning"))
    if away:
        sentences.append(Sentence(f"{count(len(away), 'static member')} away for a while."))
    if not sentences:
        sentences.append(Sentence(f"Every member is in epoch {group.group_epoch}.", "good"))
    drawing = _ladder(group.group_epoch, group.assignment_epoch, epochs)
    yield Section("Epochs", sentences, [drawing], dict(epochs))


def _ladder(group_epoch: int, assignment_epoch: int, members: Sequence[tuple[str, int]]) -> Drawing:
    """A row per member and a rung per epoch; a member stands on the rung that it has reached."""
    drawn = sorted(members, key=lambda one: (one[1], one[0]))[:DRAWN_MAX]
    lowest = min([epoch for _, epoch in drawn if epoch >= 0] + [assignment_epoch, group_epoch])
    first = max(lowest, group_epoch - RUNGS_MAX + 1)
    rungs = range(first, group_epoch + 1)
    parts = []
    for number, epoch in enumerate(rungs):
        x = LEFT + number * RUNG
        kind = "rung target" if epoch == assignment_epoch else "rung"
        parts.append(svg.element("line", x1=x, x2=x, y1=20, y2=_y(len(drawn)), class_=kind))
        parts.append(svg.label(x, 14, str(epoch), text_anchor="middle"))
    lines = [f"group epoch {group_epoch}, assignment of epoch {assignment_epoch}"]
    for number, (name, epoch) in enumerate(drawn):
        y = _y(number) + ROW / 2
        parts.append(svg.label(LEFT - 16, y + 4, _short(name), text_anchor="end"))
        if epoch >= 0:
            x = LEFT + max(0, epoch - first) * RUNG
            kind = "late" if epoch < assignment_epoch else "reached"
            parts.append(svg.element("circle", cx=x, cy=y, r=6, class_=kind))
        state = "away" if epoch < 0 else f"epoch {epoch}"
        lines.append(f"{name}  {state}{'  behind' if 0 <= epoch < assignment_epoch else ''}")
    if len(members) > len(drawn):
        lines.append(f"and {len(members) - len(drawn)} more members, no further behind")
    width = LEFT + RUNG * len(rungs)
    caption = "epochs that members have reached"
    return Drawing(caption, svg.picture(caption, width, _y(len(drawn)) + 6, parts), lines)


def _y(row: int) -> float:
    return 24 + ROW * row


def _short(name: str) -> str:
    return name if len(name) <= 36 else f"{name[:16]}…{name[-16:]}"
