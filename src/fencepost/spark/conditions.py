"""The names of all conditions that errors in Spark have; nothing else is one of ours.

Those of reading are in `fencepost.arrow.conditions`. Names are those of Spark's own Kafka connector
where it has an equal (error-conditions.json of Spark 4.x); others begin with FENCEPOST_.
"""

from __future__ import annotations

from typing import Final

from fencepost.arrow.conditions import READ_CONDITIONS

EXACTLY_ONCE: Final = "FENCEPOST_EXACTLY_ONCE"
CLUSTER: Final = "FENCEPOST_CLUSTER"
INVALID_OPTION: Final = "FENCEPOST_INVALID_OPTION"
INVALID_SCHEMA: Final = "FENCEPOST_INVALID_SCHEMA"
INVALID_ROWS: Final = "FENCEPOST_INVALID_ROWS"
NULL_TOPIC: Final = "KAFKA_NULL_TOPIC_IN_DATA"
EXACTLY_ONCE_KINDS: Final = frozenset(
    {
        "BATCH_FORGOTTEN",
        "CHECKPOINT_WENT_BACK",
        "DECISION_LOST",
        "DECISION_TOO_LATE",
        "DIFFERENT_DRIVERS",
        "INCOMPLETE_BATCH",
        "INVALID_DECISION",
        "KEY_NEEDED",
        "NOTHING_TO_FORGET",
        "NOT_A_SINK",
        "NOT_IN_A_TASK",
        "OLDER_VERSION",
        "SAME_KEY_TWICE",
        "SINK_FENCED",
        "TOO_MANY_KEYS",
        "TOO_MANY_TRANSACTIONS",
        "TRANSACTIONS_LOST",
        "UNFINISHED_BATCH",
        "UNKNOWN_BATCH",
    }
)
CONDITIONS: Final = frozenset(
    {
        CLUSTER,
        INVALID_OPTION,
        INVALID_ROWS,
        INVALID_SCHEMA,
        NULL_TOPIC,
        *READ_CONDITIONS,
        *(f"{EXACTLY_ONCE}.{kind}" for kind in EXACTLY_ONCE_KINDS),
    }
)
