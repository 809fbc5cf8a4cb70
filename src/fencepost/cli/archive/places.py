"""Which archive a command is of, and how its store is reached."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fencepost.cli.failures import InputError
from fencepost.cli.key_values import pair

if TYPE_CHECKING:
    from fencepost.arrow.archive.layout import Layout


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add DIR, and the settings of its store."""
    parser.add_argument(
        "directory", metavar="DIR", help="the archive's directory: a path, s3a://, gs://, ..."
    )
    parser.add_argument(
        "--storage",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of DIR's store, such as endpoint_override=HOST:PORT or region=NAME "
        "(repeatable); spark.hadoop.fs.s3a. settings of --conf count as well",
    )


def layout_of(arguments: argparse.Namespace) -> Layout:
    """The archive in DIR. UsageError, InputError."""
    from fencepost.arrow.archive.layout import ArchiveError, Layout

    given = dict(pair(text, "--conf") for text in getattr(arguments, "conf", ()))
    given |= dict(pair(text, "--storage") for text in arguments.storage)
    try:
        return Layout(arguments.directory, given)
    except ArchiveError as error:
        raise InputError(str(error)) from error
