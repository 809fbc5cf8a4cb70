"""`fencepost features` against a served broker."""

from __future__ import annotations

import pytest

from .commands import Fencepost


@pytest.fixture
def level(run: Fencepost) -> int:
    """Of metadata.version, as the cluster runs."""
    levels = {one["name"]: one["level"] for one in run("features", "describe", "--json").json}
    return levels["metadata.version"]


def test_a_level_that_is_in_force_is_not_said_to_be_set(run: Fencepost, level: int):
    ran = run("features", "upgrade", f"metadata.version={level}")
    assert ran.code == 0
    assert ran.out.startswith(f"metadata.version is already at {level} (")
    answered = run("features", "upgrade", f"metadata.version={level}", "--json").json
    assert answered == {"levels": {"metadata.version": level}, "changed": [], "done": "set"}


def test_a_level_that_could_be_set_is_told_from_one_in_force(run: Fencepost, level: int):
    words = ("upgrade", "kraft.version=1", f"metadata.version={level}", "--validate-only")
    lines = run("features", *words).lines
    assert lines[0] == "kraft.version could be set to 1"
    assert lines[1].startswith(f"metadata.version is already at {level} (")
    answered = run("features", *words, "--json").json
    assert (answered["changed"], answered["done"]) == (["kraft.version"], "could be set")
