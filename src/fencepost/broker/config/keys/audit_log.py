"""The audit log: keys of our own, since Kafka writes its audit lines by a logger of Java."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    BrokerConfigDef,
    honoured,
)
from fencepost.log.configdef import at_least

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    honoured(
        "fencepost.audit.log.path",
        STRING,
        None,
        None,
        "File for the audit log: logins, and what clients were allowed and refused, as JSON lines."
        " There is none if it is not set.",
    ),
    honoured(
        "fencepost.audit.log.allowed",
        BOOLEAN,
        True,
        None,
        "Whether it has what clients were allowed to do, too, and not only refusals.",
    ),
    honoured(
        "fencepost.audit.log.events.per.minute",
        INT,
        60,
        at_least(0),
        "Most events in a minute of the same principal, API and resource; those beyond are counted."
        " 0: all are written.",
    ),
    honoured(
        "fencepost.audit.log.max.bytes",
        LONG,
        104_857_600,
        at_least(4_096),
        "Size at which the file is replaced by an empty one.",
    ),
    honoured(
        "fencepost.audit.log.files.max",
        INT,
        10,
        at_least(1),
        "How many files are kept, the newest included; older ones are removed.",
    ),
)
"""See the module."""
