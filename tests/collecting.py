"""How a run begins: tens of thousands of tests are collected, by each of its workers.

In a new checkout pytest rewrites the assertions of all test modules, which takes four times as long
as everything else that it does to collect them. Workers begin at the same moment, so without what
is here each of them rewrites every module. Instead a worker imports the modules from a place of its
own on, and finds most others rewritten when it gets there: pytest keeps them in __pycache__.

Each worker begins with a part of the tests in their order; one that has done its part takes over
the end of what another has left. A session of Spark takes as long to begin as many tests, so the
modules with tests that share one come first: one worker has them all, and has nearly always done
them before another worker takes over some.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

MARKS_OF_A_MODULE: Final = re.compile(r"^pytestmark = (\[[^\]]*\]|.*)", re.MULTILINE)
MARK: Final = re.compile(r"\bpytest\.mark\.(\w+)")
CONJUNCTION: Final = re.compile(r"(?:not )?\w+(?: and (?:not )?\w+)*")
SESSION: Final = "spark"
"""The fixture of tests/spark/conftest.py."""
COLLECTED_AFTER: Final = 20_000
"""How many more objects there must be before the garbage collector looks for cycles, as in a
broker's process. With Python's 700 it took a twentieth of what tests took."""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """All that is made here lasts as long as the process: the garbage collector neither looks for
    garbage in it now, nor traverses it each time that a test has it collect.
    """
    gc.disable()
    try:
        _import_from_own_place_on(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(COLLECTED_AFTER)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module of which `-m` leaves out every test is not imported: `make test` leaves out 3,700
    tests so, one in seven."""
    return _is_left_out(collection_path, config) or None  # then others may say


def left_out(expression: str) -> frozenset[str]:
    """Markers whose tests an expression of `-m` leaves out, whatever other markers they have."""
    if not CONJUNCTION.fullmatch(expression):
        return frozenset()
    terms = expression.split(" and ")
    return frozenset(term.removeprefix("not ") for term in terms if term.startswith("not "))


def markers_of_all(text: str) -> frozenset[str]:
    """Markers that every test of a module has, from its text."""
    return frozenset(MARK.findall(" ".join(MARKS_OF_A_MODULE.findall(text))))


def _is_left_out(path: Path, config: pytest.Config) -> bool:
    without = left_out(config.option.markexpr)
    if not without or not path.match("test_*.py"):
        return False
    return bool(without & markers_of_all(path.read_text()))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with the modules that share a session of Spark; else the order is pytest's."""
    if not hasattr(config, "workerinput"):
        return
    sharing = {item.path for item in items if SESSION in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in sharing)


def _import_from_own_place_on(config: pytest.Config) -> None:
    """Import what a worker is to collect; other processes collect in pytest's order alone."""
    worker: dict[str, str | int] | None = getattr(config, "workerinput", None)
    if worker is None:
        return
    names = _modules(config)
    number = int(str(worker["workerid"]).removeprefix("gw"))
    begin = len(names) * number // int(worker["workercount"])
    for name in names[begin:] + names[:begin]:
        # What is wrong with it, or why its tests are skipped, is told when pytest imports it.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def _modules(config: pytest.Config) -> list[str]:
    """Names of the test modules in the directories that are asked for, in order."""
    places = (config.invocation_params.dir / argument for argument in config.args)
    paths = [path for place in places for path in sorted(place.rglob("test_*.py"))]
    root = config.rootpath
    return [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in paths
        if path.is_relative_to(root) and not _is_left_out(path, config)
    ]
