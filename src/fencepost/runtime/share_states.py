"""The share coordinators of a node: one for each partition of `__share_group_state` it leads.

A share partition belongs to the partition that its key hashes to, as text, and to that partition's
leader (`runtime.coordinator.topic`). What a coordinator does is `machines.share_state`, how it is
run is `runtime.coordinator`. Here a request for many share partitions becomes a decision for each,
and the log is pruned. A request arrives from another broker (`runtime.requests.share_group_state`)
or from this one (`runtime.share_state_client`).

A write of thousands of batches is decided as several of `WRITTEN_AT_ONCE` each, of which the last
brings the start offset: merging all in one decision would hold up the event loop. Merged is the
same, in whatever order. If the coordinator fails between them, some batches are stored of a write
that is not answered, which a leader has to expect of any write.

As in Kafka, a request without a group id, without topics, or with a topic without partitions is
answered with no rows at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.machines.share.state_batch import STATE_BATCHES_MAX, SharePartitionKey
from fencepost.machines.share_state.coordinator import Decision, PruneLog, ShareStateCoordinator
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.coordinator import Coordinator, CoordinatorKind
from fencepost.runtime.coordinator.topic import TopicCoordinators
from fencepost.runtime.internal_topics import SHARE_STATE_TOPIC
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.ports import MachinePorts
from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summarizing,
    write_share_group_state as writing,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

WRITTEN_AT_ONCE: Final = 2_000
"""How many batches of a write one decision merges: some milliseconds."""
_UNCHANGED: Final = -1
"""As the start offset of a write: it stays what it is; so does the delivery complete count."""

Decide = Callable[[ShareStateCoordinator, SharePartitionKey, Any, Any, int], Decision]
"""Decides about a row of a request: its key, its data, the token, the wall clock."""


class ShareStateApi(NamedTuple):
    """One of the five APIs of share coordinators."""

    verb: str
    """What failed, in the words of an error message."""
    decide: Decide
    response: type[Any]
    topic: type[Any]
    row: type[Any]


APIS: Final[dict[type[Message], ShareStateApi]] = {
    initializing.InitializeShareGroupStateRequest: ShareStateApi(
        "initialize",
        lambda machine, *rest: machine.decide_initialize(*rest),
        initializing.InitializeShareGroupStateResponse,
        initializing.InitializeStateResult,
        initializing.PartitionResult,
    ),
    reading.ReadShareGroupStateRequest: ShareStateApi(
        "read",
        lambda machine, *rest: machine.decide_read(*rest),
        reading.ReadShareGroupStateResponse,
        reading.ReadStateResult,
        reading.PartitionResult,
    ),
    writing.WriteShareGroupStateRequest: ShareStateApi(
        "write",
        lambda machine, *rest: machine.decide_write(*rest),
        writing.WriteShareGroupStateResponse,
        writing.WriteStateResult,
        writing.PartitionResult,
    ),
    deleting.DeleteShareGroupStateRequest: ShareStateApi(
        "delete",
        lambda machine, key, data, token, wall_ms: machine.decide_delete(key, data, token),
        deleting.DeleteShareGroupStateResponse,
        deleting.DeleteStateResult,
        deleting.PartitionResult,
    ),
    summarizing.ReadShareGroupStateSummaryRequest: ShareStateApi(
        "read the summary of",
        lambda machine, key, data, token, wall_ms: machine.decide_summary(key, data, token),
        summarizing.ReadShareGroupStateSummaryResponse,
        summarizing.ReadStateSummaryResult,
        summarizing.PartitionResult,
    ),
}
"""By the class of the request."""


class ShareStateCoordinators(TopicCoordinators[ShareStateCoordinator]):
    """See the module."""

    def __init__(
        self,
        node_id: int,
        ports: MachinePorts,
        metadata: MetadataHost,
        kind: CoordinatorKind[ShareStateCoordinator],
    ) -> None:
        """`kind` is how they are run; what they do with their sends is added here."""
        kind = replace(kind, on_loaded=_log_loaded, on_send=self._prune)
        super().__init__(SHARE_STATE_TOPIC, node_id, ports, metadata, kind)
        metadata.on_image(self._image_changed)

    def answer(self, request: Any, on_response: Callable[[Any], None]) -> Pieces[None]:
        """Have the rows of a request decided (it is of a class in `APIS`); in pieces.

        `on_response` is called once, when every row is committed or refused.
        """
        api = APIS[type(request)]
        response = api.response()
        topics = request.topics
        if not request.group_id or not topics or not all(topic.partitions for topic in topics):
            on_response(response)
            return
        outstanding = sum(len(topic.partitions) for topic in topics)

        def take(rows: list[Any], position: int, error: ErrorCode, row: Any) -> None:
            nonlocal outstanding
            rows[position] = error_row(api, rows[position], error) if row is None else row
            outstanding -= 1
            if not outstanding:
                on_response(response)

        for topic in topics:
            # Until a row is answered, the number of its partition is in its place.
            rows: list[Any] = [data.partition for data in topic.partitions]
            response.results.append(api.topic(topic_id=topic.topic_id, partitions=rows))
            for position, data in enumerate(topic.partitions):
                key = SharePartitionKey(request.group_id, topic.topic_id, data.partition)
                yield from self._answer_row(api, key, data, partial(take, rows, position))

    def _answer_row(
        self,
        api: ShareStateApi,
        key: SharePartitionKey,
        data: Any,
        on_row: Callable[[ErrorCode, Any], None],
    ) -> Pieces[None]:
        """Have one row decided, a large write in parts; the first that fails is the answer."""
        failures: list[tuple[ErrorCode, Any]] = []

        def decide(part: Any, machine: ShareStateCoordinator, token: Any) -> Decision:
            if failures:  # what follows is not written
                decision = Decision()
                decision.reply(token, None)
                return decision
            decision = self._decide(api, key, part, machine, token)
            failures.extend((ErrorCode.NONE, row) for _, row in decision.replies if row.error_code)
            return decision

        def on_part(error: ErrorCode, row: Any) -> None:
            if error:
                failures.append((error, row))

        def on_last(error: ErrorCode, row: Any) -> None:
            on_row(*(failures[0] if failures else (error, row)))

        parts = [data] if api.row is not writing.PartitionResult else list(write_parts(data))
        for number, part in enumerate(parts, 1):
            # Each part has a callback of its own: requests are told apart by it.
            on_reply = on_last if number == len(parts) else partial(on_part)
            self.submit(key.coordinator_key, partial(decide, part), on_reply)
            yield None

    def _decide(
        self,
        api: ShareStateApi,
        key: SharePartitionKey,
        data: Any,
        machine: ShareStateCoordinator,
        token: Any,
    ) -> Decision:
        return api.decide(machine, key, data, token, self._ports.wall_ms())

    # -- metadata --------------------------------------------------------------------------

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.deleted_topics:
            gone = frozenset(topic.topic_id for topic in delta.deleted_topics)
            self.runtime.tell_all(lambda machine: machine.decide_topics_deleted(gone))

    # -- what coordinators send ------------------------------------------------------------

    def _prune(self, message: Any, leader_epoch: int) -> None:
        """Delete the records of a partition that no snapshot needs any more.

        A coordinator that was loaded in another epoch since needs what it has read (KAFKA-20710).
        """
        assert isinstance(message, PruneLog), message
        index = self.partition_of(message.key.coordinator_key)
        coordinator = None if index is None else self.runtime.get(index)
        if coordinator is not None:
            coordinator.partition.advance_log_start(message.offset, leader_epoch)


def write_parts(data: writing.PartitionData) -> Iterator[writing.PartitionData]:
    """A write in parts that are each decided; one that is refused anyhow is left whole."""
    batches = data.state_batches
    is_refused = len(batches) > STATE_BATCHES_MAX or any(
        one.first_offset > one.last_offset for one in batches
    )
    rest = 0
    while len(batches) - rest > WRITTEN_AT_ONCE and not is_refused:
        part = copy(data)
        part.state_batches = batches[rest : rest + WRITTEN_AT_ONCE]
        part.start_offset = part.delivery_complete_count = _UNCHANGED
        yield part
        rest += WRITTEN_AT_ONCE
    last = copy(data)
    last.state_batches = batches[rest:]
    yield last


def error_row(api: ShareStateApi, partition: int, error: ErrorCode) -> Any:
    """The row of a share partition that no coordinator has decided about."""
    message = f"Unable to {api.verb} share group state: {error.name}"
    return api.row(partition=partition, error_code=int(error), error_message=message)


def _log_loaded(coordinator: Coordinator[ShareStateCoordinator]) -> None:
    count = len(coordinator.machine.states)
    if count:
        log.info(
            "%s: loaded the state of %d share partitions in %d ms",
            coordinator.partition,
            count,
            coordinator.load_ms,
        )
