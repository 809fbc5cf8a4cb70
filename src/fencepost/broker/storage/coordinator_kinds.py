"""How this process runs coordinators of every kind: of groups, transactions, share partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.broker.net.log_limit import LimitedLog
from fencepost.broker.storage.cold_reads import ColdReads
from fencepost.broker.storage.decompression import Decompression
from fencepost.machines.coordinator import CoordinatorMachine
from fencepost.runtime.coordinator import CoordinatorKind, RecordCodec

M = TypeVar("M", bound=CoordinatorMachine[Any])


class CoordinatorKinds:
    """Threads load their logs, and decompress large batches; clients cannot fill what they log."""

    def __init__(self, cold_reads: ColdReads, decompression: Decompression) -> None:
        self._cold_reads = cold_reads
        self._decompression = decompression

    def make(
        self,
        make_machine: Callable[[], M],
        codec: RecordCodec[Any],
        notes: LimitedLog,
        *,
        write_timeout_ms: int,
        **settings: Any,
    ) -> CoordinatorKind[M]:
        """The kind whose notes are logged in `notes`, and that has these `settings` besides."""
        return CoordinatorKind(
            make_machine,
            codec,
            write_timeout_ms=write_timeout_ms,
            read=self._cold_reads.read,
            decompress=self._decompression.inline_or_run,
            on_note=notes.info,
            **settings,
        )
