"""Names that match patterns of subscribePattern: what Java says is what is said here."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from fencepost.spark.java_regex import matcher

from ..spark.java_patterns import CANNOT, EXPRESSED, NAMES, WRONG
from .apache import QUICK_JVM, java

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ORACLE = Path(__file__).parent / "java" / "RegexOracle.java"


def of_java(cases: list[tuple[str, str]]) -> list[str]:
    done = subprocess.run(
        [str(java()), *QUICK_JVM, str(ORACLE)],
        input="".join(f"{pattern}\t{name}\n" for pattern, name in cases),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


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
