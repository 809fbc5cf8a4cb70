"""House rules a formatter cannot check: function length, line length, what sources may name."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples", "tools", "requirements")
FUNCTION_LINES_MAX = 60
LINE_COLUMNS_MAX = 100
# A path of one developer's machine, or an address that only works on one network.
FOREIGN = re.compile(r"(?<![\w.])/(?:work|root|home/\w+)/|https?://[^\s\"']*(?:simple|/packages/)")


def test_there_is_something_to_check():
    assert len(SOURCES) > 20


def test_functions_stay_small():
    long_ones = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long_ones.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {lines}")
    assert not long_ones, f"functions over {FUNCTION_LINES_MAX} lines: {long_ones}"


def test_every_module_says_what_it_is_for():
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


def test_lines_stay_short():
    cython = [path for kind in ("pyx", "pxi") for path in (ROOT / "src").rglob(f"*.{kind}")]
    tracked = [*SOURCES, *cython, *(ROOT / "tests").rglob("*.py")]
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_COLUMNS_MAX
    ]
    assert not wide


def test_sources_name_no_machine_and_no_registry():
    everything = [
        path
        for folder in (*FOLDERS, ".github")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix in {".py", ".pyx", ".pxi", ".md", ".txt", ".yml", ".toml"}
        and path != Path(__file__).resolve()
    ]
    everything += [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob(".*.yaml")]
    named = [str(path.relative_to(ROOT)) for path in everything if FOREIGN.search(path.read_text())]
    assert not named


def test_no_promises_left_open():
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    open_ends = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert not open_ends
