"""The table of sub-commands: name and one line of help; the module is named after the command.

A module is imported only when its command is asked for, so that `fencepost serve` does not pay for
the clients and `fencepost --help` pays for nothing. It must offer `register(subparsers)`, which
adds its parser with `set_defaults(run=function)`; `function(arguments)` returns the exit code. The
parser gets its line of help from here.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final, NamedTuple


class Command(NamedTuple):
    """One sub-command of `fencepost`."""

    name: str
    help: str
    group: str

    @property
    def module(self) -> str:
        """The module that offers it."""
        return f"fencepost.cli.{self.name.replace('-', '_')}"


_HELP: Final = {
    "nodes and clusters": {
        "serve": "run a broker and its controller (or one of them) in this process",
        "format": "make a node's directories ready for its first start",
        "cluster": "run a cluster of several nodes on this machine",
        "testing": "brokers with faults on demand, for tests",
        "console": "pages about a cluster in the browser, or one of them as text",
        "demo": "flights through a broker and Spark into tables",
    },
    "topics, records and groups": {
        "topics": "list, create, describe, alter and delete topics",
        "produce": "write lines of text or JSON to a topic",
        "consume": "print records of topics",
        "offsets": "where partitions begin and end, offsets by time",
        "delete-records": "delete the oldest records of partitions",
        "groups": "groups of every type: members and offsets",
        "transactions": "transactional ids, open transactions, and why readers wait for one",
        "perf": "how fast records are written, read, and both",
    },
    "brokers, replicas and configs": {
        "brokers": "list, describe, decommission and unregister brokers",
        "configs": "configs of topics, groups and brokers",
        "quorum": "the metadata quorum: describe it, change its voters",
        "features": "levels at which the cluster runs: see and raise them",
        "reassign": "move partitions to other brokers",
        "elect": "elect leaders of partitions: preferred or unclean",
        "log-dirs": "log directories of brokers, and moving replicas",
        "epochs": "the leader epochs of every replica's log, and where logs diverge",
    },
    "who may do what, and how much": {
        "security": "what is open to whom, and which rule decides",
        "acls": "who may do what: list, add and remove rules",
        "users": "users who log in by SCRAM: list, set and delete them",
        "quotas": "how much clients may do: list, set and remove quotas",
        "tokens": "delegation tokens: list, create, renew and expire them",
    },
    "with Spark": {
        "spark": "how far Spark's streaming queries are behind, and their exactly-once sinks",
        "pipeline": "a Spark Declarative Pipelines project from topic to tables and back",
        "archive": "topics into partitioned files by Spark, and back into topics",
        "tables": "topics as tables of latest values, from change data too",
        "audit": "check all replicas' log directories, and that they agree, with Spark",
    },
    "files, protocol and tests": {
        "wire": "Kafka's protocol: APIs, fields, errors, bytes as JSON",
        "log": "files of a data directory: show them, check them",
        "sim": "the deterministic simulator: controllers and brokers under faults",
        "completion": "completion of command lines for a shell",
        "man": "manual pages of the commands",
    },
}
"""Lines of help by name, under the headings of `fencepost --help`."""
GROUPS: Final = tuple(_HELP)
COMMANDS: Final = tuple(
    Command(name, text, group) for group, texts in _HELP.items() for name, text in texts.items()
)


def list_of_commands(columns: int) -> str:
    """The commands under their headings, for the help, in so many columns."""
    import textwrap  # for the help only

    width = max(len(command.name) for command in COMMANDS)
    lines = []
    for group in GROUPS:
        lines.append(f"{group}:")
        for command in COMMANDS:
            if command.group == group:
                first = f"  {command.name.ljust(width)}  "
                lines += textwrap.wrap(
                    command.help,
                    max(columns - 2, len(first) + 20),
                    initial_indent=first,
                    subsequent_indent=" " * len(first),
                )
        lines.append("")
    return "\n".join([*lines, "`fencepost COMMAND --help` says more"])


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Where a command's actions are added, as by `add_subparsers`. Without one it prints its help,
    to standard error and with exit code 2: nothing was done."""
    parser.set_defaults(run=lambda arguments: print_usage_help(parser))
    return parser.add_subparsers(dest="action", metavar="ACTION")


def add_repeatable(parser: argparse._ActionsContainer, *names: str, **settings: Any) -> None:
    """Add an option that may be given several times: the list of its values, empty without any."""
    parser.add_argument(*names, action="append", default=[], **settings)


def print_usage_help(parser: argparse.ArgumentParser) -> int:
    """Help for a command line that asks for nothing yet; the exit code."""
    parser.print_help(sys.stderr)
    return 2
