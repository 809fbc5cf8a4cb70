"""Producer ids for idempotent producers, out of blocks that the controller hands out.

An id must never be given twice in the life of a cluster, so they come from the metadata log: the
controller writes down the start of the next block and only then gives the block away (KIP-730). A
node uses its block up, one id at a time, without asking the controller; what is left of it when the
node stops is lost, which costs nothing.

While a block is being fetched callers wait, and if that fails all of them get the error, also when
the controller's answer makes no sense: the next caller asks again.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.runtime.asks_controller import AsksController
from fencepost.wire.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from fencepost.wire.errors import ErrorCode, known_error

OnProducerId = Callable[[ErrorCode, int], None]
OnBlock = Callable[[ErrorCode, int, int], None]

MAX_WAITING = 10_000
"""Callers that may wait for a block; the next is refused, and retries."""


class ProducerIds:
    """Hands out producer ids; `fetch_block(on_block)` asks the controller for more."""

    def __init__(self, fetch_block: Callable[[OnBlock], None]) -> None:
        self.fetch_block = fetch_block
        self._next = 0
        self._end = 0
        self._waiting: list[OnProducerId] = []

    def next_id(self, on_producer_id: OnProducerId) -> None:
        """Call back with (NONE, a new producer id), or (an error, -1); perhaps at once."""
        if self._next < self._end:
            producer_id = self._next
            self._next += 1
            on_producer_id(ErrorCode.NONE, producer_id)
            return
        if len(self._waiting) >= MAX_WAITING:
            on_producer_id(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
            return
        self._waiting.append(on_producer_id)
        if len(self._waiting) == 1:
            self.fetch_block(self._on_block)

    def _on_block(self, error: ErrorCode, first: int, count: int) -> None:
        waiting, self._waiting = self._waiting, []
        if error is ErrorCode.NONE and count <= 0:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        if error is ErrorCode.NONE:
            self._next, self._end = first, first + count
        for on_producer_id in waiting:
            if error is not ErrorCode.NONE:
                on_producer_id(error, -1)
            else:
                self.next_id(on_producer_id)


def block_source(
    channel: AsksController, broker_id: int, broker_epoch: Callable[[], int]
) -> Callable[[OnBlock], None]:
    """Blocks of the active controller, for the broker of that epoch: an argument `fetch_block`."""

    def fetch_block(on_block: OnBlock) -> None:
        def on_reply(error: ErrorCode, reply: AllocateProducerIdsResponse | None) -> None:
            if reply is None:
                on_block(error, -1, 0)
            else:
                on_block(
                    known_error(reply.error_code), reply.producer_id_start, reply.producer_id_len
                )

        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        channel.ask(request, on_reply)

    return fetch_block
