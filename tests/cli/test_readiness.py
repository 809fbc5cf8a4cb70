"""Descriptors are waited for whatever their numbers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
from collections.abc import Iterator

import pytest

from fencepost.cli.readiness import READABLE, WRITABLE, wait_until


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Its ends have numbers that `select` does not know."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < 2048:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    low = os.pipe()
    ends = tuple(fcntl.fcntl(end, fcntl.F_DUPFD, 1024) for end in low)
    for end in low:
        os.close(end)
    yield ends[0], ends[1]
    for end in ends:
        os.close(end)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def test_what_is_ready_is_told_and_what_is_not_within_the_time(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    assert not wait_until(reader, READABLE, 0.0)
    assert not wait_until(reader, READABLE, -1.0)
    assert wait_until(writer, WRITABLE)
    os.write(writer, b"x")
    assert wait_until(reader, READABLE)
    os.read(reader, 1)
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, bytes(65536)):
            pass
    assert not wait_until(writer, WRITABLE, 0.001)
