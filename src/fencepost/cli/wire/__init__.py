"""`fencepost wire`: what is on the wire, for people who write clients, proxies and dissectors.

One module per command here: `apis`, `show`, `error_codes` (the command is `errors`), `decode` and
`encode`. `captures` prints the messages in captured packets (`decode --pcap`), which
`fencepost.capture` takes apart. What the commands do is in rooms that import only downwards:

* `convert`: bytes into JSON documents and back;
* `lookup`: messages and structs by name.

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
        description="Look at Kafka's protocol: APIs, fields, errors, bytes as JSON, captures.",
    )
    actions = add_actions(parser)
    register_apis(actions)
    register_show(actions)
    register_errors(actions)
    register_decode(actions)
    register_encode(actions)
