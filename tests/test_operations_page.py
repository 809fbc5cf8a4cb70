"""The table of log lines in docs/OPERATIONS.md has every line that asks for an operator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "fencepost"
PAGE = ROOT / "docs" / "OPERATIONS.md"
CALLS = {"warning": 0, "error": 0, "critical": 0, "log": 1}
"""Methods of a logger, and which of their arguments is the line."""
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r'^log = logging.getLogger\("(\w+)"\)$', re.MULTILINE)
FORMAT = re.compile(r"%[sdr]")


def calls() -> Iterator[tuple[str, ast.Call]]:
    """(logger, call) of all that a node logs at WARNING or above, or at a level of its own."""
    for package in ("broker", "runtime", "log", "machines"):
        for path in sorted((SOURCES / package).rglob("*.py")):
            text = path.read_text()
            named = NAMED.search(text)
            logger = named[1] if named else ".".join(path.relative_to(SOURCES).parts)[:-3]
            for node in ast.walk(ast.parse(text)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "log"
                    and node.func.attr in CALLS
                ):
                    yield logger, node


def logged() -> set[tuple[str, str]]:
    """(logger, line) of all of them, with `…` for what is filled in."""
    found = set()
    for logger, call in calls():
        assert isinstance(call.func, ast.Attribute)
        line = call.args[CALLS[call.func.attr]]
        assert isinstance(line, ast.Constant), f"{logger}:{call.lineno}: no line of its own"
        assert isinstance(line.value, str)
        found.add((logger, FORMAT.sub("…", line.value)))
    return found


def test_every_line_of_a_warning_or_error_is_in_the_table_and_no_other() -> None:
    text = PAGE.read_text().split("\n## What log lines ask for\n")[1]
    rows = ROW.findall(text)
    listed = {(logger, line) for logger, line, _ in rows}
    assert len(rows) == len(listed)
    code = logged()
    assert len(code) > 60
    assert code - listed == set(), "not in the table"
    assert listed - code == set(), "not in the code any more"
