"""`fencepost console`: pages about a cluster in the browser, or one of them as text."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from fencepost.addresses import PORT_MAX
from fencepost.cli.cluster_options import (
    add_cluster_options,
    bootstrap_servers,
    client_config,
    command,
)
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.key_values import pair
from fencepost.cli.output import add_json_option, print_json

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8093

EXAMPLES = """\
examples:
  fencepost console -b 127.0.0.1:9092
  fencepost console --once overview
  fencepost console --once topics order=trouble rows=20 --json
  fencepost console --once sample --json > old.json; fencepost console --diff old.json
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost console`."""
    parser = subparsers.add_parser(
        "console",
        help="pages about a cluster in the browser, or one of them as text",
        description="Show a cluster in the browser. Without --once it serves until interrupted.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--port", type=int, default=PORT_DEFAULT, metavar="N", help="0: a free one (default: 8093)"
    )
    parser.add_argument("--once", metavar="PAGE", help="print this page and end")
    parser.add_argument(
        "--diff",
        type=Path,
        metavar="FILE",
        help="print what changed since `--once sample --json` wrote the file, and end",
    )
    parser.add_argument(
        "values",
        nargs="*",
        metavar="KEY=VALUE",
        help="with --once or --diff: what the page is asked for",
    )
    add_json_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Serve the console, or print one page of it."""
    try:
        import htpy  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the console needs the extra `console` ({error.name} is missing):"
            " pip install 'fencepost[console]'"
        ) from None
    from fencepost.console.session import Session

    config = client_config(arguments, bootstrap_servers(arguments))
    if arguments.diff is not None and arguments.once is not None:
        raise UsageError("--diff prints a page of its own: leave --once out")
    if arguments.diff is not None or arguments.once is not None:
        return asyncio.run(_print_page(arguments, Session(config)))
    if arguments.values:
        raise UsageError("KEY=VALUE goes with --once or --diff")
    if not 0 <= arguments.port <= PORT_MAX:
        raise UsageError(f"--port {arguments.port}: allowed is 0 to {PORT_MAX}")
    from fencepost.console.web.server import serve

    def say(address: str) -> None:
        print(f"the console of {config.bootstrap_servers} is at {address}", flush=True)

    try:
        serve(Session(config), HOST_DEFAULT, arguments.port, say)
    except OSError as error:
        raise InputError(f"--port {arguments.port}: {error.strerror or error}") from None
    return 0


async def _print_page(arguments: argparse.Namespace, session: Any) -> int:
    from fencepost.console.asked import Asked, BadQuery, NotThere
    from fencepost.console.page import document_of
    from fencepost.console.pages.changes import changes_page
    from fencepost.console.pages.table import make_page, page_named
    from fencepost.console.sample_document import BadSample, read_sample
    from fencepost.console.text import text_of

    option = "--once" if arguments.diff is None else "--diff"
    asked = Asked(dict(pair(text, option) for text in arguments.values))
    try:
        if arguments.diff is None:
            page = await make_page(page_named(arguments.once), session, asked)
        else:
            before = read_sample(arguments.diff)
            page = changes_page(before, await session.sample(), asked)
    except BadQuery as error:
        raise UsageError(str(error)) from None
    except (NotThere, BadSample) as error:
        raise InputError(str(error)) from None
    finally:
        await session.close()
    if arguments.json:
        print_json(document_of(page))
    else:
        sys.stdout.write(text_of(page))
    return 0
