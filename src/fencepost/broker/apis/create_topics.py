"""CreateTopics (key 19) v2-7: make topics, with counts or with a placement of every replica.

The rules are the controller's (`machines.controller.topics`); this is its door. Topics succeed or
fail alone, and the answer comes when those that succeed are committed and this node's metadata has
them. While there is no active controller every topic is 41.

From v5 on the answer has the topic's configs in force, those of the broker under its own ones.

Deviation: `timeout_ms` is not looked at, because the controller is in this process and answers as
soon as its log does.
"""

from __future__ import annotations

from typing import Any

from fencepost.broker.config_view import topic_entries
from fencepost.broker.registry import RequestContext, handles
from fencepost.broker.topic_creation import new_topic_ids, placement_start
from fencepost.machines.controller import Controller, Decision
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.errors import ErrorCode

FIRST_VERSION_WITH_CONFIGS = 5


@handles(CreateTopicsRequest, versions="2-7")
def handle(context: RequestContext, request: CreateTopicsRequest) -> None:
    """Let the controller decide; answer when that is committed."""

    def decide(controller: Controller) -> Decision:
        return controller.decide_create_topics(request, new_topic_ids(), placement_start())

    def on_reply(error: ErrorCode, reply: Any) -> None:
        if error is not ErrorCode.NONE:
            context.reply(_refused(request, error))
            return
        if context.api_version >= FIRST_VERSION_WITH_CONFIGS:
            _fill_in_configs(context, request, reply)
        context.reply(reply)

    context.node.controller.submit(decide, on_reply)


def _refused(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=int(error), error_message=None)
            for name in names
        ]
    )


def _fill_in_configs(
    context: RequestContext, request: CreateTopicsRequest, reply: CreateTopicsResponse
) -> None:
    asked = {topic.name: topic for topic in request.topics}
    for result in reply.topics:
        if result.error_code == ErrorCode.NONE:
            result.configs = _configs(context, asked[result.name])


def _configs(context: RequestContext, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
    own = {item.name: item.value for item in topic.configs if item.value is not None}
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.text,
            read_only=entry.read_only,
            config_source=int(entry.source),
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic_entries(context.node.config, context.node.image, own)
    ]
