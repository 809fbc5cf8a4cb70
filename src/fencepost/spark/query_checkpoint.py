"""What the exactly-once sink reads of the checkpoint of the query that it works for.

The query's id, which Spark writes once, to `metadata`; it stays when the directory is moved, copied
or spelt in another way. And when the newest batch was written down, in `offsets`: a batch that runs
again was written down when it ran first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fencepost.arrow.storage import Storage, StorageError, storage_at

METADATA_BYTES_MAX: Final = 64 * 1024
ID_CHARS_MAX: Final = 200
# The driver waits for this before every first batch, so a store that is not there must say so soon.
_S3_TIMEOUTS: Final = {"connect_timeout": 5, "request_timeout": 10}


class QueryUnknownError(ValueError):
    """The checkpoint cannot be read from here, or has no id; the text says why."""


def query_id_of(location: str) -> str:
    """The id of the query that has the checkpoint. QueryUnknownError."""
    try:
        data = _storage(location).read_bytes("metadata", METADATA_BYTES_MAX)
        query_id = json.loads(data)["id"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise QueryUnknownError(f"{location}: its metadata cannot be read: {error}") from error
    if not isinstance(query_id, str) or not query_id.isprintable() or not query_id:
        raise QueryUnknownError(f"{location}: its metadata has no id")
    if len(query_id) > ID_CHARS_MAX:
        raise QueryUnknownError(f"{location}: its id has {len(query_id)} characters")
    return query_id


def planned_since_ms(location: str) -> int | None:
    """When Spark wrote down the newest batch, in ms since 1970 by the store's clock; None where
    there is none, or where that cannot be read."""
    try:
        found = _storage(location).list("offsets")
    except StorageError:
        return None
    batches = {
        int(match[1]): entry.modified_ms
        for entry in found
        if (match := re.fullmatch(r"offsets/([0-9]{1,18})", entry.path)) and entry.modified_ms
    }
    return batches[max(batches)] if batches else None


def _storage(location: str) -> Storage:
    options: Mapping[str, Any] = _S3_TIMEOUTS if location.lower().startswith("s3") else {}
    return storage_at(location, options)
