"""Interpreters with other versions of PySpark than the one installed, made on first use.

Each is a virtual environment in the cache of jars (`maven`), with PySpark from the package index;
everything else is that of the environment that runs the tests (`environment`).
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pyspark
import pytest

from .maven import ROOT

INSTALL_TIMEOUT_S = 900
REST = (
    "import os, site; "
    "list(map(site.addsitedir, filter(None, os.environ.get('TESTS_REST', '').split(':'))))"
)


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


INSTALLED = minor_of(pyspark.__version__)


def python_with(minor: str) -> str:
    """An interpreter that has this PySpark. Skips where it cannot be installed."""
    if minor == INSTALLED:
        return sys.executable
    base = os.environ.get("FENCEPOST_INTEROP_CACHE")
    tag = f"pyspark-{minor}-python-{sys.version_info.major}.{sys.version_info.minor}"
    place = (Path(base) if base else ROOT / ".cache" / "interop") / tag
    place.parent.mkdir(parents=True, exist_ok=True)
    python = place / "bin" / "python"
    ready = place / "ready"
    with place.with_name(f"{tag}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            venv.create(place, with_pip=True, clear=True)
            command = [python, "-m", "pip", "install", "-q", f"pyspark=={minor}.*"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
            )
            if done.returncode:
                pytest.skip(f"PySpark {minor} cannot be installed: {done.stderr.strip()[-300:]}")
            # Behind its own packages, and in Spark's Python workers, too.
            sites = sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)})
            (Path(sites["purelib"]) / "rest.pth").write_text(f"{REST}\n")
            ready.touch()
        # Each of Spark's Python processes would compile its modules again, and be late (SPARK.md).
        for archive in place.glob("lib/python*/site-packages/pyspark/python/lib/pyspark.zip"):
            archive.unlink()
    return str(python)


def environment() -> dict[str, str]:
    """What such an interpreter needs to find the rest."""
    return {**os.environ, "TESTS_REST": sysconfig.get_paths()["purelib"]}


def answer_of(python: str, module: str, *arguments: str | Path, timeout_s: float) -> dict[str, Any]:
    """What a job says on the last line of its output, as JSON, run by that interpreter."""
    done = subprocess.run(
        [python, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
