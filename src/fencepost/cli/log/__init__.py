"""`fencepost log`: look at the files of a data directory, without a broker and without a change.

* `dump` shows what is in them (`fencepost.log.dump`);
* `verify` says what is wrong with them (`fencepost.log.verify`).

Both are for directories of Apache Kafka as well, and for one that a broker is using.
"""

from __future__ import annotations

from typing import Any

from fencepost.cli.commands import add_actions
from fencepost.cli.log.dump import register_dump
from fencepost.cli.log.verify import register_verify


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost log`."""
    parser = subparsers.add_parser(
        "log", description="Look at files of a data directory; nothing is changed or locked."
    )
    actions = add_actions(parser)
    register_dump(actions)
    register_verify(actions)
