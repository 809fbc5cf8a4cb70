"""Lays out the root of a file system that runs Fencepost and has nothing else.

    python rootfs.py INSTALLED ROOT

`INSTALLED` is what `pip install --target` made. Into ROOT go, at the paths that they have here: the
Python that runs this, its standard library without tests and tools, INSTALLED, the shared libraries
that all of these are linked against, and the certificates of authorities. All modules are compiled,
since the file system is read-only when they are used. Needs the standard library and `ldd`.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

USER = 65532
NOT_NEEDED = shutil.ignore_patterns(
    *("__pycache__", "*.a", "config-*", "test", "tests", "idlelib", "tkinter", "turtledemo"),
    *("turtle.py", "ensurepip", "lib2to3", "pydoc_data", "site-packages", "dist-packages"),
    *("_test*.so", "_tkinter*.so", "_ctypes_test*.so", "xxlimited*.so"),
)
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
FILES = {
    "etc/passwd": f"fencepost:x:{USER}:{USER}::/var/lib/fencepost:/nonexistent\n",
    "etc/group": f"fencepost:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
OWNED = ("var/lib/fencepost", "etc/fencepost/certificates")
MOUNTED = ("proc", "dev", "sys")


def put(source: Path, root: Path) -> None:
    """Copy a file to the same path below `root`."""
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy2(source, target)


def elf_files(root: Path) -> Iterator[Path]:
    """Programs and shared libraries below `root`."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def put_libraries(root: Path) -> None:
    """Copy what the programs and libraries below `root` are linked against, the loader included."""
    for path in list(elf_files(root)):
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        for name in LIBRARY.findall(said):
            # At the path by which it is looked for, which may be that of a link.
            target = root / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy2(Path(name).resolve(), target)


def put_python(root: Path) -> None:
    """Copy the interpreter and its standard library."""
    executable = Path(sys.executable).resolve()
    put(executable, root)
    link = root / "usr" / "bin" / "python3"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(executable)
    for name in ("stdlib", "platstdlib"):
        source = Path(sysconfig.get_path(name)).resolve()
        target = root / source.relative_to("/")
        shutil.copytree(source, target, ignore=NOT_NEEDED, dirs_exist_ok=True)


def lay_out(installed: Path, root: Path) -> None:
    """See the module."""
    put_python(root)
    target = root / installed.resolve().relative_to("/")
    shutil.copytree(installed, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("bin", "share"):  # programs that name the Python that built it, manual pages
        shutil.rmtree(target / name, ignore_errors=True)
    for path in target.glob("zstandard/_cffi*.so"):  # of PyPy; CPython has backend_c
        path.unlink()
    put_libraries(root)
    if strip := shutil.which("strip"):
        for path in list(elf_files(root)):
            subprocess.run([strip, "--strip-debug", path], check=True)
    if AUTHORITIES.exists():
        put(AUTHORITIES.resolve(), root)
        put(AUTHORITIES, root)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in OWNED:
        (root / name).mkdir(parents=True, exist_ok=True)
        os.chown(root / name, USER, USER)
    for name in MOUNTED:
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").mkdir(mode=0o1777, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    compiled = compileall.compile_dir(
        root,
        maxlevels=20,
        stripdir=str(root),
        prependdir="/",
        quiet=1,
        workers=1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not compiled:
        raise SystemExit("a module could not be compiled")


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), Path(sys.argv[2]))
