"""Transaction indexes and producer snapshots against a replay of the log.

The replay begins with the snapshot at the first segment's base offset, or with no producers at
offset 0. Without either, with damage on the way, and where compaction has thinned the log out, it
knows less than those who wrote the files; then only what the batches themselves contradict is held
against them: an entry about a marker that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.log.disk import index_bytes_max
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, offset_file
from fencepost.log.producers import (
    SNAPSHOT_BYTES_MAX,
    ProducerState,
    ProducerStates,
    decode_snapshot,
)
from fencepost.log.replay import note_batch
from fencepost.log.txn_index import TxnIndex
from fencepost.log.verify.facts import PartitionFacts
from fencepost.log.verify.files import Files
from fencepost.log.verify.problems import Problem, Severity, unreadable
from fencepost.wire.records.control import ControlType
from fencepost.wire.records.txn_index import ENTRY_BYTES, AbortedTxn


class TransactionCheck:
    """Sees the batches of a partition, segment by segment."""

    def __init__(
        self, files: Files, directory: str, facts: PartitionFacts, snapshots: list[int]
    ) -> None:
        self._files = files
        self._directory = directory
        self._facts = facts
        self._snapshots = sorted(snapshots)
        self._producers = ProducerStates()
        self._is_blind = False
        """Whether the replay knows less than it should."""
        self._aborted: list[AbortedTxn] = []
        self._markers: dict[int, int] = {}

    def start(self, first_base: int) -> Iterator[Problem]:
        """The log begins here: take over who was known by then."""
        self._producers.clear(first_base)
        self._is_blind = first_base > 0
        while self._snapshots and self._snapshots[0] <= first_base:
            offset = self._snapshots.pop(0)
            entries = self._load(offset)
            if isinstance(entries, Problem):
                yield entries
            elif offset == first_base:
                self._producers.load(entries, offset)
                self._is_blind = False

    def resume(self, base_offset: int) -> None:
        """Go on with a segment from the producers whose snapshot stands at its first offset.

        Without a sound one less is known; the check of the segment in front reports a damaged one.
        """
        self._producers.clear(base_offset)
        self._is_blind = True
        if base_offset in self._snapshots and self._facts.is_settled(base_offset):
            entries = self._load(base_offset)
            if not isinstance(entries, Problem):
                self._producers.load(entries, base_offset)
                self._is_blind = False
        self._snapshots = [offset for offset in self._snapshots if offset > base_offset]

    def open_transactions(self) -> Iterator[ProducerState]:
        """Producers whose transactions have no end yet, if all that went before is known."""
        for state in () if self._is_blind else self._producers.active():
            if state.current_txn_first_offset >= 0:
                yield state

    def lose_sight(self) -> None:
        """Something cannot be read, or is not there any more."""
        self._is_blind = True

    def begin(self) -> None:
        """A segment begins."""
        self._aborted, self._markers = [], {}

    def batch(self, header: BatchHeader, data: bytes | None) -> Iterator[Problem]:
        """A sound batch, in order; `data` of control batches."""
        while self._snapshots and self._snapshots[0] <= header.base_offset:
            yield from self._check_snapshot(self._snapshots.pop(0))
        if header.producer_id < 0:
            return
        if data is not None and _is_abort(data):
            self._markers[header.last_offset] = header.producer_id
        aborted = note_batch(self._producers, header, header.base_offset, data or b"")
        if aborted is not None:
            self._aborted.append(aborted)

    # -- indexes

    def end(self, base_offset: int, log_bytes: int, *, is_settled: bool) -> Iterator[Problem]:
        """The segment ends, which has so many bytes: its index, if it is to be there yet.

        An index that cannot be read is made again; one that can, and says what is not so, is
        believed by every start, and readers are kept from records or given aborted ones.
        """
        if not is_settled:
            return
        path = f"{self._directory}/{offset_file(base_offset, TXN_INDEX_SUFFIX)}"
        try:
            data = self._files.read(path, index_bytes_max(log_bytes))
            index = TxnIndex.decode(path, data, base_offset)
        except FileNotFoundError:
            index = TxnIndex()
        except CorruptFileError as error:
            yield Problem(path, error.position, Severity.WARNING, "txnindex", error.reason)
            return
        except OSError as error:
            yield unreadable(path, "txnindex", error)
            return
        wanted = {one.last_offset: one for one in self._aborted}
        for number, entry in enumerate(index):
            reason = self._reason_against(entry, wanted.pop(entry.last_offset, None))
            if reason is not None:
                position = number * ENTRY_BYTES
                yield Problem(path, position, Severity.ERROR, "txnindex", reason)
        for missing in wanted.values():
            reason = (
                f"lacks the transaction that producer {missing.producer_id} aborted at"
                f" {missing.last_offset}"
            )
            yield Problem(path, None, Severity.ERROR, "txnindex", reason)

    def _reason_against(self, entry: AbortedTxn, wanted: AbortedTxn | None) -> str | None:
        where = f"producer {entry.producer_id} at {entry.last_offset}"
        if self._markers.get(entry.last_offset) != entry.producer_id:
            return None if self._is_blind else f"no transaction was aborted by {where}"
        if self._is_blind:
            return None
        if wanted is None:
            return f"no transaction of {where} was open"
        for name in ("first_offset", "last_stable_offset"):
            said, found = getattr(entry, name), getattr(wanted, name)
            if said != found:
                return f"of {where} the {name.replace('_', ' ')} is {found}, not {said}"
        return None

    # -- snapshots

    def finish(self, end_offset: int, *, is_log_end: bool = True) -> Iterator[Problem]:
        """The log ends here, or what is looked at of it."""
        for offset in self._snapshots:
            if offset <= end_offset:
                yield from self._check_snapshot(offset)
            elif self._facts.is_clean and is_log_end:
                reason = f"is of an offset behind the log's end, {end_offset}"
                yield Problem(self._path(offset), None, Severity.WARNING, "snapshot", reason)
        self._snapshots = []

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_file(offset, SNAPSHOT_SUFFIX)}"

    def _load(self, offset: int) -> list[ProducerState] | Problem:
        path = self._path(offset)
        try:
            return decode_snapshot(path, self._files.read(path, SNAPSHOT_BYTES_MAX))
        except CorruptFileError as error:
            return Problem(path, error.position, Severity.WARNING, "snapshot", error.reason)
        except OSError as error:
            return unreadable(path, "snapshot", error)

    def _check_snapshot(self, offset: int) -> Iterator[Problem]:
        if not self._facts.is_settled(offset):
            return
        entries = self._load(offset)
        if isinstance(entries, Problem):
            yield entries
            return
        if self._is_blind:
            return
        named = set()
        for entry in entries:
            named.add(entry.producer_id)
            reason = _difference(entry, self._producers.get(entry.producer_id))
            if reason is not None:
                text = f"producer {entry.producer_id}: {reason}"
                yield Problem(self._path(offset), None, Severity.WARNING, "snapshot", text)
        for state in self._producers.active():
            # Those without a transaction may have been forgotten for their silence.
            if state.current_txn_first_offset >= 0 and state.producer_id not in named:
                text = f"lacks producer {state.producer_id}, whose transaction is open"
                yield Problem(self._path(offset), None, Severity.WARNING, "snapshot", text)


def _difference(entry: ProducerState, known: ProducerState | None) -> str | None:
    if known is None:
        return "the log does not know it"
    for name in ("producer_epoch", "last_sequence", "last_offset", "current_txn_first_offset"):
        said, found = getattr(entry, name), getattr(known, name)
        if said != found:
            return f"{name.replace('_', ' ')} is {said}, by the log {found}"
    return None


def _is_abort(data: bytes) -> bool:
    try:
        return any(record.type == ControlType.ABORT for record in read_control(data, check=False))
    except BatchError:
        return False
