"""The `quorum-state` file: what a Raft voter must not forget between two lives.

A voter that forgot its vote could vote twice in one epoch, so the file is fsynced before a vote or
an epoch leaves the process, and one that cannot be read stops the node rather than counting as a
clean slate. Its fields and their JSON are `fencepost.wire.records.quorum_state`; here are the file,
and the rules that no type expresses.

The JSON is one line, and Kafka reads no further. What stands behind it is ours:

    promised <epoch> <end offset>   only of a voter whose log lost an end that others may count on:
                                    where that end was, until it is there again
    crc32c <8 hex digits>           the checksum of what stands before this line and the newline in
                                    front of it, so that a corrupt digit is not taken for a vote

A file without them, such as Kafka writes, is read on trust.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Struct

from fencepost.batch.crc import crc32c
from fencepost.log.disk import Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import QUORUM_STATE_FILE
from fencepost.wire.records.quorum_state import NO_NODE, QuorumStateData, from_file, to_file

_FILE_BYTES_MAX: Final = 1 << 20
_PROMISED: Final = rb"\npromised ([0-9]{1,10}) ([0-9]{1,19})"
_EPOCH_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1


class StoredQuorumState(Struct, frozen=True):
    """What the file says: Kafka's fields, in which data version of theirs, and what is ours.

    `acknowledged_end` is (epoch, end offset) of a log that lost its end; (0, 0) if it did not.
    """

    state: QuorumStateData
    version: int
    acknowledged_end: tuple[int, int] = (0, 0)


class QuorumStateFile:
    """Reads and replaces the `quorum-state` of one directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{QUORUM_STATE_FILE}"

    def read(self) -> StoredQuorumState | None:
        """The state, or None if none was ever written. CorruptFileError, OSError."""
        try:
            data = self._disk.read(self.path, _FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        return decode_quorum_state(self.path, data)

    def write(self, stored: StoredQuorumState) -> None:
        """Replace the state; durable when this returns. OSError."""
        self._disk.write_atomic(self.path, encode_quorum_state(stored))


def encode_quorum_state(stored: StoredQuorumState) -> bytes:
    """The file's content, keys in Kafka's order."""
    content = to_file(stored.state, stored.version)
    checked = msgspec.json.encode(content)
    if stored.acknowledged_end != (0, 0):
        checked += b"\npromised %d %d" % stored.acknowledged_end
    return checked + b"\ncrc32c %08x\n" % crc32c(checked)


def decode_quorum_state(path: str, data: bytes) -> StoredQuorumState:
    """The content of the file at `path`, in either version. CorruptFileError."""
    if len(data) > _FILE_BYTES_MAX:
        raise CorruptFileError(path, f"has {len(data)} bytes, more than {_FILE_BYTES_MAX}")
    line, _, ours = data.partition(b"\n")
    promised = _decode_ours(path, line, ours) if ours else (0, 0)
    try:
        content = msgspec.json.decode(line)
        state, version = from_file(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptFileError(path, f"is no quorum state: {error}") from None
    _check(path, state)
    return StoredQuorumState(state, version, promised)


def _decode_ours(path: str, line: bytes, ours: bytes) -> tuple[int, int]:
    """What is promised in the lines behind Kafka's; (0, 0) if nothing is. CorruptFileError."""
    promise, separator, checksum = (b"\n" + ours).rpartition(b"\ncrc32c ")
    if not separator or checksum != b"%08x\n" % crc32c(line + promise):
        raise CorruptFileError(path, "does not have the content its checksum was made of")
    if not promise:
        return 0, 0
    found = re.fullmatch(_PROMISED, promise)
    epoch, offset = (int(found[1]), int(found[2])) if found else (_EPOCH_MAX, _OFFSET_MAX + 1)
    if epoch > _EPOCH_MAX or offset > _OFFSET_MAX:
        raise CorruptFileError(path, f"has {promise[:40]!r} behind its first line")
    return epoch, offset


def _check(path: str, state: QuorumStateData) -> None:
    """Refuse numbers that fit their types and still mean nothing."""
    floors = {
        "leader_id": NO_NODE,
        "leader_epoch": 0,
        "voted_id": NO_NODE,
        "applied_offset": 0,
    }
    for name, least in floors.items():
        if getattr(state, name) < least:
            raise CorruptFileError(path, f"{name} is {getattr(state, name)}")
    for voter in state.current_voters or ():
        if voter.voter_id < 0:
            raise CorruptFileError(path, f"names a voter {voter.voter_id}")
