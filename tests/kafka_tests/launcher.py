"""Starts nodes for a JVM: a process with the node's modules loaded that forks for each of them.

A line of standard input is the node's configuration, the file that says it is ready, its log and
the principals of its listeners (`LISTENER=Type:name,...`, or nothing), with tabs between them; the
answer is a line with the node's process id. At the end of the input every node that still runs is
killed, and so it is when the JVM dies.

Clients of a listener that has a principal are that principal without a login. Tests of Kafka's
authorizer have a Java class of their own that does so (`principal.builder.class`), which no node of
ours can load: the JVM asks it, and the node has its answer.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import signal
import sys

import fencepost.broker

LEFT_OUT = ("__main__",)


def main() -> None:
    """Serve until the input ends."""
    _load()
    running: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda *_: _reap(running))
    for line in sys.stdin:
        config, ready, log, principals = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            _give_principals(principals)
            _serve(config, ready, log)
        running.add(pid)
        _reap(running)  # it may have ended before it was known
        print(pid, flush=True)
    for pid in tuple(running):
        os.kill(pid, signal.SIGKILL)


def _load() -> None:
    """Import what a node would import itself, once for all of them."""
    importlib.import_module("fencepost.cli.main")
    importlib.import_module("fencepost.cli.serve")
    for module in pkgutil.walk_packages(fencepost.broker.__path__, "fencepost.broker."):
        if module.name.rpartition(".")[2] not in LEFT_OUT:
            importlib.import_module(module.name)


def _reap(running: set[int]) -> None:
    """Forget the nodes that have ended; until then their ids would look alive."""
    for pid in tuple(running):
        try:
            has_ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # the signal came while this function was at work
            has_ended = True
        if has_ended:
            running.discard(pid)


def _give_principals(text: str) -> None:
    """In the child: let clients of some listeners be other principals than User:ANONYMOUS."""
    from fencepost.broker.net.connection import Connection
    from fencepost.machines.session import Principal

    of_listener = {}
    for one in filter(None, text.split(",")):
        listener, _, principal = one.partition("=")
        kind, _, name = principal.partition(":")
        of_listener[listener] = Principal(kind, name)
    connection_made = Connection.connection_made

    def made(self: Connection, transport: asyncio.BaseTransport) -> None:
        connection_made(self, transport)
        principal = of_listener.get(self.listener_name)
        if principal is not None:
            self.session.principal = principal

    if of_listener:
        Connection.connection_made = made  # type: ignore[method-assign]


def _serve(config: str, ready: str, log: str) -> None:
    """Be the node, in the child."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor, standard in ((nothing, 0), (nothing, 1), (said, 2)):
        os.dup2(descriptor, standard)
    code = 1
    try:
        from fencepost.cli.main import main as command

        code = command(["serve", "--config", config, "--ready-file", ready])
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
