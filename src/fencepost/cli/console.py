"""`fencepost console`: pages about a cluster in the browser, or one of them as text."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fencepost.addresses import PORT_MAX
from fencepost.cli.cluster_options import (
    bootstrap_servers,
    client_config,
    command,
    finish_cluster_command,
)
from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.key_values import pair
from fencepost.cli.output import print_json

LISTEN_DEFAULT = "127.0.0.1:8093"
PORT_IN_USE = (
    "another process listens on this port: stop it, or give another port in --listen HOST:PORT or"
    " --port; port 0 picks a free one"
)

EXAMPLES = """\
examples:
  fencepost console -b 127.0.0.1:9092 --open
  fencepost console --listen 0.0.0.0:8093 --allow-host kafka-console.example.org
  fencepost console --once overview
  fencepost console --once topics order=trouble rows=20 --json
  fencepost console --once sample --json > old.json; fencepost console --diff old.json
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost console`."""
    parser = subparsers.add_parser(
        "console",
        description="Show a cluster in the browser. Without --once it serves until interrupted.",
        epilog=EXAMPLES,
    )
    _add_serving_options(parser)
    _add_sources(parser)
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
    finish_cluster_command(parser, run)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what else there is to show")
    group.add_argument(
        "--registry", metavar="URL", help="a schema registry to decode keys and values by"
    )
    for option, metavar, text in (
        ("--checkpoint", "DIR", "the checkpoint of a Spark query"),
        ("--recordings", "PATH", "a recording of a simulated run, or a directory of them"),
        ("--audit-log", "PATH", "a broker's audit log, or a directory of them (*.log)"),
        (
            "--audits",
            "PATH",
            "what `fencepost audit` wrote with --output, or printed with --json; needs the extra"
            " `arrow`",
        ),
    ):
        text += ", for its page; repeatable"
        add_repeatable(group, option, metavar=metavar, help=text)
    group.add_argument(
        "--faults",
        metavar="URL",
        help="the control port of `fencepost testing`, for the page of a test cluster's faults",
    )


def _add_serving_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where browsers find it; port 0 is a free one; other addresses than loopback's need"
        f" the token that is printed, or --proxy-auth-header (default: {LISTEN_DEFAULT})",
    )
    group.add_argument("--port", type=int, metavar="N", help="the same as --listen 127.0.0.1:N")
    group.add_argument(
        "--token", action="store_true", help="ask for a token on loopback, too (shared machines)"
    )
    group.add_argument(
        "--proxy-auth-header",
        metavar="NAME",
        help="let in what has this header, in which a proxy names the user; any client that"
        " reaches the port itself can set it",
    )
    add_repeatable(
        group,
        "--allow-host",
        metavar="NAME[:PORT]",
        help="a name by which browsers may call the console, for proxies and DNS; repeatable",
    )
    group.add_argument(
        "--allow-writes",
        action="store_true",
        help="pages that change topics, records and offsets; without it there are none",
    )
    group.add_argument("--open", action="store_true", help="open it in the browser")


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
    from fencepost.console.session import Options, Session

    options = Options(
        allow_writes=arguments.allow_writes,
        registry=_registry(arguments.registry),
        checkpoints=tuple(arguments.checkpoint),
        recordings=_existing("--recordings", arguments.recordings),
        audit_logs=_existing("--audit-log", arguments.audit_log),
        audits=_audits(arguments.audits),
        faults=_faults(arguments.faults),
    )
    config = client_config(arguments, bootstrap_servers(arguments))
    if arguments.diff is not None and arguments.once is not None:
        raise UsageError("--diff prints a page of its own: leave --once out")
    if arguments.diff is not None or arguments.once is not None:
        return asyncio.run(_print_page(arguments, Session(config, options)))
    if arguments.values:
        raise UsageError("KEY=VALUE goes with --once or --diff")
    return _serve(arguments, Session(config, options))


def _existing(option: str, places: list[str]) -> tuple[Path, ...]:
    paths = tuple(map(Path, places))
    for path in paths:
        if not path.exists():
            raise UsageError(f"{option} {path}: there is no such file or directory")
    return paths


def _audits(places: list[str]) -> tuple[str, ...]:
    """Directories and files of audits; what is in a store is looked for by the page. UsageError."""
    if places and find_spec("pyarrow") is None:
        raise UsageError(
            "--audits needs the extra `arrow` (pyarrow is missing): pip install 'fencepost[arrow]'"
        )
    _existing("--audits", [place for place in places if urlsplit(place).scheme == ""])
    return tuple(places)


def _faults(url: str | None) -> str | None:
    """The control port's HOST:PORT. Raises UsageError."""
    from fencepost.console.control_port import BadControlUrl, address_of_control

    try:
        return None if url is None else address_of_control(url)
    except BadControlUrl as error:
        raise UsageError(f"--faults {error}") from None


def _tell_of_faults(address: str) -> None:
    """Say on stderr where nothing answers as a control port; one may still be started."""
    from fencepost.console.control_port import NoControl, control_state

    try:
        asyncio.run(control_state(address))
    except NoControl as error:
        print(f"fencepost console: --faults: {error}", file=sys.stderr, flush=True)


def _serve(arguments: argparse.Namespace, session: Any) -> int:
    from fencepost.console.web.access import Access, check_header_name, new_token
    from fencepost.console.web.hosts import BadAddress, address_of
    from fencepost.console.web.server import serve

    if arguments.listen is not None and arguments.port is not None:
        raise UsageError("--port is a part of --listen: give one of them")
    asked = arguments.listen or LISTEN_DEFAULT
    if arguments.port is not None:
        if not 0 <= arguments.port <= PORT_MAX:
            raise UsageError(f"--port {arguments.port}: a port is a number from 0 to {PORT_MAX}")
        asked = f"127.0.0.1:{arguments.port}"
    header = arguments.proxy_auth_header
    if header is not None and arguments.token:
        raise UsageError("--token and --proxy-auth-header exclude each other")
    option = "--port" if arguments.port is not None else "--listen"
    try:
        address = address_of(asked)
        option = "--proxy-auth-header"
        if header is not None:
            check_header_name(header)
        needs_token = header is None and (arguments.token or not address.is_loopback)
        access = Access(new_token() if needs_token else None, header)
        option = "--allow-host"
        if session.options.faults is not None:
            _tell_of_faults(session.options.faults)
        serve(session, address, _teller(arguments, session), access, arguments.allow_host)
    except BadAddress as error:
        raise UsageError(f"{option} {error}") from None
    except OSError as error:
        why = error.strerror or error
        if error.errno == errno.EADDRINUSE:
            why = f"{os.strerror(error.errno)} ({PORT_IN_USE})"
        raise InputError(f"cannot listen on {asked}: {why}") from None
    return 0


def _teller(arguments: argparse.Namespace, session: Any) -> Callable[[str], None]:
    """What says where the console is and, where it is asked for, opens it."""

    def tell(url: str) -> None:
        print(f"the console of {session.config.bootstrap_servers} is at {url}", flush=True)
        if arguments.open:
            # In a thread: some browsers return only when their window is closed.
            threading.Thread(target=_open_browser, args=(url,), daemon=True).start()

    return tell


def _open_browser(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print("fencepost console: found no browser to open (--open)", file=sys.stderr, flush=True)


def _registry(url: str | None) -> str | None:
    """The registry's address. Raises UsageError for what is none, or cannot be used."""
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--registry {url!r}: http://HOST:PORT or https://HOST:PORT is allowed")
    needed = {"confluent_kafka": "confluent-kafka", "fastavro": "fastavro", "google": "protobuf"}
    missing = [name for module, name in needed.items() if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"--registry needs the packages of the extra `formats`: {', '.join(missing)}"
        )
    return url


async def _print_page(arguments: argparse.Namespace, session: Any) -> int:
    from fencepost.console.asked import Asked, BadQuery, NotThere
    from fencepost.console.page import document_of
    from fencepost.console.pages.changes import changes_page
    from fencepost.console.pages.table import LISTED, make_page, page_named
    from fencepost.console.sample_document import BadSample, read_sample
    from fencepost.console.text import text_of

    option = "--once" if arguments.diff is None else "--diff"
    try:
        asked = Asked.of(pair(text, option) for text in arguments.values)
        if arguments.diff is None:
            page = await make_page(page_named(arguments.once), session, asked)
        else:
            asked.check("--diff", (), LISTED)
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
