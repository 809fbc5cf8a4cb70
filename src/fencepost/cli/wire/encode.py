"""`fencepost wire encode`: what `decode` wrote, as bytes again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from fencepost.cli.failures import InputError, UsageError, offline_command
from fencepost.cli.wire.convert.documents import Part, encode_document
from fencepost.wire.errors import WireError
from fencepost.wire.json_form import JsonFormError

EPILOG = """\
FILE has one JSON document, one per line, or several behind each other; - or nothing is stdin.
Fields that are missing are at their default. Keys for people (capture, decoded_records,
error_names) are passed over. A record with a key comes as two lines, or as one part.

examples:
  fencepost wire decode --request frame.bin | fencepost wire encode
  fencepost wire encode request.json --output frame.bin
  fencepost wire encode record.json --part value
"""

_ROUNDED = "; if jq before 1.7 has rounded it, decode with --int64-as-strings"


def register_encode(actions: Any) -> None:
    """Add the parser of `fencepost wire encode`."""
    parser = actions.add_parser(
        "encode",
        help="JSON of decode back into bytes",
        description="Turn the JSON of `fencepost wire decode` into bytes.",
        epilog=EPILOG,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="JSON (default: stdin)")
    parser.add_argument("--output", metavar="FILE", help="write bytes there, - is stdout")
    parser.add_argument("--part", choices=("key", "value"), help="only this part of records")
    parser.set_defaults(run=encode)


@offline_command
def encode(arguments: argparse.Namespace) -> int:
    """Write the bytes of every document."""
    with _open_text(arguments.file) as source, _open_output(arguments.output) as raw:
        number = -1
        for number, document in enumerate(iter_documents(source)):
            for part in _parts(document, number, arguments):
                if raw is not None:
                    raw.write(part.data or b"")
                else:
                    print(_hex_line(part, arguments.part))
        if number < 0:
            raise InputError("there is no document in the input")
    return 0


def _parts(document: Any, number: int, arguments: argparse.Namespace) -> list[Part]:
    try:
        parts = encode_document(document)
    except (JsonFormError, WireError, InputError) as error:
        hint = _ROUNDED if str(error).endswith("does not fit into int64") else ""
        raise InputError(f"document {number}: {error}{hint}") from None
    if arguments.part is not None:
        parts = [part for part in parts if part.name == arguments.part]
        if not parts:
            raise InputError(f"document {number} has no {arguments.part}")
    if arguments.output is not None and len(parts) > 1:
        raise UsageError("a record has a key and a value: --part says which is to be written")
    return parts


def _hex_line(part: Part, chosen: str | None) -> str:
    digits = "null" if part.data is None else part.data.hex()
    if part.name in ("key", "value") and chosen is None:
        return f"{part.name} {digits}"
    return digits


@contextmanager
def _open_text(path: str | None) -> Iterator[TextIO]:
    if path in (None, "-"):
        yield sys.stdin
    else:
        assert path is not None
        with Path(path).open(encoding="utf-8") as file:
            yield file


@contextmanager
def _open_output(path: str | None) -> Iterator[BinaryIO | None]:
    if path is None:
        yield None
    elif path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with Path(path).open("wb") as file:
            yield file


# -- documents in a text ---------------------------------------------------------------------


def iter_documents(source: TextIO) -> Iterator[Any]:
    """The JSON documents in `source`. InputError, with line and column, for what is no JSON.

    Documents that fill a line each are read one by one; from the first that does not, the rest is
    read at once.
    """
    line_number = 0
    try:
        for line in source:
            line_number += 1
            if not line.strip():
                continue
            try:
                document = _DECODER.decode(line)
            except json.JSONDecodeError:
                yield from _rest(line + source.read(), line_number)
                return
            yield document
    except UnicodeDecodeError as error:
        raise InputError(f"behind line {line_number}: not UTF-8: {error.reason}") from None
    except RecursionError:
        raise InputError(f"line {line_number}: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"line {line_number}: {error}") from None


def _rest(text: str, first_line: int) -> Iterator[Any]:
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        try:
            document, position = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            line = first_line + error.lineno - 1
            raise InputError(f"line {line}, column {error.colno}: {error.msg}") from None
        yield document


def collect_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object that has `pairs`. ValueError for a key that comes twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} comes twice in one object")
            seen.add(key)
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON, only a string can say it")


_DECODER = json.JSONDecoder(object_pairs_hook=collect_object, parse_constant=_constant)
