"""The asyncio twin of `client.conversation.drive`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from fencepost.client.errors import ClientError

S = TypeVar("S")
T = TypeVar("T")


async def drive(conversation: Generator[S, Any, T], take: Callable[[S], Awaitable[Any]]) -> T:
    """Carry out a conversation: `take` does what a step says and returns what came of it."""
    try:
        step = next(conversation)
        while True:
            try:
                answer = await take(step)
            except ClientError as error:
                step = conversation.throw(error)
            else:
                step = conversation.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        conversation.close()
