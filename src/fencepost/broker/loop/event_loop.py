"""Which event loop a node runs on: asyncio's own, or uvloop where it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable


class EventLoopError(Exception):
    """The event loop that was asked for is not installed."""


def loop_factory(choice: str) -> tuple[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The name and factory for `fencepost.event.loop` = auto, asyncio or uvloop."""
    if choice == "asyncio":
        return "asyncio", asyncio.new_event_loop
    if importlib.util.find_spec("uvloop") is None:
        if choice == "uvloop":
            raise EventLoopError(
                "fencepost.event.loop=uvloop, but uvloop is not installed: pip install uvloop"
            )
        return "asyncio", asyncio.new_event_loop
    import uvloop

    return "uvloop", uvloop.new_event_loop
