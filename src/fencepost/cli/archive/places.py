"""Which archive a command is of, and how its store is reached."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fencepost.cli.failures import as_input_errors
from fencepost.cli.stores import add_storage_option, storage_settings

if TYPE_CHECKING:
    from fencepost.arrow.archive.layout import Layout


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add DIR, and the settings of its store."""
    parser.add_argument(
        "directory", metavar="DIR", help="the archive's directory: a path, s3a://, gs://, ..."
    )
    add_storage_option(parser, "DIR")


def layout_of(arguments: argparse.Namespace) -> Layout:
    """The archive in DIR. UsageError, InputError."""
    from fencepost.arrow.archive.layout import ArchiveError, Layout

    with as_input_errors(ArchiveError):
        return Layout(arguments.directory, storage_settings(arguments))
