"""Which voter set, and which kraft.version, was in force from which offset on (KIP-853).

Both are written into the log itself, as VotersRecord and KRaftVersionRecord, and count from the
moment they are appended: a leader needs the new set to know when the new set is committed. So a
truncation may take a set back, and the one before must still be known. Before the first record the
voters are those of the configuration and the level is 0.

A record that came with a snapshot stands at the snapshot's last offset, `end_offset - 1`; one of
the bootstrap snapshot 0-0 at -1.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from fencepost.batch.control import read_control
from fencepost.batch.header import read_header
from fencepost.machines.effects import Buffer
from fencepost.machines.quorum.voters import VoterSet
from fencepost.wire.records.control import KRaftVersionRecord, VotersRecord

BEFORE_THE_LOG = -1
"""The offset of what a bootstrap snapshot says."""

_T = TypeVar("_T")


class VoterHistory:
    """The voter sets and levels along one log. Mutable; a machine owns the one it is given."""

    def __init__(self, static: VoterSet) -> None:
        self._static = static
        self._voters: _Steps[VoterSet] = _Steps()
        self._kraft_versions: _Steps[int] = _Steps()

    @property
    def static(self) -> VoterSet:
        """The voters of the configuration."""
        return self._static

    @property
    def latest(self) -> VoterSet:
        """The voters in force, committed or not."""
        return self._voters.last(self._static)

    @property
    def kraft_version(self) -> int:
        """The level in force, committed or not."""
        return self._kraft_versions.last(0)

    @property
    def latest_offset(self) -> int | None:
        """Where the latest voter set stands; None while they are the configuration's."""
        return self._voters.last_offset

    @property
    def kraft_version_offset(self) -> int | None:
        """Where the latest level stands; None while no record says any."""
        return self._kraft_versions.last_offset

    def at(self, offset: int) -> VoterSet:
        """The voters in force with everything up to and including `offset` in the log."""
        return self._voters.at(offset, self._static)

    def kraft_version_at(self, offset: int) -> int:
        """The level in force with everything up to and including `offset` in the log."""
        return self._kraft_versions.at(offset, 0)

    def note_voters(self, offset: int, voters: VoterSet) -> None:
        """From `offset` on these are the voters.

        ValueError if they are none, if `offset` is not behind the latest one's, or if the two sets
        differ by more than one voter, so that each could elect a leader without the other.
        """
        if not voters.voters:
            raise ValueError(f"the voter set at offset {offset} is empty")
        before = self._voters.last_offset
        if before is not None and before >= 0 and not voters.overlaps(self.latest):
            raise ValueError(
                f"the voter sets at offsets {before} and {offset} differ by more than one voter: "
                f"{list(self.latest.ids)} and {list(voters.ids)}"
            )
        self._voters.add(offset, voters)

    def note_kraft_version(self, offset: int, level: int) -> None:
        """From `offset` on this is the level. ValueError if it falls, or `offset` does."""
        if level < self.kraft_version:
            raise ValueError(
                f"kraft.version falls from {self.kraft_version} to {level} at offset {offset}"
            )
        self._kraft_versions.add(offset, level)

    def take_batch(self, base_offset: int, batch: Buffer) -> bool:
        """Take note of what a batch that stands at `base_offset` says; whether it says anything.

        `batch` is one whole batch whose checksum has been looked at; its own base offset need not
        be final. BatchError for a control batch that cannot be read, ValueError as above.
        """
        header = read_header(batch)
        if not header.is_control:
            return False
        says_anything = False
        for record in read_control(batch, check=False):
            offset = base_offset + record.offset - header.base_offset
            if isinstance(record.value, VotersRecord):
                self.note_voters(offset, VoterSet.from_record(record.value))
            elif isinstance(record.value, KRaftVersionRecord):
                self.note_kraft_version(offset, record.value.kraft_version)
            else:
                continue
            says_anything = True
        return says_anything

    def truncate_to(self, end_offset: int) -> None:
        """Forget what stood at `end_offset` and behind it."""
        self._voters.truncate_to(end_offset)
        self._kraft_versions.truncate_to(end_offset)

    def drop_prefix(self, start_offset: int) -> None:
        """Forget what was no longer in force at `start_offset`."""
        self._voters.drop_prefix(start_offset)
        self._kraft_versions.drop_prefix(start_offset)

    def __repr__(self) -> str:
        offset = self.latest_offset
        where = "configured" if offset is None else f"at offset {offset}"
        return f"VoterHistory({list(self.latest.ids)} {where}, kraft.version {self.kraft_version})"


class _Steps(Generic[_T]):
    """Values by the offset from which each holds, ascending."""

    __slots__ = ("_offsets", "_values")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._values: list[_T] = []

    @property
    def last_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def last(self, default: _T) -> _T:
        return self._values[-1] if self._values else default

    def at(self, offset: int, default: _T) -> _T:
        index = bisect_right(self._offsets, offset)
        return self._values[index - 1] if index else default

    def add(self, offset: int, value: _T) -> None:
        if offset < BEFORE_THE_LOG or (self._offsets and offset <= self._offsets[-1]):
            raise ValueError(f"offset {offset} does not follow {self.last_offset}")
        self._offsets.append(offset)
        self._values.append(value)

    def truncate_to(self, end_offset: int) -> None:
        keep = bisect_right(self._offsets, end_offset - 1)
        del self._offsets[keep:], self._values[keep:]

    def drop_prefix(self, start_offset: int) -> None:
        drop = max(0, bisect_right(self._offsets, start_offset) - 1)
        del self._offsets[:drop], self._values[:drop]
