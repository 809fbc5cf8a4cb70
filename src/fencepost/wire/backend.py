"""Chooses what encodes and decodes: the compiled interpreter, or generated Python.

`FENCEPOST_PURE=1` in the environment forces the Python backend; so does an installation without
the compiled module, or with one that was built from other sources than these (a checkout that moved
on without being installed again). Both follow the same layouts and pass the same tests.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from fencepost.extensions import load
from fencepost.wire.layout import Layout
from fencepost.wire.types import ELEMENTS_UNLIMITED, Buffer

if TYPE_CHECKING:
    from collections.abc import Callable


COMPILED_INTERFACE = 5
FETCH_INTERFACE = 4


class Codec(Protocol):
    """Reads and writes one message class at one version."""

    def decode(self, data: Buffer, max_elements: int = ELEMENTS_UNLIMITED) -> Any:
        """The message that fills `data`."""

    def read(
        self, data: Buffer, pos: int, max_elements: int = ELEMENTS_UNLIMITED
    ) -> tuple[Any, int]:
        """The message that begins at `pos`, and the position behind it."""

    def encode(self, message: Any) -> bytes:
        """The message in one piece."""

    def encode_parts(self, message: Any) -> list[Buffer]:
        """The message in pieces, with records uncopied."""


_compiled, why_python = load("fencepost.wire._codec", COMPILED_INTERFACE)

fetch_kernel: Any
"""The compiled module that reads and answers the plain Fetch, or None. Callers look here at every
call rather than at import, so that a test can set it."""

fetch_kernel, why_no_fetch_kernel = load("fencepost.wire._fetch", FETCH_INTERFACE)


def _choose() -> tuple[Literal["c", "python"], Callable[[Layout], Codec]]:
    if _compiled is not None:
        return "c", _compiled_codec
    from fencepost.wire.generated import GeneratedCodec

    return "python", GeneratedCodec


def _compiled_codec(layout: Layout) -> Codec:
    """The compiled interpreter has no instruction for a null struct in a tagged field, which one
    record of `__consumer_offsets` has."""
    if layout.has_nullable_struct_in_tag:
        from fencepost.wire.generated import GeneratedCodec

        return GeneratedCodec(layout)
    codec: Codec = _compiled.CompiledCodec(layout)
    return codec


_NAME, make_codec = _choose()

Method = TypeVar("Method", bound="Callable[..., Any]")


def shortened(method: Method) -> Method:
    """`method` of a message, or the compiled backend's function of that name, which does the same.

    Its signature and its docstring are those of `method`.
    """
    if _compiled is None:
        return method
    return update_wrapper(getattr(_compiled, method.__name__), method)  # type: ignore[return-value]


def name() -> Literal["c", "python"]:
    """Which backend this process uses."""
    return _NAME
