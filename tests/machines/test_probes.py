"""Probes: they count, they list, they forget when told to."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import fencepost
from fencepost.machines import probes


def test_a_probe_counts_its_passages() -> None:
    before = probes.counts().get("test.path", 0)
    probes.probe("test.path")
    probes.probe("test.path")
    assert probes.counts()["test.path"] == before + 2


def test_counts_are_a_copy_in_order_of_names() -> None:
    probes.probe("test.b")
    probes.probe("test.a")
    counted = probes.counts()
    assert list(counted) == sorted(counted)
    counted["test.a"] = -1
    assert probes.counts()["test.a"] > 0


def test_reset_forgets() -> None:
    probes.probe("test.path")
    probes.reset()
    assert probes.counts() == {}


def test_every_probe_in_the_product_is_a_literal_of_its_own() -> None:
    seen: Counter[str] = Counter()
    for path in sorted(Path(fencepost.__file__).parent.rglob("*.py")):
        text = path.read_text()
        if "machines.probes import" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "probe":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: not a literal"
                seen[name.value] += 1
    assert [name for name, times in seen.items() if times > 1] == []
