"""What the log costs over the disk it is on: appending, reading, recovering, starting, looking up.

    python benchmarks/log/bench.py [--part NAME ...] [--rounds R] [--gb G] [--partitions N]

Parts: append and read (against the same bytes through os.writev and os.pread, interleaved round by
round: the ratio is the figure that travels), recovery (of a log of G GB after a crash, against
reading it), many (N idle partitions: to make, to open after a clean stop and after a crash, memory
and open files, through LogDir and through `fencepost serve`), epochs (look-ups, file), compaction.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.log import epochs, many, recovery, throughput

COMPACTION = Path(__file__).resolve().parent / "compaction.py"


def append(arguments: argparse.Namespace, directory: Path) -> None:
    """Appends, without and with an fsync behind each."""
    rows = [
        throughput.append_row(directory, size, with_sync, arguments.rounds)
        for with_sync in (False, True)
        for size in throughput.BATCH_BYTES
    ]
    print(peers.table(["append", "MB/s", "raw MB/s", "of raw", "us each", "our own us"], rows))


def read(arguments: argparse.Namespace, directory: Path) -> None:
    """Reads from the page cache, of batches known to be sound and for the first time."""
    rows = [
        throughput.read_row(directory, size, is_first, arguments.rounds)
        for is_first in (False, True)
        for size in throughput.BATCH_BYTES
    ]
    print(peers.table(["read, 1 MB at once", "MB/s", "raw MB/s", "of raw"], rows))


def recover(arguments: argparse.Namespace, directory: Path) -> None:
    """A log that a crash left behind."""
    row = recovery.row(directory, arguments.gb, arguments.rounds)
    print(peers.table(["after a crash", "s", "s per GB", "reading alone, s per GB"], [row]))


def many_partitions(arguments: argparse.Namespace, directory: Path) -> None:
    """Idle partitions."""
    headings = ["partitions", "s to make", "s to open", "s after a crash", "MB", "KB each", "files"]
    rows = [
        many.through_log_dir(directory, arguments.partitions),
        many.through_serve(arguments.partitions),
    ]
    print(peers.table(headings, rows))


def epoch_cache(_: argparse.Namespace, __: Path) -> None:
    """The leader-epoch cache."""
    headings = ["epochs", "look-up us", "cut us", "write ms", "read ms", "bytes each"]
    print(peers.table(headings, [epochs.row(count) for count in (10, 1_000, 1_000_000)]))


def compaction(arguments: argparse.Namespace, _: Path) -> None:
    """The cleaner has a script of its own."""
    if importlib.util.find_spec("benchmarks.log.compaction") is None:
        print("compaction: not here")
        return
    subprocess.run([sys.executable, str(COMPACTION)], check=True)


PARTS = {
    "append": append,
    "read": read,
    "recovery": recover,
    "many": many_partitions,
    "epochs": epoch_cache,
    "compaction": compaction,
}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", action="append", choices=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gb", type=float, default=1.0, help="size of the log to recover")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--directory", type=Path, help="on the disk to measure; default: temporary")
    arguments = parser.parse_args()
    for name in arguments.part or PARTS:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
            PARTS[name](arguments, Path(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
