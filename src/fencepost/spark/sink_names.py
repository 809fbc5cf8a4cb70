"""What exactly-once sinks are called where the user gives no transactionalIdPrefix.

    fencepost-spark-QUERY-TOPIC-DIGEST   a query; of its id, which its checkpoint has in metadata
    fencepost-spark-APP-TOPIC-DIGEST     batch writes with a key; of txnAppId and topic
    fencepost-spark-TOPIC-UUID           a batch write without: another one each time

The id stays when a checkpoint is moved, copied or spelt in another way, so the sink stays the same.
A query may get another name or topic, so its sink is found by the digest among the transactional
ids that coordinators know, and keeps the name that it has. Before there were names in them, the
digest was of `checkpointLocation` as it was written: those are found as well.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from fencepost.arrow.storage import StorageError, canonical
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.spark.decisions import read_decision
from fencepost.spark.errors import SinkError
from fencepost.spark.query_checkpoint import QueryUnknownError, query_id_of

PREFIX: Final = "fencepost-spark"
PART_CHARS_MAX: Final = 40
TASK_ID: Final = "-[0-9a-f]{8}-[0-9]+-[0-9]+-[0-9]+"
"""What follows a sink's name in the transactional ids of its tasks."""
UNNAMED: Final = f"{PREFIX}-(.*-)?[0-9a-f]{{32}}"
"""Names of batch writes that give neither a prefix nor a key."""
RESOLVED_MAX: Final = 100

# By bootstrap servers, checkpoint, name of the query and topic: what coordinators were asked for.
_resolved: OrderedDict[tuple[str, ...], str] = OrderedDict()


def name_of_write(topic: str | None) -> str:
    """Of a batch write that nothing else names."""
    return _joined(topic or "", uuid.uuid4().hex)


def name_of_key(app_id: str, topic: str | None) -> str:
    """Of batch writes with that txnAppId to that topic."""
    return _joined(app_id, topic or "", digest_of(f"{app_id}\n{topic or ''}"))


def name_of_query(query_name: str, topic: str | None) -> str:
    """Of a query whose checkpoint is where spark.sql.streaming.checkpointLocation says: Spark calls
    the directory like the query, which therefore is another query under another name."""
    return _joined(query_name, topic or "", digest_of(f"query\n{query_name}\n{topic or ''}"))


def name_of_checkpoint(
    cluster: Cluster, location: str, query_name: str = "", topic: str | None = None
) -> str:
    """Of the query that has the checkpoint. SinkError where its metadata cannot be read and no
    sink is known by its location; ClientError."""
    key = (cluster.config.bootstrap_servers, location, query_name, topic or "")
    name = _resolved.get(key)
    if name is None:
        name = _resolved[key] = _resolve(cluster, location, query_name, topic)
        while len(_resolved) > RESOLVED_MAX:
            _resolved.popitem(last=False)
    return name


def forget_resolved() -> None:
    """Ask again next time, as another process would."""
    _resolved.clear()


def digest_of(text: str) -> str:
    """What tells names apart: 80 bits."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _resolve(cluster: Cluster, location: str, query_name: str, topic: str | None) -> str:
    query_id, reason = "", ""
    try:
        query_id = query_id_of(location)
    except QueryUnknownError as error:
        reason = str(error)
    digests = [digest_of(query_id)] if query_id else []
    digests += [digest_of(spelling) for spelling in _spellings(location)]
    preferred = _joined(query_name, topic or "", digests[0])
    if query_id and read_decision(cluster, preferred) is not None:
        return preferred  # as at most starts; no other broker has to be asked
    found = _known(cluster, digests)
    if not found and not query_id:
        raise SinkError(
            "exactly-once needs the option transactionalIdPrefix here: without it a query is known "
            f"by the id in its checkpoint, and {reason}",
            option="transactionalIdPrefix",
        )
    return _latest(cluster, sorted(found), query_id) if found else preferred


def _known(cluster: Cluster, digests: Sequence[str]) -> set[str]:
    """Sinks with one of the digests: those that have a decision, and those whose driver or tasks a
    coordinator knows."""
    pattern = f"{PREFIX}-(.*-)?({'|'.join(digests)})"
    listed = Admin(cluster).list_transactions(pattern=f"{pattern}({TASK_ID})?")
    found = {re.sub(TASK_ID + "$", "", one.transactional_id) for one in listed}
    for name in (f"{PREFIX}-{digest}" for digest in digests):
        if name not in found and read_decision(cluster, name) is not None:
            found.add(name)
    return found


def _latest(cluster: Cluster, names: Sequence[str], query_id: str) -> str:
    """Of several, which older versions made of several spellings, the one that is furthest."""
    if len(names) == 1:
        return names[0]

    def progress(name: str) -> tuple[int, int]:
        decision = read_decision(cluster, name)
        if decision is None:
            return (-1, -1)
        batch = decision.decided(query_id)
        return (-1 if batch is None else batch, decision.number)

    return max(names, key=progress)


def _spellings(location: str) -> list[str]:
    """As older versions may have been given the location, of which they made the digest."""
    found = [location.rstrip("/")]
    try:
        one = canonical(location)
    except StorageError:
        return found
    scheme, _, rest = one.partition("://")
    if scheme == "file":
        for path in (rest, os.path.abspath(_path_of(location))):
            found += [path, f"file:{path}", f"file://{path}"]
    elif scheme == "s3":
        found += [f"{other}://{rest}" for other in ("s3", "s3a", "s3n")]
    return list(dict.fromkeys(found))


def _path_of(location: str) -> str:
    """The path of a local location; what `canonical` takes for one, links not followed."""
    return re.sub("^file:(//[^/]*)?", "", location, flags=re.IGNORECASE)


def _joined(*parts: str) -> str:
    """Of letters that transactional ids, groups and ACLs take without quoting."""
    cleaned = (
        re.sub(r"[^A-Za-z0-9._-]+", "_", part)[:PART_CHARS_MAX].strip("_-") for part in parts[:-1]
    )
    return "-".join((PREFIX, *filter(None, cleaned), parts[-1]))
