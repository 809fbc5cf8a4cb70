"""Where an archive keeps what: data for everybody, and one directory for itself.

    DIR/topic=orders/date=2026-11-23/p00003-FIRST-LAST-TAG-b00000012.parquet
    DIR/_fencepost/state.json      what is archived (`state`)
                   checkpoint/     the streaming query's
                   staging/        what a batch is writing
                   compaction/     what a compaction is writing, and what it replaced
                   replays/NAME/   what became of a replay

A data file has records of one partition, in order of offsets, from FIRST to LAST; TAG tells topics
of one name apart (eight hex digits made of the topic id). Files appear by rename, so each is there
as a whole. Names that begin with "_" are skipped by Spark, PyArrow and others who read tables by
listing directories. So nobody needs to know more than the listing: what is in a directory of a date
counts, and nothing else does.

A directory's files are replaced by exchanging two directories in one step (renameat2 with
RENAME_EXCHANGE, Linux: ext4, xfs, btrfs, tmpfs). Who has listed the old one gets "no such file" and
reads again; nobody sees a record twice or misses one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

PRIVATE: Final = "_fencepost"
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The date of records without a timestamp, as Spark and Hive name it."""
NO_TAG: Final = "0" * 8
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
    path: Path

    @property
    def directory(self) -> Path:
        return self.path.parent


def tag_of(topic_id: str | None) -> str:
    """What stands for a topic id in names of files."""
    return hashlib.sha256(topic_id.encode()).hexdigest()[:8] if topic_id else NO_TAG


def file_name(partition: int, first: int, last: int, tag: str, origin: str) -> str:
    """`origin`: b and the batch, or c and the id of a compaction."""
    return f"p{partition:05}-{first:020}-{last:020}-{tag}-{origin}.parquet"


class Layout:
    """Paths of one archive, and the locks on it."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self.private = self.directory / PRIVATE
        self.state_path = self.private / "state.json"
        self.checkpoint = self.private / "checkpoint"
        self.staging = self.private / "staging"
        self.compaction = self.private / "compaction"
        self.replays = self.private / "replays"

    def require(self) -> None:
        """ArchiveError unless there is an archive."""
        if not self.state_path.is_file():
            raise ArchiveError(
                f"{self.directory}: no archive: there is no {PRIVATE}/{self.state_path.name}"
            )

    def listing(self) -> tuple[list[DataFile], list[Path]]:
        """The data files in order, and what lies among them and is none. ArchiveError, OSError."""
        self.require()
        files: list[DataFile] = []
        foreign: list[Path] = []
        for place in sorted(self.directory.iterdir()):
            topic = _value(place.name, "topic")
            if place.name.startswith(("_", ".")):
                continue
            if topic is None or not place.is_dir():
                foreign.append(place)
                continue
            for inner in sorted(place.iterdir()):
                date = _value(inner.name, "date")
                if date is None or not inner.is_dir():
                    foreign.append(inner)
                    continue
                for path in sorted(inner.iterdir()):
                    found = data_file(topic, date, path)
                    if found is not None:
                        files.append(found)
                    elif not path.name.startswith((".", "_")):
                        foreign.append(path)
        return sorted(files), foreign

    def file_at(self, path: Path) -> DataFile | None:
        """The data file that has, or will have, a path in this archive."""
        topic = _value(path.parent.parent.name, "topic")
        date = _value(path.parent.name, "date")
        return None if topic is None or date is None else named_file(topic, date, path)

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool, holder: str = "") -> Iterator[None]:
        """A lock that ends with the process that has it. ArchiveError when somebody else has it
        and we do not wait."""
        self.private.mkdir(parents=True, exist_ok=True)
        with (self.private / f"{name}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise ArchiveError(f"{self.directory}: {holder} is running already") from None
            yield

    def clear(self, directory: Path) -> None:
        """Remove what earlier runs left in a private directory."""
        assert directory.parent == self.private, directory
        shutil.rmtree(directory, ignore_errors=True)


def _value(name: str, column: str) -> str | None:
    prefix = f"{column}="
    return unquote(name.removeprefix(prefix)) if name.startswith(prefix) else None


def data_file(topic: str, date: str, path: Path) -> DataFile | None:
    """The data file that a path is, by its name; None where it is none."""
    return named_file(topic, date, path) if path.is_file() else None


def named_file(topic: str, date: str, path: Path) -> DataFile | None:
    """The data file that a path would be, by its name; None where it would be none."""
    match = _FILE.fullmatch(path.name)
    if match is None:
        return None
    partition, first, last, tag, _ = match.groups()
    if int(first) > int(last):
        return None
    return DataFile(topic, date, int(partition), tag, int(first), int(last), path)


def for_spark(path: Path) -> str:
    """A path as Spark takes it: unlike a URI without escapes."""
    return f"file:{path}"


def sync(path: Path) -> None:
    """Have a file or a directory on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """A file that is there as a whole or as it was before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def move_all(moves: Iterable[tuple[Path, Path]]) -> None:
    """Rename files into place; those that were moved before are left alone."""
    places = set()
    for source, target in moves:
        if source.parent not in places or target.parent not in places:
            target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            source.rename(target)
        places |= {source.parent, target.parent}
    for place in places:
        with contextlib.suppress(FileNotFoundError):
            sync(place)


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
