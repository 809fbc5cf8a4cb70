"""Where an archive keeps what: data for everybody, and one directory for itself.

    DIR/topic=orders/date=2026-11-23/p00003-FIRST-LAST-TAG-b00000012.parquet
    DIR/_fencepost/state.json      what is archived (`state`)
                   checkpoint/     the streaming query's
                   staging/        what a batch is writing
                   compaction/     what a compaction is writing, and what it replaced
                   replays/NAME/   what became of a replay

A data file has records of one partition, in order of offsets, from FIRST to LAST; TAG tells topics
of one name apart (eight hex digits made of the topic id). Names that begin with "_" are skipped by
Spark, PyArrow and others who read tables by listing directories. So they need to know no more than
the listing: what is in a directory of a date counts, and nothing else does.

DIR is on a local disk (or what is mounted as one), or in an object store or HDFS (`storage`). On a
local disk files appear by rename, and a directory's files are replaced by exchanging two
directories in one step (renameat2 with RENAME_EXCHANGE, Linux: ext4, xfs, btrfs, tmpfs). A reader
that has listed the old one gets "no such file" and reads again; none sees a record twice or misses
one. Elsewhere files appear one by one, each as a whole, and `state` says how that is kept right.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from fencepost.arrow.storage import LocalStorage, Storage, storage_at, sync

PRIVATE: Final = "_fencepost"
STATE: Final = f"{PRIVATE}/state.json"
CHECKPOINT: Final = f"{PRIVATE}/checkpoint"
STAGING: Final = f"{PRIVATE}/staging"
COMPACTION: Final = f"{PRIVATE}/compaction"
REPLAYS: Final = f"{PRIVATE}/replays"
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The date of records without a timestamp, as Spark and Hive name it."""
NO_TAG: Final = "0" * 8
BUFFER_BYTES: Final = 1024 * 1024
"""What is read at once of a column of a file that is not on a local disk."""
_FILE: Final = re.compile(
    r"p(\d{5,10})-(\d{20})-(\d{20})-([0-9a-f]{8})-(b\d{8,20}|c[0-9a-f]{12})\.parquet"
)
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class ArchiveError(RuntimeError):
    """The archive cannot be read, written or trusted; the text says why and where."""


@dataclass(frozen=True, slots=True, order=True)
class DataFile:
    """A file of records, as its path tells it."""

    topic: str
    date: str
    partition: int
    tag: str
    first: int
    last: int
    path: str
    """From the storage's directory."""
    storage: Storage = field(compare=False, repr=False)
    size: int = field(default=0, compare=False)
    """In bytes."""

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def uri(self) -> str:
        """The file's location, for people."""
        return place_of(self.storage, self.path)

    @contextlib.contextmanager
    def opened(self) -> Iterator[pq.ParquetFile]:
        """For reading, with the checksums of its pages. OSError, ArrowException."""
        buffer_bytes = 0 if isinstance(self.storage, LocalStorage) else BUFFER_BYTES
        with self.storage.open_input(self.path) as source:
            yield pq.ParquetFile(source, page_checksum_verification=True, buffer_size=buffer_bytes)


def place_of(storage: Storage, path: str) -> str:
    """A path as people know it: a local one, or a URI."""
    return storage.path_of(path) if isinstance(storage, LocalStorage) else storage.uri_of(path)


def tag_of(topic_id: str | None) -> str:
    """What stands for a topic id in names of files."""
    return hashlib.sha256(topic_id.encode()).hexdigest()[:8] if topic_id else NO_TAG


def file_name(partition: int, first: int, last: int, tag: str, origin: str) -> str:
    """`origin`: b and the batch, or c and the id of a compaction."""
    return f"p{partition:05}-{first:020}-{last:020}-{tag}-{origin}.parquet"


class Layout:
    """The places of one archive, and the locks on it.

    `directory` is a path or a URI, or a storage that is there; `options` are as for `storage_at`.
    ArchiveError where there can be none.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | Storage,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            storage = (
                directory if isinstance(directory, Storage) else storage_at(directory, options)
            )
        except OSError as error:
            raise ArchiveError(str(error)) from error
        self.storage = storage
        self.options = dict(options or {})
        self._given = storage.uri if isinstance(directory, Storage) else os.fspath(directory)

    def __str__(self) -> str:
        return place_of(self.storage, "")

    @property
    def is_local(self) -> bool:
        return isinstance(self.storage, LocalStorage)

    @property
    def directory(self) -> Path:
        """Of an archive on a local disk. ArchiveError for another."""
        return self.local()

    def local(self, path: str = "") -> Path:
        """A path of an archive on a local disk. ArchiveError for another."""
        if not self.is_local:
            raise ArchiveError(f"{self}: is not on a local disk")
        return Path(self.storage.path_of(path))

    def for_spark(self, path: str = "") -> str:
        """A path as Spark takes it: unlike a URI without escapes."""
        if self.is_local:
            return f"file:{self.storage.path_of(path)}"
        scheme, _, rest = self._given.partition("://")
        base = f"{'s3a' if scheme.lower() in ('s3', 's3n') else scheme}://{rest.rstrip('/')}"
        return f"{base}/{path}" if path else base

    def place(self, path: str) -> str:
        """A path as people know it."""
        return place_of(self.storage, path)

    def require(self) -> None:
        """ArchiveError unless there is an archive. OSError."""
        if not self.storage.exists(STATE):
            raise ArchiveError(f"{self}: no archive: there is no {STATE}")

    def listing(self) -> tuple[list[DataFile], list[str]]:
        """The data files in order, and what is among them and is none. ArchiveError, OSError."""
        self.require()
        files: list[DataFile] = []
        foreign: list[str] = []
        for place, is_directory in self.storage.names().items():
            topic = _value(place, "topic")
            if place.startswith(("_", ".")):
                continue
            if topic is None or not is_directory:
                foreign.append(self.place(place))
                continue
            for inner, is_inner_directory in self.storage.names(place).items():
                if is_inner_directory and _value(inner, "date") is None:
                    foreign.append(self.place(f"{place}/{inner}"))
            for entry in self.storage.list(place):
                found = data_file(self.storage, entry.path, entry.size)
                if found is not None:
                    files.append(found)
                elif not entry.path.rpartition("/")[2].startswith((".", "_")):
                    foreign.append(self.place(entry.path))
        return sorted(files), foreign

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool, holder: str = "") -> Iterator[None]:
        """A lock that ends with the process that has it. ArchiveError when another process has it
        and we do not wait. Stores have no locks: there `state` sees to it that one driver of two
        that do the same succeeds."""
        if not self.is_local:
            yield
            return
        self.local(PRIVATE).mkdir(parents=True, exist_ok=True)
        with self.local(f"{PRIVATE}/{name}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise ArchiveError(f"{self}: {holder} is running already") from None
            yield


def _value(name: str, column: str) -> str | None:
    prefix = f"{column}="
    return unquote(name.removeprefix(prefix)) if name.startswith(prefix) else None


def data_file(storage: Storage, path: str, size: int, topic: str = "") -> DataFile | None:
    """The data file that a path is, by its name; None where it is none. `topic` is of files that
    are not in directories of topics and dates."""
    parts = path.split("/")
    date: str | None = ""
    if not topic:
        if len(parts) < 3:
            return None
        topic, date = _value(parts[-3], "topic") or "", _value(parts[-2], "date")
    match = _FILE.fullmatch(parts[-1])
    if match is None or not topic or date is None:
        return None
    partition, first, last, tag, _ = match.groups()
    if int(first) > int(last):
        return None
    return DataFile(topic, date, int(partition), tag, int(first), int(last), path, storage, size)


def exchange(one: Path, other: Path) -> None:
    """Exchange two directories in one step. ArchiveError where the file system cannot, OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, "renameat2", None)
    code = errno.ENOSYS
    if function is not None:
        done = function(
            _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
        )
        if done == 0:
            sync(one.parent)
            return
        code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EOPNOTSUPP):
        raise ArchiveError(
            f"{one}: this system cannot exchange two directories in one step "
            f"({os.strerror(code)}), and without that readers could see records twice"
        )
    raise OSError(code, os.strerror(code), str(one))
