"""Topics as Arrow, without Spark: `read` for a table, `scan` for record batches, `stream` for more.

    import fencepost.arrow

    table = fencepost.arrow.read("localhost:9092", topics="orders", columns=["key", "value"])

Ranges are planned, and lost records noticed, by the code that Spark's data source uses. Columns are
those of Spark's Kafka source; see `fencepost.arrow.reading` for arguments and errors. Needs the
extra `arrow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.lazy_names import lazy_names

if TYPE_CHECKING:
    from fencepost.arrow.errors import (
        ArchiveReadError,
        ArgumentError,
        BoundsError,
        DamagedRecordsError,
        DataLossError,
        OffsetError,
        ReadError,
        TextError,
        TimestampError,
    )
    from fencepost.arrow.reading import read, scan, stream
    from fencepost.arrow.scanning import Scan
    from fencepost.arrow.streaming import Stream

__all__ = [
    "ArchiveReadError",
    "ArgumentError",
    "BoundsError",
    "DamagedRecordsError",
    "DataLossError",
    "OffsetError",
    "ReadError",
    "Scan",
    "Stream",
    "TextError",
    "TimestampError",
    "read",
    "scan",
    "stream",
]

_MODULES = {
    **dict.fromkeys([name for name in __all__ if name.endswith("Error")], "errors"),
    "Scan": "scanning",
    "Stream": "streaming",
    "read": "reading",
    "scan": "reading",
    "stream": "reading",
}

# Spark's planning processes load parts of this package and need none of these.
__getattr__, __dir__ = lazy_names(globals(), _MODULES)
