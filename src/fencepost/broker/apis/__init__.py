"""One module per API: the handler, and in its header the versions it serves.

`load_all` imports every module of this package, which registers its handlers.
"""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Register every handler there is."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
