"""One test for many values, which says at which of them it failed.

A test for each of them would take longer to begin and to end than to run, and every worker of a run
collects all tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


@contextmanager
def at(told: str) -> Iterator[None]:
    """Has what is raised inside say where it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"at {told}")
        raise


def told_as(value: Any) -> str:
    """A value in such a note."""
    return value.__name__ if isinstance(value, type) else str(value)


def in_turn(
    names: str, values: Collection[Any], ids: Callable[[Any], str] = told_as
) -> Callable[[Callable[..., None]], Any]:
    """Makes one test of a check that is done for each of the values, as `parametrize` makes many.

    `names`, with commas, are the arguments that a value is for, or the items of a value that is a
    tuple. Other arguments of the check are fixtures, which all values share. The first failure ends
    the test. ValueError if there are no values.
    """
    arguments = [name.strip() for name in names.split(",")]
    if not values:
        raise ValueError(f"no values for {names}")

    def make(check: Callable[..., None]) -> Any:
        @wraps(check, updated=())
        def test(**fixtures: Any) -> None:
            for value in values:
                items = value if len(arguments) > 1 else (value,)
                with at(", ".join(map(ids, items))):
                    check(**dict(zip(arguments, items, strict=True)), **fixtures)

        asked = inspect.signature(check).parameters.values()
        rest = [parameter for parameter in asked if parameter.name not in arguments]
        test.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
        test.__dict__["pytestmark"] = list(getattr(check, "pytestmark", ()))
        return test

    return make
