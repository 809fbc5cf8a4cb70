"""Fixtures of the handlers' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...process_state import no_file_is_left_open
from .partitions import closed_at_the_end

__all__ = ["no_file_is_left_open", "partition_nodes_are_closed"]


@pytest.fixture(autouse=True, scope="module")
def partition_nodes_are_closed(no_file_is_left_open: None) -> Iterator[None]:
    """A module's nodes, of its fixtures or of its tests, are closed when it ends."""
    with closed_at_the_end():
        yield
