"""`fencepost testing`: brokers with faults on demand, for tests in any language.

`cluster` runs what `fencepost.testing.Cluster` is, `proxy` what `fencepost.testing.Proxy` is, with
a control port, until Ctrl-C. `certificates` writes keys and certificates for TLS.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from fencepost.addresses import PORT_MAX
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pairs
from fencepost.cli.node_options import add_override_option
from fencepost.cli.testing_certificates import register_certificates

if TYPE_CHECKING:
    from fencepost.testing.cluster import Cluster
    from fencepost.testing.proxy import Proxy

NODES_MAX = 100
EXAMPLES = """\
Everything listens on 127.0.0.1 only. The control port takes JSON over HTTP; GET / shows what there
is. docs/FAULTS.md lists what can be asked.

examples:
  fencepost testing cluster --brokers 3 --control-port 8090
  fencepost testing proxy -b kafka-1:9092 --port 19092 --control-port 8090
  curl -s http://127.0.0.1:8090/faults \\
      -d '{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}'
  curl -s -X POST http://127.0.0.1:8090/nodes/2/kill
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost testing`."""
    parser = subparsers.add_parser(
        "testing",
        description="Run brokers, or a proxy in front of brokers, with faults on demand.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    cluster = actions.add_parser(
        "cluster", help="a cluster with faults on demand, until Ctrl-C", epilog=EXAMPLES
    )
    cluster.add_argument("--brokers", type=int, metavar="N", default=1, help="default: 1")
    cluster.add_argument(
        "--controllers", type=int, metavar="N", help="default: 1 beside several brokers"
    )
    add_override_option(cluster, "a configuration key for all nodes; may be repeated")
    cluster.set_defaults(run=run, make=_cluster)
    proxy = actions.add_parser(
        "proxy", help="a proxy with faults on demand, until Ctrl-C", epilog=EXAMPLES
    )
    proxy.add_argument(
        "-b",
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT,...",
        help="the cluster, any that speaks Kafka's protocol in plaintext",
    )
    proxy.add_argument("--port", type=int, help="where clients begin (default: any free one)")
    proxy.set_defaults(run=run, make=_proxy)
    register_certificates(actions)
    for one in (cluster, proxy):
        one.add_argument(
            "--control-port", type=int, default=0, help="default: any free one; it is printed"
        )


def run(arguments: argparse.Namespace) -> int:
    """Start, say where, wait for a signal, stop."""
    from fencepost.broker.config.broker_config import ConfigError
    from fencepost.client.errors import ConfigError as ClientConfigError
    from fencepost.testing.node_process import ClusterError

    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    name = f"fencepost testing {'proxy' if arguments.make is _proxy else 'cluster'}"
    try:
        return _serve(arguments, stopping)
    except (UsageError, ConfigError, ClientConfigError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except (ClusterError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def _serve(arguments: argparse.Namespace, stopping: threading.Event) -> int:
    from fencepost.testing.control import ControlPort

    _check_port("--control-port", arguments.control_port, 0)
    made = arguments.make(arguments)
    try:
        with ControlPort(made, arguments.control_port) as control:
            made.start()
            print(f"clients: --bootstrap-server {made.bootstrap_servers}")
            print(f"control: http://{control.address}/")
            print("ready; Ctrl-C stops all", flush=True)
            while not stopping.wait(1.0):
                pass
            print("stopping", flush=True)
    finally:
        made.close()
    print("stopped", flush=True)
    return 0


def _cluster(arguments: argparse.Namespace) -> Cluster:
    from fencepost.testing.cluster import Cluster

    for option, count, least in (
        ("--brokers", arguments.brokers, 1),
        ("--controllers", arguments.controllers, 0),
    ):
        if count is not None and not least <= count <= NODES_MAX:
            raise UsageError(f"{option} {count}: allowed are {least} to {NODES_MAX}")
    config = pairs(arguments.overrides, "-o")
    try:
        return Cluster(arguments.brokers, controllers=arguments.controllers, config=config)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _proxy(arguments: argparse.Namespace) -> Proxy:
    from fencepost.testing.proxy import Proxy

    if arguments.port is not None:
        _check_port("--port", arguments.port, 1)
    return Proxy(arguments.bootstrap_server, port=arguments.port)


def _check_port(option: str, port: int, least: int) -> None:
    if not least <= port <= PORT_MAX:
        raise UsageError(f"{option} {port}: a port is a number from 1 to {PORT_MAX}")
