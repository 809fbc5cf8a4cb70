"""Why clients are disconnected: the words for it.

Whoever runs the node or wrote the client has to know the reason, so it is logged, as often as
`log_limit` allows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fencepost.broker.net.log_limit import LogLimit, cut

log = logging.getLogger(__name__)

MIN_FRAME_BYTES: Final = 8
"""Api key, version and correlation id: no request is shorter."""

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")


def explain_bytes(start: bytes) -> str:
    """What a client that does not speak Kafka's protocol seems to speak, as a hint, or ''."""
    if start[:4] in _HTTP_METHODS:
        return "; this looks like HTTP, and this port speaks Kafka's protocol only"
    if len(start) >= 2 and start[0] == 0x16 and start[1] == 0x03:
        return "; this looks like a TLS handshake, and this listener is plaintext"
    if start[:4] == b"SSH-":
        return "; this looks like SSH"
    return ""


def explain_length(
    size_bytes: int, limit_bytes: int, start: bytes, key: str = "socket.request.max.bytes"
) -> str:
    """Why a frame cannot have this length, and what its first bytes look like. `key` sets the
    limit."""
    if size_bytes < 0:
        what = f"the frame length {size_bytes} is negative"
    elif size_bytes < MIN_FRAME_BYTES:
        what = f"a frame of {size_bytes} bytes is too short for a request header"
    else:
        what = f"a frame of {size_bytes} bytes is over {key}={limit_bytes}"
    return what + explain_bytes(start)


class DisconnectLog:
    """Logs why clients were disconnected, not more often than `log_limit` says."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = LogLimit(clock)

    def note(self, client: object, reason: str) -> None:
        """The client is disconnected for `reason`."""
        left_out = self._limit.admit()
        if left_out is None:
            return
        more = f" ({left_out} more were closed since the last line)" if left_out else ""
        log.info("closing %s: %s%s", client, cut(reason), more)
