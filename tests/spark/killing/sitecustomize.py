"""Kills at named steps of a query: every Python process that has this directory on its PYTHONPATH
looks, at each step, whether the file in FENCEPOST_TEST_KILL names it, and whom to kill there.

Python imports a module of this name when it starts, so Spark's own processes for Python (the
source's, the sink's, tasks' workers) need nothing else. The product has no hook for it: its methods
are wrapped when their module is loaded. The file is taken by renaming it, so one kill is done once.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ARMED = Path(os.environ["FENCEPOST_TEST_KILL"])


def step(name: str) -> None:
    """Kill, if that is what the file says of this step."""
    try:
        order = json.loads(ARMED.read_text())
        if order["step"] != name:
            return
        if order["passes"]:  # a later one of these; where they are taken at once, any
            draft = ARMED.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps({**order, "passes": order["passes"] - 1}))
            draft.rename(ARMED)
            return
        os.rename(ARMED, ARMED.with_suffix(".taken"))
    except (OSError, ValueError):
        return  # nothing is to be killed, or another process was first
    if order["by_test"]:
        # The test looks for it from here, kills it, and this goes on, if it outlives it.
        draft = ARMED.with_suffix(f".{os.getpid()}")
        draft.write_text(str(os.getpid()))
        draft.rename(ARMED.with_suffix(".at"))
        while not ARMED.with_suffix(".killed").exists():
            time.sleep(0.005)
        return
    os.kill(order.get("pid") or os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the JVM takes its children with it


def around(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Steps NAME and NAME:done, before a function and behind it."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def stepping(*args: Any, **kwargs: Any) -> Any:
            step(name)
            result = function(*args, **kwargs)
            step(f"{name}:done")
            return result

        return stepping

    return wrap


def around_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a task that reads, with a step between its first rows and the others."""

    @functools.wraps(function)
    def stepping(*args: Any, **kwargs: Any) -> Iterator[Any]:
        step("read")
        for number, rows in enumerate(function(*args, **kwargs)):
            yield rows
            if number == 0:
                step("read:begun")
        step("read:done")

    return stepping


def around_moves(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of files that get other names, with a step between the first and the second."""

    @functools.wraps(function)
    def stepping(storage: Any, moves: Any) -> None:
        def begun() -> Iterator[Any]:
            for number, one in enumerate(moves):
                if number == 1:
                    step("move:begun")
                yield one

        step("move")
        function(storage, begun())
        step("move:done")

    return stepping


# What is wrapped, by module: the attribute, and how.
STEPS: dict[str, dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "fencepost.spark.stream": {
        "StreamReader.latestOffset": around("plan"),
        "StreamReader.partitions": around("split"),
        "StreamReader.read": around_rows,
    },
    "fencepost.spark.exactly_once": {
        "SinkDriver.open": around("open"),
        "SinkDriver.commit": around("commit"),
        "record_decision": around("decide"),
        "end_all": around("end"),
    },
    "fencepost.spark.writer": {"write_in_transaction": around("write")},
    "fencepost.spark.tables.query": {"apply_batch": around("batch")},
    "fencepost.spark.tables.bucket_task": {"BucketWork.merge_bucket": around("write")},
    "fencepost.spark.tables.versions": {
        "Versions.publish": around("decide"),
        "Versions.finish": around("finish"),
        "Versions.expire": around("expire"),
    },
    "fencepost.spark.archive.query": {
        "archive_batch": around("batch"),
        "written_paths": around("stage"),
    },
    "fencepost.spark.archive.writing": {"write_files": around("write")},
    "fencepost.spark.archive.batches": {"update_state": around("decide")},
    "fencepost.arrow.storage": {"LocalStorage.move_all": around_moves},
}


class Patching(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads the modules above as ever, and wraps what is in them."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in STEPS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            self.loader: Any = spec.loader
            spec.loader = self
        return spec

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        for where, wrap in STEPS[module.__name__].items():
            owner, _, attribute = where.rpartition(".")
            holder = getattr(module, owner) if owner else module
            setattr(holder, attribute, wrap(getattr(holder, attribute)))


sys.meta_path.insert(0, Patching())
