"""Answers to WriteTxnMarkers, as a leader gives them."""

from __future__ import annotations

from fencepost.wire.api.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from fencepost.wire.errors import ErrorCode


def answer_to_markers(
    request: WriteTxnMarkersRequest, errors: dict[int, ErrorCode]
) -> WriteTxnMarkersResponse:
    """What a leader answers that has written all markers but those; `errors` by partition index."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=int(errors.get(index, ErrorCode.NONE)),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
