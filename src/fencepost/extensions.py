"""The optional C extensions: loading one, and saying why one is not in use.

An extension that could not be built does not keep Fencepost from being installed. `setup.py` notes
the reason in `NOTE`, a JSON object of {interpreter: {module: reason}}, beside this module; the
interpreter is its SOABI, so that several can share a checkout, or ANY_INTERPRETER.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOTE = Path(__file__).with_name("_not_built.json")
ANY_INTERPRETER = "any"

Reason = Callable[[], str]


def load(module: str, interface: int) -> tuple[Any, Reason]:
    """The compiled `module` or None, and what tells why it is None.

    A module of another `interface` was built from other sources than these (a checkout that moved
    on without being installed again) and is not used.
    """
    if os.environ.get("FENCEPOST_PURE") == "1":
        return None, lambda: "FENCEPOST_PURE=1 is set"
    try:
        compiled: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            return None, lambda: why_not_built(module)
        cause = str(error)
    except ImportError as error:
        cause = str(error)
    else:
        found = getattr(compiled, "INTERFACE", None)
        if found == interface:
            return compiled, str
        cause = f"{module} was built from other sources (interface {found}, not {interface})"
    return None, lambda: cause


def why_not_built(module: str) -> str:
    """What the build noted about `module` for this interpreter."""
    import json
    import sysconfig

    interpreter = sysconfig.get_config_var("SOABI")
    try:
        notes = json.loads(NOTE.read_text())
    except (OSError, ValueError):
        notes = {}
    for key in (interpreter, ANY_INTERPRETER):
        if module in notes.get(key, {}):
            return f"{module} was not built: {notes[key][module]}"
    return f"{module} is not installed for this interpreter ({interpreter})"
