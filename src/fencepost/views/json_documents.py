"""JSON documents as commands print them.

`fencepost wire` prints some without views, and needs no package but the standard library.
"""

from __future__ import annotations

import json
from typing import Any


def json_text(document: Any) -> str:
    """One JSON document, which may be or have views, for people and for jq."""
    return json.dumps(document, indent=2, default=_plain)


def _plain(view: Any) -> Any:
    from fencepost.views.rendering import document_of  # which needs msgspec

    return document_of(view)
