"""`fencepost.client` has twelve public names, each with an example in docs/CLIENT.md."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost.client as package

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "CLIENT.md"
EXAMPLE_LINES_MAX = 12
SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```python\n# runs in order\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_public_names_are_those_of_the_page_and_no_others() -> None:
    text = PAGE.read_text().split("\n## Twelve names\n")[1]
    table = re.findall(r"^\| `(\w+)` \| ", text, re.MULTILINE)
    sections = [name for name, _ in SECTION.findall(text.split("\n## ")[0] + "\n##")]
    assert len(table) == 12
    assert table == sections
    assert sorted(table) == package.__all__ == dir(package)


@pytest.mark.parametrize("name", package.__all__)
def test_each_name_is_a_documented_class_with_a_short_example(name: str) -> None:
    found = getattr(package, name)
    assert inspect.isclass(found)
    assert found.__name__ == name
    assert found.__doc__
    assert inspect.getdoc(found) != inspect.getdoc(found.__base__)
    section = dict(SECTION.findall(PAGE.read_text()))[name]
    (example,) = BLOCK.findall(section)
    assert re.search(rf"\b{name}\b", example)
    assert len(example.strip().splitlines()) <= EXAMPLE_LINES_MAX


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="'GroupConsumer'"):
        package.GroupConsumer  # noqa: B018


@pytest.mark.slow
def test_a_blocking_client_loads_no_event_loop() -> None:
    source = (
        "import sys; from fencepost.client import Admin, Consumer, Producer\n"
        "assert not sys.modules.keys() & {'asyncio', 'fencepost.client.aio'}, 'loaded'"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=600)
