"""The asyncio twin of `client.faces`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation

P = ParamSpec("P")
Result = TypeVar("Result")


class HasCluster(Protocol):
    """An object with the cluster that it asks."""

    @property
    def cluster(self) -> AsyncCluster: ...


def awaiting(
    conversation: Callable[Concatenate[ClusterView[Any], P], Conversation[Result]],
) -> Callable[Concatenate[HasCluster, P], Coroutine[Any, Any, Result]]:
    """A coroutine method with the arguments and the docstring of a function that makes
    conversations."""

    @functools.wraps(conversation)
    async def method(self: HasCluster, /, *arguments: P.args, **options: P.kwargs) -> Result:
        return await self.cluster.run(conversation(self.cluster, *arguments, **options))

    return method
