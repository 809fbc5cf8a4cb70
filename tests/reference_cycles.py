"""Reference cycles that a piece of work leaves behind, and that only a collection would free."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future

KINDS = (
    BaseException,
    Future,
    asyncio.Future,
    types.CoroutineType,
    types.FrameType,
    types.GeneratorType,
    types.TracebackType,
)
"""What keeps alive whatever a piece of work had in its hands."""


def is_kept_work(one: object) -> bool:
    """Whether it is of one of the `KINDS`."""
    return isinstance(one, KINDS)


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Leaves out of sight what is there, so that `cycles` inside of the block look at little."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def cycles(matters: Callable[[object], bool] = is_kept_work) -> Iterator[list[str]]:
    """The list that is yielded has, when the block has ended, what of its garbage `matters`."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += [described(one) for one in gc.garbage if matters(one)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def described(one: object) -> str:
    """What it is, in a few words."""
    if isinstance(one, types.FrameType):
        return f"frame of {one.f_code.co_qualname} at {one.f_code.co_filename}:{one.f_lineno}"
    return f"{type(one).__qualname__} {one!r}"[:200]
