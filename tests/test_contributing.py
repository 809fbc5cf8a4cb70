"""The exercises of CONTRIBUTING.md are changes to the tree as it is, and their tests pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
SECTION = re.compile(r"^### (A [^\n]*)\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TEST_NAMED = re.compile(r"python -m pytest\s+(tests/[\w/]+\.py)")
EXERCISES = ("A handler", "A config key", "A rule")
TIMEOUT_S = 300


def hunks(block: str) -> Iterator[tuple[str, str, str]]:
    """(path, before, after) of each change in a block; `before` is empty for a new file.

    A change begins at a line `+++ PATH` or `@@`; lines with a space in front are there before and
    after, those with + only after, those with - only before.
    """
    for file in block.split("+++ ")[1:]:
        path, _, body = file.partition("\n")
        for change in body.split("@@\n"):
            lines = [line or " " for line in change.splitlines()]
            before = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
            after = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
            yield path, before, after


def apply(block: str, tree: Path) -> None:
    """Change the files of `tree` as a block says; AssertionError where it does not fit."""
    for path, before, after in hunks(block):
        file = tree / path
        if before:
            text = file.read_text()
            assert text.count(before) == 1, f"{path} has no such lines:\n{before}"
            after = text.replace(before, after)
        file.unlink(missing_ok=True)  # the other name of a file of ours
        file.write_text(after)


def linked(source: str, target: str) -> None:
    """Put a file into a copy of the tree, without its bytes where a hard link is possible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the exercises change and of what they need.

    Sources are hard links, compiled modules too, and `apply` writes no file that has another name;
    the tool that writes tables has copies of the documents.
    """
    made = tmp_path_factory.mktemp("tree")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, made / name, copy_function=linked)
    for name in ("tools", "docs"):
        shutil.copytree(ROOT / name, made / name)
    shutil.copy2(ROOT / "pyproject.toml", made)
    return made


def run(command: list[str], tree: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def sections() -> dict[str, str]:
    return dict(SECTION.findall(PAGE.read_text()))


def test_a_change_is_applied_only_where_it_fits(tmp_path: Path) -> None:
    apply("+++ a.py\n+one\n+three\n", tmp_path)
    apply("+++ a.py\n one\n+two\n three\n", tmp_path)
    assert (tmp_path / "a.py").read_text() == "one\ntwo\nthree\n"
    apply("+++ a.py\n-one\n@@\n-three\n+four\n", tmp_path)
    assert (tmp_path / "a.py").read_text() == "two\nfour\n"
    with pytest.raises(AssertionError, match="no such lines"):
        apply("+++ a.py\n two\n+three\n five\n", tmp_path)


@pytest.mark.slow
def test_the_exercises_can_be_done_in_order(tree: Path) -> None:
    found = sections()
    assert tuple(found) == EXERCISES
    tests: list[str] = []
    for name in EXERCISES:
        blocks = BLOCK.findall(found[name])
        assert blocks
        for block in blocks:
            apply(block, tree)
        tests += TEST_NAMED.findall(found[name])
    assert len(tests) == 2
    assert " passed" in run(["-m", "pytest", "-q", "-n", "0", *tests], tree)
    run(["tools/docs_tables.py"], tree)
    keys = (tree / "docs" / "CONFIGURATION.md").read_text()
    assert "| `fencepost.greeting` | `Hello` | First word of a greeting |" in keys
    assert "| 9000 | Greeting | 0 | 0 |" in (tree / "docs" / "DIFFERENCES.md").read_text()
    assert "fencepost.greeting" not in (ROOT / "docs" / "CONFIGURATION.md").read_text()
