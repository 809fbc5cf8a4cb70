"""How a broker of a search answers followers: at once, without sessions, by `machines.fetch`."""

from __future__ import annotations

from fencepost.machines.fetch import FetchTerms, FetchWanted, Look, look_at
from fencepost.machines.partition.inputs import ListedOffset
from fencepost.machines.partition.queries import EARLIEST_TIMESTAMP
from fencepost.runtime.fetch_arrival import look_on_arrival
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.explore.partition.cell import BrokerCell
from fencepost.sim.explore.partition.metadata import INDEX, TOPIC
from fencepost.wire.api import fetch, list_offsets
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

_KEY = (TOPIC, INDEX)


def answer_to(cell: BrokerCell, request: Message) -> Message:
    """The answer; what the request says of its sender is taken note of."""
    if isinstance(request, fetch.FetchRequest):
        return _fetched(cell, request)
    assert isinstance(request, list_offsets.ListOffsetsRequest), "followers ask nothing else"
    return _listed(cell, request)


def _fetched(cell: BrokerCell, request: fetch.FetchRequest) -> Message:
    topic = request.topics[0]
    asked = topic.partitions[0]
    wanted = FetchWanted(
        _KEY,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.log_start_offset,
    )
    state = request.replica_state
    terms = FetchTerms(
        min_bytes=0,
        max_bytes=request.max_bytes,
        replica_id=state.replica_id,
        broker_epoch=state.replica_epoch,
    )
    hosted = cell.replicas.by_id(topic.topic_id, asked.partition)
    look_on_arrival(cell.driver, hosted, wanted, terms)
    part = _part(cell, look_at(hosted, wanted, terms))
    return fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=topic.topic_id, partitions=[part])]
    )


def _part(cell: BrokerCell, look: Look[HostedPartition, tuple[str, int]]) -> fetch.PartitionData:
    bounds = look.bounds
    part = fetch.PartitionData(partition_index=INDEX, high_watermark=-1, records=b"")
    if bounds is None:
        part.error_code = int(look.error)
        return part
    part.high_watermark = bounds.high_watermark
    part.last_stable_offset = bounds.last_stable_offset
    part.log_start_offset = bounds.log_start_offset
    if bounds.diverging is not None:
        part.diverging_epoch = fetch.EpochEndOffset(
            epoch=bounds.diverging.epoch, end_offset=bounds.diverging.end_offset
        )
        return part
    part.records = b"".join(
        entry.data
        for entry in cell.disk.log.entries
        if look.wanted.fetch_offset < entry.next_offset <= bounds.upper_bound
    )
    return part


def _listed(cell: BrokerCell, request: list_offsets.ListOffsetsRequest) -> Message:
    asked = request.topics[0].partitions[0]
    found = cell.machine.list_offset(
        timestamp_ms=asked.timestamp,
        current_leader_epoch=asked.current_leader_epoch,
        isolation=None,
    )
    assert asked.timestamp >= EARLIEST_TIMESTAMP, "the end or the start"
    part = list_offsets.ListOffsetsPartitionResponse(partition_index=INDEX)
    if isinstance(found, ErrorCode):
        part.error_code = int(found)
    elif isinstance(found, ListedOffset):
        part.offset, part.leader_epoch = found.offset, found.leader_epoch
    return list_offsets.ListOffsetsResponse(
        topics=[list_offsets.ListOffsetsTopicResponse(name=TOPIC, partitions=[part])]
    )
