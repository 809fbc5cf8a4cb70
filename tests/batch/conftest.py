"""Every test of this package runs on each backend there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.batch import backend

COMPILED = backend.kernels
BACKENDS = ["python"] if COMPILED is None else ["c", "python"]


@pytest.fixture(params=BACKENDS, scope="module", autouse=True)
def backend_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the tests of a module on one backend after the other."""
    backend.kernels = COMPILED if request.param == "c" else None
    yield request.param
    backend.kernels = COMPILED
