"""`fencepost`: finds the sub-command, loads its module, runs it, returns its exit code.

Exit codes: 0 done; 1 it did not work out (one line on stderr says why); 2 the command line or the
configuration is wrong; 130 interrupted. When the reader of the output has left (`fencepost ... |
head`) it is 1 and nothing is said.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import fencepost
from fencepost.cli.command_line import cluster_options_last, unknown_name, unknown_option
from fencepost.cli.commands import COMMANDS, list_of_commands, print_usage_help
from fencepost.cli.streams import with_standard_streams

COLUMNS_DEFAULT: Final = 80


def version_text() -> str:
    """The version, what is compiled of the codec, of record batches, of Produce and Fetch requests,
    of reads and of flushes, and why what runs in Python does, which is slower."""
    from fencepost.batch import backend as batch_backend
    from fencepost.log import page_cache, sync_threads
    from fencepost.wire import backend as wire_backend

    reasons = {
        "wire": wire_backend.why_python(),
        "batch": batch_backend.why_python(),
        "produce": batch_backend.why_no_produce_kernel(),
        "fetch": wire_backend.why_no_fetch_kernel(),
        "read": page_cache.why_python(),
        "sync": sync_threads.why_python(),
    }
    named = ", ".join(f"{part}: {'python' if why else 'c'}" for part, why in reasons.items())
    lines = [f"fencepost {fencepost.__version__} ({named}; Python {sys.version.split()[0]})"]
    lines += [f"{part} runs in Python, slower: {why}" for part, why in reasons.items() if why]
    return "\n".join(lines)


class _VersionAction(argparse.Action):
    """Like argparse's own version action, but the text is made only when asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        print(version_text())
        parser.exit(0)


def _terminal_columns() -> int:
    """As `shutil.get_terminal_size` has them, which loads what no command needs."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        output = sys.__stdout__
        columns = 0 if output is None else os.get_terminal_size(output.fileno()).columns
    except (ValueError, OSError):  # it is closed, or no terminal
        columns = 0
    return columns or COLUMNS_DEFAULT


class _Formatter(argparse.HelpFormatter):
    """For help as wide as the terminal; parsers make one for each option that they are given."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, **{"width": _terminal_columns() - 2, **settings})


class _RawFormatter(_Formatter, argparse.RawDescriptionHelpFormatter):
    """The same, with the text above and below the options as it stands."""


class _CommandsAction(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Gives the parser of a command the line of help that the table of commands has for it."""

    def add_parser(self, name: str, **settings: Any) -> Any:
        """See argparse. A parser without --help is only the name of a command."""
        if settings.get("add_help", True):
            settings["help"] = next(one.help for one in COMMANDS if one.name == name)
        return super().add_parser(name, **settings)


class _Parser(argparse.ArgumentParser):
    """A parser that says of a command or action that does not exist which one may be meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = action.choices
        if not isinstance(action, argparse._SubParsersAction) or known is None or value in known:
            super()._check_value(action, value)
            return
        is_command = action.dest == "command"
        named = "`fencepost --help` lists them" if is_command else f"there are {', '.join(known)}"
        raise argparse.ArgumentError(None, unknown_name(action.dest, value, known, named))


class _CommandParser(_Parser):
    """A parser that takes a command's optional FILE also behind its options, prints the examples
    below its help as they stand, and refuses options of its own command that do not exist.

    Plain argparse gives all positional words away at the first one that it meets: of
    `produce TOPIC --lines-json FILE` it would not know the last. What no parser knows it has the
    outermost one refuse, with a usage that names no option.
    """

    _is_intermixing = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _RawFormatter, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._is_intermixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        if self._get_positional_actions():
            self._is_intermixing = True  # the method below calls this one twice
            try:
                found, unknown = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._is_intermixing = False
        else:
            found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._about_unknown(unknown))
        return found, unknown

    def _about_unknown(self, words: list[str]) -> str:
        told = f"unrecognized arguments: {' '.join(words)}"
        given = words[0].partition("=")[0]
        if not given.startswith("--"):
            return told
        return f"{told}; {unknown_option(given, self._option_string_actions)}"


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser of the command line.

    It knows the chosen command alone, whose module is loaded; if none is chosen, the names of all.
    """
    names = [command.name for command in COMMANDS] if chosen is None else [chosen]
    return _parser_of(names, is_loaded=chosen is not None)


def build_whole_parser() -> argparse.ArgumentParser:
    """The parser of every command line, for what is written about them; it loads all commands."""
    return _parser_of([command.name for command in COMMANDS], is_loaded=True)


def _parser_of(names: Sequence[str], *, is_loaded: bool) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fencepost",
        description="Kafka's replicated log in Python. `fencepost serve` starts a broker.",
        epilog=list_of_commands(_terminal_columns()) if len(names) > 1 else None,
        formatter_class=_RawFormatter,
    )
    parser.add_argument(
        "--version", action=_VersionAction, nargs=0, help="print the version and the backends"
    )
    subparsers = parser.add_subparsers(
        action=_CommandsAction,
        dest="command",
        metavar="COMMAND",
        parser_class=_CommandParser,
        help="one of those below",
    )
    for command in COMMANDS:
        if command.name in names and is_loaded:
            importlib.import_module(command.module).register(subparsers)
        elif command.name in names:
            subparsers.add_parser(command.name, add_help=False)
    return parser


def chosen_command(argv: Sequence[str]) -> str | None:
    """The first word, if it is a command."""
    names = {command.name for command in COMMANDS}
    return argv[0] if argv and argv[0] in names else None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return the exit code."""
    words = cluster_options_last(sys.argv[1:] if argv is None else argv)
    chosen = chosen_command(words)
    program = "fencepost" if chosen is None else f"fencepost {chosen}"
    return with_standard_streams(lambda: _run(words, chosen), program)


def _run(words: list[str], chosen: str | None) -> int:
    parser = build_parser(chosen)
    arguments = parser.parse_args(words)
    if arguments.command is None:
        return print_usage_help(parser)
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
