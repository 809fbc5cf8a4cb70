"""What is built once for all tests of a module, and the modules of tools/release."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def release() -> Iterator[SimpleNamespace]:
    """The modules of tools/release."""
    for name in ("auditwheel", "build"):
        pytest.importorskip(name, reason="pip install '.[release]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        from release import build, contents

        yield SimpleNamespace(build=build, contents=contents)


@pytest.fixture(scope="session")
def sdist(release: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(release.build.build_sdist(tmp_path_factory.mktemp("sdist")))


@pytest.fixture(scope="session")
def wheels(release: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("FENCEPOST_WHEELS") or tmp_path_factory.mktemp("wheels"))


def wheel_of(version: str, wheels: Path, sdist: Path, release: SimpleNamespace) -> Path:
    """The wheel for a Python, which is built if it is not there yet."""
    from ..pythons.interpreters import PythonUnavailableError

    for found in wheels.glob(f"*-cp{version.replace('.', '')}-*.whl"):
        return found
    try:
        return Path(release.build.build_wheel(sdist, version, wheels))
    except PythonUnavailableError as error:
        pytest.skip(str(error))
