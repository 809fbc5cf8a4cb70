"""Reading checkpoints of Spark's queries for the console; needs the extra `arrow`."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.arrow.checkpoint import CheckpointError, read_checkpoint
from fencepost.arrow.errors import ReadError
from fencepost.arrow.storage import storage_at
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.spark.query_look import look_at_query
from fencepost.views.queries import CheckpointRow, QueryView


class CannotLook(ValueError):
    """A directory is no checkpoint, or cannot be read; the text says why."""


def rows_of(places: Mapping[str, str]) -> list[CheckpointRow]:
    """What the files of these directories say, by name."""
    return [_row(name, place) for name, place in places.items()]


def _row(name: str, place: str) -> CheckpointRow:
    try:
        found = read_checkpoint(storage_at(place))
    except (CheckpointError, OSError) as error:
        return CheckpointRow(name, None, None, None, None, str(error))
    return CheckpointRow(
        name, found.query_id, found.state, found.planned_batch, found.committed_batch, None
    )


def look(config: ClientConfig, place: str) -> QueryView:
    """A checkpoint held against the cluster. CannotLook, ClientError."""
    with Cluster(config=config) as cluster:
        try:
            return look_at_query(cluster, storage_at(place))
        except (CheckpointError, ReadError, OSError) as error:
            raise CannotLook(str(error)) from None
