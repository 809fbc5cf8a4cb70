"""What this node asks of its peers: one request at a time to each, and again if none answers.

`pump` sends what the role still wants to ask, and arms the retry timer for what failed or was not
answered. Answers are matched by identity of the request, so one that is late or comes twice is
known for what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from fencepost.machines.effects import Send, SendAfterPersist
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.outbox import Outbox
from fencepost.machines.quorum.timers import Timers
from fencepost.wire.message import Message


class Requests(Component):
    """`in_flight` has, by peer, the request that waits for its answer, and until when; `not_before`
    the time before which a peer is to be left in peace."""

    NOT_STATE: ClassVar = frozenset(("in_flight", "not_before"))

    def __init__(self, config: QuorumConfig, outbox: Outbox, timers: Timers) -> None:
        self.in_flight: dict[int, tuple[Message, int]] = {}
        self.not_before: dict[int, int] = {}
        self._config = config
        self._outbox = outbox
        self._timers = timers

    @property
    def asked(self) -> dict[int, Message]:
        """The requests that wait for their answers, by peer."""
        return {peer: message for peer, (message, _) in self.in_flight.items()}

    def pump(
        self,
        peers: Sequence[int],
        request_for: Callable[[int], Message],
        must_flush_first: Callable[[Message], bool],
    ) -> None:
        """Send to every peer that is neither busy nor to be left in peace; arm the retry.

        What speaks of our log waits until the log is durable as far as it says.
        """
        now_ms = self._timers.now_ms
        earliest: int | None = None
        for peer in peers:
            due = self.not_before.get(peer, now_ms)
            if peer in self.in_flight:
                due = max(due, self.in_flight[peer][1])
            if due <= now_ms:
                message = request_for(peer)
                due = now_ms + self._config.request_timeout_ms
                self.in_flight[peer] = (message, due)
                kind = SendAfterPersist if must_flush_first(message) else Send
                self._outbox.emit(kind(peer, message))
            earliest = due if earliest is None else min(earliest, due)
        self._timers.set(inputs.RETRY, earliest)

    def settle(self, peer: int, request: Message, retry_later: bool) -> bool:
        """Take note that `request` has its answer; whether that is the answer waited for."""
        waiting = self.in_flight.get(peer)
        if waiting is None or waiting[0] is not request:
            return False
        del self.in_flight[peer]
        if retry_later:
            self.pause(peer, self._config.retry_backoff_ms)
        else:
            self.not_before.pop(peer, None)
        return True

    def sent_ms(self, peer: int) -> int | None:
        """When the request that waits for this peer's answer left; None if there is none."""
        waiting = self.in_flight.get(peer)
        return None if waiting is None else waiting[1] - self._config.request_timeout_ms

    def pause(self, peer: int, wait_ms: int) -> None:
        """Leave a peer in peace for so long."""
        self.not_before[peer] = self._timers.now_ms + wait_ms

    def unpause(self, peer: int) -> None:
        """Ask a peer again at once."""
        self.not_before.pop(peer, None)

    def expired(self) -> list[tuple[int, Message]]:
        """Requests that were not answered in time, and never will be."""
        now_ms = self._timers.now_ms
        return [(peer, asked) for peer, (asked, due) in self.in_flight.items() if due <= now_ms]

    def forget(self, peer: int) -> None:
        """Nothing is asked of it any more: its answer is late from now on."""
        self.in_flight.pop(peer, None)
        self.not_before.pop(peer, None)

    def forget_all(self) -> None:
        """The role is left: answers to its requests are late from now on."""
        self.in_flight.clear()
        self.not_before.clear()

    def forget_all_but(self, peers: Sequence[int]) -> None:
        """Only these may be asked from now on."""
        for peer in {*self.in_flight, *self.not_before} - set(peers):
            self.forget(peer)
