"""AlterReplicaLogDirs (key 34) v1-2: move replicas to other log directories of this broker.

KIP-113. The answer comes when the copying has begun; DescribeLogDirs tells when it is over. How a
replica moves is described in `fencepost.runtime.log_dir_moves`. For each partition, the first that
fits:

| condition                                                                             | error |
|---------------------------------------------------------------------------------------|-------|
| the topic's name is too long for the directory that it is copied into                 | 17    |
| no such directory in `log.dirs`                                                       | 57    |
| the directory, or the replica's, is offline                                           | 56    |
| the directory is cordoned (KIP-1066)                                                  | 39    |
| this broker has no replica of it; the directory is remembered for when it gets one    | 9     |
| no such partition; the directory is remembered for when it is created                 | 3     |
| the replica is to move, and some directory is offline, in which a copy of it may be   | 56    |
| a partition that is named again, for another directory                                | 42    |

To name the directory in which the replica is calls a move off.
"""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.runtime.log_dir_moves import LogDirMoves
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import ALTER_CLUSTER
from fencepost.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from fencepost.wire.errors import ErrorCode


@handles(AlterReplicaLogDirsRequest)
def handle(
    context: RequestContext,
    request: AlterReplicaLogDirsRequest,
    *,
    access: Access,
    moves: LogDirMoves,
) -> Pieces:
    """Begin to move the replicas."""
    refusal = access.refusal(context, ALTER_CLUSTER)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    asked: dict[tuple[str, int], str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            answers = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            ).partitions
            for index in topic.partitions:
                if refusal:
                    error = refusal
                elif asked.setdefault((topic.name, index), directory.path) != directory.path:
                    error = ErrorCode.INVALID_REQUEST
                else:
                    error = moves.move(topic.name, index, directory.path)
                answers.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(error))
                )
                yield None
    return AlterReplicaLogDirsResponse(results=list(results.values()))
