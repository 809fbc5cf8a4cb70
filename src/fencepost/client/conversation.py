"""Conversations with a cluster, without I/O: what blocking and asyncio clients do in the same way.

A conversation is a generator. It yields steps (below) to whoever has the connections and the
clock, is sent what came of each, and returns its result; an error of a step is raised where the
step was yielded. So each procedure is written once, and `drive` (or its twin in `client.aio`)
carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from fencepost.client.errors import ClientError
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.wire.message import Request

T = TypeVar("T")
Conversation = Generator[Any, Any, T]


class Where(NamedTuple):
    """Which connection: one to `host:port`. With `apart` it is not the one that everything else
    uses, because answers on it may be held for long (JoinGroup)."""

    host: str
    port: int
    apart: bool = False


class Connect(NamedTuple):
    """Step: an open connection, made if there is none."""

    where: Where


class Exchange(NamedTuple):
    """Step: send a request over a connection, wait for its response (`request.timeout.ms`, unless
    another time is given). A blocking client reads it into `buffer`."""

    connection: Any
    message: Request[Any]
    version: int | None = None
    highest: int | None = None
    timeout_ms: float | None = None
    buffer: ReceiveBuffer | None = None


class ExchangeAll(NamedTuple):
    """Step: several exchanges at once; the list of their responses, with a ClientError in the place
    of one that failed."""

    exchanges: list[Exchange]


class Alone(NamedTuple):
    """Step: carry out a conversation while nobody else has one of the same owner; the others take
    their turns."""

    owner: Any
    conversation: Generator[Any, Any, Any]


class Pause(NamedTuple):
    """Step: wait."""

    pause_ms: float


class Tell(NamedTuple):
    """Step: call a function of the application; in asyncio clients it may be a coroutine's."""

    function: Callable[..., Any]
    argument: Any


def drive(conversation: Generator[Any, Any, T], take: Callable[[Any], Any]) -> T:
    """Carry out a conversation: `take` does what a step says and returns what came of it."""
    try:
        step = next(conversation)
        while True:
            try:
                answer = take(step)
            except ClientError as error:
                step = conversation.throw(error)
            else:
                step = conversation.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        conversation.close()
