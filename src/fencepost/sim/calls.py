"""A request between nodes, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from fencepost.machines.quorum import RequestFailed, answered
from fencepost.sim.surroundings import Process
from fencepost.wire.message import Message

Versions = tuple[int | None, int | None]
"""The lowest and the highest of a request; None where any will do."""
ANY_VERSION: Final[Versions] = (None, None)

OnDone = Callable[[Message | None, bool], None]
"""Called with the response; or with None, and whether the request certainly did not arrive."""


class Sender(Protocol):
    """The sender of a request over the network: a node, or a client."""

    id: int
    incarnation: int
    is_up: bool
    is_old: bool
    silent_until_us: int

    def feed(self, input_: Any) -> None:
        """Hear what has become of a request that came without an `on_done`."""
        ...


class Call:
    """A request, and what has become of it."""

    __slots__ = (
        "_on_done",
        "between",
        "incarnation",
        "is_forgotten",
        "is_open",
        "message",
        "request",
        "response",
        "source",
        "target",
        "to",
        "version",
    )

    def __init__(
        self,
        source: Sender,
        target: Process,
        to: int,
        request: Message,
        on_done: OnDone | None = None,
        between: Versions = ANY_VERSION,
    ) -> None:
        self._on_done = on_done
        self.between = between
        """The versions of the request that say what is asked."""
        self.source = source
        self.target = target
        self.to = to
        """The id that the target is called by: its own, or that of a bootstrap server."""
        self.request = request
        self.incarnation = source.incarnation
        self.message: Message = request
        """The request as it arrives."""
        self.response: Message | None = None
        self.version = -1
        self.is_open = True
        self.is_forgotten = False
        """Whether the connection is gone on one side only: nothing of it arrives any more."""

    @property
    def api_version(self) -> int:
        """The version that it is asked in: the newest, unless it travels at another."""
        if self.version >= 0:
            return self.version
        newest: int = type(self.request).max_version
        return newest if self.between[1] is None else min(newest, self.between[1])

    def done(self, response: Message | None, is_refused: bool = False) -> None:
        """Give the sender the response, or a failure if there is none."""
        if self._on_done is not None:
            self._on_done(response, is_refused)
        elif response is None:
            self.source.feed(RequestFailed(self.to, self.request, is_refused))
        else:
            self.source.feed(answered(self.to, self.request, response))
