"""Why clients are hung up on: the words for it, and how often it is worth a line in the log.

Every refusal is a reason for whoever runs the node or wrote the client, so it is logged. But who
connects a thousand times a second to say something senseless must not fill the disk with it: after
`BURST_LINES` the log gets `LINES_PER_S` at most, and the next line says how many were left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

BURST_LINES: Final = 200
LINES_PER_S: Final = 10

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


def explain_length(size_bytes: int, limit_bytes: int, start: bytes) -> str:
    """Why a frame cannot have this length, and what its first bytes look like."""
    if size_bytes < 0:
        what = f"the frame length {size_bytes} is negative"
    elif size_bytes < MIN_FRAME_BYTES:
        what = f"a frame of {size_bytes} bytes is too short for a request header"
    else:
        what = f"a frame of {size_bytes} bytes is over socket.request.max.bytes={limit_bytes}"
    return what + explain_bytes(start)


class Refusals:
    """Logs refusals, not more often than the module says."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines = float(BURST_LINES)
        self._counted_at = clock()
        self._left_out = 0

    def note(self, client: object, reason: str) -> None:
        """The client is hung up on for `reason`."""
        now = self._clock()
        self._lines = min(BURST_LINES, self._lines + (now - self._counted_at) * LINES_PER_S)
        self._counted_at = now
        if self._lines < 1:
            self._left_out += 1
            return
        self._lines -= 1
        if self._left_out:
            log.info(
                "closing %s: %s (%d more were closed since the last line)",
                client,
                reason,
                self._left_out,
            )
            self._left_out = 0
        else:
            log.info("closing %s: %s", client, reason)
