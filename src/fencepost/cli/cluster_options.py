"""What the commands that talk to a cluster have in common: its address, properties, errors.

`--bootstrap-server` says where, else `bootstrap.servers` among the client properties, else
FENCEPOST_BOOTSTRAP; `--timeout` how long to try, `-X key=value` and `--client-config FILE` set
client properties under Kafka's names. Exit codes: 0 done, 1 the cluster refused or cannot be
reached or the input is wrong, 2 the command line is. Results go to stdout, everything else to
stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.key_values import pairs
from fencepost.cli.output import add_json_option
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    ConfigError,
    DeadlineExceeded,
    RequestTimedOut,
)
from fencepost.client.metadata import TopicPartition
from fencepost.client.retry import Deadline, retrying
from fencepost.views.tables import escaped
from fencepost.wire.errors import EncodeError, ErrorCode

if TYPE_CHECKING:
    from fencepost.client.admin import Admin

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
# Shorter than a program's: a user waits at the prompt.
API_TIMEOUT_MS = 10_000
# To the first broker that answers; one that is just starting takes about a second.
CONNECT_TIMEOUT_MS = 3_000
TIMEOUT_MAX_S = 3600
INT16_MAX = (1 << 15) - 1
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
BOOTSTRAP_VARIABLE = "FENCEPOST_BOOTSTRAP"

Run = Callable[[argparse.Namespace], int]


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which a command finds its cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="brokers to ask first (default: bootstrap.servers of -X or FILE, "
        f"{BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP})",
    )
    group.add_argument(
        "--client-config", type=Path, metavar="FILE", help="a file of client properties"
    )
    add_repeatable(
        group,
        "-X",
        dest="properties",
        metavar="KEY=VALUE",
        help="a client property; wins over the file",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help=f"how long to try (default: {API_TIMEOUT_MS // 1000}, and"
        f" {CONNECT_TIMEOUT_MS // 1000} for a first connection)",
    )


def finish_cluster_command(parser: argparse.ArgumentParser, run: Run) -> None:
    """Add what every command that asks a cluster ends with: its options, --json, what it runs."""
    add_json_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0 < seconds <= TIMEOUT_MAX_S:
        raise argparse.ArgumentTypeError(f"{text}: allowed is up to {TIMEOUT_MAX_S} seconds")
    return seconds


def open_cluster(arguments: argparse.Namespace, **defaults: object) -> Cluster:
    """The cluster the options name, connected; `defaults` are client properties with _ for dots.

    Raises UsageError and ConfigError for the options, ClientError when no broker answers.
    """
    config = client_config(arguments, bootstrap_servers(arguments), **defaults)
    cluster = Cluster(config=config)
    # Brokers learn of new topics within milliseconds; a misspelt name should not take seconds.
    cluster.unknown_topic_attempts = 2
    limit_ms = connect_limit_ms(arguments, cluster.config)
    retrying("connecting", cluster.any_connection, Deadline(limit_ms), cluster.backoff())
    return cluster


@contextlib.contextmanager
def open_admin(arguments: argparse.Namespace) -> Iterator[Admin]:
    """What administers the cluster that the options name; errors as of `open_cluster`."""
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        yield Admin(cluster)


def bootstrap_servers(arguments: argparse.Namespace) -> str:
    """The brokers to ask first, by the first that names some: -b, -X, --client-config, the
    environment, the default. UsageError."""
    given = arguments.bootstrap_server or given_properties(arguments).get("bootstrap.servers")
    return str(given or os.environ.get(BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP))


def connect_limit_ms(arguments: argparse.Namespace, config: ClientConfig) -> float:
    """How long a command tries to reach any broker at all, in milliseconds."""
    if arguments.timeout is not None:
        return float(arguments.timeout * 1000)
    return min(CONNECT_TIMEOUT_MS, config.api_timeout_ms)


def client_config(arguments: argparse.Namespace, servers: str, **defaults: object) -> ClientConfig:
    """The client properties that the options give, for `servers`; `defaults` with _ for dots.

    UsageError, ConfigError.
    """
    props: dict[str, object] = {
        "default.api.timeout.ms": API_TIMEOUT_MS,
        "request.timeout.ms": API_TIMEOUT_MS,
    }
    props.update({key.replace("_", "."): value for key, value in defaults.items()})
    props.update(given_properties(arguments))
    props["bootstrap.servers"] = servers
    return ClientConfig.from_props(props)


def given_properties(arguments: argparse.Namespace) -> dict[str, object]:
    """The client properties that --timeout, --client-config and -X give. UsageError."""
    props: dict[str, object] = {}
    if arguments.timeout is not None:
        limit_ms = max(1, round(arguments.timeout * 1000))
        props.update({"default.api.timeout.ms": limit_ms, "request.timeout.ms": limit_ms})
        # So long a server may take that accepts a connection and never answers.
        setup_ms = min(limit_ms, ClientConfig().connect_timeout_ms)
        props["socket.connection.setup.timeout.ms"] = setup_ms
    if arguments.client_config is not None:
        props.update(_properties_in(arguments.client_config))
    props.update(pairs(arguments.properties, "-X"))
    return props


def _properties_in(path: Path) -> dict[str, str]:
    """What a properties file says, read as Java reads it but for its encoding. UsageError."""
    from fencepost.log.errors import CorruptFileError
    from fencepost.log.properties import parse_properties

    try:
        entries = list(parse_properties(str(path), path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, CorruptFileError) as error:
        raise UsageError(f"--client-config: {error}") from error
    return {key: value.strip() for _, key, value in entries}


def command(function: Run) -> Run:
    """Have a command's expected errors end it with one line on stderr and the right exit code."""

    @functools.wraps(function)
    def run(arguments: argparse.Namespace) -> int:
        try:
            return function(arguments)
        except (UsageError, ConfigError) as error:
            return _fail(arguments, error, 2)
        except EncodeError as error:  # a name that is no UTF-8, or is longer than any may be
            text = f"what the command line says does not fit into a request: {error}"
            return _fail(arguments, text, 2)
        except InputError as error:
            return _fail(arguments, error, 1)
        except ClientError as error:
            return _fail(arguments, f"{error}{_hint(error, arguments)}", 1)

    return run


def _fail(arguments: argparse.Namespace, error: object, code: int) -> int:
    text = "\n".join(map(escaped, str(error).splitlines()))
    print(f"fencepost {arguments.command}: {text}", file=sys.stderr)
    return code


def _hint(error: ClientError, arguments: argparse.Namespace) -> str:
    """What may be behind it: a mistyped config, or no controller that leads."""
    if isinstance(error, BrokerError) and error.code == ErrorCode.INVALID_CONFIG:
        from fencepost.log.config import TOPIC_CONFIGS  # for mistakes only

        return config_hint(_configs_of(arguments), TOPIC_CONFIGS)
    last = error.last if isinstance(error, DeadlineExceeded) else error
    if not isinstance(last, RequestTimedOut) or last.host is None:
        return ""
    return "; perhaps no controller leads: see `fencepost quorum describe --bootstrap-controller`"


def check_number(option: str, value: int | None, low: int, high: int) -> None:
    """Whether an option's number, if there is one, is between `low` and `high`. UsageError."""
    if value is not None and not low <= value <= high:
        raise UsageError(f"{option} {value}: allowed is {low} to {high}")


def _configs_of(arguments: argparse.Namespace) -> list[str]:
    """The config keys on the command line."""
    given = [getattr(arguments, name, None) or [] for name in ("config", "set", "append")]
    return [text.partition("=")[0].strip() for texts in given for text in texts]


def config_hint(keys: Iterable[str], known: Collection[str]) -> str:
    """Which of the `known` configs are meant by those of the `keys` that are none of them."""
    from fencepost.log.configdef import closest

    near = {key: closest(key, known) for key in keys if key not in known}
    meant = [f"{name} for {key}" for key, name in near.items() if name is not None]
    return f"; did you mean {', '.join(meant)}?" if meant else ""


def partition_of(text: str, option: str) -> TopicPartition:
    """ "topic:3" as a partition."""
    topic, colon, number = text.rpartition(":")
    if not colon or not topic or not (number.isascii() and number.isdecimal()):
        raise UsageError(f"{option} {text!r}: must be TOPIC:PARTITION")
    return TopicPartition(topic, int(number))
