"""The table of sub-commands: name, module, one line of help.

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
    module: str
    help: str
    group: str


NODES: Final = "nodes and clusters"
DATA: Final = "topics, records and groups"
CARE: Final = "brokers, replicas and configs"
SECURITY: Final = "who may do what, and how much"
SPARK: Final = "with Spark"
FILES: Final = "files, protocol and tests"
GROUPS: Final = (NODES, DATA, CARE, SECURITY, SPARK, FILES)
"""Headings of `fencepost --help`, in order."""

COMMANDS: tuple[Command, ...] = (
    Command(
        "serve",
        "fencepost.cli.serve",
        "run a broker and its controller (or one of them) in this process",
        NODES,
    ),
    Command(
        "format",
        "fencepost.cli.format",
        "make a node's directories ready for its first start",
        NODES,
    ),
    Command(
        "cluster", "fencepost.cli.cluster", "run a cluster of several nodes on this machine", NODES
    ),
    Command("testing", "fencepost.cli.testing", "brokers with faults on demand, for tests", NODES),
    Command(
        "console",
        "fencepost.cli.console",
        "pages about a cluster in the browser, or one of them as text",
        NODES,
    ),
    Command("demo", "fencepost.cli.demo", "flights through a broker and Spark into tables", NODES),
    Command(
        "topics", "fencepost.cli.topics", "list, create, describe, alter and delete topics", DATA
    ),
    Command("produce", "fencepost.cli.produce", "write lines of text or JSON to a topic", DATA),
    Command("consume", "fencepost.cli.consume", "print records of topics", DATA),
    Command(
        "offsets", "fencepost.cli.offsets", "where partitions begin and end, offsets by time", DATA
    ),
    Command(
        "delete-records",
        "fencepost.cli.delete_records",
        "delete the oldest records of partitions",
        DATA,
    ),
    Command("groups", "fencepost.cli.groups", "groups of every type: members and offsets", DATA),
    Command(
        "transactions",
        "fencepost.cli.transactions",
        "transactional ids, open transactions, and why readers wait for one",
        DATA,
    ),
    Command("perf", "fencepost.cli.perf", "how fast records are written, read, and both", DATA),
    Command(
        "brokers",
        "fencepost.cli.brokers",
        "list, describe, decommission and unregister brokers",
        CARE,
    ),
    Command("configs", "fencepost.cli.configs", "configs of topics, groups and brokers", CARE),
    Command(
        "quorum",
        "fencepost.cli.quorum",
        "the metadata quorum: describe it, change its voters",
        CARE,
    ),
    Command(
        "features",
        "fencepost.cli.features",
        "levels at which the cluster runs: see and raise them",
        CARE,
    ),
    Command("reassign", "fencepost.cli.reassign", "move partitions to other brokers", CARE),
    Command(
        "elect", "fencepost.cli.elect", "elect leaders of partitions: preferred or unclean", CARE
    ),
    Command(
        "log-dirs",
        "fencepost.cli.log_dirs",
        "log directories of brokers, and moving replicas",
        CARE,
    ),
    Command(
        "epochs",
        "fencepost.cli.epochs",
        "the leader epochs of every replica's log, and where logs diverge",
        CARE,
    ),
    Command(
        "security",
        "fencepost.cli.security",
        "what is open to whom, and which rule decides",
        SECURITY,
    ),
    Command("acls", "fencepost.cli.acls", "who may do what: list, add and remove rules", SECURITY),
    Command(
        "users",
        "fencepost.cli.users",
        "users who log in by SCRAM: list, set and delete them",
        SECURITY,
    ),
    Command(
        "quotas",
        "fencepost.cli.quotas",
        "how much clients may do: list, set and remove quotas",
        SECURITY,
    ),
    Command(
        "tokens",
        "fencepost.cli.tokens",
        "delegation tokens: list, create, renew and expire them",
        SECURITY,
    ),
    Command(
        "spark",
        "fencepost.cli.spark",
        "how far Spark's streaming queries are behind, and their exactly-once sinks",
        SPARK,
    ),
    Command(
        "pipeline",
        "fencepost.cli.pipeline",
        "a Spark Declarative Pipelines project from topic to tables and back",
        SPARK,
    ),
    Command(
        "archive",
        "fencepost.cli.archive",
        "topics into partitioned files by Spark, and back into topics",
        SPARK,
    ),
    Command(
        "tables",
        "fencepost.cli.tables",
        "topics as tables of latest values, from change data too",
        SPARK,
    ),
    Command(
        "audit",
        "fencepost.cli.audit",
        "check all replicas' log directories, and that they agree, with Spark",
        SPARK,
    ),
    Command(
        "wire", "fencepost.cli.wire", "Kafka's protocol: APIs, fields, errors, bytes as JSON", FILES
    ),
    Command("log", "fencepost.cli.log", "files of a data directory: show them, check them", FILES),
    Command(
        "sim",
        "fencepost.cli.sim",
        "the deterministic simulator: controllers and brokers under faults",
        FILES,
    ),
    Command(
        "completion", "fencepost.cli.completion", "completion of command lines for a shell", FILES
    ),
    Command("man", "fencepost.cli.man", "manual pages of the commands", FILES),
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


def print_usage_help(parser: argparse.ArgumentParser) -> int:
    """Help for a command line that asks for nothing yet; the exit code."""
    parser.print_help(sys.stderr)
    return 2
