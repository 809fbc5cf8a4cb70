"""Prepares `.venv`: pinned dependencies, the project itself, and a Java runtime for Spark.

With `--docs` also what builds the documentation's site, with `--fuzz` the coverage-guided
fuzzer, with `--release` what makes and checks a release, in versions that agree with the rest.

Run by `make setup` with any Python 3.11 or newer; uses the standard library alone. What has been
done is remembered as a digest in `.venv/.fencepost-setup`, so a second run returns at once; a
changed requirement, build file or extension source makes it redo just what it must.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
OPTIONAL = {name: ROOT / "requirements" / f"{name}.txt" for name in ("docs", "fuzz", "release")}
STAMP = VENV / ".fencepost-setup"


def digest(paths: list[Path]) -> str:
    """One short hash over names and contents of `paths`."""
    state = hashlib.sha256(sys.version.encode())
    for path in sorted(paths):
        state.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]


def native_sources() -> list[Path]:
    """What the C extensions are made of."""
    kinds = ("pyx", "pxi", "pxd", "h")
    return [path for kind in kinds for path in ROOT.glob(f"src/**/*.{kind}")]


def step(name: str, command: list[str], remark: str = "") -> None:
    """Run one step with its name before it and its time after; stop with its exit code.

    `remark` is for the user who waits for it.
    """
    print(f"setup: {name}{f' ({remark})' if remark else ''} ...", flush=True)
    started = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code != 0:
        raise SystemExit(f"setup: {name} failed: {' '.join(command)} exited with {code}")
    print(f"setup: {name} done in {time.monotonic() - started:.0f} s", flush=True)


def tell_backends() -> None:
    """Say whether the C extensions were built, and why not: pip hides what a build prints."""
    environment = {key: value for key, value in os.environ.items() if key != "FENCEPOST_PURE"}
    command = [str(PYTHON), "-m", "fencepost.cli.main", "--version"]
    said = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    for line in said.stdout.splitlines():
        print(f"setup: {line}", flush=True)


def take_archive_away() -> None:
    """Leave Spark's Python processes the installed PySpark alone: Spark would have them load an
    archive of the same modules, which each process compiles again, for half a second."""
    for archive in VENV.glob("lib/python*/site-packages/pyspark/python/lib/pyspark.zip"):
        archive.unlink()


def optional_steps(pip: list[str], have: dict[str, str], wanted: dict[str, str]) -> None:
    """Install what was asked for by an option; what an earlier run installed is remembered."""
    for name, requirements in OPTIONAL.items():
        if f"--{name}" in sys.argv[1:]:
            wanted[name] = digest([requirements])
            if have.get(name) != wanted[name]:
                what = f"pinned dependencies for {name}"
                step(what, [*pip, "--require-hashes", "-r", str(requirements)])
        elif name in have:
            wanted[name] = have[name]


def main() -> None:
    """Bring `.venv` up to date with the pinned requirements, the build and Java."""
    if sys.version_info < (3, 11):
        raise SystemExit(f"Fencepost needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    pip = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--use-pep517",
    ]
    wanted = {
        "requirements": digest([REQUIREMENTS]),
        "build": digest([ROOT / "pyproject.toml", ROOT / "setup.py", *native_sources()]),
    }
    have = dict(line.split() for line in STAMP.read_text().splitlines()) if STAMP.exists() else {}
    if not PYTHON.exists():
        step("virtual environment", [sys.executable, "-m", "venv", str(VENV)])
        have = {}
    if have.get("requirements") != wanted["requirements"]:
        step(
            "pinned dependencies",
            [*pip, "--require-hashes", "-r", str(REQUIREMENTS)],
            "the first time this downloads about 500 MB, most of it Spark",
        )
        have.pop("build", None)
    take_archive_away()
    if have.get("build") != wanted["build"]:
        step(
            "Fencepost itself",
            [*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)],
            "with its C extensions where a compiler is there",
        )
        tell_backends()
    if have.get("java") != "ready" or have.get("requirements") != wanted["requirements"]:
        step("Java for Spark", [str(PYTHON), "-m", "fencepost.spark.java"])
    wanted["java"] = "ready"
    optional_steps(pip, have, wanted)
    STAMP.write_text("".join(f"{name} {value}\n" for name, value in sorted(wanted.items())))


if __name__ == "__main__":
    main()
