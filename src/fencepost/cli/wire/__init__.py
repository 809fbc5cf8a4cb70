"""`fencepost wire`: what is on the wire, for people who write clients, proxies and dissectors.

* `apis` lists the APIs, `show` the fields of a message (`names` finds it by name or number),
  `error_codes` has the command `errors`;
* `decode` turns bytes into JSON documents and `encode` turns these into the same bytes:
  `documents` does it for messages and frames, `stored` for records of Kafka's own logs, `batches`
  shows record batches, `frames` goes through frames, `bytes_input` reads files, pipes and hex
  (`hex_text`), `output` adds what is for people;
* `capture` reads packets from a file. What it stands on does no I/O: `packets` finds TCP in a
  packet, `connections` keeps both directions of each connection, `reassembly` puts one of them in
  order, `framing` cuts it into frames, which look as `signs` says, `conversation` tells requests,
  responses and SASL tokens apart.

Nothing here talks to a broker.
"""

from __future__ import annotations

from typing import Any

from fencepost.cli.commands import add_actions
from fencepost.cli.wire.apis import register_apis
from fencepost.cli.wire.decode import register_decode
from fencepost.cli.wire.encode import register_encode
from fencepost.cli.wire.error_codes import register_errors
from fencepost.cli.wire.show import register_show


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost wire`."""
    parser = subparsers.add_parser(
        "wire",
        help="what is on the wire: APIs, fields, errors, bytes to JSON and back, captures",
        description="Look at Kafka's protocol: APIs, fields, errors, bytes as JSON, captures.",
    )
    actions = add_actions(parser)
    register_apis(actions)
    register_show(actions)
    register_errors(actions)
    register_decode(actions)
    register_encode(actions)
