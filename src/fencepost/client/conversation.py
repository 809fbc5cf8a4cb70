"""Conversations with a cluster, without I/O: what blocking and asyncio clients do in the same way.

A conversation is a generator. It yields steps (below) to the client that has the connections and
the clock, is sent what came of each, and returns its result; an error of a step is raised where the
step was yielded. So each procedure is written once, and `drive` (or its twin in `client.aio`)
carries it out.

A step knows the type of what comes of it. `yield from step` has that type, as an `await` would;
a bare `yield` could not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from fencepost.client.connection_core import ConnectionCore
from fencepost.client.errors import ClientError
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.wire.message import Message, Request

Result = TypeVar("Result")
R = TypeVar("R", bound=Message)
S = TypeVar("S")


class Step(msgspec.Struct, Generic[Result], frozen=True):
    """Something that a client does for a conversation; Result is what comes of it."""

    def __iter__(self) -> Generator[Step[Any], Any, Result]:
        result: Result = yield self
        return result


Conversation = Generator[Step[Any], Any, Result]


class Where(NamedTuple):
    """Which connection: one to `host:port`. With a `purpose` it is one for nothing else, because
    answers on it may be held for long (JoinGroup, Fetch)."""

    host: str
    port: int
    purpose: str = ""


class Connect(Step[ConnectionCore], frozen=True):
    """An open connection, made if there is none."""

    where: Where


class Exchange(Step[R], Generic[R], frozen=True):
    """Send a request over a connection, wait for its response (`request.timeout.ms`, unless
    another time is given). A blocking client reads it into `buffer`."""

    connection: ConnectionCore
    message: Request[R]
    version: int | None = None
    highest: int | None = None
    timeout_ms: float | None = None
    buffer: ReceiveBuffer | None = None


class ExchangeAll(Step[list[R | ClientError]], Generic[R], frozen=True):
    """Several exchanges at once; the list of their responses, with a ClientError in the place of
    one that failed."""

    exchanges: list[Exchange[R]]


Begun = Any
"""A request on its way that a conversation goes on without; each kind of client has its own."""


class Begin(Step[Begun], frozen=True):
    """Send a request, and go on without its answer, which `FirstOf` waits for.

    Nothing is wrong with an answer that is there, however late a conversation asks for it. One of
    which nothing comes for the time of the exchange closes the connection, as anywhere.
    """

    exchange: Exchange[Any]


class FirstOf(Step[list[Message | ClientError | None]], frozen=True):
    """Wait until a request that was begun is answered, or has failed, at most for `wait_ms`.

    For each its answer, the ClientError of one that failed, or None: it is on its way still.
    """

    begun: list[Begun]
    wait_ms: float


class Alone(Step[Result], Generic[Result], frozen=True):
    """Carry out a conversation while no other one of the same owner is carried out; the others
    take their turns."""

    owner: Any
    conversation: Conversation[Result]


class Pause(Step[None], frozen=True):
    """Wait."""

    pause_ms: float


class Tell(Step[Any], frozen=True):
    """Call a function of the application; in asyncio clients it may be a coroutine's."""

    function: Callable[..., Any]
    argument: Any


def drive(conversation: Generator[S, Any, Result], take: Callable[[S], Any]) -> Result:
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
        result: Result = done.value
        return result
    finally:
        conversation.close()
