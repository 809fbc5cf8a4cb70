"""The index of rules in ARCHITECTURE: every file and name in it exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from .in_turn import in_turn

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "fencepost"
ROW = re.compile(r"^\| ([^|]+) \| `([\w/]+\.py)` \| ([^|]+) \|$", re.MULTILINE)


def section(text: str) -> str:
    """The part of ARCHITECTURE that is the index."""
    begin = text.index("## Where is the rule?")
    end = text.find("\n## ", begin + 1)
    return text[begin : end if end >= 0 else None]


INDEX = section((ROOT / "docs" / "ARCHITECTURE.md").read_text())
RULES = ROW.findall(INDEX)


@functools.cache
def defined(path: Path) -> set[str]:
    """Names of a module: functions, classes, constants, and what classes have."""
    names: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(prefix + node.name)
            elif isinstance(node, ast.ClassDef):
                names.add(prefix + node.name)
                add(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        names.add(prefix + target.id)

    add(ast.parse(path.read_text()).body, "")
    return names


def test_every_line_of_the_index_is_read() -> None:
    lines = [line for line in INDEX.splitlines() if line.startswith("| ") and "`" in line]
    assert len(RULES) == len(lines) > 20


def test_no_rule_is_listed_twice() -> None:
    rules = [rule for rule, _, _ in RULES]
    assert len(rules) == len(set(rules))


@in_turn("rule, file, names", RULES)
def test_the_rule_is_where_the_index_says(rule: str, file: str, names: str) -> None:
    path = SOURCES / file
    assert path.is_file(), f"{rule}: there is no {file}"
    named = re.findall(r"`([\w.]+)`", names)
    assert named, f"{rule}: no name is given"
    missing = set(named) - defined(path)
    assert not missing, f"{rule}: {file} has no {sorted(missing)}"
