"""Which directories the demo replaces."""

from __future__ import annotations

import pytest

from fencepost.cli.demo import DemoFailedError, _fresh_directory


def test_only_a_directory_of_an_earlier_demo_is_replaced(tmp_path):
    demo = tmp_path / "demo"
    _fresh_directory(demo)
    (demo / "stale").write_text("old")
    _fresh_directory(demo)
    assert not (demo / "stale").exists()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("mine")
    with pytest.raises(DemoFailedError, match="not empty"):
        _fresh_directory(precious)
    assert (precious / "thesis.tex").read_text() == "mine"
    with pytest.raises(DemoFailedError, match="Not a directory"):
        _fresh_directory(precious / "thesis.tex")
