"""`run`: a node in this process, from its configuration to its exit code.

Standard error gets one line per event: time, level, who, what. SIGINT and SIGTERM stop the node in
order; a second one ends the process at once, as a crash would, which the log survives. SIGHUP has a
node with TLS read its key files again.

Exit codes: 0 stopped as asked, and in order; 1 it could not start, had to give up, or stopped with
something left undone that the next start has to recover; 2 the configuration is wrong; 130 forced.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import BindError
from fencepost.broker.config.file_limit import (
    FileLimitError,
    FileShares,
    raise_file_limit,
    share_files,
    warn_of_few_files,
)
from fencepost.broker.loop.event_loop import EventLoopError, loop_factory
from fencepost.broker.node.node import Node, StartError
from fencepost.log.descriptors import is_shortage
from fencepost.log.errors import LogError, describe, in_words, with_advice

log = logging.getLogger("fencepost")

EXIT_FORCED = 130
PARENT_POLL_S = 0.5
GC_THRESHOLD = 20_000
"""Requests leave no reference cycles behind, and closed connections small ones, so the collector
need not look often."""
LINE_CHARACTERS_MAX = 2_000
LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"


def run(
    config: BrokerConfig, *, ready_file: Path | None = None, stop_with_parent: int | None = None
) -> int:
    """Serve until a signal, or until the parent process of the id `stop_with_parent` has ended.

    0 stands for the parent at the start. Returns the exit code.
    """
    set_up_logging(as_json=config.get("fencepost.log.format") == "json")
    for note in config.notes:
        log.warning("%s", note)
    try:
        name, factory = loop_factory(config.get("fencepost.event.loop"))
    except EventLoopError as error:
        log.error("%s", error)
        return 2
    try:
        files = share_files(config, raise_file_limit())
    except FileLimitError as error:
        log.error("cannot start: %s", error)
        return 1
    warn_of_few_files(config, files)
    log.info("node %d on Python %s, %s", config.node_id, sys.version.split()[0], name)
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_serve(config, files, ready_file, stop_with_parent))


class OneLineFormatter(logging.Formatter):
    """One line per event, whatever is in it: messages repeat what clients and files say.

    A name with a line feed must not look like two events, nor one of 32 KiB fill the disk. Our own
    tracebacks keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """See `logging.Formatter`."""
        line = super().formatMessage(record)
        if len(line) > LINE_CHARACTERS_MAX:
            line = f"{line[:LINE_CHARACTERS_MAX]}... ({len(line)} characters)"
        if line.isprintable():
            return line
        return "".join(
            c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
            for c in line
        )


def set_up_logging(*, as_json: bool) -> None:
    """One line per event on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json:
        from fencepost.broker.node.json_log import JsonFormatter

        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(OneLineFormatter(LOG_FORMAT, "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


async def _serve(
    config: BrokerConfig, files: FileShares, ready_file: Path | None, stop_with_parent: int | None
) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_loop_exception)
    # What the start makes stays until the end: keep the collector from looking at it again and
    # again, which would cost a third of the start of a node with many partitions. It leaves few
    # cycles behind, which are frozen with the rest: to look for them takes a tenth of a start.
    gc.disable()
    node = Node(config, loop, files)
    _stop_on_signals(loop, node.request_stop)
    if node.has_tls:
        loop.add_signal_handler(signal.SIGHUP, node.reload_keys)
    if stop_with_parent is not None:  # from now on: a start may wait for other nodes for ever
        _watch_parent(loop, node.request_stop, stop_with_parent or os.getppid())
    try:
        await _start(node, ready_file)
    except (BindError, StartError, LogError, OSError) as error:
        log.error("cannot start: %s", with_advice(in_words(error)))
        await node.stop()
        return 1
    except Exception as error:
        log.exception("cannot start: %s", describe(error))
        with contextlib.suppress(Exception):  # half a node may not know how to stop
            await node.stop()
        return 1
    reason, code = await node.stop_requested()
    log.info("stopping: %s", reason)
    if not await node.stop():
        log.error("stopped uncleanly: the next start checks the logs")
        return code or 1
    log.info("stopped")
    return code


async def _start(node: Node, ready_file: Path | None) -> None:
    """Start the node and write the ready file. Raises what `Node.start` does, OSError."""
    await node.start(on_locked=lambda: _forget_earlier_run(ready_file))
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()
    if ready_file is not None:
        _announce(ready_file, node)


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[str], None]) -> None:
    """The first SIGINT or SIGTERM stops in order, the second at once."""
    heard: list[str] = []

    def on_signal(number: signal.Signals) -> None:
        heard.append(number.name)
        if len(heard) > 1:
            log.warning("second %s: terminating at once", number.name)
            os._exit(EXIT_FORCED)
        stop(f"{number.name} received")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


def _forget_earlier_run(ready_file: Path | None) -> None:
    """Remove the ready file of an earlier run: its addresses may not be served any more.

    Not before the directories are locked: until then, that run may still be serving.
    """
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)


def _announce(ready_file: Path, node: Node) -> None:
    """Say in a file, whole or not at all, where clients are accepted."""
    text = "".join(f"{endpoint.local}\n" for endpoint in node.bound)
    partial = ready_file.with_name(ready_file.name + ".tmp")
    partial.unlink(missing_ok=True)
    with partial.open("x") as file:  # through no link that another user of /tmp has put there
        file.write(text)
    partial.rename(ready_file)


def _watch_parent(
    loop: asyncio.AbstractEventLoop, stop: Callable[[str], None], parent: int
) -> None:
    """Stop when the process that started this one is gone; it may be gone already."""

    def look() -> None:
        if os.getppid() != parent:
            stop("the parent process has ended")
        else:
            loop.call_later(PARENT_POLL_S, look)

    look()


def _log_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log an exception that no code has caught, with its traceback; the node goes on."""
    error = context.get("exception")
    if is_shortage(error):  # it is tried again in a second
        log.warning("no file descriptor (ulimit -n): %s", context.get("message"))
        return
    log.error(
        "%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None
    )
