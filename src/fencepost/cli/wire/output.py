"""What decode prints: documents with records beside them, and one JSON document per line."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

from fencepost.cli.cluster_options import UsageError
from fencepost.cli.wire.documents import Decoded


def shown(decoded: Decoded, with_records: bool) -> dict[str, Any]:
    """The document, on request with the records of its batches beside it."""
    records = _batches().decoded_records(decoded.message, decoded.version) if with_records else []
    return {**decoded.document, "decoded_records": records} if records else decoded.document


def check_records_option(with_records: bool) -> None:
    """Raise UsageError when records are wanted and what reads them is not installed."""
    if with_records:
        _batches()


def _batches() -> ModuleType:
    """What shows record batches; everything else here does with the standard library alone."""
    try:
        from fencepost.cli.wire import batches
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise UsageError(
            f"--records needs the module {name}, which is missing: pip install fencepost"
        ) from None
    return batches


def warn_if_different(decoded: Decoded, what: str) -> None:
    """Say on stderr when there are bytes behind the message, and when encoding the document will
    not give the same bytes."""
    if decoded.trailing_bytes:
        doubt = "; is --version right?" if "response" in decoded.document else ""
        print(
            f"{what} has {decoded.trailing_bytes} bytes behind the message, kept as "
            f"'trailing'{doubt}",
            file=sys.stderr,
        )
    if decoded.differs_at is not None:
        print(
            f"{what} is not as encoders write it: encode gives other bytes from its byte "
            f"{decoded.differs_at} on",
            file=sys.stderr,
        )


def print_line(document: dict[str, Any]) -> None:
    """One JSON document in one line."""
    json.dump(document, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
