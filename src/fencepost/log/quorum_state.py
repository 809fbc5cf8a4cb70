"""The `quorum-state` file: what a Raft voter must not forget between two lives.

A voter that forgot its vote could vote twice in one epoch, so the file is fsynced before a vote or
an epoch leaves the process, and one that cannot be read stops the node rather than counting as a
clean slate. Its fields and their JSON are `fencepost.wire.records.quorum_state`; here are the file,
and the rules that no type expresses.

The JSON is one line, and Kafka reads no further; behind it we keep a second one,
`crc32c <8 hex digits>`, the checksum of the first, so that a rotten digit is not taken for a vote.
A file without it, such as Kafka writes, is read on trust.
"""

from __future__ import annotations

import json
from typing import Final

from fencepost.batch.crc import crc32c
from fencepost.log.disk import Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import QUORUM_STATE_FILE
from fencepost.wire.records.quorum_state import NOBODY, QuorumStateData, from_file, to_file

_FILE_BYTES_MAX: Final = 1 << 20


class QuorumStateFile:
    """Reads and replaces the `quorum-state` of one directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{QUORUM_STATE_FILE}"

    def read(self) -> QuorumStateData | None:
        """The state, or None if none was ever written. CorruptFileError, OSError."""
        try:
            data = self._disk.read(self.path, _FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        return decode_quorum_state(self.path, data)

    def write(self, state: QuorumStateData, version: int) -> None:
        """Replace the state; durable when this returns. OSError."""
        self._disk.write_atomic(self.path, encode_quorum_state(state, version))


def encode_quorum_state(state: QuorumStateData, version: int) -> bytes:
    """The file's content at this data version, keys in Kafka's order."""
    line = json.dumps(to_file(state, version), separators=(",", ":")).encode()
    return line + b"\ncrc32c %08x\n" % crc32c(line)


def decode_quorum_state(path: str, data: bytes) -> QuorumStateData:
    """The content of the file at `path`, in either version. CorruptFileError."""
    if len(data) > _FILE_BYTES_MAX:
        raise CorruptFileError(path, f"has {len(data)} bytes, more than {_FILE_BYTES_MAX}")
    line, newline, rest = data.partition(b"\n")
    if newline and rest and rest != b"crc32c %08x\n" % crc32c(line):
        raise CorruptFileError(path, "does not have the content its checksum was made of")
    try:
        content = json.loads(line)
        state, _ = from_file(content)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, f"is no quorum state: {error}") from None
    _check(path, state)
    return state


def _check(path: str, state: QuorumStateData) -> None:
    """Refuse numbers that fit their types and still mean nothing."""
    floors = {
        "leader_id": NOBODY,
        "leader_epoch": 0,
        "voted_id": NOBODY,
        "applied_offset": 0,
    }
    for name, least in floors.items():
        if getattr(state, name) < least:
            raise CorruptFileError(path, f"{name} is {getattr(state, name)}")
    for voter in state.current_voters or ():
        if voter.voter_id < 0:
            raise CorruptFileError(path, f"names a voter {voter.voter_id}")
