"""OffsetForLeaderEpoch (key 23) v2-4: where an epoch ends in this leader's log.

Followers and consumers ask it to find out whether their log has diverged from the leader's
(KIP-101, KIP-279, KIP-320). A client needs CLUSTER_ACTION, or DESCRIBE on
the topic, which is refused with 29 otherwise. Then per partition, in this order:

1. the log directory is offline: 56;
2. not hosted here though it exists: 6; no such partition: 3;
3. `current_leader_epoch` (-1: not checked) older than ours: 74, newer: 75;
4. we do not lead: 6;
5. an epoch that cannot be placed: error 0 with epoch -1 and end offset -1.

So a client of an old epoch that reaches a follower is answered that its epoch is old (74), not only
that the broker does not lead (6). `replica_id` is not looked at: only the leader answers, and for
its latest epoch with the end of its log, which may be past what consumers can read yet.

Errors carry epoch and end offset -1. No deviations.
"""

from __future__ import annotations

from fencepost.runtime.requests.access import Find, PartitionAccess
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import CLUSTER_ACTION, DESCRIBE_TOPIC
from fencepost.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from fencepost.wire.errors import ErrorCode


def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest, *, partitions: PartitionAccess
) -> Pieces:
    """Answer every partition of the request, in its order."""
    if partitions.access.allows(context, CLUSTER_ACTION, quiet=True):
        find = partitions.finder_for_follower(context, by_id=False)
    else:
        find = partitions.finder(context, DESCRIBE_TOPIC, by_id=False)
    topics = []
    for topic in request.topics:
        results = []
        for question in topic.partitions:
            results.append(_answer(find, topic.topic, question))
            yield None
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(find: Find, topic: str, question: OffsetForLeaderPartition) -> EpochEndOffset:
    hosted = find(topic, question.partition)
    if isinstance(hosted, ErrorCode):
        return EpochEndOffset(error_code=int(hosted), partition=question.partition)
    found = hosted.machine.offset_for_leader_epoch(
        question.current_leader_epoch, question.leader_epoch
    )
    if isinstance(found, ErrorCode):
        return EpochEndOffset(error_code=int(found), partition=question.partition)
    return EpochEndOffset(
        partition=question.partition, leader_epoch=found.epoch, end_offset=found.end_offset
    )
