"""`fencepost pipeline`: projects for Spark Declarative Pipelines."""

from __future__ import annotations

import argparse
import os
from typing import Any

from fencepost.cli.cluster_options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import offline_command
from fencepost.cli.pipeline.project_files import write_project

EXAMPLES = """\
examples:
  fencepost pipeline init flow --topic orders --output-topic order-sums
  flow/run
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost pipeline`."""
    parser = subparsers.add_parser(
        "pipeline", description="Projects for Spark Declarative Pipelines.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    making = actions.add_parser("init", help="write a project that runs as it is", epilog=EXAMPLES)
    making.add_argument("directory", metavar="DIR", help="a new directory, or an empty one")
    making.add_argument("--topic", default="events", metavar="NAME", help="default: events")
    making.add_argument(
        "--output-topic", metavar="NAME", help="where sums go (default: the topic with -sums)"
    )
    making.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=os.environ.get(BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP),
        help=f"brokers that it asks (default: {BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP})",
    )
    making.set_defaults(run=init)


@offline_command
def init(arguments: argparse.Namespace) -> int:
    """Asks no cluster."""
    directory = write_project(
        arguments.directory,
        servers=arguments.bootstrap_server,
        topic=arguments.topic,
        output_topic=arguments.output_topic or f"{arguments.topic}-sums",
    )
    print(f"run it with {directory / 'run'}")
    return 0
