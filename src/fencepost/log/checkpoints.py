"""Checkpoint files: short text files that are replaced as a whole.

Layout, lines ended by a newline:

    0            the format's version
    <N>          how many entries follow
    <entry>      N times, fields separated by a space

Three of them stand in every log directory, with entries `topic partition offset`:
`recovery-point-offset-checkpoint` (everything below is fsynced), `log-start-offset-checkpoint`
(deleted below) and `replication-offset-checkpoint` (the high watermark). A partition's
`leader-epoch-checkpoint` has entries `epoch startOffset`.

They carry no checksum. What is malformed is refused with CorruptFileError; a digit that
changed into another is for the reader of the file to catch against the log.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fencepost.log.disk import Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import is_valid_topic

log = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

_VERSION: Final = b"0"
_NUMBER: Final = rb"[0-9]{1,19}"
_NUMBER_MAX: Final = (1 << 63) - 1


def encode_lines(lines: Iterable[str]) -> bytes:
    """The content of a checkpoint file with these entries."""
    entries = list(lines)
    return "\n".join(["0", str(len(entries)), *entries, ""]).encode()


def decode_lines(path: str, data: bytes) -> list[list[bytes]]:
    """The entries of a checkpoint file, each split into its fields. CorruptFileError."""
    lines = data.split(b"\n")
    if len(lines) < 3 or lines[-1] != b"":
        raise CorruptFileError(path, "is cut short")
    if lines[0] != _VERSION:
        raise CorruptFileError(path, f"has version {lines[0][:20]!r}, not 0")
    expected = parse_number(path, lines[1])
    if expected != len(lines) - 3:
        raise CorruptFileError(path, f"promises {expected} entries and has {len(lines) - 3}")
    return [line.split() for line in lines[2:-1]]


def parse_number(path: str, text: bytes) -> int:
    """A number from 0 up, in at most 64 bits with sign. CorruptFileError."""
    if re.fullmatch(_NUMBER, text) is None or int(text) > _NUMBER_MAX:
        raise CorruptFileError(path, f"has {text[:40]!r} in place of a number")
    return int(text)


class OffsetCheckpoint:
    """A file of one offset per partition."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file, durably. OSError."""
        lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        self._disk.write_atomic(self._path, encode_lines(lines))

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; none if there is no such file. CorruptFileError, OSError."""
        try:
            data = self._disk.read(self._path)
        except FileNotFoundError:
            return {}
        return decode_offsets(self._path, data)


class KeptCheckpoint:
    """One checkpoint file and what it says; it may be written by several threads."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._lock = threading.Lock()
        self._file = OffsetCheckpoint(disk, path)
        try:
            self.offsets = self._file.read()
            self._is_known = True
        except CorruptFileError as error:
            log.warning("starting without a checkpoint: %s", error)
            self.offsets = {}
            self._is_known = False

    def write(self, offsets: dict[TopicPartition, int]) -> None:
        """Replace the file if it says anything else. OSError."""
        with self._lock:
            self._write(offsets)

    def strike(self, key: TopicPartition, is_there: Callable[[TopicPartition], bool]) -> None:
        """Take one partition out, and with it all that are not there any more. OSError.

        So a topic of many partitions that is deleted and created again costs one write.
        """
        with self._lock:
            if key in self.offsets:
                kept = {at: offset for at, offset in self.offsets.items() if is_there(at)}
                kept.pop(key, None)
                self._write(kept)

    def lower(self, key: TopicPartition, offset: int) -> None:
        """Have the file say no more than `offset` of a partition. OSError."""
        with self._lock:
            if self.offsets.get(key, 0) > offset:
                self._write({**self.offsets, key: offset})

    def put(self, key: TopicPartition, offset: int, unless: Callable[[], bool]) -> None:
        """Have the file say `offset` of a partition, unless that is not so any more. OSError."""
        with self._lock:
            if not unless():
                self._write({**self.offsets, key: offset})

    def keep(self, is_there: Callable[[TopicPartition], bool]) -> None:
        """Take out all partitions that are not there. OSError."""
        with self._lock:
            self._write({key: at for key, at in self.offsets.items() if is_there(key)})

    def _write(self, offsets: dict[TopicPartition, int]) -> None:
        if offsets != self.offsets or not self._is_known:
            self._is_known = False  # a write that fails may have replaced the file all the same
            self._file.write(offsets)
            self.offsets = offsets
            self._is_known = True


def decode_offsets(path: str, data: bytes) -> dict[TopicPartition, int]:
    """The content of a file of one offset per partition. CorruptFileError."""
    offsets: dict[TopicPartition, int] = {}
    for fields in decode_lines(path, data):
        if len(fields) != 3:
            raise CorruptFileError(path, f"has a line of {len(fields)} fields, not 3")
        topic = fields[0].decode("ascii", "replace")
        if not is_valid_topic(topic):
            raise CorruptFileError(path, f"has {topic[:80]!r} in place of a topic")
        key = topic, parse_number(path, fields[1])
        if key in offsets:
            raise CorruptFileError(path, f"names {topic}-{key[1]} twice")
        offsets[key] = parse_number(path, fields[2])
    return offsets
