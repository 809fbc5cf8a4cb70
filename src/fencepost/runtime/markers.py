"""The markers of transactions, written into the partitions that this node leads (KIP-98).

A transaction's coordinator has its end written everywhere that it reaches: as a request
(WriteTxnMarkers, `broker.apis.write_txn_markers`), or by calling `MarkerWriter.write` if the leader
is the node that it runs on. Either way the answer says of each partition that the marker is
committed, and that offsets which the transaction brought count from now on, or why not:

| error                                | when                                                      |
|--------------------------------------|-----------------------------------------------------------|
| 3 UNKNOWN_TOPIC_OR_PARTITION         | the partition is not on this node, or its disk has failed |
| 6 NOT_LEADER_OR_FOLLOWER             | it is led elsewhere, or its groups are not loaded yet     |
| 7 REQUEST_TIMED_OUT, 19 and 20       | not enough replicas have it                               |
| 42 INVALID_REQUEST                   | a negative producer id or epoch                           |
| 47 INVALID_PRODUCER_EPOCH            | the producer is further (`log.producers`)                 |
| 52 TRANSACTION_COORDINATOR_FENCED    | another coordinator has come after the one that asks      |
| 75 UNKNOWN_LEADER_EPOCH              | this node knows of no coordinator with so late an epoch   |

A coordinator's epoch is the leader epoch of its partition of `__transaction_state`, so no marker
can have a later one than all of them, unless this node has not applied the metadata of an election
yet: then the coordinator sends the marker again. Kafka takes any epoch. There a tool that writes a
marker with a mistaken epoch (2^31-1, say) makes the partition refuse the producer's own
coordinator, and the transaction never completes.

Markers for `__consumer_offsets` are written by the groups' coordinator, in the order of its
commits. Requests are worked on in pieces of one marker. Entries of one producer are answered
together, with the error if one of them has one; a partition that a marker names twice gets it once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.coordinator import TransactionEnd
from fencepost.machines.image import ClusterImage
from fencepost.machines.partition import ProduceResult, WriteMarker
from fencepost.runtime.cooperative import Lane, Pieces
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from fencepost.wire.errors import ErrorCode

OnResponse = Callable[[WriteTxnMarkersResponse], None]

_NO_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What coordinators of transactions do not expect of a leader."""


class MarkerWriter:
    """See the module docstring."""

    def __init__(
        self,
        ports: MachinePorts,
        lane: Lane,
        replicas: ReplicaManager,
        groups: GroupCoordinators,
        image: Callable[[], ClusterImage],
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` is how long a marker waits to be committed (`request.timeout.ms`)."""
        self._ports = ports
        self._lane = lane
        self._replicas = replicas
        self._groups = groups
        self._image = image
        self._timeout_ms = timeout_ms

    def write(self, request: WriteTxnMarkersRequest, on_response: OnResponse) -> None:
        """Write the markers; `on_response` is called once, perhaps before this returns."""
        self._lane.begin(self.pieces(request, on_response))

    def pieces(self, request: WriteTxnMarkersRequest, on_response: OnResponse) -> Pieces[None]:
        """The same as work in pieces."""
        answers = _Answers(on_response)
        newest_epoch = _newest_coordinator_epoch(self._image())
        for marker in request.markers:
            for topic in marker.topics:
                for index in dict.fromkeys(topic.partition_indexes):
                    on_error = answers.open(marker.producer_id, topic.name, index)
                    self._write_one(marker, topic.name, index, newest_epoch, on_error)
                    yield None
        answers.finish_one()

    def _write_one(
        self,
        marker: WritableTxnMarker,
        topic: str,
        index: int,
        newest_epoch: int,
        on_error: Callable[[ErrorCode], None],
    ) -> None:
        hosted = self._replicas.get(topic, index)
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            on_error(ErrorCode.INVALID_REQUEST)
        elif isinstance(hosted, ErrorCode):
            on_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif marker.coordinator_epoch > max(newest_epoch, _known_epoch(hosted, marker)):
            on_error(ErrorCode.UNKNOWN_LEADER_EPOCH)
        elif topic == OFFSETS_TOPIC:
            self._end_in_groups(marker, index, on_error)
        else:
            self._append(marker, hosted, on_error)

    def _append(
        self,
        marker: WritableTxnMarker,
        hosted: HostedPartition,
        on_error: Callable[[ErrorCode], None],
    ) -> None:
        def on_result(result: ProduceResult) -> None:
            on_error(result.error_code)

        batch = build_end_txn_marker(
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=self._ports.wall_ms(),
        )
        write = WriteMarker(
            RecordBatch.parse(batch),
            marker.coordinator_epoch,
            marker.transaction_version,
            on_result,
            self._ports.now_ms() + self._timeout_ms,
        )
        self._ports.driver.feed(hosted.key, write)

    def _end_in_groups(
        self, marker: WritableTxnMarker, index: int, on_error: Callable[[ErrorCode], None]
    ) -> None:
        def on_reply(error: ErrorCode, _: None) -> None:
            on_error(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NO_COORDINATOR else error)

        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            committed=marker.transaction_result,
            transaction_version=marker.transaction_version,
        )
        self._groups.runtime.submit(
            index, lambda machine, token: machine.decide_transaction_end(end, token), on_reply
        )


def refuse_markers(
    request: WriteTxnMarkersRequest, error: ErrorCode, on_response: OnResponse
) -> Pieces[None]:
    """Answer a request with the error in every partition; in pieces of one topic."""
    answers = _Answers(on_response)
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                answers.open(marker.producer_id, topic.name, index)(error)
            yield None
    answers.finish_one()


def _newest_coordinator_epoch(image: ClusterImage) -> int:
    """Of all coordinators of the cluster; 0 if there are none, which is what tools say then."""
    topic = image.topics_by_name.get(TRANSACTIONS_TOPIC)
    return max((one.leader_epoch for one in topic.partitions), default=0) if topic else 0


def _known_epoch(hosted: HostedPartition, marker: WritableTxnMarker) -> int:
    """The coordinator's epoch that the partition has seen for the producer; -1 for none."""
    state = hosted.log.producers.get(marker.producer_id)
    return -1 if state is None else state.coordinator_epoch


class _Answers:
    """The response as it fills, in the order of the request."""

    def __init__(self, on_response: OnResponse) -> None:
        self._on_response = on_response
        self._response = WriteTxnMarkersResponse()
        self._markers: dict[int, WritableTxnMarkerResult] = {}
        self._topics: dict[tuple[int, str], WritableTxnMarkerTopicResult] = {}
        self._partitions: dict[tuple[int, str, int], WritableTxnMarkerPartitionResult] = {}
        self._outstanding = 1  # the request itself, until all of it is taken

    def open(self, producer_id: int, topic: str, index: int) -> Callable[[ErrorCode], None]:
        """Where the outcome for one partition goes."""
        answer = self._answer_for(producer_id, topic, index)
        self._outstanding += 1

        def on_error(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                answer.error_code = int(error)
            self.finish_one()

        return on_error

    def finish_one(self) -> None:
        """One outcome is known; with the last of them the request is answered."""
        self._outstanding -= 1
        if not self._outstanding:
            self._on_response(self._response)

    def _answer_for(
        self, producer_id: int, topic: str, index: int
    ) -> WritableTxnMarkerPartitionResult:
        key = (producer_id, topic, index)
        answer = self._partitions.get(key)
        if answer is None:
            answer = self._partitions[key] = WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=0
            )
            self._topic_of(producer_id, topic).partitions.append(answer)
        return answer

    def _topic_of(self, producer_id: int, name: str) -> WritableTxnMarkerTopicResult:
        topic = self._topics.get((producer_id, name))
        if topic is None:
            topic = self._topics[producer_id, name] = WritableTxnMarkerTopicResult(name=name)
            self._marker_of(producer_id).topics.append(topic)
        return topic

    def _marker_of(self, producer_id: int) -> WritableTxnMarkerResult:
        marker = self._markers.get(producer_id)
        if marker is None:
            marker = self._markers[producer_id] = WritableTxnMarkerResult(producer_id=producer_id)
            self._response.markers.append(marker)
        return marker
