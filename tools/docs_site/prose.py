"""Texts of the sources as Markdown and HTML, with links to the APIs and error codes they name."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from inspect import getdoc
from types import ModuleType

from fencepost.wire.api import API_NAMES
from fencepost.wire.errors import ErrorCode

API_BY_NAME = {name: key for key, name in API_NAMES.items()}
PLAIN_WORDS = frozenset({"Fetch", "Produce", "Metadata", "Heartbeat", "Vote", "Envelope"})
"""Names of APIs that are words as well: naming them is no reference."""

CODE_SPAN = re.compile(r"(`+[^`]*`+)")
NAME = re.compile(r"(?<![\w.])([A-Z]\w+)(?![\w.]*\w*[(_=])")
ERROR = re.compile(r"(?<=\berror )(\d+)\b")
NUMBER = re.compile(r"(?<![\w.-])(?<!version )(-?\d+)(?![\w+]|\.\d)")
RANGE = re.compile(r"(?<![\w.-])(\d+) to (\d+)\b")

CODES = frozenset(int(code) for code in ErrorCode) - {0}
"""Numbers that are errors; 0 says that there was none."""

Link = Callable[[str, str], str]
"""Makes a link of a text and where it leads, from the folder of the reference."""


def page_of_api(api_key: int) -> str:
    """Where the page of an API is, from the folder of the reference, without an ending."""
    name = API_NAMES[api_key]
    return f"apis/{re.sub(r'(?<=[a-z])(?=[A-Z])', '-', name).lower()}"


def codes_in(doc: str) -> list[int]:
    """The error codes that the doc of an error field names; 0 is no error and left out."""
    found = {int(number) for number in NUMBER.findall(doc)}
    for first, last in RANGE.findall(doc):
        found |= set(range(int(first), int(last)))
    return sorted(found & CODES)


def is_error_field(name: str) -> bool:
    """Whether numbers in the doc of a field of this name are error codes."""
    return name == "error_code" or name.endswith("_error_code")


def field_html(doc: str, *, is_error: bool, root: str) -> str:
    """The doc of a field as HTML; `root` leads from the page to the folder of the reference."""

    def link(text: str, target: str) -> str:
        return f'<a href="{root}{target}">{text}</a>'

    parts = []
    for index, part in enumerate(CODE_SPAN.split(doc)):
        if index % 2:
            parts.append(f"<code>{escape(part.strip('`'))}</code>")
        else:
            parts.append(_linked(escape(part, quote=False), NUMBER if is_error else ERROR, link))
    return "".join(parts)


def module_markdown(module: ModuleType, *, root: str, without_title: bool = False) -> str:
    """A module's docstring as Markdown; `without_title` leaves out the name before the colon."""
    doc = getdoc(module) or ""
    if without_title:
        doc = re.sub(r"\A\w+ \(key \d+\): (.)", lambda match: match[1].upper(), doc)
    return markdown(doc, root=root)


def markdown(doc: str, *, root: str) -> str:
    """A docstring as Markdown: underlined headings become bold, names become links."""

    def link(text: str, target: str) -> str:
        page, _, place = target.partition("#")
        path = page.removesuffix(".html") + ".md"
        return f"[{text}]({root}{path}{'#' + place if place else ''})"

    doc = re.sub(r"^(\w[^\n]*)\n-{3,}$", r"**\1**\n", doc, flags=re.MULTILINE)
    blocks = []
    for block in doc.split("\n\n"):
        if block.startswith("    "):
            blocks.append(block)
            continue
        parts = CODE_SPAN.split(block)
        parts[::2] = [_linked(part, None, link) for part in parts[::2]]
        blocks.append("".join(parts))
    return "\n\n".join(blocks)


def _linked(text: str, errors: re.Pattern[str] | None, link: Link) -> str:
    """`text` with links at the names of APIs and, where `errors` finds them, error codes."""

    def to_api(match: re.Match[str]) -> str:
        key = API_BY_NAME.get(match[1])
        if key is None or match[1] in PLAIN_WORDS:
            return match[0]
        return link(match[1], f"{page_of_api(key)}.html")

    def to_error(match: re.Match[str]) -> str:
        code = int(match[1])
        if code not in CODES:
            return match[0]
        return link(match[1], f"errors.html#{error_anchor(code)}")

    if errors is not None:
        text = errors.sub(to_error, text)
    return NAME.sub(to_api, text)


def error_anchor(code: int) -> str:
    """The anchor of a code on the page of error codes."""
    return "error-" + ErrorCode(code).name.lower().replace("_", "-")
