"""What is to be in a wheel and in the source distribution, and what is not.

Each check returns findings, sentences that name the file; none means that all is well.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

WHEEL_BYTES_MAX: Final = 6 * 1024 * 1024
SDIST_BYTES_MAX: Final = 4 * 1024 * 1024
EXTENSIONS: Final = (
    "fencepost/batch/_kernels",
    "fencepost/batch/_produce",
    "fencepost/log/_page_cache",
    "fencepost/log/_sync_threads",
    "fencepost/wire/_codec",
    "fencepost/wire/_fetch",
)
PACKAGES: Final = ("fencepost", "pyspark_fencepost")
IN_WHEEL: Final = (
    "fencepost/py.typed",
    "fencepost/cli/demo/flights/spark-pipeline.yml",
    "fencepost/cli/demo/flights/transformations/raw.py",
    "fencepost/cli/pipeline/project/README.md",
    "fencepost/cli/pipeline/project/transformations/raw.py",
)
"""Data beside the modules; modules are compared with the sources."""
IN_SDIST: Final = (
    *("CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.py"),
    "examples/flights/spark-pipeline.yml",
    "src/fencepost/py.typed",
    "src/fencepost/wire/_codec.pyx",
)
NOT_IN_WHEEL: Final = re.compile(r"\.(?:c|h|pyx|pxd|pxi|pyc|pyo)$|(?:^|/)(?:tests?|__pycache__)/")
NOT_IN_SDIST: Final = re.compile(r"\.(?:c|so|pyc|pyo)$|^(?:tests|benchmarks|build)/|__pycache__/")
NOTE: Final = "_not_built.json"


def modules_of(source: Path) -> set[str]:
    """The modules below `source` and the data beside them, as their paths in a wheel."""
    files = (path for package in PACKAGES for path in (source / package).rglob("*"))
    names = {path.relative_to(source).as_posix() for path in files if path.is_file()}
    return {name for name in names if not (name.endswith(".so") or _is_foreign(name))}


def wheel_findings(wheel: Path, modules: set[str], paths: Sequence[str]) -> list[str]:
    """What is wrong with a wheel, of which `modules` are to be in it and `paths` in no file."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        texts = {name: packed.read(name) for name in names}
    found = _size(wheel, WHEEL_BYTES_MAX)
    found += [f"{name}: does not belong into a wheel" for name in names if _is_foreign(name)]
    found += [f"{name}: is missing" for name in sorted({*modules, *IN_WHEEL} - set(names))]
    found += _extensions(names)
    found += _metadata(wheel, texts)
    found += _paths(texts, paths)
    return [f"{wheel.name}: {finding}" for finding in found]


def sdist_findings(sdist: Path, modules: set[str]) -> list[str]:
    """What is wrong with a source distribution of which `modules` are to be in `src`."""
    with tarfile.open(sdist) as packed:
        members = packed.getmembers()
    top = sdist.name.removesuffix(".tar.gz") + "/"
    names = {one.name.removeprefix(top) for one in members if one.isfile()}
    wanted = {*IN_SDIST, *(f"src/{name}" for name in modules)}
    found = _size(sdist, SDIST_BYTES_MAX)
    found += [f"{one.name}: is not below {top}" for one in members if not _is_below(one.name, top)]
    found += [f"{one.name}: is a link or a device" for one in members if _is_special(one)]
    found += [f"{name}: is missing" for name in sorted(wanted - names)]
    found += [
        f"{name}: does not belong into a source distribution"
        for name in sorted(names)
        if NOT_IN_SDIST.search(name) or PurePosixPath(name).name == NOTE
    ]
    return [f"{sdist.name}: {finding}" for finding in found]


def _is_below(name: str, top: str) -> bool:
    return name.startswith(top) or name == top.rstrip("/")


def _is_special(member: tarfile.TarInfo) -> bool:
    return not (member.isfile() or member.isdir())


def _size(archive: Path, bytes_max: int) -> list[str]:
    size = archive.stat().st_size
    return [f"has {size:,} bytes, more than {bytes_max:,}"] if size > bytes_max else []


def _is_foreign(name: str) -> bool:
    top = name.split("/")[0]
    is_ours = top in PACKAGES or top.endswith((".dist-info", ".data"))
    return not is_ours or bool(NOT_IN_WHEEL.search(name)) or PurePosixPath(name).name == NOTE


def _extensions(names: Iterable[str]) -> list[str]:
    built = sorted(name.partition(".")[0] for name in names if name.endswith(".so"))
    found = [f"{name}: was not compiled" for name in EXTENSIONS if name not in built]
    return found + [f"{name}: is no extension of ours" for name in built if name not in EXTENSIONS]


def _metadata(wheel: Path, texts: dict[str, bytes]) -> list[str]:
    version = wheel.name.split("-")[1]
    directory = f"fencepost-{version}.dist-info"
    metadata = texts.get(f"{directory}/METADATA", b"").decode()
    wanted = {
        "Name: fencepost",
        f"Version: {version}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
    }
    found = [f"METADATA: no line {one!r}" for one in sorted(wanted - set(metadata.splitlines()))]
    if f"{directory}/licenses/LICENSE" not in texts:
        found.append(f"{directory}/licenses/LICENSE: is missing")
    return found


def _paths(texts: dict[str, bytes], paths: Sequence[str]) -> list[str]:
    return [
        f"{name}: has the path {path} of the machine that built it"
        for name, text in sorted(texts.items())
        for path in paths
        if path.encode() in text
    ]
