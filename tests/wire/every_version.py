"""One test for all versions of a message, which says at which of them it failed.

A test for each version, of which there are 870, would take longer to begin and to end than to run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from fencepost.wire.message import Message

from .catalogue import MESSAGES, version_id


@contextmanager
def at(version: int, cls: type[Message] | None = None) -> Iterator[None]:
    """Has what is raised inside say at which version it was, and of which message."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"at version {version}" + (f" of {cls.__name__}" if cls else ""))
        raise


def versions(cls: type[Message]) -> range:
    """All versions of a message."""
    return range(cls.min_version, cls.max_version + 1)


def at_every_version(check: Callable[..., None]) -> Any:
    """Makes a test for every message of `check(cls, version)`, which is one of it at one version.

    Other arguments of `check` are fixtures.
    """

    @wraps(check)
    def test(cls: type[Message], **fixtures: Any) -> None:
        for version in versions(cls):
            with at(version):
                check(cls=cls, version=version, **fixtures)

    asked = inspect.signature(check).parameters.values()
    rest = [parameter for parameter in asked if parameter.name != "version"]
    test.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
    return pytest.mark.parametrize("cls", MESSAGES, ids=version_id)(test)
