"""`fencepost completion`: what has a shell complete command lines of `fencepost`.

shtab writes it from the parser of every command. What an option or an argument takes is known by
its metavar: names of files and of directories are completed where one is asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

SHELLS: Final = ("bash", "zsh", "fish")
FILES: Final = frozenset({"FILE", "PATH", "PLAN", "CAPTURE", "SEED|FILE"})
DIRECTORIES: Final = frozenset({"DIR", "CHECKPOINT"})
"""Metavars of what is in the file system."""
EXAMPLES: Final = """\
examples:
  fencepost completion bash > ~/.local/share/bash-completion/completions/fencepost
  fencepost completion zsh > ~/.zfunc/_fencepost     (a directory of zsh's fpath)
  fencepost completion fish > ~/.config/fish/completions/fencepost.fish
  . <(fencepost completion bash)                     (in this shell alone)
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost completion`."""
    parser = subparsers.add_parser(
        "completion",
        description="Print what has a shell complete command lines of fencepost.",
        epilog=EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(completion_script(arguments.shell))
    return 0


def completion_script(shell: str) -> str:
    """The script for one of SHELLS."""
    import shtab

    from fencepost.cli.main import build_whole_parser

    parser = build_whole_parser()
    for action in _actions(parser):
        names = action.metavar if isinstance(action.metavar, tuple) else (action.metavar,)
        # shtab completes what has this attribute; argparse knows no such thing.
        if FILES.intersection(names):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif DIRECTORIES.intersection(names):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
