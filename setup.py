"""Builds the optional C extensions; everything declarative is in pyproject.toml.

Every module listed here is an accelerator with a pure-Python twin that passes the same tests, so a
machine without a compiler (or with FENCEPOST_PURE_BUILD=1) installs and runs all the same.
"""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

SOURCES = ["fencepost/batch/_kernels.pyx", "fencepost/wire/_codec.pyx"]


def extensions() -> list[Extension]:
    """The accelerators whose source is present, or none where they are not wanted."""
    if os.environ.get("FENCEPOST_PURE_BUILD") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(
            source.removesuffix(".pyx").replace("/", "."),
            [f"src/{source}"],
            depends=[
                str(path)
                for kind in ("*.h", "*.pxi")
                for path in Path("src", source).parent.glob(kind)
            ],
            extra_compile_args=["-O3"],
        )
        for source in SOURCES
        if Path("src", source).exists()
    ]
    if not modules:
        return []
    compiled: list[Extension] = cythonize(modules, language_level=3)
    for module in compiled:
        module.optional = True  # set here: cythonize makes new extensions and forgets this
    return compiled


class BuildWithExample(build_py):
    """Puts the demo's pipeline, which lives in examples/, beside the module that runs it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "fencepost", "cli", "demo", "flights")
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree("examples/flights", target, ignore=ignored, dirs_exist_ok=True)


setup(ext_modules=extensions(), cmdclass={"build_py": BuildWithExample})
