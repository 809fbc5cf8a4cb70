"""Builds the optional C extensions; everything declarative is in pyproject.toml.

Every module listed here is an accelerator with a pure-Python twin that passes the same tests, so a
machine without a compiler (or with FENCEPOST_PURE_BUILD=1) installs and runs all the same. What was
not built, and why, goes into a note inside the package, which `fencepost --version` reads
(`fencepost.extensions`): an installer hides what a build prints.
"""

import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

SOURCES = [
    "fencepost/batch/_kernels.pyx",
    "fencepost/batch/_produce.pyx",
    "fencepost/log/_page_cache.pyx",
    "fencepost/log/_sync_threads.pyx",
    "fencepost/wire/_codec.pyx",
    "fencepost/wire/_fetch.pyx",
]
MODULES = [source.removesuffix(".pyx").replace("/", ".") for source in SOURCES]
# What modules call most lies in libpython, and may be called there without a stub in between.
COMPILE_ARGS = ["-O3", *(["-fno-plt"] if sys.platform == "linux" else [])]
PACKAGE = Path("src", "fencepost")
NOTE = "_not_built.json"
ANY_INTERPRETER = "any"
REASON_CHARS_MAX = 300
# File descriptor 2 is all threads': with `build_ext --parallel`, one compiler at a time has it.
LISTENING = threading.Lock()


def why_none() -> str:
    """Why no extension is to be built at all; empty when they are."""
    if os.environ.get("FENCEPOST_PURE_BUILD") == "1":
        return "FENCEPOST_PURE_BUILD=1 was set"
    try:
        import Cython.Build  # noqa: F401
    except ImportError:
        return "Cython was not installed"
    return ""


def extensions() -> list[Extension]:
    """The accelerators, or none where they are not wanted."""
    if why_none():
        return []
    from Cython.Build import cythonize

    modules = [
        Extension(
            name,
            [f"src/{source}"],
            depends=[
                str(path)
                for kind in ("*.h", "*.pxi")
                for path in Path("src", source).parent.glob(kind)
            ],
            extra_compile_args=COMPILE_ARGS,
        )
        for name, source in zip(MODULES, SOURCES, strict=True)
    ]
    compiled: list[Extension] = cythonize(modules, language_level=3)
    for module in compiled:
        module.optional = True  # set here: cythonize makes new extensions and forgets this
    return compiled


def write_note(package: Path, interpreter: str, reasons: dict[str, str]) -> None:
    """Note for `interpreter` why modules were not built; no reasons take an earlier note back."""
    path = package / NOTE
    notes = json.loads(path.read_text()) if path.exists() else {}
    notes.pop(ANY_INTERPRETER, None)
    notes[interpreter] = reasons
    notes = {key: found for key, found in notes.items() if found}
    if notes:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notes, indent=1, sort_keys=True) + "\n")
    else:
        path.unlink(missing_ok=True)


@contextmanager
def compiler_output() -> Iterator[list[str]]:
    """Shows what compilers print, as ever, and has the lines in a list afterwards."""
    lines: list[str] = []
    sys.stderr.flush()
    with LISTENING, tempfile.TemporaryFile() as captured:
        shown = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            yield lines
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
            captured.seek(0)
            text = captured.read().decode(errors="replace")
            lines += text.splitlines()
            sys.stderr.write(text)


def first_error(lines: list[str], otherwise: object) -> str:
    """The compiler's own first error, in one line that is not too long."""
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    reason = " ".join((errors[0] if errors else str(otherwise)).split())
    return reason[:REASON_CHARS_MAX]


def tell(text: str) -> None:
    """Say how far it is, where an installer shows that: `pip install -v` does."""
    print(f"fencepost: {text}", file=sys.stderr, flush=True)


class BuildExtensions(build_ext):
    """Goes on without an extension that cannot be compiled, and notes why."""

    def run(self) -> None:
        self.not_built: dict[str, str] = {}
        if self.extensions:
            tell(
                f"compiling {len(self.extensions)} C extensions, half a minute of CPU;"
                " FENCEPOST_PURE_BUILD=1 does without them: everything works then, but slower"
            )
        super().run()
        package = PACKAGE if self.inplace else Path(self.build_lib, "fencepost")
        if not self.extensions:
            write_note(package, ANY_INTERPRETER, dict.fromkeys(MODULES, why_none()))
            return
        for name in self.not_built if self.inplace else ():
            # Of an earlier build, and not what the sources say now.
            Path("src", self.get_ext_filename(name)).unlink(missing_ok=True)
        write_note(package, sysconfig.get_config_var("SOABI"), self.not_built)

    def build_extension(self, ext: Extension) -> None:
        lines: list[str] = []
        began = time.monotonic()
        try:
            with compiler_output() as lines:
                super().build_extension(ext)
            tell(f"{ext.name} is built ({time.monotonic() - began:.0f} s)")
        except (CCompilerError, BaseError) as error:
            self.not_built[ext.name] = first_error(lines, error)
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise  # setuptools warns, and goes on because the extension is optional


class BuildPython(build_py):
    """Puts the demo's pipeline, which lives in examples/, beside the module that runs it."""

    def run(self) -> None:
        super().run()
        package = PACKAGE if self.editable_mode else Path(self.build_lib, "fencepost")
        if why_none():  # then build_ext does not run
            write_note(package, ANY_INTERPRETER, dict.fromkeys(MODULES, why_none()))
        if not self.editable_mode:
            target = package / "cli" / "demo" / "flights"
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree("examples/flights", target, ignore=ignored, dirs_exist_ok=True)


setup(ext_modules=extensions(), cmdclass={"build_py": BuildPython, "build_ext": BuildExtensions})
