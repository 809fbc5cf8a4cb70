"""Frames out of the input, one by one, as JSON documents.

A frame's length says where the next one begins, so with --frames one that cannot be decoded does
not end it: it comes out as `raw`, in the form that captures have too, and `encode` gives it back.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fencepost.cli.failures import InputError
from fencepost.cli.output import print_json
from fencepost.cli.progress import Progress
from fencepost.cli.wire.convert.annotate import (
    OutputOptions,
    print_line,
    shown,
    shown_undecoded,
    warn_if_different,
)
from fencepost.cli.wire.convert.bytes_input import (
    Frame,
    NoFrameError,
    iter_frames,
    open_bytes,
    size_bytes,
)
from fencepost.cli.wire.convert.json_parts import check_version
from fencepost.cli.wire.lookup.names import find_api_of
from fencepost.wire import api
from fencepost.wire.documents import (
    Decoded,
    decode_request,
    decode_response,
    frame_error,
    request_class_or_none,
)
from fencepost.wire.errors import WireError
from fencepost.wire.frame import LENGTH_BYTES
from fencepost.wire.json_form import JsonFormError

DecodeFrame = Callable[[bytes], Decoded]


def decode_frames(arguments: argparse.Namespace) -> None:
    """Print the frames of the input. InputError, at the end, when there were bad ones or none."""
    decode_one = _decoder(arguments)
    options = OutputOptions.of(arguments)
    counts = _Counts()
    with open_bytes(arguments.file, arguments.hex) as stream:
        progress = Progress(size_bytes(stream))
        try:
            for frame in iter_frames(stream, arguments.max_frame_bytes):
                counts.frames += 1
                _print_frame(frame, decode_one, counts, options, arguments)
                progress.show(frame.offset)
        except NoFrameError as error:
            hint = _length_hint(error.rest, decode_one)
            raise InputError(f"{error}{hint}{counts.failed_before()}") from None
        finally:
            progress.close()
    if counts.frames == 0:
        raise InputError("there is no frame in the input")
    if counts.failed:
        of = f"{counts.failed} of {counts.frames} frames could not be decoded"
        raise InputError(f"{of}; {counts.first_failure}")


class _Counts:
    """How it went."""

    def __init__(self) -> None:
        self.frames = self.failed = 0
        self.first_failure = ""

    def note_failure(self, text: str) -> None:
        """One more that could not be decoded."""
        self.first_failure = self.first_failure or text
        self.failed += 1

    def failed_before(self) -> str:
        """For behind another error."""
        return f"; {self.failed} before it could not be decoded" if self.failed else ""


def _decoder(arguments: argparse.Namespace) -> DecodeFrame:
    if arguments.request:
        return decode_request
    key = find_api_of(arguments.api)
    check_version(api.response_class(key), arguments.version)
    return lambda data: decode_response(key, arguments.version, data)


def _print_frame(
    frame: Frame,
    decode_one: DecodeFrame,
    counts: _Counts,
    options: OutputOptions,
    arguments: argparse.Namespace,
) -> None:
    try:
        decoded = decode_one(frame.data)
    except (WireError, JsonFormError) as error:
        text = frame_error(error)
        if not arguments.frames:
            raise InputError(f"{frame.where}: {text}") from None
        counts.note_failure(f"{frame.where}: {text}")
        print_line(_undecoded(frame, arguments, text, options))
        return
    document = shown(decoded, options)
    if arguments.frames:
        print_line(document)
    else:
        print_json(document)
    warn_if_different(decoded, frame.where)


def _undecoded(
    frame: Frame, arguments: argparse.Namespace, error: str, options: OutputOptions
) -> dict[str, Any]:
    kind = "request" if arguments.request else "response"
    about = {"kind": kind, "frame": frame.number, "byte": frame.offset, "error": error}
    if arguments.request:
        cls = request_class_or_none(frame.data)
    else:
        cls = api.response_class(find_api_of(arguments.api))
    return {"capture": about, "raw": shown_undecoded(frame.data, cls, options)}


def _length_hint(rest: Frame, decode_one: DecodeFrame) -> str:
    """What to say when the input would be a frame if only a length stood before it."""
    if rest.number:
        return ""
    length = len(rest.data).to_bytes(LENGTH_BYTES, "big")
    try:
        decoded = decode_one(length + rest.data)
    except (WireError, JsonFormError):
        return ""
    if decoded.trailing_bytes and "response" in decoded.document:  # no header that proves it
        return ""
    return (
        f"; is its length missing? With {length.hex()} before it, it reads as "
        f"{type(decoded.message).__name__}, version {decoded.version}"
    )
