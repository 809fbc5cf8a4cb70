"""Transactions that one process leaves open and another ends: first all of them are written, then
somebody decides for all, then each is ended by EndTxn with its producer id and epoch.

A broker cannot tell who sends EndTxn, so a process that knows id, producer id and epoch can end a
transaction; what must not happen in between is an InitProducerId for its transactional id, which
aborts it. Nor may its timeout pass: then its coordinator aborts it. `outcomes` asks coordinators
what became of transactions; an end that is sent twice is answered as if it had been sent once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from fencepost.client.cluster import TRANSACTION_KEY, Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation, Exchange, ExchangeAll, Pause
from fencepost.client.errors import BrokerError, ClientError, DeadlineExceeded, refusal
from fencepost.client.produce_queue import Identity
from fencepost.client.protocol.transaction_errors import Reaction
from fencepost.client.protocol.transaction_manager import Ask, State, TransactionManager
from fencepost.client.retry import Deadline, retrying
from fencepost.client.transaction_asks import exchange_for, pause_after, take_answer
from fencepost.wire.api.describe_transactions import DescribeTransactionsRequest
from fencepost.wire.errors import ErrorCode

LAST_EPOCH: Final = 32766
"""The last epoch of a producer id; in TV2 the end of a transaction then begins another id."""


class OpenTransaction(NamedTuple):
    """Everything that is needed to end a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_tv2: bool
    """Whether it speaks the protocol of KIP-890, in which the end raises the epoch."""


class Outcome(Enum):
    """What became of a transaction that was left open."""

    OPEN = "open"
    COMMITTED = "committed"
    """Or sure to be: the coordinator has decided."""
    ABORTED = "aborted"
    """By another process, by a timeout, or because another producer took the id over."""
    FORGOTTEN = "forgotten"
    """The coordinator does not know the id any more: it ended, `transactional.id.expiration.ms`
    (7 days) ago or longer."""


def outcomes(
    cluster: Cluster, transactions: Sequence[OpenTransaction]
) -> dict[OpenTransaction, Outcome]:
    """What became of transactions, by one question per coordinator. Every producer of the ids may
    ask (Describe on TransactionalId, which Write implies). BrokerError, DeadlineExceeded."""
    left = {one.transactional_id: one for one in transactions}
    if len(left) != len(transactions):
        raise ValueError("two transactions of one transactional id")
    found: dict[OpenTransaction, Outcome] = {}

    def attempt() -> None:
        for node, names in _by_coordinator(cluster, left).items():
            request = DescribeTransactionsRequest(transactional_ids=names)
            response = cluster.connection(node).request(request)
            for state in response.transaction_states:
                one = left.get(state.transactional_id)
                if one is None:
                    continue
                if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    found[one] = Outcome.FORGOTTEN
                elif state.error_code == ErrorCode.NONE:
                    found[one] = _outcome(one, state)
                else:
                    raise _refused("cannot describe", one, state.error_code)
                del left[one.transactional_id]
        if left:
            raise ClientError(f"brokers do not answer about {', '.join(sorted(left))}")

    def before_retry(error: ClientError) -> None:
        cluster.note_failure(error)
        for name in left:
            cluster.forget_coordinator(name, TRANSACTION_KEY)

    retrying(
        "asking what became of transactions",
        attempt,
        cluster.deadline(),
        cluster.backoff(),
        before_retry,
    )
    return found


def end_all(
    cluster: Cluster, transactions: Iterable[OpenTransaction], *, commit: bool
) -> dict[OpenTransaction, ClientError]:
    """Commit or abort transactions, all that a coordinator has at once; those that could not be,
    with the reasons (a TransactionError, or DeadlineExceeded: whether it is ended is not known)."""
    managers = {one: _manager(one, commit=commit) for one in transactions}
    deadline = cluster.deadline()
    cluster.run(_ending(cluster, list(managers.values()), deadline))
    failed: dict[OpenTransaction, ClientError] = {}
    for one, manager in managers.items():
        if manager.error is not None:
            failed[one] = manager.error
        elif manager.state in (State.COMMITTING, State.ABORTING):
            failed[one] = DeadlineExceeded(
                f"{one.transactional_id} was not ended within {deadline.timeout_ms:.0f} ms", None
            )
    return failed


def _manager(one: OpenTransaction, *, commit: bool) -> TransactionManager:
    manager = TransactionManager(one.transactional_id, 1)
    # What its next transaction would speak does not matter: it has none.
    manager.transaction_version = 2 if one.is_tv2 else 0
    identity = Identity(one.producer_id, one.producer_epoch)
    manager.adopt(identity, is_tv2=one.is_tv2, is_open=True)
    manager.end(commit=commit)
    return manager


def _ending(
    view: ClusterView[Any], managers: Sequence[TransactionManager], deadline: Deadline
) -> Conversation[None]:
    """Ask for all ends at once, and again for those that are refused for now."""
    backoff = view.backoff()
    while asks := [
        (manager, ask)
        for manager in managers
        if manager.state in (State.COMMITTING, State.ABORTING)
        and (ask := manager.next_request()) is not None
    ]:
        reactions = yield from _round(view, asks)
        pause_s = pause_after(reactions, backoff)
        if pause_s is None:
            continue  # those that were refused for good are not asked for again
        if pause_s * 1000 >= deadline.remaining_ms():
            return
        if pause_s:
            yield from Pause(pause_s * 1000)


def _round(
    view: ClusterView[Any], asks: Sequence[tuple[TransactionManager, Ask]]
) -> Conversation[list[Reaction]]:
    """Every request is written before the first answer is awaited."""
    reactions = []
    sent: list[tuple[TransactionManager, Ask]] = []
    exchanges: list[Exchange[Any]] = []
    for manager, ask in asks:
        try:
            exchanges.append((yield from exchange_for(view, ask)))
            sent.append((manager, ask))
        except ClientError as error:
            reactions.append(take_answer(view, manager, ask, error))
    answers = (yield from ExchangeAll(exchanges)) if exchanges else []
    for (manager, ask), answer in zip(sent, answers, strict=True):
        reactions.append(take_answer(view, manager, ask, answer))
    return reactions


def _by_coordinator(cluster: Cluster, names: Iterable[str]) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for name in names:
        found.setdefault(cluster.find_coordinator(name, TRANSACTION_KEY), []).append(name)
    return found


def _outcome(one: OpenTransaction, state: Any) -> Outcome:
    """What a coordinator's description says of a transaction that nothing but its end, its timeout
    or another InitProducerId can have moved on."""
    is_same = state.producer_id == one.producer_id
    if state.transaction_state == "Ongoing" and is_same:
        return Outcome.OPEN if state.producer_epoch == one.producer_epoch else Outcome.ABORTED
    if state.transaction_state not in ("PrepareCommit", "CompleteCommit"):
        return Outcome.ABORTED
    if one.is_tv2 and one.producer_epoch >= LAST_EPOCH:
        is_next = (is_same and state.producer_epoch > LAST_EPOCH) or state.producer_epoch == 0
    else:
        is_next = is_same and state.producer_epoch == one.producer_epoch + one.is_tv2
    return Outcome.COMMITTED if is_next else Outcome.ABORTED


def _refused(what: str, one: OpenTransaction, code: int) -> BrokerError:
    return BrokerError.of(code, f"{what} {one.transactional_id}: {refusal(code)}")
