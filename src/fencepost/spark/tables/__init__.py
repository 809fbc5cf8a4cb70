"""Topics as tables of latest values: by key, from change data, exactly once, in versions."""

from fencepost.spark.tables.batches import MergeOptions as MergeOptions
from fencepost.spark.tables.errors import (
    TableError as TableError,
    UnorderedError as UnorderedError,
)
from fencepost.spark.tables.query import (
    latest as latest,
    read as read,
    read_errors as read_errors,
)
