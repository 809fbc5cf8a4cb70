"""What the APIs have in common that describe groups: each group is asked for by its id.

The groups of a request may be with several coordinators of the node. A group that the client may
not describe, or whose coordinator does not answer, has its error, and the others their answers.

A group that is named several times is described once: a request of some thousand bytes that names
one large group over and over would otherwise hold the event loop for a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_GROUP
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

D = TypeVar("D")


def distinct(group_ids: Iterable[str]) -> list[str]:
    """The ids of a request, each once, in their order."""
    return list(dict.fromkeys(group_ids))


def describe_each(
    context: RequestContext,
    group_ids: Sequence[str],
    access: Access,
    groups: GroupCoordinators,
    *,
    decide: Callable[[GroupCoordinator, str, Any], Decision],
    refused: Callable[[str, ErrorCode], D],
    respond: Callable[[list[D]], Message],
    empty_is_a_group: bool = True,
) -> Pieces:
    """Ask the coordinator of each group that the client may describe; answer when all have.

    `decide` replies with a list of one description. `refused` makes that of a group with an error,
    `respond` the response of all, in the order of the ids. The empty id is INVALID_GROUP_ID where
    no group can have it.
    """
    if not group_ids:
        return respond([])
    group_ids = distinct(group_ids)
    answers: list[D | None] = [None] * len(group_ids)
    outstanding = len(group_ids)

    def ask(position: int, group_id: str) -> None:
        def on_reply(error: ErrorCode, described: list[D] | None) -> None:
            nonlocal outstanding
            one = refused(group_id, error) if described is None else described[0]
            answers[position] = one
            outstanding -= 1
            if outstanding == 0:
                context.reply(respond([answer for answer in answers if answer is not None]))

        if refusal := access.refusal(context, DESCRIBE_GROUP, group_id):
            on_reply(refusal, None)
        elif not group_id and not empty_is_a_group:
            on_reply(ErrorCode.INVALID_GROUP_ID, None)
        else:
            groups.submit(
                group_id, lambda machine, token: decide(machine, group_id, token), on_reply
            )

    for position, group_id in enumerate(group_ids):
        ask(position, group_id)
        yield None
    return None
