"""Modules whose tests are all left out by their markers are not collected, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from .collecting import left_out, markers_of_all
from .in_turn import in_turn

HERE = Path(__file__).parent


@in_turn(
    "expression, without",
    [
        ("", set()),
        ("not long", {"long"}),
        ("slow and not long and not interop", {"long", "interop"}),
        ("not long or slow", set()),
        ("not (long or slow)", set()),
        ("not long and (slow or spark)", set()),
        ("not slow or not long and not spark", set()),
    ],
)
def test_an_expression_leaves_out_what_it_says_of_all_tests(expression, without):
    assert left_out(expression) == without


@in_turn(
    "text, markers",
    [
        ("import pytest\n", set()),
        ("pytestmark = pytest.mark.long\n", {"long"}),
        ("pytestmark = [pytest.mark.slow, pytest.mark.timeout(9)]\n", {"slow", "timeout"}),
        ("pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.spark,\n]\n", {"slow", "spark"}),
        ("class TestIt:\n    pytestmark = pytest.mark.long\n", set()),
        ("@pytest.mark.long\ndef test_it():\n    pass\n", set()),
    ],
)
def test_a_module_says_what_all_of_its_tests_have(text, markers):
    assert markers_of_all(text) == markers


def test_markers_are_read_as_pytest_reads_them(request: pytest.FixtureRequest) -> None:
    """Of every module that this run has collected."""
    for module in {item.getparent(pytest.Module) for item in request.session.items}:
        assert module is not None, "all tests are in modules"
        said = {mark.name for mark in module.own_markers}
        assert markers_of_all(module.path.read_text()) <= said, module.path


def test_most_of_what_needs_apache_kafka_is_left_out() -> None:
    modules = list((HERE / "interop").rglob("test_*.py"))
    marked = [path for path in modules if "interop" in markers_of_all(path.read_text())]
    assert len(marked) > 0.8 * len(modules) > 50
