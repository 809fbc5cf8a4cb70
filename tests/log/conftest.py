"""Fixtures of the log's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.log.disk import OsFile

from ..process_state import no_file_is_left_open

__all__ = ["files_are_closed", "no_file_is_left_open"]


@pytest.fixture(autouse=True, scope="module")
def files_are_closed(no_file_is_left_open: None) -> Iterator[None]:
    """A log that a test leaves as a crash would keeps its files open: the module closes them."""
    made: list[OsFile] = []
    make = OsFile.__init__

    def note(self: OsFile, *arguments: Any, **more: Any) -> None:
        make(self, *arguments, **more)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OsFile, "__init__", note)
        yield
    for one in made:
        one.close()
