"""The audit log: who did what to which resource, and what was refused, as one JSON object per line.

Theory of operation
-------------------
Events are recorded while requests are handled, so `record` does no more than count and put a value
into a bounded queue; a thread of its own makes lines of them and writes the file. What does not fit
into the queue, or is more of the same than `AuditRate` takes, is left out and counted, and the
counts are lines, too: a reader sees that something is missing, and how much. A file that cannot be
written costs events, never a client's request; that is logged once for as long as it lasts.

Every line has `time` (ISO 8601, UTC) and `event`, and:

* `authorization`: `principal`, `host`, `listener`, `api`, `operation`, `resource_type`,
  `resource_name`, `allowed`, `rule`.
* `login`: `principal` (null when it failed), `host`, `listener`, `mechanism`, `succeeded`,
  `reason`.
* `left_out`: `count`, `reason`, and of events that were more of the same what they had in common.

No field can hold a password, a token or a record: none is given to it. Names that clients make up
are cut to `TEXT_MAX` characters before they are kept. The lines are ASCII: a name with characters
that some programs take for the end of a line, or some terminals for a command, has none here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fencepost.broker.security.audit_file import RotatedFile
from fencepost.broker.security.audit_rate import OTHERS, AuditRate, Kind
from fencepost.runtime.requests.audit import UNTOLD, AuditEvent, LoginEvent, Tally

log = logging.getLogger(__name__)

QUEUE_MAX: Final = 10_000
BATCH_MAX: Final = 1_000
TEXT_MAX: Final = 1_024
WAKE_EVERY_S: Final = 5.0
"""So long after the end of a minute its counts may come, if nothing else happens."""


_Item = AuditEvent | LoginEvent | dict[Kind, int] | int
"""An event; what was counted in a minute; or how many events the queue had no room for."""


class AuditLog:
    """Takes events from any thread and never blocks for long; see the module."""

    def __init__(
        self,
        file: RotatedFile,
        rate: AuditRate,
        wall_ms: Callable[[], int],
        *,
        tells_allowed: bool = True,
    ) -> None:
        """`tells_allowed` is False for a log of refusals and logins alone."""
        self._file = file
        self._rate = rate
        self._wall_ms = wall_ms
        self._tells_allowed = tells_allowed
        self._queue: deque[_Item] = deque()
        self._overflow = 0
        self._lost = 0
        self._ready = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="fencepost-audit", daemon=True)

    def start(self) -> None:
        """Open the file and begin to write. OSError if it cannot be opened: a node that is to be
        audited does not run without."""
        self._file.open()
        self._thread.start()

    def record(self, event: AuditEvent) -> Tally | None:
        """See `AuditSink`."""
        if event.allowed and not self._tells_allowed:
            return UNTOLD
        if len(event.resource_name) + len(event.principal) + len(event.rule) > TEXT_MAX:
            event = event._replace(
                principal=event.principal[:TEXT_MAX],
                resource_name=event.resource_name[:TEXT_MAX],
                rule=event.rule[:TEXT_MAX],
            )
        kind = Kind(
            event.principal, event.resource_type, event.resource_name, event.api, event.allowed
        )
        return self._take(event, kind)

    def record_login(self, event: LoginEvent) -> None:
        """Take a login. Many that fail from one address are more of the same."""
        if event.principal is not None:
            event = event._replace(principal=event.principal[:TEXT_MAX])
        event = event._replace(reason=event.reason[:TEXT_MAX])
        who = event.principal or f"from {event.host}"
        self._take(event, Kind(who, "", event.listener, event.mechanism, event.succeeded))

    def close(self) -> None:
        """Write what is there, and end."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _take(self, event: AuditEvent | LoginEvent, kind: Kind) -> Tally | None:
        """Keep the event, or count it; where further ones of the kind are only counted, if so."""
        with self._ready:
            ended = self._rate.ended(event.time_ms)
            if ended is not None:
                self._queue.append(ended)  # at most one a minute
            is_taken, tally = self._rate.takes(kind, event.time_ms), self._rate.tally(kind)
            if is_taken and len(self._queue) >= QUEUE_MAX:
                self._overflow += 1
            elif is_taken:
                self._queue.append(event)
                if len(self._queue) == 1:
                    self._ready.notify()
            return tally

    # -- the thread ------------------------------------------------------------------------------

    def _serve(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._next_batch()
            while batch:
                self._write(batch)
                batch, is_last = self._next_batch(may_wait=False)
        self._file.close()

    def _next_batch(self, *, may_wait: bool = True) -> tuple[list[_Item], bool]:
        """Up to `BATCH_MAX` items, and whether no more will come."""
        with self._ready:
            if may_wait and not self._queue and not self._closing:
                self._ready.wait(WAKE_EVERY_S)
            counts = (
                self._rate.taken_back() if self._closing else (self._rate.ended(self._wall_ms()))
            )
            if counts:
                self._queue.append(counts)
            batch: list[_Item] = [
                self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))
            ]
            if self._overflow:
                batch.append(self._overflow)
                self._overflow = 0
            return batch, self._closing and not self._queue

    def _write(self, batch: list[_Item]) -> None:
        try:
            lines = [line for item in batch for line in self._lines(item)]
        except Exception:  # or nothing would be written any more
            log.exception("events of the audit log are lost")
            self._lost += len(batch)
            return
        if self._lost:
            lines.append(_line(self._wall_ms(), "left_out", _missing(self._lost, "write failed")))
        try:
            self._file.append(lines)
        except OSError as error:
            if not self._lost:
                log.error("the audit log cannot be written, its events are lost: %s", error)
            self._lost += len(lines) - bool(self._lost)
            return
        if self._lost:
            log.warning("the audit log is written again; %d lines were lost", self._lost)
            self._lost = 0

    def _lines(self, item: _Item) -> Iterator[bytes]:
        if isinstance(item, AuditEvent):
            yield _line(item.time_ms, "authorization", item._asdict())
        elif isinstance(item, LoginEvent):
            yield _line(item.time_ms, "login", item._asdict())
        elif isinstance(item, int):
            yield _line(self._wall_ms(), "left_out", _missing(item, "too many at once"))
        else:
            for kind, count in self._rate.left_out(item).items():
                fields = kind._asdict()
                if kind == OTHERS._replace(principal=kind.principal):
                    fields = {"principal": kind.principal} if kind.principal else {}
                yield _line(
                    self._wall_ms(), "left_out", {**_missing(count, "more of the same"), **fields}
                )


def open_audit_log(get: Callable[[str], Any], wall_ms: Callable[[], int]) -> AuditLog | None:
    """The audit log of a node with these configs, started; None if none is wanted. OSError."""
    path = get("fencepost.audit.log.path")
    if path is None:
        return None
    max_bytes = get("fencepost.audit.log.max.bytes")
    file = RotatedFile(Path(path), max_bytes, get("fencepost.audit.log.files.max"))
    rate = AuditRate(get("fencepost.audit.log.events.per.minute"))
    made = AuditLog(file, rate, wall_ms, tells_allowed=get("fencepost.audit.log.allowed"))
    made.start()
    return made


def _missing(count: int, reason: str) -> dict[str, Any]:
    return {"count": count, "reason": reason}


def _line(time_ms: int, event: str, fields: Mapping[str, Any]) -> bytes:
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    values = {name: value for name, value in fields.items() if name != "time_ms"}
    time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = json.dumps({"time": time, "event": event, **values}, separators=(",", ":"))
    return text.encode("ascii") + b"\n"
