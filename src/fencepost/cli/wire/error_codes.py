"""`fencepost wire errors`: Kafka's error codes, their names and what they mean."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import Any

from fencepost.cli.failures import InputError, offline_command
from fencepost.cli.output import add_json_option, print_json, print_table
from fencepost.wire.error_meanings import meaning
from fencepost.wire.errors import ErrorCode, is_retriable

EPILOG = """\
Retriable: the same request may succeed later, by itself or after fresh metadata.

examples:
  fencepost wire errors
  fencepost wire errors 74
  fencepost wire errors fenced_leader_epoch --json
"""


def register_errors(actions: Any) -> None:
    """Add the parser of `fencepost wire errors`."""
    parser = actions.add_parser(
        "errors",
        help="error codes: number, name, meaning",
        description="Kafka's error codes.",
        epilog=EPILOG,
    )
    parser.add_argument("error", nargs="?", metavar="CODE|NAME", help="only this one")
    add_json_option(parser)
    parser.set_defaults(run=list_errors)


@offline_command
def list_errors(arguments: argparse.Namespace) -> int:
    """All error codes, or one."""
    chosen = None if arguments.error is None else _find(arguments.error)
    entries = [_describe(code) for code in ([*ErrorCode] if chosen is None else [chosen])]
    if arguments.json:
        print_json(entries if chosen is None else entries[0])
    else:
        print_table(
            ("code", "name", "retriable", "meaning"),
            [
                (one["code"], one["name"], "yes" if one["retriable"] else "", one["meaning"])
                for one in entries
            ],
        )
    return 0


def _find(text: str) -> ErrorCode:
    names = {code.name.lower(): code for code in ErrorCode}
    wanted = text.lower().replace("-", "_")
    if wanted in names:
        return names[wanted]
    try:
        return ErrorCode(int(text))
    except ValueError:
        pass
    if text.lstrip("-").isdecimal():
        raise InputError(f"no error has the code {text}, only {min(ErrorCode)} to {max(ErrorCode)}")
    near = get_close_matches(wanted, names, n=3, cutoff=0.6)
    near = near or [name for name in names if wanted in name]
    hint = f"; did you mean {' or '.join(names[one].name for one in near)}?" if near else ""
    raise InputError(f"no error is called {text!r}{hint}")


def _describe(code: ErrorCode) -> dict[str, Any]:
    return {
        "code": int(code),
        "name": code.name,
        "retriable": is_retriable(code),
        "meaning": meaning(code),
    }
