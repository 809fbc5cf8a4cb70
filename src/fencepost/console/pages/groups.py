"""All groups, from the sample; and one group of any type: what it waits for, members, lag."""

from __future__ import annotations

from typing import Any, Final

from fencepost.client.errors import BrokerError
from fencepost.client.group_descriptions import (
    DEAD,
    GROUP_TYPES,
    SHARE,
    AnyGroup,
    GroupDescription,
    describing_any_group,
)
from fencepost.client.group_waits import explaining_waits_in
from fencepost.client.groups import ListedGroup
from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.listing import part_of
from fencepost.console.page import Field, Page, Section, Sentence, Table
from fencepost.console.pages.group_lag import behind, lag_section
from fencepost.console.pages.group_members import epochs_section, members_section
from fencepost.console.pages.share_bands import share_section
from fencepost.console.session import Session, now_ms
from fencepost.views.group_waits import WaitView, waits_explained
from fencepost.views.groups import GroupListed, GroupView, StreamsGroupView, viewing_described
from fencepost.views.view import count
from fencepost.wire.errors import ErrorCode

ANY: Final = "any"
NO_GROUP: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)


async def groups(session: Session, asked: Asked) -> Page:
    """The groups in parts, of one type or of all."""
    sample = await session.sample()
    kind = asked.choice("type", (ANY, *GROUP_TYPES))
    state = asked.text("state")
    chosen = [one for one in sample.groups or () if _is_chosen(one, kind, state)]
    part, fields = part_of(
        map(GroupListed.of, chosen),
        asked,
        ("groups",),
        lambda row: row.group_id,
        {"name": lambda row: 0, "state": lambda row: row.state, "type": lambda row: row.kind},
        also={"type": kind if kind != ANY else None, "state": state or None},
    )
    table = Table(
        "groups",
        GroupListed,
        part.rows,
        {"group": [path_to("groups", row.group_id) for row in part.rows]},
        total=part.total,
    )
    states = sorted({one.state for one in sample.groups or ()})
    fields += [
        Field("type", "type", kind, (ANY, *GROUP_TYPES)),
        Field("state", "state", state, ("", *states)),
    ]
    sentences = [Sentence(f"{count(part.total, 'group')} of {len(sample.groups or ())}.")]
    if "ListGroups" in sample.errors:
        sentences = [Sentence(f"Groups cannot be listed: {sample.errors['ListGroups']}", "bad")]
    return Page(
        "Groups",
        [Section("", sentences, [table], list(part.rows))],
        sample.taken_at_ms,
        fields=fields,
        more=part.more,
    )


def _is_chosen(one: ListedGroup, kind: str, state: str) -> bool:
    return (kind == ANY or one.kind.lower() == kind) and (not state or one.state == state)


async def group(session: Session, asked: Asked) -> Page:
    """A group as its coordinator describes it now, and its lag since the page was first opened."""
    name = asked.text("group")
    try:
        likely = _known_type(session, name)
        described = await session.run(describing_any_group(session.cluster, name, likely))
        found = await session.run(viewing_described(session.cluster, described))
    except BrokerError as error:
        if error.code not in NO_GROUP:
            raise
        raise NotThere(f"no group {name!r} in this cluster") from None
    if found.state == DEAD:
        raise NotThere(f"no group {name!r} in this cluster")
    sections = [await _in_words(session, described, found)]
    if isinstance(found, GroupView) and found.kind == SHARE:
        sections.append(share_section(found))
    elif isinstance(found, GroupView):
        behind_now = await behind(session, found)
        sections.append(lag_section(session, found, behind_now))
    sections += [*epochs_section(found), members_section(found)]
    return Page(f"Group {found.group}", sections, now_ms())


def _known_type(session: Session, name: str) -> str | None:
    """The group's type as the newest sample has it."""
    newest = session.sampler.newest
    listed = () if newest is None else newest.groups or ()
    return next((one.kind.lower() for one in listed if one.group_id == name), None)


async def _in_words(
    session: Session, described: AnyGroup, found: GroupView | StreamsGroupView
) -> Section:
    """The group's state and who waits for whom."""
    sentences = [Sentence(found.heading)]
    waits: list[Any] = []
    if isinstance(described, GroupDescription):
        now = now_ms()
        explained = await session.run(explaining_waits_in(session.cluster, described, now))
        waits = [WaitView.of(one) for one in explained.waits]
        level: Any = "warning" if waits else "note"
        sentences += [Sentence(line, level) for line in waits_explained(explained, now)[1:]]
    blocks = [Table("waits", WaitView, waits)] if waits else []
    return Section("State", sentences, blocks, {"group": found, "waits": waits})
