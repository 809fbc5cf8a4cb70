"""Produce (key 0) v3-13: batches into logs.

Each batch passes `validate_produced` and is then its partition machine's business: fencing, the
in-sync set, idempotence, and when to answer. acks=1 is answered once the batch is durable here,
acks=-1 once it is durable on every in-sync replica, acks=0 not at all; what goes wrong with acks=0
closes the connection, the only way to be heard. Other acks are 21 INVALID_REQUIRED_ACKS.

v0-2 are advertised and not served (KAFKA-18659; see `wire.api.produce`). Topics are named up to
v12 and go by id from v13. Transactions are not offered: 42 INVALID_REQUEST. Internal topics
are the brokers' to write: 17 INVALID_TOPIC_EXCEPTION, except for Kafka's admin client, as in Kafka.
"""

from __future__ import annotations

from time import perf_counter

from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.batch.validate import RefusedRecordsError, validate_produced
from fencepost.broker.cluster_view import INTERNAL_TOPICS
from fencepost.broker.leaders import LeaderHints
from fencepost.broker.recompression import maybe_recompress
from fencepost.broker.registry import RequestContext, handles
from fencepost.broker.replicas import HostedPartition
from fencepost.log.config import LogConfig
from fencepost.machines.partition import Produce, ProduceResult
from fencepost.wire.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

TOPIC_IDS_FROM = 13
LEADER_HINTS_FROM = 10
ZSTD_FROM = 7
INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)
ADMIN_CLIENT_ID = "__admin_client"
MAX_TOPICS_AND_PARTITIONS = 20_000
WORK_S = 1.0
"""Nothing else happens in the node while a request's batches are unpacked and looked at: those that
are not begun after so long are 7 REQUEST_TIMED_OUT, and come again with the client's retry."""


@handles(ProduceRequest, versions="3-13", advertise_from=0, max_elements=MAX_TOPICS_AND_PARTITIONS)
def handle(context: RequestContext, request: ProduceRequest) -> None:
    """Feed every partition's machine; answer when all of them have answered."""
    job = _ProduceJob(context, request)
    for topic in request.topic_data:
        job.take_topic(topic)
    job.finish_one()


class _ProduceJob:
    """One request on its way: the response as it fills, and how many answers it waits for."""

    __slots__ = (
        "_acks",
        "_began",
        "_context",
        "_deadline_ms",
        "_now_ms",
        "_outstanding",
        "_refusal",
        "_response",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._acks = request.acks
        self._began = perf_counter()
        self._now_ms = context.node.now_ms()
        self._deadline_ms = self._now_ms + max(request.timeout_ms, 0)
        self._response = ProduceResponse()
        self._outstanding = 1  # the request itself, until all of it is taken
        self._refusal: tuple[ErrorCode, str] | None = None
        if request.acks not in (-1, 0, 1):
            self._refusal = (
                ErrorCode.INVALID_REQUIRED_ACKS,
                f"acks is {request.acks}, allowed are -1, 0 and 1",
            )
        elif request.transactional_id is not None:
            self._refusal = (ErrorCode.INVALID_REQUEST, "transactions are not offered")

    def take_topic(self, topic: TopicProduceData) -> None:
        """Take the batches of one topic."""
        answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        self._response.responses.append(answered)
        for partition in topic.partition_data:
            answer = PartitionProduceResponse(index=partition.index, base_offset=-1)
            answered.partition_responses.append(answer)
            self._take_partition(topic, partition, answer)

    def _take_partition(
        self,
        topic: TopicProduceData,
        partition: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        if self._refusal is not None:
            answer.error_code = int(self._refusal[0])
            answer.error_message = self._refusal[1]
            return
        if perf_counter() - self._began > WORK_S:
            answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
            answer.error_message = f"the request has taken {WORK_S} s already"
            return
        hosted = self._find(topic, partition.index)
        if isinstance(hosted, ErrorCode):
            answer.error_code = int(hosted)
            return
        records = partition.records
        if records is None:
            _refuse(answer, BatchError(ErrorCode.INVALID_RECORD, "there is no record batch"))
            return
        try:
            header = self._validate(hosted, records)
            records, header = maybe_recompress(records, header, hosted.log.config)
            _check_segment_size(records, hosted.log.config)
        except BatchError as error:
            _refuse(answer, error)
            return
        self._outstanding += 1

        def on_result(result: ProduceResult) -> None:
            answer.error_code = int(result.error_code)
            answer.base_offset = result.base_offset
            answer.log_append_time_ms = result.log_append_time_ms
            answer.log_start_offset = result.log_start_offset
            self.finish_one()

        self._context.node.driver.feed(
            hosted.key,
            Produce(records, header, self._acks, on_result, self._deadline_ms),
        )

    def _find(self, topic: TopicProduceData, index: int) -> HostedPartition | ErrorCode:
        replicas = self._context.node.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            hosted = replicas.by_id(topic.topic_id, index)
        else:
            hosted = replicas.get(topic.name, index)
        if (
            not isinstance(hosted, ErrorCode)
            and hosted.topic in INTERNAL_TOPICS
            and self._context.client_id != ADMIN_CLIENT_ID
        ):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return hosted

    def _validate(self, hosted: HostedPartition, records: Buffer) -> BatchHeader:
        """The header of the batch if it may be appended. BatchError."""
        config = hosted.log.config
        earliest_ms, latest_ms = _timestamp_bounds(config, self._now_ms)
        header = validate_produced(
            records,
            max_batch_bytes=config.max_message_bytes,
            allow_zstd=self._context.api_version >= ZSTD_FROM,
            key_required=config.is_compacted,
            timestamp_min_ms=earliest_ms,
            timestamp_max_ms=latest_ms,
        )
        if header.is_transactional:
            raise BatchError(ErrorCode.INVALID_REQUEST, "transactions are not offered")
        return header

    def finish_one(self) -> None:
        """One answer is in; with the last of them the request is answered."""
        self._outstanding -= 1
        if self._outstanding:
            return
        context = self._context
        if self._acks == 0:
            self._finish_unacknowledged()
            return
        if context.api_version >= LEADER_HINTS_FROM:
            self._add_leader_hints()
        context.reply(self._response)

    def _finish_unacknowledged(self) -> None:
        """acks=0 has no response, so an error can only be told by hanging up."""
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    error = ErrorCode(answer.error_code)
                    name = topic.name or str(topic.topic_id)
                    self._context.close(
                        f"Produce with acks=0 to {name}-{answer.index} failed: {error.name}"
                        + (f" ({answer.error_message})" if answer.error_message else "")
                    )
                    return
        self._context.no_reply()

    def _add_leader_hints(self) -> None:
        """Say who leads, where we do not (KIP-951)."""
        hints: LeaderHints | None = None
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                if hints is None:
                    hints = LeaderHints(self._context.node.image, self._context.listener_name)
                leader = hints.leader_of(topic.name, topic.topic_id, answer.index)
                if leader is not None:
                    answer.current_leader = LeaderIdAndEpoch(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
        if hints is not None:
            self._response.node_endpoints = [
                NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port, rack=n.rack)
                for n in hints.endpoints()
            ]


def _timestamp_bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and latest timestamp a record may have; none where the broker gives them."""
    if config.is_log_append_time:
        return INT64_MIN, INT64_MAX
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    return (
        now_ms - config.message_timestamp_before_max_ms,
        latest_ms if latest_ms < INT64_MAX else INT64_MAX,
    )


def _check_segment_size(records: Buffer, config: LogConfig) -> None:
    """A batch that no segment has room for is told so, and not to be split as a large message."""
    if len(records) > config.roll_bytes:
        raise BatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {len(records)} bytes, a segment {config.roll_bytes} at most",
        )


def _refuse(answer: PartitionProduceResponse, error: BatchError) -> None:
    """Put a batch's error into the answer, with the records that are to blame if that is known."""
    answer.error_code = int(error.code)
    answer.error_message = str(error)
    if isinstance(error, RefusedRecordsError):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=words)
            for index, words in error.records
        ]
