"""Java's patterns in RE2; what Java itself says of the same table is asked in tests/interop."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st

from fencepost.arrow.java_regex import PATTERN_MAX, PatternError, matcher

from .java_patterns import CANNOT, EXPRESSED, NAMES, WRONG


@pytest.mark.parametrize("pattern", CANNOT + WRONG)
def test_what_cannot_be_expressed_is_refused(pattern: str):
    with pytest.raises(PatternError):
        matcher(pattern)


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("orders", {"orders", "orders-1", "orders.eu", "orders_eu", "ordersorders"}),
        ("^orders$", {"orders"}),
        ("rders.", {"orders-1", "orders.eu", "orders_eu", "ordersorders"}),
        ("eu$", {"orders.eu", "orders_eu"}),
        ("^[a[bz]]$", {"a", "b", "z"}),
        (r"\Qx.\E", {"x.y"}),
        ("(?<name>a)b", {"ab", "abc"}),
        (r"\p{Upper}", {"Orders", "A1"}),
        (r"^\p{Upper}", {"Orders", "A1"}),
        # In Java a class in a class, of the letters alph and a colon.
        ("^[[:alpha:]]+$", {"a", "aa", "aaa"}),
    ],
)
def test_names_in_which_it_is_found(pattern: str, matched: set[str]):
    assert {name for name in NAMES if matcher(pattern)(name)} == matched


@pytest.mark.parametrize("pattern", EXPRESSED)
def test_what_can_be_expressed_is_compiled(pattern: str):
    matches = matcher(pattern)
    assert {matches(name) for name in NAMES} <= {True, False}


@given(st.text(alphabet="ab[](){}?*+\\^$.|&-,0129pPQEdDxuk<>=!:", max_size=40))
def test_any_pattern_is_compiled_or_refused(pattern: str):
    with contextlib.suppress(PatternError):
        matcher(pattern)("orders")


def test_patterns_are_bounded_and_matched_in_linear_time():
    with pytest.raises(PatternError, match="longer"):
        matcher("a" * (PATTERN_MAX + 1))
    with pytest.raises(PatternError, match="nested"):
        matcher("[a" * 1000)
    assert not matcher("(a+)+b")("a" * 249)  # exponential where one goes back and tries again
