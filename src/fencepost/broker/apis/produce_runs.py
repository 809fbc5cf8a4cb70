"""Usual Produce requests, taken a connection's worth at a time and answered a partition's worth.

Theory of operation
-------------------
What most producers send is plain: batches that are neither compressed nor of a transaction, not
large, for topics that store them as they come. The compiled `batch._produce` takes a run of such
requests from where they were received, puts their batches into the blocks of `CombinedAppends`,
and leaves in the connection's queue a `UsualRequest` for each, whose answer lacks only offsets and
times. A machine hears of a block at once, and so does whoever waits for its batches. So Python
works once for each run, each block, and each connection with answers, not for each request.

Whatever is not plain stays where it is, for `produce_fast_path` and `produce`. What is refused is
answered as they would: an ordinary context takes the request's place.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from fencepost.batch import backend
from fencepost.broker.apis.produce_answers import finish
from fencepost.broker.apis.produce_partitions import find_usual
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.registry import PRODUCE_KEY
from fencepost.broker.net.request_metrics import ALL_TIMED_UP_TO, TIMED_ONE_IN, ApiMetrics
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.replicas import ReplicaManager
from fencepost.wire.api.produce import ProduceResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response


class ProduceRuns:
    """Those of one listener; see the module docstring. Not to be made without the kernel."""

    def __init__(
        self,
        appends: CombinedAppends,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        listener: Listener,
    ) -> None:
        self._appends = appends
        self._metadata = metadata
        self._replicas = replicas
        self._listener = listener
        self._runs = backend.produce_kernel.ProduceRuns(
            appends.open_blocks, self._find, self._behind, ALL_TIMED_UP_TO, TIMED_ONE_IN
        )
        self.take_answers = backend.produce_kernel.take_answers

    @property
    def _api(self) -> ApiMetrics | None:
        """Where requests are counted, if they are."""
        metrics = self._listener.request_metrics
        return None if metrics is None else metrics.of(self._listener.routes[PRODUCE_KEY])

    # -- in --------------------------------------------------------------------------------

    def take(
        self,
        connection: Connection,
        waiting: deque[Any],
        frames: memoryview,
        start: int,
        end: int,
        head: bytes,
        requests_max: int,
    ) -> int:
        """Take the usual requests at the front of frames[start:end], and put them behind those that
        wait for their answers; where the first begins that was not taken.

        `head` is how they begin: API key, version, and what follows behind the correlation id.
        `latest_bytes` then has the size of their frames.
        """
        runs, api = self._runs, self._api
        arrived_s = connection.arrived_s
        number = -1 if api is None else api.number_before(arrived_s)
        limit_bytes = self._listener.max_frame_bytes
        start = runs.take(
            connection, waiting, frames, start, end, head, requests_max, limit_bytes,
            number, arrived_s,
        )  # fmt: skip
        if runs.requests:
            if api is not None:
                api.asked(runs.requests, int.from_bytes(head[2:4], "big"), runs.frame_bytes)
            self._appends.filled(runs.frame_bytes)
        return start

    @property
    def latest_bytes(self) -> int:
        """The size of the frames that were taken last."""
        return int(self._runs.frame_bytes)

    def _find(
        self, is_by_id: bool, topic: bytes, index: int, acks: int, timeout_ms: int
    ) -> Any | None:
        """The block for a partition; None if its batches cannot be plain."""
        hosted = find_usual(self._replicas, is_by_id, topic, index)
        if hosted is None or hosted.log.config.produce_rules.codec is not None:
            return None
        return self._appends.block_for(hosted, acks, timeout_ms, self._told)

    def _behind(self, block: Any) -> Any:
        return self._appends.block_behind(block, self._told)

    # -- out -------------------------------------------------------------------------------

    def _told(
        self,
        block: Any,
        offsets: int,
        size_bytes: int,
        error_code: ErrorCode | None,
        batches: int,
        connections: list[Connection],
        answers: int,
        answer_bytes: int,
        refused: list[Any],
    ) -> None:
        """What became of a block, or of a part of it: see `_produce.Block.tell` and `give_up`."""
        if error_code is not None:
            block.target.traffic.produced_block(batches, offsets, size_bytes, error_code)
        if answers:
            api = self._api
            if api is not None:
                api.answered_without_errors(answers, answer_bytes)
        for connection in connections:
            connection.answers_known()
        for request in refused:
            self._refuse(request, is_lost=error_code is None)

    def sent(self, requests: list[Any], now_s: float) -> None:
        """The answers to requests leave whose times are taken."""
        api = self._api
        if api is None:
            return
        for one in requests:
            answered_s = one.answered_s
            handled_s = min(one.handled_s or answered_s, answered_s)
            times_s = (
                one.began_s - one.arrived_s,
                handled_s - one.began_s,
                answered_s - handled_s,
                now_s - answered_s,
            )
            api.done(times_s, one.weight)

    def _refuse(self, request: Any, *, is_lost: bool) -> None:
        """Answer as an ordinary request is answered, of which something is an error."""
        connection: Connection = request.connection
        context = connection.stand_in(request)
        if context is None:
            return
        if is_lost:
            context.fail()
            return
        _, response = decode_response(ProduceResponse, request.version, request.answer[4:])
        place = 0
        for topic in response.responses:
            for answer in topic.partition_responses:
                result = request.errors.get(place)
                if result is not None:
                    answer.error_code = int(result.error_code)
                    answer.error_message = result.error_message
                    answer.base_offset = result.base_offset
                    answer.log_append_time_ms = result.log_append_time_ms
                    answer.log_start_offset = result.log_start_offset
                place += 1
        finish(context, request.acks, response, self._metadata)
