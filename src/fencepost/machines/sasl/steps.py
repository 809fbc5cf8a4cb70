"""What a mechanism says to a client's token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct


class Challenge(Struct, frozen=True):
    """Send these bytes; the client has to answer them."""

    token: bytes


class Done(Struct, frozen=True):
    """Send these bytes: the client has shown who it is."""

    token: bytes
    name: str
    """Of the principal, whose type is User."""
    expires_ms: int | None = None
    """When what the client has shown expires, in milliseconds since 1970; None if it does not."""
    token_authenticated: bool = False
    """Whether the client has shown a delegation token (KIP-48)."""


class Failed(Struct, frozen=True):
    """The client is refused."""

    reason: str
    """For the log; it has no secret."""
    told: str | None = None
    """For the client, word for word; None for the text that does not tell whether a user exists."""


class Work(Struct, frozen=True):
    """What takes milliseconds, and is done elsewhere; the server waits for it."""

    run: Callable[[], Any]
    """For a thread: it touches nothing of the server."""
    then: Callable[[Any], SaslStep]
    """Takes what `run` has returned, where `step` is called."""


SaslStep = Challenge | Done | Failed | Work


class SaslServer(Protocol):
    """One login by one mechanism."""

    def step(self, token: bytes) -> SaslStep:
        """Take the client's next token. After `Done` or `Failed` every token is refused."""
        ...
