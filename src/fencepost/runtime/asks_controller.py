"""The way to the active controller, as far as its callers have to know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

OnReply = Callable[[ErrorCode, Any], None]
"""Hears (NONE, the response) or (why there is none, None); responses may hold their own errors."""


class AsksController(Protocol):
    """Finds the active controller, wherever it is."""

    def ask(
        self,
        request: Message,
        on_reply: OnReply,
        *,
        timeout_ms: int = ...,
        purpose: str = ...,
    ) -> None:
        """Ask; answered once, within the time. Requests of one `purpose` share a connection."""
        ...
