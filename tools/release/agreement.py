"""Whether what says the version, and for which Pythons, says the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

CLASSIFIER = "Programming Language :: Python :: 3."


def project(root: Path) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())
    return found


def pythons(root: Path) -> list[str]:
    """The versions of CPython that the package is for, from its classifiers."""
    classifiers = project(root)["project"]["classifiers"]
    found = [one.rpartition(" ")[2] for one in classifiers if one.startswith(CLASSIFIER)]
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def disagreements(root: Path) -> list[str]:
    """Sentences about what does not fit together."""
    found = []
    settings = project(root)
    version = settings["project"]["version"]
    module = re.search(r'^__version__ = "(.+)"$', read(root, "src/fencepost/__init__.py"), re.M)
    if module is None or module[1] != version:
        found.append(f"fencepost.__version__ is {module and module[1]}, not {version}")
    heading = re.search(r"^## ([^\s,]+),? ?(.*)$", read(root, "CHANGELOG.md"), re.M)
    if heading is None or heading[1] != version:
        found.append(f"CHANGELOG.md begins with {heading and heading[1]}, not {version}")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[2]):
        found.append(f"CHANGELOG.md: {version} has no date but {heading[2]!r}")
    wanted = {f"cp{one.replace('.', '')}-*" for one in pythons(root)}
    built = set(settings["tool"]["cibuildwheel"]["build"].split())
    if built != wanted:
        found.append(f"tool.cibuildwheel.build is {sorted(built)}, not {sorted(wanted)}")
    return found


def read(root: Path, name: str) -> str:
    return (root / name).read_text()
