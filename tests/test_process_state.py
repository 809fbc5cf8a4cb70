"""The guard of the process's state: who leaves something changed fails, and only who does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .waiting import DEADLINE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
LEAVING = {
    "level": "logging.getLogger('fencepost.of.another.test').setLevel(50)",
    "root_level": "logging.getLogger().setLevel(10)",
    "handler": "logging.getLogger('fencepost').addHandler(logging.NullHandler())",
    "propagate": "logging.getLogger('fencepost').propagate = False",
    "disabled": "logging.getLogger('fencepost').disabled = True",
    "new_variable": "os.environ['OF_A_TEST'] = '1'",
    "other_variable": "os.environ['OF_ALL_TESTS'] = 'changed'",
    "no_variable": "del os.environ['OF_ALL_TESTS']",
    "directory": "os.chdir('/')",
    "handler_of_signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "collector": "gc.disable()",
}
CHILD = """
import subprocess, sys

def test_leaving():
    subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

def test_last_of_its_module():
    pass
"""
FILE = """
import os

def test_leaving(tmp_path):
    os.open(tmp_path / "of the test", os.O_CREAT | os.O_RDWR)

def test_last_of_its_module():
    pass
"""
HARMLESS = """
import gc, logging, os, signal, subprocess, sys
import pytest

@pytest.fixture(scope="module")
def of_the_module():
    os.environ["OF_A_MODULE"] = "1"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield
        child.communicate()
    del os.environ["OF_A_MODULE"]

@pytest.fixture(scope="module", autouse=True)
def file_of_the_module(tmp_path_factory):
    with open(tmp_path_factory.mktemp("module") / "file", "w"):
        yield

def test_a_file_that_goes_with_its_object(tmp_path):
    class Holder:
        pass
    one = Holder()
    one.itself, one.file = one, open(tmp_path / "file", "w")

def test_what_lasts_longer_than_a_test(of_the_module):
    pass

def test_what_is_put_back(monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("OF_A_TEST", "1")
    monkeypatch.chdir(tmp_path)
    caplog.set_level(10, logger="fencepost")
    logging.getLogger("fencepost.that.stays.unchanged")
    logging.getLogger("another.family").setLevel(10)
    subprocess.run([sys.executable, "-c", ""], check=True)
"""


def run(directory: Path, tests: str, *, closing_s: float | None = None) -> dict[str, list[str]]:
    """Run tests under the guard, in a process of their own: outcomes by name."""
    conftest = (
        "from tests.conftest import *\nfrom tests.process_state import no_file_is_left_open\n"
    )
    if closing_s is not None:
        conftest += f"import tests.process_state\ntests.process_state.CLOSING_S = {closing_s}\n"
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_it.py").write_text(tests)
    options = ["-v", "-p", "no:cacheprovider", f"--rootdir={directory}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OF_ALL_TESTS": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    found: dict[str, list[str]] = {}
    for name, outcome in re.findall(r"^test_it\.py::test_(\w+) (\w+)", done.stdout, re.MULTILINE):
        found.setdefault(name, []).append(outcome)
    assert found, done.stdout + done.stderr
    return found


def test_what_is_left_behind_fails_its_own_test_and_no_other(tmp_path: Path):
    tests = "import gc, logging, os, signal, subprocess, sys\n"
    expected: dict[str, list[str]] = {}
    for name, leaves in LEAVING.items():
        tests += f"def test_{name}():\n    {leaves}\ndef test_after_{name}():\n    pass\n"
        expected |= {name: ["PASSED", "ERROR"], f"after_{name}": ["PASSED"]}
    assert run(tmp_path, tests) == expected


def test_processes_that_outlive_their_module_fail_it(tmp_path: Path):
    expected = {"leaving": ["PASSED"], "last_of_its_module": ["PASSED", "ERROR"]}
    assert run(tmp_path, CHILD) == expected


def test_files_that_outlive_their_module_fail_it(tmp_path: Path):
    expected = {"leaving": ["PASSED"], "last_of_its_module": ["PASSED", "ERROR"]}
    assert run(tmp_path, FILE, closing_s=0.1) == expected


def test_what_is_put_back_or_lasts_longer_is_nothing_to_fail_for(tmp_path: Path):
    assert set(map(tuple, run(tmp_path, HARMLESS).values())) == {("PASSED",)}
