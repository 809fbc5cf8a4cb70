"""Spares a Python worker of Spark's most of the garbage collection that follows every task.

Spark's daemon has a worker collect all generations after each task. What a worker has loaded, some
fifty thousand objects of PySpark, Arrow and ours, is looked at again each time, which takes ten
times as long as a task of a few records and never finds anything. `freeze_loaded` moves what is
there at a worker's first task of ours out of the collector's sight (`gc.freeze`). Objects that come
later are collected as ever, and those that were there are still freed when their last reference is
gone; kept is only what was there by then and becomes part of an unreachable cycle.
"""

from __future__ import annotations

import gc
import os

from pyspark import TaskContext

_frozen_in = 0


def freeze_loaded() -> None:
    """Do so, once in a worker; nothing anywhere else: a driver's objects are not ours to keep."""
    global _frozen_in
    if _frozen_in != os.getpid() and TaskContext.get() is not None:
        _frozen_in = os.getpid()
        gc.freeze()
