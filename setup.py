"""Builds the optional C extension; everything declarative is in pyproject.toml.

Every module listed here is an accelerator with a pure-Python twin that passes the same tests, so a
machine without a compiler (or with FENCEPOST_PURE_BUILD=1) installs and runs all the same.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

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
            depends=[str(header) for header in Path("src", source).parent.glob("*.h")],
            extra_compile_args=["-O3"],
            optional=True,
        )
        for source in SOURCES
        if Path("src", source).exists()
    ]
    return cythonize(modules, language_level=3) if modules else []


setup(ext_modules=extensions())
