"""Why clients are disconnected: the words for it.

The operator and the author of the client have to know the reason, so it is logged, as often as
`log_limit` allows.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fencepost.broker.net.log_limit import CLIENTS_REMEMBERED, LogLimit, cut

log = logging.getLogger(__name__)

MIN_FRAME_BYTES: Final = 8
"""Api key, version and correlation id: no request is shorter."""

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")


def explain_bytes(start: bytes) -> str:
    """What a client that does not speak Kafka's protocol seems to speak, as a hint, or ''."""
    if start[:4] in _HTTP_METHODS:
        return "; this looks like HTTP, and this port speaks Kafka's protocol only"
    if start[:4] == b"SSH-":
        return "; this looks like SSH"
    return ""


def explain_tls(start: bytes, listener: str) -> str:
    """What to say of a client that begins a TLS handshake where there is no TLS, or ''."""
    if start[:2] != b"\x16\x03":
        return ""
    return (
        f"it begins a TLS handshake, and listener {listener} has no TLS: its security.protocol must"
        " be PLAINTEXT or SASL_PLAINTEXT, or it must connect to another port"
    )


def explain_plain(listener: str) -> str:
    """What to say of a client that sends plain bytes where a TLS handshake is due."""
    return (
        f"it does not begin with a TLS handshake, and listener {listener} has TLS: its"
        " security.protocol must be SSL or SASL_SSL, or it must connect to another port"
    )


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
        # The least recently seen first. A line that was left out is not remembered.
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def note_once(self, client: object, host: str, reason: str) -> None:
        """The same, where a line for each address and reason is enough."""
        key = (host, reason)
        if key in self._told:
            self._told.move_to_end(key)
            return
        if not self.note(client, reason):
            return
        self._told[key] = None
        if len(self._told) > CLIENTS_REMEMBERED:
            self._told.popitem(last=False)

    def note(self, client: object, reason: str) -> bool:
        """The client is disconnected for `reason`; whether that was logged."""
        left_out = self._limit.admit()
        if left_out is None:
            return False
        more = f" ({left_out} more were closed since the last line)" if left_out else ""
        log.info("closing %s: %s%s", client, cut(reason), more)
        return True
