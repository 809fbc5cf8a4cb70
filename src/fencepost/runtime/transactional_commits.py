"""Offsets that are committed in a transaction, on their way to a group's coordinator (KIP-98).

TxnOffsetCommit writes into the group's partition of `__consumer_offsets` like a producer into any
other: the transaction's coordinator is asked first, or, from v5 on, adds the partition
(`runtime.transactional_writes`). Then the group's coordinator decides (`machines.group.commits`),
and the offsets count when the transaction's marker is written there.

Errors are reported per partition, in this order: ids without a topic, which name topics from v6 on
(KIP-1319); topics that the client may not read; names without a topic, and partitions that do not
exist; metadata that are not UTF-8, and could not be kept as they are (INVALID_REQUEST); no group
id, or one that is not UTF-8; the group's coordinator is elsewhere, or loads; what the transaction's
coordinator says; what the group's says. What goes wrong on the way to the transaction's coordinator
is COORDINATOR_LOAD_IN_PROGRESS, which every client answers by asking again; before v2 it is
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fencepost.machines.coordinator import Producer
from fencepost.machines.group.commits import TxnOffset
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.image import ClusterImage
from fencepost.runtime.coordinator import Coordinator
from fencepost.runtime.coordinator.coordinator import FOR_CLIENTS
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.transactional_writes import Asking, Permission, TransactionalWrites, Write
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import ReplacedText

ABORTABLE_FROM: Final = 4
ADDS_FROM: Final = 5
TOPIC_IDS_FROM: Final = 6
LOADING_FROM: Final = 2
"""Before, clients do not know COORDINATOR_LOAD_IN_PROGRESS here."""

NO_SEQUENCE: Final = -1

TopicRefusal = Callable[[str], ErrorCode]
"""Why the client may not read the topic of that name; NONE if it may."""
OnResponse = Callable[[TxnOffsetCommitResponse], None]


class _Open(NamedTuple):
    """An offset that the coordinators decide about, and its place in the answer."""

    offset: TxnOffset
    answer: TxnOffsetCommitResponsePartition


class TransactionalCommits:
    """See the module docstring."""

    def __init__(
        self,
        ports: MachinePorts,
        groups: GroupCoordinators,
        writes: TransactionalWrites,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._ports = ports
        self._groups = groups
        self._writes = writes
        self._image = image

    def commit(
        self,
        request: TxnOffsetCommitRequest,
        api_version: int,
        topic_refusal: TopicRefusal,
        on_response: OnResponse,
    ) -> None:
        """TxnOffsetCommit v0-6; answered once, perhaps before this returns."""
        response, left = _resolve(self._image(), request, api_version, topic_refusal)

        def finish(errors: ErrorCode | Sequence[ErrorCode]) -> None:
            if isinstance(errors, ErrorCode):
                errors = [_for_client(errors, api_version)] * len(left)
            for one, error in zip(left, errors, strict=True):
                one.answer.error_code = int(error)
            on_response(response)

        coordinator = self._groups.coordinator_of(request.group_id)
        if not left:
            finish([])
        elif not request.group_id or isinstance(request.group_id, ReplacedText):
            finish(ErrorCode.INVALID_GROUP_ID)
        elif not isinstance(coordinator, Coordinator):
            finish(coordinator)
        elif coordinator.state.value is not ErrorCode.NONE:
            finish(coordinator.state.value)
        else:
            self._ask(request, api_version, coordinator, [one.offset for one in left], finish)

    def _ask(
        self,
        request: TxnOffsetCommitRequest,
        api_version: int,
        coordinator: Coordinator[GroupCoordinator],
        offsets: Sequence[TxnOffset],
        finish: Callable[[ErrorCode | Sequence[ErrorCode]], None],
    ) -> None:
        """Ask the transaction's coordinator, then have the group's decide."""

        def on_permissions(permissions: Sequence[Permission]) -> None:
            [(error, ticket)] = permissions
            if error is not ErrorCode.NONE:
                finish(error)
                return
            producer = Producer(request.producer_id, request.producer_epoch, ticket)
            coordinator.submit(lambda machine, token: _decide(machine, token, producer), on_reply)

        def _decide(machine: GroupCoordinator, token: Any, producer: Producer) -> Decision:
            wall_ms = self._ports.wall_ms()
            return machine.decide_txn_offset_commit(
                request, api_version, offsets, producer, token, wall_ms
            )

        def on_reply(error: ErrorCode, errors: Sequence[ErrorCode] | None) -> None:
            finish(error if errors is None else errors)

        index = self._groups.partition_of(request.group_id)
        assert index is not None, "there is a coordinator"
        asking = Asking.of(api_version, ABORTABLE_FROM, ADDS_FROM)
        self._writes.begin(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            asking,
            [Write(coordinator.partition.key, (OFFSETS_TOPIC, index), NO_SEQUENCE)],
            on_permissions,
        )


def _for_client(error: ErrorCode, api_version: int) -> ErrorCode:
    """The error that a client gets if one concerns all offsets of a request."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    is_concurrent = error is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDS_FROM
    if error is ErrorCode.NETWORK_EXCEPTION or is_concurrent:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return FOR_CLIENTS.get(error, error)


def refused_commit(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The answer to a request of which every partition has the error."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=int(error)
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _resolve(
    image: ClusterImage,
    request: TxnOffsetCommitRequest,
    api_version: int,
    topic_refusal: TopicRefusal,
) -> tuple[TxnOffsetCommitResponse, list[_Open]]:
    """The answer in the order of the request, and what of it is still open."""
    response, left = TxnOffsetCommitResponse(), []
    for topic in request.topics:
        if api_version < TOPIC_IDS_FROM:
            known = image.topics_by_name.get(topic.name)
            refusal = topic_refusal(topic.name)
        else:
            known = image.topics_by_id.get(topic.topic_id)
            refusal = ErrorCode.UNKNOWN_TOPIC_ID if known is None else topic_refusal(known.name)
        answers = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answers)
        for partition in topic.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.partitions.append(answer)
            if refusal:
                answer.error_code = int(refusal)
            elif known is None or not 0 <= partition.partition_index < len(known.partitions):
                answer.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif isinstance(partition.committed_metadata, ReplacedText):
                answer.error_code = int(ErrorCode.INVALID_REQUEST)
            else:
                left.append(_Open(TxnOffset(known.name, known.topic_id, partition), answer))
    return response, left
