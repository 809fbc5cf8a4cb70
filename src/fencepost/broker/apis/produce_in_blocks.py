"""Produce in blocks: plain requests taken a run at a time, and answered a partition's worth.

Theory of operation
-------------------
What most producers send is plain: batches that are neither compressed nor of a transaction, not
large, for topics that store them as they come. The compiled `batch._produce` takes a run of such
requests from where they were received, puts their batches into the blocks of `CombinedAppends`,
and leaves in the connection's queue a `RunRequest` for each, whose answer lacks only offsets and
times. A machine takes a block in one step, and all requests in it are answered together. So Python
works once for each run, each block, and each connection with answers, not for each request.

Whatever is not plain stays where it is, for `produce_from_bytes` and `produce`. What is refused is
answered as they would: an ordinary context takes the request's place.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

from fencepost.batch import backend
from fencepost.broker.apis.produce_partitions import find_partition
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.request_metrics import ALL_TIMED_UP_TO, TIMED_ONE_IN, ApiMetrics
from fencepost.broker.net.run_taker import RunClient, RunConnection, client_id_in
from fencepost.machines.session import Principal
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.requests.access import PartitionAccess
from fencepost.runtime.requests.produce_answers import finish
from fencepost.wire.api.produce import ProduceResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response

PRODUCE_KEY: Final = 0


def produce_in_blocks(
    *, appends: CombinedAppends, metadata: MetadataCache, partitions: PartitionAccess
) -> ProduceInBlocks | None:
    """What takes runs of Produce requests; None without the compiled module."""
    if backend.produce_kernel is None:
        return None
    return ProduceInBlocks(appends, metadata, partitions)


class ProduceInBlocks:
    """The `RunTaker` of Produce; see the module docstring."""

    def __init__(
        self,
        appends: CombinedAppends,
        metadata: MetadataCache,
        partitions: PartitionAccess,
        api: ApiMetrics | None = None,
    ) -> None:
        """Requests are counted in `api`, if there is one."""
        self._appends = appends
        self._metadata = metadata
        self._partitions = partitions
        self._connection: RunConnection | None = None
        # Whose rights, and under which ACLs, the blocks were found with that the kernel remembers.
        self._principal: Principal | None = None
        self._host = ""
        self._version: object = None
        self._api = api
        self._runs = backend.produce_kernel.ProduceRuns(
            self, appends.open_blocks, self._find, self._behind, ALL_TIMED_UP_TO, TIMED_ONE_IN
        )
        self.take_answers = backend.produce_kernel.take_answers

    def counted_by(self, api: ApiMetrics) -> ProduceInBlocks:
        """See `RunTaker`."""
        return ProduceInBlocks(self._appends, self._metadata, self._partitions, api)

    # -- in --------------------------------------------------------------------------------

    def take(
        self,
        connection: RunConnection,
        frames: memoryview,
        start: int,
        end: int,
        head: bytes,
        requests_max: int,
    ) -> int:
        """Take the plain requests at the front of frames[start:end]; see `RunTaker`."""
        runs, api = self._runs, self._api
        self._connection = connection
        began_s = perf_counter() if connection.quotas.is_on else 0.0
        authorizer = self._partitions.access.authorizer
        if authorizer is not None:
            self._remember_for(connection, authorizer.version)
        arrived_s = connection.arrived_s
        number = -1 if api is None else api.number_before(arrived_s)
        start = runs.take(
            connection, connection.waiting, frames, start, end, head, requests_max,
            connection.frame_bytes_max, number, arrived_s,
        )  # fmt: skip
        self._connection = None
        if runs.requests:
            if connection.quotas.is_on:
                self._charge(connection, head, perf_counter() - began_s)
            if api is not None:
                api.asked(runs.requests, int.from_bytes(head[2:4], "big"), runs.frame_bytes)
            self._appends.filled(runs.frame_bytes)
        return start

    def _charge(self, connection: RunConnection, head: bytes, used_s: float) -> None:
        """Charge the client for the run that was taken. The answer to its last request has the
        throttle time; without one the connection is muted at once."""
        last = connection.waiting[-1] if connection.waiting else None
        if last is not None and (last.taker is None or not last.acks):
            last = None
        throttle_ms = connection.quotas.charge_run(
            connection, client_id_in(head), self._runs.frame_bytes, used_s, acks=last is not None
        )
        if not throttle_ms:
            return
        if last is not None:
            last.throttle(throttle_ms)
        else:
            connection.mute(throttle_ms)

    @property
    def latest_bytes(self) -> int:
        """The size of the frames that were taken last."""
        return int(self._runs.frame_bytes)

    def _remember_for(self, connection: RunConnection, version: object) -> None:
        """Forget the blocks that were found for another client, or before the ACLs changed: this
        one may lack the rights. The blocks stay open, and are found again with one question per
        partition."""
        principal, host = connection.principal, connection.client_host
        if version is self._version and host == self._host and principal == self._principal:
            return
        self._appends.open_blocks.clear()
        self._principal, self._host, self._version = principal, host, version

    def _find(
        self, is_by_id: bool, topic: bytes, index: int, acks: int, timeout_ms: int
    ) -> Any | None:
        """The block for a partition; None if its batches cannot be plain."""
        assert self._connection is not None, "it is called by `take`"
        producer = RunClient(self._connection, "Produce")
        hosted = find_partition(self._partitions, producer, is_by_id, topic, index)
        if hosted is None or hosted.log.config.produce_rules.codec is not None:
            return None
        return self._appends.block_for(hosted, acks, timeout_ms, self._answer)

    def _behind(self, block: Any) -> Any:
        return self._appends.block_behind(block, self._answer)

    # -- out -------------------------------------------------------------------------------

    def _answer(
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
        """Answer the requests of a block, or of a part: see `_produce.Block.tell` and `give_up`."""
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
        context = connection.replace_slot(request, connection.routes[PRODUCE_KEY])
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
