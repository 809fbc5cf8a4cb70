"""The table of sub-commands: name, module, one line of help.

A module is imported only when its command is asked for, so that `fencepost serve` does not pay for
the clients and `fencepost --help` pays for nothing. It must offer `register(subparsers)`, which
adds its parser with `set_defaults(run=function)`; `function(arguments)` returns the exit code.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One sub-command of `fencepost`."""

    name: str
    module: str
    help: str


COMMANDS: tuple[Command, ...] = (
    Command("serve", "fencepost.cli.serve", "run a broker (and its controller) in this process"),
    Command("demo", "fencepost.cli.demo", "flights through a broker and Spark into tables"),
)
