"""How a command that starts or formats a node is told the node's configuration."""

from __future__ import annotations

import argparse
from pathlib import Path

from fencepost.addresses import AddressError, address_text, parse_address
from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pair


def add_node_options(parser: argparse.ArgumentParser, *, config_flag: str | None = None) -> None:
    """Add --config (short `config_flag`), --data-dir and -o."""
    flags = ("--config",) if config_flag is None else ("--config", config_flag)
    parser.add_argument(*flags, type=Path, metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where the log lives (default: fencepost-data)"
    )
    add_override_option(parser, "set a configuration key; may be repeated")


def add_override_option(parser: argparse.ArgumentParser, text: str) -> None:
    """Add -o KEY=VALUE, with this help."""
    add_repeatable(parser, "-o", dest="overrides", metavar="KEY=VALUE", help=text)


def overrides_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The command line's configuration keys; `-o` comes last and so wins. UsageError."""
    overrides: dict[str, str] = {}
    if arguments.data_dir is not None:
        overrides["log.dirs"] = arguments.data_dir
    if arguments.listen is not None:
        try:
            host, port = parse_address(arguments.listen, least_port=0, empty_host=True)
        except AddressError as error:
            raise UsageError(f"--listen {arguments.listen!r}: allowed is {error}") from None
        overrides["listeners"] = f"PLAINTEXT://{address_text(host, port)}"
    for override in arguments.overrides:
        key, value = pair(override, "-o")
        overrides[key] = value
    return overrides
