"""Every test of this package runs on each backend there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.batch import backend

WITHOUT_C_TOO = {"test_crc.py", "test_golden.py", "test_light.py"}
"""Run once more where there are no kernels to take away: what is chosen and imported then."""
COMPILED = backend.kernels
BACKENDS = ["python"] if COMPILED is None else ["c", "python"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """The tests here have been on the backend without C, too, when that runs by itself."""
    if item.path.name not in WITHOUT_C_TOO:
        item.add_marker("same_without_c")


@pytest.fixture(params=BACKENDS, scope="module", autouse=True)
def backend_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the tests of a module on one backend after the other."""
    backend.kernels = COMPILED if request.param == "c" else None
    yield request.param
    backend.kernels = COMPILED
