"""The `quorum-state` file: what a Raft voter must not forget between two lives.

A voter that forgot its vote could vote twice in one epoch, so the file is fsynced before a vote or
an epoch leaves the process, and one that cannot be read stops the node rather than counting as a
clean slate. JSON, in one of two versions:

* `data_version` 0 (kraft.version 0, static voters): clusterId, leaderId, leaderEpoch, votedId,
  appliedOffset, currentVoters [{voterId}];
* `data_version` 1 (kraft.version 1, KIP-853): leaderId, leaderEpoch, votedId, votedDirectoryId.

No leader and no vote are -1. The JSON is one line, and Kafka reads no further; behind it we keep a
second one, `crc32c <8 hex digits>`, the checksum of the first, so that a rotten digit is not taken
for a vote. A file without it, such as Kafka writes, is read on trust.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from fencepost.batch.crc import crc32c
from fencepost.log.disk import Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import QUORUM_STATE_FILE
from fencepost.wire.types import Uuid

NOBODY: Final = -1
_INT_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1
_FILE_BYTES_MAX: Final = 1 << 20
_KEYS: Final = {
    0: frozenset(
        {
            "clusterId",
            "leaderId",
            "leaderEpoch",
            "votedId",
            "appliedOffset",
            "currentVoters",
            "data_version",
        }
    ),
    1: frozenset({"leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version"}),
}


@dataclass(frozen=True, slots=True)
class StoredQuorumState:
    """Content of the file; `voters` only in version 0, `voted_directory_id` only in version 1."""

    leader_epoch: int
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: Uuid = Uuid.ZERO
    voters: tuple[int, ...] = ()
    data_version: int = 1

    def encode(self) -> bytes:
        """The file's content, keys in Kafka's order."""
        content: dict[str, Any]
        if self.data_version == 0:
            content = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
            }
        else:
            content = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": str(self.voted_directory_id),
            }
        content["data_version"] = self.data_version
        line = json.dumps(content, separators=(",", ":")).encode()
        return line + b"\ncrc32c %08x\n" % crc32c(line)


class QuorumStateFile:
    """Reads and replaces the `quorum-state` of one directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{QUORUM_STATE_FILE}"

    def read(self) -> StoredQuorumState | None:
        """The state, or None if none was ever written. CorruptFileError, OSError."""
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return None
        return decode_quorum_state(self.path, data)

    def write(self, state: StoredQuorumState) -> None:
        """Replace the state; durable when this returns. OSError."""
        self._disk.write_atomic(self.path, state.encode())


def decode_quorum_state(path: str, data: bytes) -> StoredQuorumState:
    """The content of the file at `path`. CorruptFileError."""
    if len(data) > _FILE_BYTES_MAX:
        raise CorruptFileError(path, f"has {len(data)} bytes, more than {_FILE_BYTES_MAX}")
    line, newline, rest = data.partition(b"\n")
    if newline and rest and rest != b"crc32c %08x\n" % crc32c(line):
        raise CorruptFileError(path, "does not have the content its checksum was made of")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, f"is not JSON: {error}") from None
    version = content.get("data_version") if isinstance(content, dict) else None
    if type(version) is not int or version not in _KEYS:
        raise CorruptFileError(path, f"has data_version {version!r}, neither 0 nor 1")
    unknown = sorted(content.keys() - _KEYS[version])
    if unknown:
        raise CorruptFileError(path, f"has unknown keys {unknown}")
    return StoredQuorumState(
        leader_epoch=_number(path, content, "leaderEpoch", 0),
        leader_id=_number(path, content, "leaderId", NOBODY),
        voted_id=_number(path, content, "votedId", NOBODY),
        voted_directory_id=_directory_id(path, content) if version else Uuid.ZERO,
        voters=() if version else _voters(path, content),
        data_version=version,
    )


def _number(path: str, content: dict[str, Any], key: str, least: int, most: int = _INT_MAX) -> int:
    value = content.get(key)
    if type(value) is not int or not least <= value <= most:
        raise CorruptFileError(path, f"{key} is {value!r}")
    return value


def _directory_id(path: str, content: dict[str, Any]) -> Uuid:
    text = content.get("votedDirectoryId", str(Uuid.ZERO))
    try:
        return Uuid.from_string(text)
    except (TypeError, ValueError):
        raise CorruptFileError(path, f"votedDirectoryId is {text!r}") from None


def _voters(path: str, content: dict[str, Any]) -> tuple[int, ...]:
    _number(path, {"appliedOffset": 0, **content}, "appliedOffset", 0, _OFFSET_MAX)
    voters = content.get("currentVoters")
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise CorruptFileError(path, f"currentVoters is {voters!r}")
    return tuple(_number(path, voter, "voterId", 0) for voter in voters)
