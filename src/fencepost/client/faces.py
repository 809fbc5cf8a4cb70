"""Blocking methods made of conversations: `list_topics = blocking(listing_topics)` in a class.

The asyncio twin is `client.aio.faces.awaiting`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation

P = ParamSpec("P")
Result = TypeVar("Result")


class HasCluster(Protocol):
    """An object with the cluster that it asks."""

    @property
    def cluster(self) -> Cluster: ...


def blocking(
    conversation: Callable[Concatenate[ClusterView[Any], P], Conversation[Result]],
) -> Callable[Concatenate[HasCluster, P], Result]:
    """A method with the arguments and the docstring of a function that makes conversations."""

    @functools.wraps(conversation)
    def method(self: HasCluster, /, *arguments: P.args, **options: P.kwargs) -> Result:
        return self.cluster.run(conversation(self.cluster, *arguments, **options))

    return method
