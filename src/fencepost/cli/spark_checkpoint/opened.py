"""A checkpoint that a command has opened, and the changes that it carries out."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.cli.failures import InputError, as_input_errors
from fencepost.cli.key_values import pairs
from fencepost.cli.output import print_json, print_table_of

if TYPE_CHECKING:
    from fencepost.client.metadata import TopicPartition
    from fencepost.spark.checkpoint_edit import Edit, Opened
    from fencepost.views.checkpoints import CheckpointChange

JSON_BYTES_MAX: Final = 16 * 1024 * 1024


def open_checkpoint(arguments: argparse.Namespace, *, whole: bool = False) -> Opened:
    """The checkpoint of the command line; `whole`: with all files of offsets. UsageError,
    CheckpointError."""
    from fencepost.arrow.storage import storage_at
    from fencepost.spark import checkpoint_edit

    given = pairs(arguments.storage, "--storage")
    return checkpoint_edit.open_checkpoint(storage_at(arguments.checkpoint, given), whole=whole)


def given_offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets by partition, from JSON or a file of it. InputError."""
    from fencepost.arrow.offsets import StreamOffset

    if text.startswith("@"):
        path = Path(text[1:])
        if path.stat().st_size > JSON_BYTES_MAX:
            raise InputError(f"{path}: larger than {JSON_BYTES_MAX} bytes")
        text = path.read_text(encoding="utf-8")
    try:
        offset = StreamOffset.from_json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f'--offsets must be JSON like {{"topic":{{"0":23}}}}: {error}') from error
    if not offset.positions:
        raise InputError("--offsets names no partition")
    return {where: position.offset for where, position in offset.positions.items()}


def carry_out(arguments: argparse.Namespace, opened: Opened, edit: Edit) -> int:
    """Make the changes if that is asked for, and say what they are."""
    from fencepost.spark.checkpoint_edit import require_quiet
    from fencepost.views.checkpoints import CheckpointChange, MovedOffset

    backup = ""
    if arguments.execute:
        if not arguments.force:
            require_quiet(opened.storage, int(time.time() * 1000))
        backup = edit.apply(opened.storage)
    view = CheckpointChange(
        bool(backup),
        [change.path for change in edit.changes],
        opened.storage.uri_of(backup) if backup else None,
        list(edit.warnings),
        [MovedOffset(**asdict(one)) for one in edit.moved],
    )
    if arguments.json:
        print_json(view)
    else:
        _print(view)
    return 0


def _print(view: CheckpointChange) -> None:
    from fencepost.views.checkpoints import MovedOffset

    if view.moved:
        print_table_of(MovedOffset, view.moved)
    for warning in view.warnings:
        print(f"note: {warning}")
    print(view.sentence)


def checkpoint_errors() -> AbstractContextManager[None]:
    """What goes wrong with a checkpoint or a store, as InputError."""
    from fencepost.arrow.checkpoint import CheckpointError
    from fencepost.spark.offset_translation import TranslationError

    return as_input_errors(CheckpointError, TranslationError, OSError)
