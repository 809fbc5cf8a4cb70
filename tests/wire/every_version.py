"""One test for all versions of all messages, which says at which of them it failed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

from fencepost.wire.message import Message

from .. import in_turn
from .catalogue import MESSAGES


def at(version: int, cls: type[Message] | None = None) -> AbstractContextManager[None]:
    """Has what is raised inside say at which version it was, and of which message."""
    return in_turn.at(f"version {version}" + (f" of {cls.__name__}" if cls else ""))


def versions(cls: type[Message]) -> range:
    """All versions of a message."""
    return range(cls.min_version, cls.max_version + 1)


def at_every_version(check: Callable[..., None]) -> Any:
    """Makes a test of `check(cls, version)`, which is one of a message at one version.

    Other arguments of `check` are fixtures.
    """

    @wraps(check)
    def of_a_message(cls: type[Message], **fixtures: Any) -> None:
        for version in versions(cls):
            with at(version):
                check(cls=cls, version=version, **fixtures)

    asked = inspect.signature(check).parameters.values()
    rest = [parameter for parameter in asked if parameter.name != "version"]
    of_a_message.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
    return in_turn.in_turn("cls", MESSAGES)(of_a_message)
