"""Public names of a package that are imported when they are first used.

`from fencepost.client import Producer` loads the producer; a process that needs another part of the
package alone does not. The names stand in the package's `__all__`, and under `TYPE_CHECKING` as
imports, for type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    namespace: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose `globals()` are `namespace`.

    `modules` has the module of each name, within the package. A name is kept once it is imported.
    """
    package: str = namespace["__name__"]

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(f"{package}.{modules[name]}"), name)
        return value

    return get, lambda: sorted(namespace["__all__"])
