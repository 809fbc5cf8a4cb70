"""Chooses what does the byte work: the compiled kernels, or Python.

`FENCEPOST_PURE=1` in the environment forces Python; so does an installation without the compiled
module, or with one built from other sources than these. Both give the same results and the same
errors, and pass the same tests. Callers look at `kernels` at every call rather than at import, so
that a test can set it.
"""

from __future__ import annotations

from typing import Any, Literal

from fencepost.extensions import load

COMPILED_INTERFACE = 4
PRODUCE_INTERFACE = 6


kernels: Any
"""The compiled module, or None."""

kernels, why_python = load("fencepost.batch._kernels", COMPILED_INTERFACE)

produce_kernel: Any
"""The compiled module that reads plain Produce requests, or None: then all are decoded."""

produce_kernel, why_no_produce_kernel = load("fencepost.batch._produce", PRODUCE_INTERFACE)


def name() -> Literal["c", "python"]:
    """Which backend this process uses."""
    return "python" if kernels is None else "c"
