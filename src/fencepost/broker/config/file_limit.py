"""How many files the node may have open (ulimit -n), and what they are for.

Theory of operation
-------------------
The soft limit is raised to the hard one, as Kafka's JVM does (MaxFDLimit). What may be open is then
shared out once, at the start: a part is left free for what is open for a moment only (checkpoints,
recovery, compaction, connections to other nodes), half of the rest is for segment files, half for
connections. Segment files beyond their share are closed, the longest unused first, and opened again
when they are needed; connections beyond theirs are refused. So neither can take what the other
needs, and a node works with far fewer files than it has partitions.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from fencepost.log.segment_cache import FILES_PER_MAX

if TYPE_CHECKING:
    from fencepost.broker.config.broker_config import BrokerConfig

log = logging.getLogger(__name__)

OWN_FILES: Final = 16
"""What a node has open besides: the event loop, listeners, locks, the metadata log."""
KEPT_FREE_MAX: Final = 1024
SPARE_MAX: Final = 16
SEGMENT_FILES_MAX: Final = 1024
"""Segment files that stay open in one log directory although nothing waits for them. Whoever reads
more partitions in turn, again and again, opens a file for each of them every time."""
CONNECTIONS_MIN: Final = 8
SEGMENT_FILES_MIN: Final = 2


class FileLimitError(Exception):
    """The limit of open files is too low for a node."""


class FileShares(Struct, frozen=True):
    """What the files that may be open are for."""

    limit: int
    """RLIMIT_NOFILE."""
    kept_free: int
    """Neither for segments nor for connections."""
    spare: int
    """Of those, how many are held back for files that must be opened; see `Descriptors`."""
    segment_files: int
    """`files_max` of each log directory; see `SegmentCache`."""
    connections: int
    """Connections that may be open, on all listeners together."""

    def connection_count(self) -> ConnectionCount:
        """What a node's listeners count their connections with."""
        return ConnectionCount(self.connections, self.limit, self.kept_free // 2)


class ConnectionCount(Struct):
    """The connections of all listeners of a node, and how many of them its files allow."""

    most: int = sys.maxsize
    limit: int = sys.maxsize
    """RLIMIT_NOFILE, for the words of a refusal."""
    backlog: int = sys.maxsize
    """How many may be accepted at a time, to be refused if they are too many."""
    open: int = 0


def file_limit() -> int:
    """How many files this process may have open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_file_limit() -> int:
    """Allow this process as many open files as it may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # macOS has a limit below "unlimited"
            log.info("the limit of open files stays at %d: %s", soft, error)
    return file_limit()


def share_files(config: BrokerConfig, limit: int) -> FileShares:
    """What so many open files are for, on this node. FileLimitError if they are too few."""
    dirs = len({*map(str, config.log_dirs), str(config.metadata_log_dir)})
    own = _open_now() + OWN_FILES + dirs
    segments_min = dirs * SEGMENT_FILES_MIN * FILES_PER_MAX
    least = own + 8 * max(segments_min, CONNECTIONS_MIN) // 3
    if limit < least:
        raise FileLimitError(
            f"{limit} open files are allowed (ulimit -n), and this node needs {least} at least:"
            " raise the limit (ulimit -n 4096, or LimitNOFILE=4096 in a systemd unit)"
        )
    free = limit - own
    kept_free = min(KEPT_FREE_MAX, free // 4)
    rest = free - kept_free
    segment_files = min(SEGMENT_FILES_MAX, rest // (2 * FILES_PER_MAX * dirs))
    return FileShares(
        limit,
        kept_free,
        min(SPARE_MAX, kept_free // 3),
        segment_files,
        rest - segment_files * FILES_PER_MAX * dirs,
    )


def warn_of_few_files(config: BrokerConfig, shares: FileShares) -> None:
    """Say at the start what the limit will cost."""
    wanted = config.get("max.connections")
    if shares.connections < wanted:
        log.warning(
            "%d open files are allowed (ulimit -n): %d connections are accepted, not"
            " max.connections=%d, and a log directory keeps %d unused segment files open, of %d"
            " at most",
            shares.limit,
            shares.connections,
            wanted,
            shares.segment_files,
            SEGMENT_FILES_MAX,
        )


def _open_now() -> int:
    """How many files this process has open; a guess where the system does not tell."""
    try:
        return len(os.listdir("/dev/fd")) - 1
    except OSError:
        return OWN_FILES
