"""Log directories of brokers, with the replicas in them."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.replicas import LogDirState
from fencepost.views.view import View, count, known
from fencepost.wire.errors import error_name


class StoredReplica(View, frozen=True):
    """A replica in a log directory; `future` while it is copied there from another one."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "bytes": "size_bytes",
        "lag": "offset_lag",
        "": "note",
    }

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    future: bool

    @property
    def note(self) -> str:
        return "future" if self.future else ""


class LogDirView(View, frozen=True):
    """A log directory. Bytes are the volume's, None where the broker does not tell."""

    broker: int
    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool
    replicas: list[StoredReplica]

    @classmethod
    def of(cls, broker: int, state: LogDirState) -> LogDirView:
        return cls(
            broker,
            state.path,
            error_name(state.error_code) if state.error_code else None,
            known(state.total_bytes),
            known(state.usable_bytes),
            state.is_cordoned,
            [
                StoredReplica(
                    where.topic, where.partition, one.size_bytes, one.offset_lag, one.is_future
                )
                for where, one in sorted(state.replicas.items())
            ],
        )

    @property
    def condition(self) -> str:
        """ "3 replicas, 20 of 40 MiB free", or why it is offline."""
        if self.error is not None:
            return f"offline: {self.error}"
        words = [count(len(self.replicas), "replica")]
        if self.usable_bytes is not None and self.total_bytes is not None:
            words.append(f"{self.usable_bytes >> 20} of {self.total_bytes >> 20} MiB free")
        if self.cordoned:
            words.append("cordoned")
        return ", ".join(words)
