"""The page of Kafka's error codes: what they mean, and which messages name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from docs_site.api_pages import WIDE
from docs_site.prose import codes_in, error_anchor, field_html, is_error_field, page_of_api
from docs_site.schema import entries
from docs_site.tables import raw, table
from fencepost.wire.api import API_NAMES, response_class
from fencepost.wire.error_meanings import meaning
from fencepost.wire.errors import ErrorCode, is_retriable


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of the page."""
    yield "reference/errors.md", error_page()


def error_page() -> str:
    """All codes in one table, an anchor at each."""
    told = told_by()
    rows = [
        [
            str(int(one)),
            f'<a class="name" href="#{error_anchor(one)}">{one.name}</a>',
            field_html(meaning(one), is_error=False, root=""),
            "yes" if is_retriable(one) else "",
            ", ".join(told.get(int(one), [])),
        ]
        for one in sorted(ErrorCode)
    ]
    anchors = [error_anchor(one) for one in sorted(ErrorCode)]
    headings = ("Code", "Name", "Meaning", "Again", "Named by")
    return "\n".join(
        [
            f"{WIDE}# Error codes\n",
            f"The {len(rows)} codes that responses carry, as int16. *Again* says whether the same "
            "request may succeed later, by itself or after fresh metadata; the set is that of "
            "Kafka's own clients. *Named by* are the responses whose fields name the code in this "
            "reference; others may have it too. In Python: `ErrorCode`, `error_name` and "
            "`is_retriable` of `fencepost.wire.errors`, and `fencepost.wire.error_meanings`.\n",
            raw(table(headings, rows, "errors", anchors)),
        ]
    )


def told_by() -> dict[int, list[str]]:
    """Links to the fields of responses that name a code, by code, one per API."""
    found: dict[int, list[str]] = defaultdict(list)
    for key in sorted(API_NAMES):
        seen: set[int] = set()
        for entry in entries(response_class(key)):
            if not is_error_field(entry.row.name):
                continue
            for number in codes_in(entry.row.doc):
                if number not in seen:
                    seen.add(number)
                    href = f"{page_of_api(key)}.html#{entry.anchor}"
                    found[number].append(f'<a href="{href}">{API_NAMES[key]}</a>')
    return found
