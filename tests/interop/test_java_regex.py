"""Names in which patterns of subscribePattern are found: what Java says is what is said here."""

from __future__ import annotations

from itertools import product

import pytest

from fencepost.arrow.java_regex import matcher

from ..arrow.java_patterns import CANNOT, EXPRESSED, NAMES, WRONG
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def of_java(cases: list[tuple[str, str]]) -> list[str]:
    lines = [f"{pattern}\t{name}" for pattern, name in cases]
    answers = ask(PROGRAMS / "RegexOracle.java", questions=lines).splitlines()
    assert len(answers) == len(cases)
    return answers


def test_the_same_names_match():
    cases = list(product(EXPRESSED, NAMES))
    ours = [str(matcher(pattern)(name)).lower() for pattern, name in cases]
    different = [
        (*case, said) for case, said, mine in zip(cases, of_java(cases), ours) if said != mine
    ]
    assert not different


def test_what_is_refused_is_javas_or_wrong_there_too():
    assert "error" not in of_java([(pattern, "x") for pattern in CANNOT])
    assert set(of_java([(pattern, "x") for pattern in WRONG])) == {"error"}
