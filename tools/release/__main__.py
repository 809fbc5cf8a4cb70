"""`python -m release`: build the wheels, or all that a release consists of, into `dist`.

python -m release wheels [3.11 ...]     the source distribution, and wheels built from it
python -m release all                   the same, checked and built twice, with a checklist
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.pythons.interpreters import PythonUnavailableError

from .agreement import disagreements, pythons
from .build import ROOT, build_sdist, build_wheel, machine_paths, run
from .contents import modules_of, sdist_findings, wheel_findings

DIST: Final = ROOT / "dist"
SUMS: Final = "SHA256SUMS"


def build_all(versions: list[str]) -> list[Path]:
    """The source distribution and the wheels, in an empty `dist`. SystemExit if a wheel fails."""
    shutil.rmtree(DIST, ignore_errors=True)
    sdist = build_sdist(DIST)
    print(f"{sdist.name}  {sdist.stat().st_size:,} bytes", flush=True)
    built = [sdist]
    for version in versions:
        try:
            wheel = build_wheel(sdist, version, DIST)
        except PythonUnavailableError as error:
            print(f"no wheel: {error}", flush=True)
            continue
        print(f"{wheel.name}  {wheel.stat().st_size:,} bytes", flush=True)
        built.append(wheel)
    return built


def findings(built: list[Path]) -> Iterator[str]:
    """What is wrong with the files."""
    modules = modules_of(ROOT / "src")
    for path in built:
        if path.suffix == ".whl":
            yield from wheel_findings(path, modules, machine_paths())
        else:
            yield from sdist_findings(path, modules)


def differences(built: list[Path]) -> Iterator[str]:
    """Files that come out otherwise when they are built again, in another directory."""
    sdist, *wheels = built
    with tempfile.TemporaryDirectory(prefix="fencepost-again-") as name:
        again = build_sdist(Path(name))
        if again.read_bytes() != sdist.read_bytes():
            yield f"{sdist.name}: a second build has other bytes"
        for wheel in wheels[:1]:  # the others are built in the same way
            cp = wheel.name.split("-")[2]
            other = build_wheel(again, f"{cp[2]}.{cp[3:]}", Path(name))
            if other.read_bytes() != wheel.read_bytes():
                yield f"{wheel.name}: a second build has other bytes"


def tools_findings(built: list[Path]) -> Iterator[str]:
    """What twine and check-wheel-contents say."""
    wheels = [path for path in built if path.suffix == ".whl"]
    run(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=ROOT)
    run(sys.executable, "-m", "check_wheel_contents", *wheels, cwd=ROOT)
    yield from ()


def write_sums(built: list[Path]) -> Path:
    """`SHA256SUMS` as `sha256sum --check` reads it."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (DIST / SUMS).write_text("".join(lines))
    return DIST / SUMS


def make_release() -> None:
    """Build, check, and print the checklist; SystemExit if a check finds something."""
    checks: list[tuple[str, Callable[[list[Path]], Iterator[str]]]] = [
        ("version, changelog and Pythons agree", lambda _: iter(disagreements(ROOT))),
        ("files have what they should, and nothing else", findings),
        ("twine and check-wheel-contents agree", tools_findings),
        ("a second build has the same bytes", differences),
    ]
    built = build_all(pythons(ROOT))
    failed = 0
    for name, check in checks:
        found = list(check(built))
        failed += len(found)
        print(f"[{' ' if found else 'x'}] {name}", flush=True)
        for finding in found:
            print(f"      {finding}", flush=True)
    if failed:
        raise SystemExit(1)
    print(f"[x] {write_sums(built).relative_to(ROOT)} has the digests of {len(built)} files")
    print("[ ] docs/RELEASING.md: what is left to do by hand")


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="python -m release", description="Make a release.")
    parser.add_argument("what", choices=["wheels", "all"])
    parser.add_argument("versions", nargs="*", metavar="3.X", help="Pythons (default: all)")
    arguments = parser.parse_args()
    if arguments.what == "all":
        make_release()
    elif len(build_all(arguments.versions or pythons(ROOT))) == 1:
        raise SystemExit("there is no Python that a wheel could be built for")


if __name__ == "__main__":
    main()
