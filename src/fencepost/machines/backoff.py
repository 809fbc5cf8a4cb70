"""How long to wait before the next attempt: exponential with jitter, as in KIP-580.

Kafka's clients wait like this before they send a request again (`retry.backoff.ms` up to
`retry.backoff.max.ms`) and before they connect again (`reconnect.backoff.ms` and `.max.ms`), its
brokers before they register again. Clients, connections to peers and machines use this one formula.
"""

from __future__ import annotations

from typing import Final

JITTER: Final = 0.2
"""Pauses vary by this share, so that many clients do not return in step."""
DOUBLINGS_MAX: Final = 30
"""Beyond, the factor would only overflow."""


def backoff_ms(attempts: int, first_ms: float, max_ms: float, random: float = 0.5) -> float:
    """The pause after `attempts` failed retries: `first_ms`, doubled for each, at most `max_ms`.

    `random` is a number from 0 to 1, drawn by the caller for this pause; without one there is no
    jitter.
    """
    plain_ms = first_ms * (1 << min(attempts, DOUBLINGS_MAX))
    return min(max_ms, plain_ms * (1 + JITTER * (2 * random - 1)))
