"""Settings of the store that a command reads or writes, such as S3."""

from __future__ import annotations

import argparse

from fencepost.cli.commands import add_repeatable
from fencepost.cli.key_values import pairs


def add_storage_option(parser: argparse.ArgumentParser, place: str) -> None:
    """Add --storage; `place` is the argument that says where."""
    add_repeatable(
        parser,
        "--storage",
        metavar="KEY=VALUE",
        help=f"a setting of {place}'s store, such as endpoint_override=HOST:PORT or region=NAME "
        "(repeatable); spark.hadoop.fs.s3a. settings of --conf count as well",
    )


def storage_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """What --storage gives, over what --conf does. UsageError."""
    given = pairs(getattr(arguments, "conf", ()), "--conf")
    return given | pairs(arguments.storage, "--storage")
