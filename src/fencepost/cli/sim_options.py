"""What the options of `fencepost sim` may be, and the files that they name.

Work of hours must not end in an error about the file that it was to be written to, so such a file
is tried before anything begins. ValueError and OSError say what is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, Final

JOBS_MAX: Final = 256
FILE_LETTERS_MAX: Final = 1 << 26
"""Of a recording or a scenario."""
_LEAST: Final = {"seeds": 1, "jobs": 1, "first": 0, "replays": 1, "doubts": 0, "states": 1}
_OPTION: Final = {"first": "from"}


def ablation_of(name: str) -> Any:
    """The old bug of that name. ValueError."""
    from fencepost.sim.ablations import ablation_names, load_ablation
    from fencepost.sim.naming import unknown

    try:
        return load_ablation(name)
    except KeyError:
        raise ValueError(unknown("ablation", name, ablation_names())) from None


def rules_of(arguments: argparse.Namespace) -> Any:
    """The product's rules, or with `--ablation` those of an old bug. ValueError."""
    from fencepost.sim.rules import Rules

    return ablation_of(arguments.ablation).rules if arguments.ablation else Rules()


def wrong(error: Exception) -> int:
    """Say what is wrong with the command line or a file; the exit code."""
    text = str(error)
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    print(f"fencepost sim: {text}", file=sys.stderr)
    return 2


def check_numbers(arguments: argparse.Namespace, *names: str) -> None:
    """Whether the options of these names are what they may be; those not given are. ValueError."""
    for name in names:
        value, option = getattr(arguments, name), f"--{_OPTION.get(name, name)}"
        if value is None:
            continue
        if name == "minutes":
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{option} {value}: it is a number of minutes")
        elif value < _LEAST[name]:
            raise ValueError(f"{option} {value}: it is at least {_LEAST[name]}")
        elif name == "jobs" and value > JOBS_MAX:
            raise ValueError(f"{option} {value}: it is at most {JOBS_MAX}")


def check_output(name: str | None) -> None:
    """Whether a file can be written there; what it holds stays. OSError."""
    if name is not None:
        with Path(name).open("a"):
            pass


def read_ledger(name: str | None) -> dict[str, Any]:
    """The ledger that is to be added to; empty if there is none. ValueError, OSError."""
    if name is None or not Path(name).exists():
        return {}
    text = read_file(name)
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: this is no ledger: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}: this is no ledger: no JSON object")
    return found


def read_file(name: str, errors: str = "strict") -> str:
    """The text of a file, if it is one that ends. ValueError, OSError."""
    with Path(name).open(encoding="utf-8", errors=errors) as file:
        text = file.read(FILE_LETTERS_MAX + 1)
    if len(text) > FILE_LETTERS_MAX:
        raise ValueError(f"{name}: it is longer than {FILE_LETTERS_MAX} letters")
    return text
