"""`fencepost wire decode`: bytes, frames, records and captures as JSON."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.failures import InputError, UsageError, offline_command
from fencepost.cli.output import print_json
from fencepost.cli.wire.convert import stored
from fencepost.cli.wire.convert.annotate import (
    OutputOptions,
    add_output_options,
    shown,
    warn_if_different,
)
from fencepost.cli.wire.convert.bytes_input import FRAME_BYTES_MAX, open_bytes, read_all
from fencepost.cli.wire.convert.frames import decode_frames
from fencepost.cli.wire.convert.hex_text import parse_hex
from fencepost.cli.wire.convert.json_parts import check_version
from fencepost.cli.wire.lookup.names import find_message
from fencepost.wire.documents import decode_body
from fencepost.wire.errors import DecodeError

EPILOG = """\
FILE has bytes as they are on the wire; - or nothing is stdin. --hex takes digits, with or without
blanks, 0x, \\x; a bytes literal of Python; dumps of xxd, hexdump -C, od -t x1 and Wireshark; and
packets of one direction as tcpdump -X prints them, without the headers. --hex - reads from stdin.
Requests and responses are frames: length, header, body. With --frames one that cannot be decoded
comes out as raw, and the exit code is 1 at the end. `fencepost wire encode` makes the same bytes of
what comes out, also after edits; where there are secrets, with --show-secrets alone.

examples:
  fencepost wire decode --message MetadataRequest --version 12 --hex '00 01 00 00'
  fencepost wire decode --request --frames requests.bin | jq .request
  fencepost wire decode --request --int64-as-strings a.bin | jq '.header.correlation_id = 7' |
      fencepost wire encode
  fencepost wire decode --response --api Fetch --version 12 --records answer.bin
  fencepost wire decode --record group --key 0001... --hex 0003...
  fencepost wire decode --pcap trace.pcap --port 9092
"""
KAFKA_PORT = 9092

# Where every batch says its size and its format, whichever that is.
_BATCH_SIZE_AT, _MAGIC_AT = 8, 16
_BATCH_SIZE_MIN, _MAGIC_MAX = 14, 2


def register_decode(actions: Any) -> None:
    """Add the parser of `fencepost wire decode`."""
    parser = actions.add_parser(
        "decode",
        help="bytes as JSON",
        description="Turn bytes of the protocol into JSON.",
        epilog=EPILOG,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="bytes (default: stdin)")
    parser.add_argument("--hex", metavar="TEXT", help="hex digits instead of FILE")
    what = parser.add_argument_group("what it is").add_mutually_exclusive_group(required=True)
    what.add_argument("--message", metavar="NAME", help="a body, such as FetchRequest")
    what.add_argument("--request", action="store_true", help="frames of requests")
    what.add_argument("--response", action="store_true", help="frames of responses")
    what.add_argument("--record", choices=stored.kinds(), help="a record of one of Kafka's logs")
    what.add_argument("--pcap", metavar="CAPTURE", help="packets: pcap or pcapng, - is stdin")
    parser.add_argument("--version", type=int, metavar="N", help="of --message and --response")
    parser.add_argument("--api", metavar="NAME", help="API of --response")
    parser.add_argument("--key", metavar="HEX", help="key of --record; without a value a tombstone")
    parser.add_argument(
        "--port",
        type=int,
        action="append",
        metavar="N",
        help=f"port of brokers in --pcap (repeatable; default: {KAFKA_PORT})",
    )
    parser.add_argument("--frames", action="store_true", help="one JSON line per frame, any number")
    add_output_options(parser)
    parser.add_argument(
        "--max-frame-bytes",
        type=int,
        default=FRAME_BYTES_MAX,
        metavar="N",
        help=f"refuse frames beyond this (default: {FRAME_BYTES_MAX})",
    )
    parser.set_defaults(run=decode)


@offline_command
def decode(arguments: argparse.Namespace) -> int:
    """Print the documents."""
    _check_options(arguments)
    if arguments.pcap is not None:
        from fencepost.cli.wire.captures import decode_capture

        return decode_capture(arguments, tuple(arguments.port or [KAFKA_PORT]))
    if arguments.record is not None:
        print_json(_decode_record(arguments))
    elif arguments.message is not None:
        cls = find_message(arguments.message)
        check_version(cls, arguments.version)
        decoded = decode_body(cls, arguments.version, _read(arguments))
        print_json(shown(decoded, OutputOptions.of(arguments)))
        warn_if_different(decoded, cls.__name__)
    else:
        decode_frames(arguments)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    is_framed = arguments.request or arguments.response
    has_version = arguments.message is not None or arguments.response
    if has_version and arguments.version is None:
        raise UsageError("--version is needed too")
    if arguments.response and arguments.api is None:
        raise UsageError("--api is needed too")
    for option, value, is_allowed, place in (
        ("--version", arguments.version, has_version, "--message and --response"),
        ("--api", arguments.api, arguments.response, "--response"),
        ("--key", arguments.key, arguments.record is not None, "--record"),
        ("--port", arguments.port, arguments.pcap is not None, "--pcap"),
        ("--frames", arguments.frames or None, is_framed, "--request and --response"),
        ("--records", arguments.records or None, arguments.record is None, "messages"),
        ("--records-limit", arguments.records_limit, arguments.records, "--records"),
        ("--error-names", arguments.error_names or None, arguments.record is None, "messages"),
        ("FILE", arguments.file, arguments.pcap is None and arguments.hex is None, "other input"),
        ("--hex", arguments.hex, arguments.pcap is None, "other input"),
    ):
        if value is not None and not is_allowed:
            raise UsageError(f"{option} is for {place}")
    OutputOptions.of(arguments)
    if arguments.max_frame_bytes < 1:
        raise UsageError("--max-frame-bytes must be at least 1")


def _read(arguments: argparse.Namespace) -> bytes:
    """All of the input, within --max-frame-bytes."""
    with open_bytes(arguments.file, arguments.hex) as stream:
        data = read_all(stream, arguments.max_frame_bytes + 1)
    if len(data) > arguments.max_frame_bytes:
        hint = "" if arguments.record is None else _segment_hint(data)
        raise InputError(f"the input is larger than {arguments.max_frame_bytes} bytes{hint}")
    return data


def _decode_record(arguments: argparse.Namespace) -> dict[str, Any]:
    kind = arguments.record
    key = None if arguments.key is None else parse_hex(arguments.key)
    if key is not None and not stored.has_key(kind):
        raise UsageError(f"a {kind} record has no key")
    if key is None and stored.has_key(kind):
        raise UsageError(f"--key is needed: it says what a {kind} record's value is")
    has_value = arguments.file is not None or arguments.hex is not None or key is None
    value = _read(arguments) if has_value else None
    try:
        return stored.decode(
            kind,
            key,
            value,
            int64_as_strings=arguments.int64_as_strings,
            show_secrets=arguments.show_secrets,
        )
    except DecodeError as error:
        raise InputError(f"{error}{_segment_hint(value or b'')}") from None


def _segment_hint(data: bytes) -> str:
    """Where to go with a whole log file: it begins with a batch, not with a record."""
    if len(data) <= _MAGIC_AT or data[_MAGIC_AT] > _MAGIC_MAX:
        return ""
    size = int.from_bytes(data[_BATCH_SIZE_AT : _BATCH_SIZE_AT + 4], "big", signed=True)
    if not _BATCH_SIZE_MIN <= size <= len(data) - _BATCH_SIZE_AT - 4:
        return ""
    return "; these are batches, as in the files of a log: fencepost log dump FILE shows them"
