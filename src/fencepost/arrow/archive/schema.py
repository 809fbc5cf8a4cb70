"""The columns of an archive's files, and files that have them otherwise.

Files are written with FILE_SCHEMA. What else may be there, since files are anybody's to rewrite and
a later version may write more: columns beside these, which readers of records pass over and
compaction keeps; and columns of the same kind that are wider or spelt in another way (`int64` for
`int32`, `large_binary` for `binary`), which are read as long as their values fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from fencepost.arrow.archive.layout import ArchiveError
from fencepost.batch.columns import HEADERS_TYPE

FILE_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""The columns of a file; topic and date are in the names of its directories."""
REMEDY: Final = (
    "write the file again with that type, and other values to a column of another name; archives "
    "in parquet, delta and iceberg keep columns beside their own"
)
_KINDS: Final = (
    pa.types.is_signed_integer,
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind),
)


def require_columns(found: pa.Schema, columns: Iterable[str], uri: str) -> None:
    """ArchiveError unless a file has the columns of an archive that are named, each of its kind."""
    for name in columns:
        wanted = FILE_SCHEMA.field(name).type
        index = found.get_field_index(name)
        if index < 0:
            raise ArchiveError(f"{uri}: has no column {name}, which is {wanted} in an archive")
        kind = found.field(index).type
        if not kind.equals(wanted) and not any(of(kind) and of(wanted) for of in _KINDS):
            raise ArchiveError(
                f"{uri}: column {name} is {kind} in the file and {wanted} in an archive, which "
                f"would lose what is there; {REMEDY}"
            )


def fitted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the types of FILE_SCHEMA. ArrowInvalid for values that do not fit."""
    wanted = pa.schema([FILE_SCHEMA.field(name) for name in rows.schema.names])
    return rows if rows.schema.equals(wanted) else rows.cast(wanted)
