"""One request of a `TransactionManager`, on its way and back: what a producer with one transaction
(`transactional`) and who ends many that others left open (`open_transactions`) do alike."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import ClientError
from fencepost.client.protocol.transaction_errors import Reaction
from fencepost.client.protocol.transaction_manager import Ask, TransactionManager
from fencepost.client.retry import Backoff

log = logging.getLogger("fencepost.client")

SOON_S: Final = 0.02
"""Pause while the last transaction is being completed, as in Kafka's Java producer."""


def exchange_for(view: ClusterView[Any], ask: Ask) -> Conversation[Exchange[Any]]:
    """The exchange with the coordinator that the request is for. Raises ClientError."""
    node = yield from asking.coordinator_once(view, ask.key, ask.coordinator)
    connection = yield from asking.connect(node)
    version = connection.version_for(type(ask.message), lowest=ask.lowest, highest=ask.highest)
    return Exchange(connection, ask.message, version)


def take_answer(
    view: ClusterView[Any], manager: TransactionManager, ask: Ask, answer: Any
) -> Reaction:
    """Tell the manager of the response, or of the ClientError in its place; what follows."""
    if isinstance(answer, ClientError):
        view.note_failure(answer)
        reaction = manager.on_failure(ask, answer)
    else:
        reaction = manager.on_response(ask, answer)
    if reaction is Reaction.FIND_COORDINATOR:
        view.forget_coordinator(ask.key, ask.coordinator)
    if reaction is not Reaction.DONE:
        log.debug("%s of %s: %s", ask.kind.value, manager.transactional_id, reaction.name)
    return reaction


def pause_after(reactions: Iterable[Reaction], backoff: Backoff) -> float | None:
    """Seconds to wait before requests are sent again, or the next ones; None when none of those
    that had these answers is to be sent again."""
    seen = set(reactions)
    if seen <= {Reaction.DONE}:
        backoff.reset()
        return 0.0
    if seen & {Reaction.AGAIN, Reaction.FIND_COORDINATOR}:
        return backoff.next_ms() / 1000
    return SOON_S if Reaction.SOON in seen else None
