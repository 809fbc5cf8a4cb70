"""For all tests: none may leave the process other than it found it, and some share a broker."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from .collecting import (
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_ignore_collect,
)
from .process_state import (
    kept_for_the_session,
    no_child_is_left_behind,
    nothing_is_left_changed,
)
from .quick_java import choose_quick_java

__all__ = [
    "no_child_is_left_behind",
    "nothing_is_left_changed",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_ignore_collect",
]

# Without a limit of 200 ms for an example or for making it, which a busy machine breaks, and with
# the same examples in every run. `--hypothesis-profile default --hypothesis-seed N` draws others.
settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("tests")


LONGEST_ID_BYTES = 40


def pytest_configure() -> None:
    """A shell without job control starts what it runs in the background with SIGINT ignored, and
    children inherit that; tests interrupt theirs.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    choose_quick_java()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long bytes go by their size: they may hold the time of day, and every worker of a run has to
    name its tests alike. None leaves it to pytest.
    """
    if isinstance(val, bytes | bytearray) and len(val) > LONGEST_ID_BYTES:
        return f"{argname}-{len(val)}-bytes"
    return None


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """Where a real broker listens: the one FENCEPOST_TEST_BOOTSTRAP names, else our own."""
    named = os.environ.get("FENCEPOST_TEST_BOOTSTRAP")
    if named:
        yield named
        return
    from fencepost.testing import Cluster

    with contextlib.ExitStack() as stack:
        with kept_for_the_session():
            cluster = stack.enter_context(Cluster(faults=False))
        yield cluster.bootstrap_servers


@pytest.fixture
def topic() -> str:
    """A name no other test uses."""
    return f"t-{uuid.uuid4().hex[:10]}"
