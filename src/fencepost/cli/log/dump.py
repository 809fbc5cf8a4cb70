"""`fencepost log dump`: what is in the files of a data directory."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from fencepost.cli.failures import UsageError, offline_command
from fencepost.cli.log.formats import BYTES_FORMATS, decoder_of
from fencepost.cli.progress import Progress
from fencepost.log.dump import kinds
from fencepost.log.dump.batches import Readable
from fencepost.log.dump.files import PlainFile, dump, files_of
from fencepost.log.dump.items import Item
from fencepost.log.dump.segments import DumpOptions
from fencepost.views.log_dump import view_of_item

EPILOG = """\
FILE is a segment (.log), an index (.index, .timeindex, .txnindex), a producer snapshot (.snapshot),
a snapshot of the metadata log (.checkpoint), a checkpoint file, leader-epoch-checkpoint,
partition.metadata, meta.properties, quorum-state, or a directory of such files. Records of
__cluster_metadata, __consumer_offsets, __transaction_state, __share_group_state and
__remote_log_metadata are decoded.

A line per batch (or entry), with --records one per record as well. Damage is shown where it is met,
and what lies behind it; the exit code is then 1.

examples:
  fencepost log dump data/orders-0/00000000000000000000.log
  fencepost log dump --records --from-offset 120 --limit 5 data/orders-0/*.log
  fencepost log dump --json data/__cluster_metadata-0 | jq 'select(.type == "record")'
  fencepost log dump --as group --records saved/00000000000000000000.log
"""
_COUNTED = ("batch", "entry")
_RECORDS = ("record", "control")


def register_dump(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `fencepost log dump`."""
    parser = actions.add_parser(
        "dump",
        help="what is in segments, indexes, snapshots and checkpoint files",
        description="Show what is in files of a data directory.",
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file or a directory of files")
    parser.add_argument("--as", dest="kind", choices=kinds.KINDS, help="what FILE is")
    parser.add_argument("--records", action="store_true", help="also show the records in batches")
    parser.add_argument(
        "--deep", action="store_true", help="look for damage in records that are not shown, too"
    )
    parser.add_argument(
        "--from-offset", type=int, default=0, metavar="N", help="begin at this offset of segments"
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="of each file at most N batches (with --records: records) or entries",
    )
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-format",
            choices=tuple(BYTES_FORMATS),
            default="text",
            help=f"how a {part} is shown (default: text, or hex where it is none)",
        )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument(
        "--show-secrets",
        action="store_true",
        help="also show users' keys and secret configs, which are [hidden] otherwise",
    )
    parser.set_defaults(run=run_dump)


@offline_command
def run_dump(arguments: argparse.Namespace) -> int:
    """Print the items of all files."""
    if arguments.limit is not None and arguments.limit < 0:
        raise UsageError("--limit is a number from 0 up")
    chosen = [
        (path, arguments.kind or kinds.kind_of(path))
        for given in arguments.files
        for path in files_of(given)
    ]
    for path, kind in chosen:
        if kind is None and os.path.exists(path):
            raise UsageError(f"{path}: its name does not say what it is; --as does")
    damages = 0
    for path, kind in chosen:
        with PlainFile(path) as file:
            assert kind is not None, "or there would be no such file"
            for item in _items(file, path, kind, arguments):
                damages += item.is_damage
                view = view_of_item(item)
                print(view.json_line if arguments.json else view.text_line)
    if damages:
        sys.stdout.flush()
        print(f"fencepost log dump: damage in {damages} places", file=sys.stderr)
    return 1 if damages else 0


def _items(file: PlainFile, path: str, kind: str, arguments: argparse.Namespace) -> Iterator[Item]:
    """The file's heading, and its items as far as --limit goes."""
    size = file.size()
    yield Item("file", {"path": path, "kind": kind, "size_bytes": size})
    options = DumpOptions(
        with_records=arguments.records,
        is_deep=arguments.deep,
        from_offset=arguments.from_offset,
        key_format=BYTES_FORMATS[arguments.key_format],
        value_format=BYTES_FORMATS[arguments.value_format],
        decode=None
        if kind not in kinds.SEGMENT_KINDS[1:]
        else decoder_of(kind, show_secrets=arguments.show_secrets),
    )
    left = arguments.limit
    is_segment = kind in kinds.SEGMENT_KINDS
    counted = _RECORDS if arguments.records and is_segment else _COUNTED
    progress = Progress(size)
    try:
        for item in dump(_Watched(file, progress), path, kind, options):
            if left == 0:
                return
            yield item
            if left is not None and item.type in counted:
                left -= 1
    finally:
        progress.close()


class _Watched:
    """A file whose reads update a progress display."""

    def __init__(self, file: Readable, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def read_at(self, size: int, position: int) -> bytes:
        self._progress.show(position)
        return self._file.read_at(size, position)

    def size(self) -> int:
        return self._file.size()
