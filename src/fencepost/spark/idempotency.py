"""`in_batch`: one line that makes a write within foreachBatch count once.

Spark runs a micro-batch again that it does not know to be finished, and with it all writes of the
function that foreachBatch calls. The options from here name a write by query, batch and, where a
function has several to one topic, a name of its own; a write that was done is skipped. txnAppId and
txnVersion are also what Delta Lake calls them, so the same line serves its tables.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_PROPERTY: Final = "sql.streaming.queryId"
DESCRIPTION_PROPERTY: Final = "spark.job.description"
"""Of a streaming query: its name, if it has one, then lines with the ids of query, run, batch."""

# Spark Connect has a process for each run of a query with foreachBatch.
_process: Final = uuid.uuid4().hex


def in_batch(
    frame: DataFrame, batch_id: int, write: str = "", *, app_id: str | None = None
) -> dict[str, str]:
    """Options of one write in the function of foreachBatch, by which it is done exactly once:

        def publish(frame, batch_id):
            frame.write.format("fencepost").options(**in_batch(frame, batch_id))...

    `write` tells writes of one batch to one topic apart. `app_id` is what names the query in all
    its runs; without it that is the query's id, which Spark Connect does not tell: there it must be
    given, and another one when the query begins again with a new checkpoint.

    ValueError outside of foreachBatch, and on Spark Connect, without `app_id`.
    """
    if type(batch_id) is not int or batch_id < 0:
        raise ValueError(f"{batch_id!r} is no batch id; give the one that foreachBatch gives")
    run_id = _process
    if not type(frame).__module__.startswith("pyspark.sql.connect."):
        context: Any = frame.sparkSession.sparkContext
        app_id = app_id or context.getLocalProperty(QUERY_PROPERTY)
        run_id = run_in(context.getLocalProperty(DESCRIPTION_PROPERTY) or "")
    if not app_id:
        raise ValueError(
            "Spark does not say here which query this is: in_batch is for the function that "
            "foreachBatch calls, and with Spark Connect it needs app_id"
        )
    return {
        "deliveryGuarantee": "exactly-once",
        "txnAppId": f"{app_id}/{write}" if write else app_id,
        "txnVersion": str(batch_id),
        **({"txnRun": run_id} if run_id else {}),
    }


def run_in(description: str) -> str:
    """The id of a query's run in the description of its jobs; empty where the program has put
    another there."""
    found = re.search(r"^runId = ([0-9a-f-]{36})$", description, re.MULTILINE)
    return found[1] if found else ""
