"""How commands fail: one line on stderr, exit code 1, or 2 for the command line.

`offline_command` is for those that read and write files (`wire`, `log`, `man`);
`cluster_options.command` for those that talk to a cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator

Run = Callable[[argparse.Namespace], int]


class UsageError(Exception):
    """The command line says something that cannot be; exit code 2."""


class InputError(Exception):
    """The input is not what it should be; the text says where, exit code 1."""


@contextlib.contextmanager
def as_input_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds as InputError, with the same text."""
    try:
        yield
    except kinds as error:
        raise InputError(str(error)) from error


def offline_command(function: Run) -> Run:
    """Have a command's expected errors end it with one line on stderr and the right exit code."""

    @functools.wraps(function)
    def run(arguments: argparse.Namespace) -> int:
        from fencepost.wire.errors import WireError  # `serve` imports this module and not these
        from fencepost.wire.json_form import JsonFormError

        try:
            return function(arguments)
        except UsageError as error:
            return _fail(arguments, error, 2)
        except (InputError, WireError, JsonFormError, OSError) as error:
            return _fail(arguments, error, 1)

    return run


def _fail(arguments: argparse.Namespace, error: Exception, code: int) -> int:
    from fencepost.views.tables import escaped  # for mistakes only

    sys.stdout.flush()
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    words = [arguments.command, getattr(arguments, "action", "")]
    print(f"{' '.join(['fencepost', *filter(None, words)])}: {escaped(text)}", file=sys.stderr)
    return code
