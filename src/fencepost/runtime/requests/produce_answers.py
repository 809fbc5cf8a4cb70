"""The end of a Produce request: its answer leaves, or the connection does.

With acks=0 there is no response, so an error can only be reported by disconnecting. From v10 on an
answer says who leads, where we do not (KIP-951).
"""

from __future__ import annotations

from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.leader_hints import LeaderHints
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.produce_versions import LEADER_HINTS_FROM
from fencepost.wire.api.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse
from fencepost.wire.errors import ErrorCode


def finish(
    context: RequestContext, acks: int, response: ProduceResponse, metadata: ClusterMetadata
) -> None:
    """Every partition's answer is in `response`."""
    if acks == 0:
        _finish_unacknowledged(context, response)
        return
    if context.api_version >= LEADER_HINTS_FROM:
        _add_leader_hints(context, response, metadata)
    context.reply(response)


def _finish_unacknowledged(context: RequestContext, response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                error = ErrorCode(answer.error_code)
                name = topic.name or str(topic.topic_id)
                context.close(
                    f"Produce with acks=0 to {name}-{answer.index} failed: {error.name}"
                    + (f" ({answer.error_message})" if answer.error_message else "")
                )
                return
    context.no_reply()


def _add_leader_hints(
    context: RequestContext, response: ProduceResponse, metadata: ClusterMetadata
) -> None:
    hints: LeaderHints | None = None
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            if hints is None:
                hints = LeaderHints(metadata.image, context.listener_name)
            leader = hints.leader_of(topic.name, topic.topic_id, answer.index)
            if leader is not None:
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
    if hints is not None:
        response.node_endpoints = [
            NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port, rack=n.rack)
            for n in hints.endpoints()
        ]
