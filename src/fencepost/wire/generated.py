"""The Python backend: decoders and encoders written as source, compiled on first use.

The source is registered with `linecache`, so tracebacks, debuggers and profilers show it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from fencepost.wire.decode_source import decoder_source
from fencepost.wire.diagnose import (
    explain_decode,
    explain_encode,
    negative,
    too_many_elements,
    trailing_bytes,
)
from fencepost.wire.encode_source import encoder_source
from fencepost.wire.layout import Layout
from fencepost.wire.runtime import DECODE_FAILURES, ENCODE_FAILURES, TooMany, as_view, gather
from fencepost.wire.types import ELEMENTS_UNLIMITED, Buffer

VIEW_THRESHOLD_BYTES = 1 << 16
"""Inputs with records (or behind a header) larger than this are decoded in place; smaller ones
from a copy, since reading strings and numbers out of `bytes` is faster than out of a view."""

Decoder = Callable[[Buffer, Any, int, int, int], tuple[Any, int]]
Encoder = Callable[[Any, list[Buffer], list[int] | None], None]


class GeneratedCodec:
    """Codec of one message and version; compiles each function when first needed."""

    __slots__ = (
        "_bytes_bound_elements",
        "_decode",
        "_decoders",
        "_encode",
        "_encode_parts",
        "_has_records",
        "_is_read_in_place",
        "_layout",
        "_replaces",
    )

    def __init__(self, layout: Layout, replaces: bool = False) -> None:
        """`replaces`: texts that are not UTF-8 are taken, see `Message.read_replacing`."""
        self._layout = layout
        self._replaces = replaces
        self._has_records = layout.has_records
        # What refers to its input is read in place where that is large, and so is what stands in
        # front of something else.
        self._is_read_in_place = self._has_records or getattr(layout.struct, "kind", "") == "header"
        self._bytes_bound_elements = not layout.has_weightless_elements
        self._decode: Decoder | None = None
        self._decoders: dict[tuple[bool, bool], Decoder] = {}
        self._encode: Encoder | None = None
        self._encode_parts: Encoder | None = None

    def decode(self, data: Buffer, max_elements: int = ELEMENTS_UNLIMITED) -> Any:
        """The message that fills `data`."""
        message, end = self.read(data, 0, max_elements)
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        if end != size:
            raise trailing_bytes(end, size)
        return message

    def read(
        self, data: Buffer, pos: int, max_elements: int = ELEMENTS_UNLIMITED
    ) -> tuple[Any, int]:
        """The message that begins at `pos`, and the position behind it."""
        if pos < 0:
            raise negative("pos")
        if max_elements < 0:
            raise negative("max_elements")
        source, view, from_view = data, None, False
        if type(data) is not bytes:
            view = as_view(data)
            from_view = self._is_read_in_place and len(view) > VIEW_THRESHOLD_BYTES
            source = view if from_view else bytes(view)
        elif self._has_records:
            view = memoryview(data)
        end = len(source)
        # Where every element takes a byte, so many bytes cannot hold too many: no need to count.
        is_bounded = end - pos > max_elements or not self._bytes_bound_elements
        if from_view or is_bounded:
            decode = self._decoder(from_view, is_bounded)
        else:
            decode = self._decode or self._decoder(False, False)
        try:
            return decode(source, view, pos, end, max_elements)
        except TooMany as error:
            raise too_many_elements(max_elements, error.args[0]) from None
        except DECODE_FAILURES as error:
            raise explain_decode(
                self._layout, source, pos, error, replaces=self._replaces
            ) from None

    def encode(self, message: Any) -> bytes:
        """The message in one piece."""
        out: list[Buffer] = []
        try:
            (self._encode or self._encoder(False))(message, out, None)
            return b"".join(out)
        except ENCODE_FAILURES as error:
            raise explain_encode(self._layout, message, error) from None

    def encode_parts(self, message: Any) -> list[Buffer]:
        """The message in pieces, with records uncopied."""
        if not self._has_records:
            whole = self.encode(message)
            return [whole] if whole else []
        out: list[Buffer] = []
        cuts: list[int] = []
        try:
            (self._encode_parts or self._encoder(True))(message, out, cuts)
        except ENCODE_FAILURES as error:
            raise explain_encode(self._layout, message, error) from None
        return gather(out, cuts)

    def _decoder(self, from_view: bool, is_bounded: bool) -> Decoder:
        decode = self._decoders.get((from_view, is_bounded))
        if decode is None:
            source, environment = decoder_source(
                self._layout,
                from_view=from_view,
                is_bounded=is_bounded,
                replaces=self._replaces,
            )
            label = "decode" + " view" * from_view + " bounded" * is_bounded
            label += " replacing" * self._replaces
            decode = self._compile(source, environment, label)["decode"]
            self._decoders[from_view, is_bounded] = decode
            if not (from_view or is_bounded):
                self._decode = decode
        return decode

    def _encoder(self, notes_cuts: bool) -> Encoder:
        source, environment = encoder_source(self._layout, notes_cuts=notes_cuts)
        label = "encode" + " parts" * notes_cuts
        encode: Encoder = self._compile(source, environment, label)["encode"]
        if notes_cuts:
            self._encode_parts = encode
        else:
            self._encode = encode
        return encode

    def _compile(self, source: str, environment: dict[str, Any], label: str) -> dict[str, Any]:
        struct = self._layout.struct
        filename = f"<{struct.__module__}.{struct.__name__} v{self._layout.version} {label}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), environment)
        return environment
