"""The log levels of a running broker, as Kafka's clients know them (KIP-412).

Loggers are Python's, levels go by Kafka's names. `root` is the logger above all of ours; the others
are named after modules. A level set here lasts until the process ends, as in Kafka.
"""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
_ROOT_LOGGER: Final = "fencepost"

LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""Kafka's names of levels, from the quietest, and Python's numbers for them."""


def levels() -> dict[str, str]:
    """Every logger of ours and its level in force, by name, `root` first."""
    names = sorted(
        name
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith(f"{_ROOT_LOGGER}.")
    )
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in (ROOT, *names)}


def exists(name: str) -> bool:
    """Whether there is a logger of this name that clients may set."""
    return name in levels()


def set_level(name: str, level: str | None) -> None:
    """Give a logger a level of `LEVELS`; with None it falls back to the one above it."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_ROOT_LOGGER if name == ROOT else name)


def _name_of(number: int) -> str:
    """The quietest level that lets through what `number` lets through."""
    for name, threshold in LEVELS.items():
        if number >= threshold:
            return name
    return "TRACE"
