"""Wheels are built, installed into empty environments and tried there (`make packages`).

Nothing but the wheel and what it depends on is in such an environment, all of it built before: a
compiler that is started fails. FENCEPOST_WHEELS=DIR tries the wheels that are there instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from .conftest import wheel_of

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
IMPORT_MS_MAX = 50
"""CPU of `import fencepost.client`, which is 15 on a machine of 2026."""

pytestmark = [pytest.mark.packages, pytest.mark.timeout(3600)]


def run(*command: object, cwd: Path) -> str:
    """What a command prints, where every compiler fails; AssertionError if the command does."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("FENCEPOST_")}
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        clean.pop(name, None)
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, "CC": "false", "CXX": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def installed(version: str, wheel: Path, place: Path) -> Path:
    """The Python of a new environment with the wheel."""
    from ..pythons.interpreters import interpreter

    run(interpreter(version), "-m", "venv", place, cwd=place.parent)
    python = place / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(*pip, "--only-binary", ":all:", wheel, cwd=place)
    return python


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wheel_is_whole_and_works_where_nothing_else_is(
    version: str, release: SimpleNamespace, sdist: Path, wheels: Path, tmp_path: Path
):
    wheel = wheel_of(version, wheels, sdist, release)
    modules = release.contents.modules_of(ROOT / "src")
    assert release.contents.wheel_findings(wheel, modules, release.build.machine_paths()) == []
    run(sys.executable, "-m", "check_wheel_contents", wheel, cwd=ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, cwd=tmp_path)
    python = installed(version, wheel, tmp_path / "environment")
    print(f"\n{wheel.name}, {wheel.stat().st_size:,} bytes")
    print(run(python, ROOT / "tools" / "release" / "try_installed.py", cwd=tmp_path))
    told = run(python, "-m", "fencepost.cli.main", "man", "topics", cwd=tmp_path)
    assert ".SH NAME" in told
    assert "fencepost" in run(
        python, "-m", "fencepost.cli.main", "completion", "bash", cwd=tmp_path
    )
    run(python, "-m", "fencepost.cli.main", "pipeline", "init", "flow", cwd=tmp_path)
    assert (tmp_path / "flow" / "README.md").is_file()
    assert import_ms(python, tmp_path) <= IMPORT_MS_MAX


def import_ms(python: Path, place: Path) -> float:
    """CPU of importing the clients, bytecode being there: the least of five processes."""
    code = "from time import process_time as t; n = t(); import fencepost.client; print(t() - n)"
    least = min(float(run(python, "-c", code, cwd=place)) for _ in range(5)) * 1000
    table = run(python, "-X", "importtime", "-c", "import fencepost.client", cwd=place)
    slowest = sorted(
        re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(fencepost\S*)", table), key=own
    )
    print(f"import fencepost.client: {least:.1f} ms of CPU; slowest of ours: {slowest[-3:]}")
    return least


def own(row: tuple[str, str]) -> int:
    return int(row[0])


def test_the_source_distribution_is_whole_and_builds(
    release: SimpleNamespace, sdist: Path, tmp_path: Path
):
    """As pip builds it where there is no wheel, and no compiler either: all in Python."""
    modules = release.contents.modules_of(ROOT / "src")
    assert release.contents.sdist_findings(sdist, modules) == []
    assert release.build.build_sdist(tmp_path / "again").read_bytes() == sdist.read_bytes()
    run(sys.executable, "-m", "venv", tmp_path / "environment", cwd=tmp_path)
    python = tmp_path / "environment" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(*pip, "--no-binary", "fencepost", "--only-binary", ":other:", sdist, cwd=tmp_path)
    tried = [python, ROOT / "tools" / "release" / "try_installed.py", "--pure"]
    print(run(*tried, cwd=tmp_path))


def test_a_record_within_a_minute_of_typing(
    release: SimpleNamespace, sdist: Path, wheels: Path, tmp_path: Path
):
    """A person without a checkout, on a machine with a Python: each step is timed and printed.

    Nothing is asserted about the clock: what others do on this machine counts, too.
    """
    version = f"3.{sys.version_info.minor}"
    wheel = wheel_of(version, wheels, sdist, release)
    shutil.copy(wheel, tmp_path)
    began = time.monotonic()
    python = installed(version, tmp_path / wheel.name, tmp_path / "environment")
    print(f"\n{time.monotonic() - began:6.2f} s  python -m venv; pip install {wheel.name}")
    print(run(python, ROOT / "tools" / "release" / "try_installed.py", cwd=tmp_path))
    print(f"{time.monotonic() - began:6.2f} s  all together")


@pytest.mark.parametrize("platform", ["linux", "macos"])
def test_other_platforms_are_built_for_every_python(platform: str):
    pytest.importorskip("cibuildwheel", reason="pip install '.[release]'")
    archs = {"linux": ["x86_64", "aarch64"], "macos": ["x86_64", "arm64"]}[platform]
    wanted = set()
    for arch in archs:
        command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers"]
        said = run(*command, "--platform", platform, "--archs", arch, ROOT, cwd=ROOT)
        system = f"manylinux_{arch}" if platform == "linux" else f"macosx_{arch}"
        wanted = {f"cp{version.replace('.', '')}-{system}" for version in VERSIONS}
        assert set(said.split()) == wanted
