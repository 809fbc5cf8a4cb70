"""Chooses what does the byte work: the compiled kernels, or Python.

`FENCEPOST_PURE=1` in the environment forces Python; so does an installation without the compiled
module, or with one built from other sources than these. Both give the same results and the same
errors, and pass the same tests. Callers look at `kernels` at every call rather than at import, so
that a test can set it.
"""

from __future__ import annotations

import os
from typing import Any, Literal

COMPILED_INTERFACE = 1


def _load() -> Any:
    if os.environ.get("FENCEPOST_PURE") == "1":
        return None
    try:
        import fencepost.batch._kernels as compiled
    except ImportError:
        return None
    return compiled if getattr(compiled, "INTERFACE", None) == COMPILED_INTERFACE else None


kernels: Any = _load()
"""The compiled module, or None."""


def name() -> Literal["c", "python"]:
    """Which backend this process uses."""
    return "python" if kernels is None else "c"
