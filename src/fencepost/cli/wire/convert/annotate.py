"""What decode prints: documents with records beside them, and one JSON document per line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fencepost.cli.failures import UsageError
from fencepost.wire.documents import Decoded
from fencepost.wire.errors import error_name
from fencepost.wire.json_form import bytes_to_json, to_json
from fencepost.wire.message import Message
from fencepost.wire.secrets import HIDDEN, has_secrets

RECORDS_MAX: Final = 10_000
"""Records that are shown of one message: a kilobyte of it can be a million of them."""


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a document is to have."""
    parser.add_argument("--records", action="store_true", help="also show the records in batches")
    parser.add_argument(
        "--records-limit",
        type=int,
        metavar="N",
        help="of --records: so many records of a message, batches and headers of records counted "
        f"too; records_left_out and bytes_left_out say what is missing (default: {RECORDS_MAX})",
    )
    parser.add_argument(
        "--show-secrets",
        action="store_true",
        help="also show keys, tokens and secret configs, which are [hidden] otherwise; encode "
        "needs them",
    )
    parser.add_argument("--error-names", action="store_true", help="also name the error codes")
    parser.add_argument(
        "--int64-as-strings",
        action="store_true",
        help="int64 as strings, for jq before 1.7 and JavaScript; encode reads both",
    )


class OutputOptions(NamedTuple):
    """What a document is to have; two of them are keys for people, beside what encode reads.

    `records` is how many records are shown of a message, 0 for none.
    """

    records: int
    error_names: bool
    int64_as_strings: bool
    show_secrets: bool = False

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> OutputOptions:
        """Those of the command line.

        UsageError for a limit below 1, and when what reads records is not installed.
        """
        limit = 0
        if arguments.records:
            limit = RECORDS_MAX if arguments.records_limit is None else arguments.records_limit
            if limit < 1:
                raise UsageError("--records-limit must be at least 1")
        return cls(limit, arguments.error_names, arguments.int64_as_strings, arguments.show_secrets)


def shown(decoded: Decoded, options: OutputOptions) -> dict[str, Any]:
    """The document with what is wished for."""
    document = dict(decoded.document)
    message, version = decoded.message, decoded.version
    hides = not options.show_secrets and has_secrets(type(message))
    if options.int64_as_strings or hides:
        document["body"] = to_json(
            message, version, int64_as_strings=options.int64_as_strings, hide_secrets=hides
        )
    if hides and "trailing" in document:  # of another version than it was read as, perhaps
        document["trailing"] = HIDDEN
    if options.error_names and (names := list(_error_names(document["body"], ""))):
        document["error_names"] = names
    if options.records:
        records = _decoded_records(message, version, options.records)
        if records:
            document["decoded_records"] = records
    return document


def shown_undecoded(data: bytes, cls: type[Message] | None, options: OutputOptions) -> str:
    """Bytes that could not be decoded, of a message of class `cls`, in base64: hidden where there
    may be secrets in them. None as `cls` is for bytes of which nothing is known: they may be a
    login's token, which after a SaslHandshake v0 has no header."""
    if not options.show_secrets and (cls is None or has_secrets(cls)):
        return HIDDEN
    return bytes_to_json(data)


def _error_names(value: Any, path: str) -> Iterator[dict[str, Any]]:
    """Every error code in a body that is not 0, by its name."""
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from _error_names(element, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            if not key.endswith("error_code"):
                yield from _error_names(inner, here)
            elif inner:
                yield {"path": here, "code": inner, "name": error_name(inner)}


def _decoded_records(message: Message, version: int, limit: int) -> list[dict[str, Any]]:
    """What `batches` shows of the records; all else here does with the standard library alone,
    and so does this, unless a checksum or a compression needs a package."""
    try:
        from fencepost.cli.wire.convert.batches import decoded_records

        return decoded_records(message, version, limit)
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise UsageError(
            f"--records needs the module {name}, which is missing: pip install fencepost"
        ) from None


def warn_if_different(decoded: Decoded, what: str) -> None:
    """Say on stderr when there are bytes behind the message, and when encoding the document will
    not give the same bytes."""
    if decoded.trailing_bytes:
        doubt = "; is --version right?" if "response" in decoded.document else ""
        print(
            f"{what} has {decoded.trailing_bytes} bytes behind the message, kept as "
            f"'trailing'{doubt}",
            file=sys.stderr,
        )
    if decoded.differs_at is not None:
        print(
            f"{what} is not as encoders write it: encode gives other bytes from its byte "
            f"{decoded.differs_at} on",
            file=sys.stderr,
        )


def print_line(document: dict[str, Any]) -> None:
    """One JSON document in one line."""
    json.dump(document, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
