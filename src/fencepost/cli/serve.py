"""`fencepost serve`: a node in this process, broker, controller or both, until a signal ends it."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import Any

from fencepost.cli.failures import UsageError
from fencepost.cli.node_options import add_node_options, overrides_of

EPILOG = """\
Without any option it serves 127.0.0.1:9092 and keeps its data in ./fencepost-data; both are
printed. Configuration keys are Kafka's; `-o` wins over --data-dir and --listen, which win over the
file. A listener that other machines can reach and that asks for no login is a start error, unless
fencepost.allow.anonymous.listeners=true is set.

examples:
  fencepost serve
  fencepost serve --data-dir /var/lib/fencepost --listen 127.0.0.1:9092
  fencepost serve --config server.properties -o num.partitions=3
  fencepost serve -o listeners=PLAINTEXT://127.0.0.1:0      (any free port; it is printed)
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost serve`."""
    parser = subparsers.add_parser(
        "serve",
        description="Run a node in this process: broker and controller, unless process.roles says"
        " otherwise.",
        epilog=EPILOG,
    )
    add_node_options(parser)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="where to listen (default: 127.0.0.1:9092)"
    )
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="write the bound listeners there, one HOST:PORT per line, once they accept clients",
    )
    parser.add_argument(
        "--stop-with-parent",
        type=int,
        nargs="?",
        const=0,
        metavar="PID",
        help="stop when the process that started this one ends, which has this id (for tests)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load the configuration and serve."""
    # Modules stay: the collector would look at them again and again, a tenth of the whole start.
    # It is at work again when the node is there.
    gc.disable()
    try:
        return _serve(arguments)
    finally:
        gc.enable()


def _serve(arguments: argparse.Namespace) -> int:
    from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
    from fencepost.broker.node.main import run as serve

    try:
        overrides = overrides_of(arguments)
        config = BrokerConfig.load(arguments.config, overrides)
    except (ConfigError, UsageError) as error:
        print(f"fencepost serve: {error}", file=sys.stderr)
        return 2
    return serve(
        config,
        ready_file=arguments.ready_file,
        stop_with_parent=arguments.stop_with_parent,
    )
