"""No two modules of a package import each other: not for types alone, not in a function."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parent.parent / "src"
WITHOUT_CIRCLES = [
    *("batch", "broker", "cli", "client", "log", "machines", "runtime", "sim", "spark", "testing")
]


def imports_in(package: str) -> dict[str, set[str]]:
    """What each module under `fencepost.<package>` imports, wherever in its source."""
    paths = {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (SOURCES / "fencepost" / package).rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                named.update(whole & paths.keys() or {node.module})
        found[module] = (named & paths.keys()) - {module}
    return found


def in_circles(imports: dict[str, set[str]]) -> set[str]:
    """The modules that import each other: what is left when ends are taken off, and off again."""
    left = {module: set(others) for module, others in imports.items()}
    while ends := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in ends}
    imported = set().union(*left.values()) if left else set()
    while free := left.keys() - imported:
        left = {module: others for module, others in left.items() if module not in free}
        imported = set().union(*left.values()) if left else set()
    return set(left)


@pytest.mark.parametrize("package", WITHOUT_CIRCLES)
def test_modules_import_in_one_direction(package):
    imports = imports_in(package)
    assert len(imports) > 3
    assert not in_circles(imports)


def test_a_circle_is_found():
    line = {"a": {"b"}, "b": {"c"}, "c": set()}
    assert in_circles(line) == set()
    assert in_circles(line | {"c": {"a"}}) == {"a", "b", "c"}
    assert in_circles(line | {"c": {"b"}}) == {"b", "c"}
