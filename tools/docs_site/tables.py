"""HTML of the reference: fields of a message, strips of versions, lists of facts.

All of it scrolls inside of its own box where the page is narrow. The classes are styled in
docs/_static/site.css; docs/_static/versions.js adds the buttons that show one version alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import repeat

from docs_site.prose import field_html, is_error_field
from docs_site.schema import Change, Entry, all_versions, changes, entries, own_doc
from fencepost.wire.message import Message
from fencepost.wire.schema import camel_case

COLUMNS = ("Field", "Type", "Versions", "Default", "Tag", "Null")
"""Each field has a second line under these: what it means."""
SIGNS = {
    "added": ("+", ""),
    "removed": ("−", ""),
    "tagged": ("~", "tagged"),
    "untagged": ("~", "not tagged any more"),
    "nullable": ("~", "may be null"),
    "not nullable": ("~", "may not be null any more"),
}


def raw(html: str) -> str:
    """HTML as a block of a Markdown page."""
    return f"```{{raw}} html\n{html}\n```\n"


def span(first: int, last: int) -> str:
    """`3`, or `3-7`."""
    return str(first) if first == last else f"{first}-{last}"


def flexible(cls: type[Message]) -> str:
    """From which version on a message is flexible."""
    return "never" if cls.flexible_from is None else f"{cls.flexible_from}+"


def code(text: str) -> str:
    """Text in the type of code; nothing stays nothing."""
    return f"<code>{escape(text)}</code>" if text else ""


def box(table: str) -> str:
    """A table in a box that scrolls by itself, also with the keyboard."""
    return f'<div class="scroll" tabindex="0">{table}</div>'


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    css: str = "",
    anchors: Sequence[str] = (),
) -> str:
    """A table of cells that are HTML already; `anchors`, if any, has one for each row."""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    ids = (f' id="{anchor}"' for anchor in anchors) if anchors else repeat("")
    body = "\n".join(
        f"<tr{id_}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for row, id_ in zip(rows, ids, strict=bool(anchors))
    )
    return box(
        f'<table class="plain {css}"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
    )


def facts(items: Iterable[tuple[str, str]]) -> str:
    """Names and values that say what something is; empty values are left out."""
    pairs = "".join(f"<li><small>{name}</small>{value}</li>" for name, value in items if value)
    return f'<ul class="facts">{pairs}</ul>'


def strip(cls: type[Message], entry: Entry) -> str:
    """A cell per version of the message: where the field is, and where it goes by a tag."""
    cells = []
    for version in all_versions(cls):
        kind = "tag" if version in entry.tagged else "on" if version in entry.present else "off"
        cells.append(f'<i class="{kind}" data-v="{version}"></i>')
    return f'<span class="strip" role="img" aria-label="{_spoken(entry)}">{"".join(cells)}</span>'


def _spoken(entry: Entry) -> str:
    if not entry.present:
        return "in no version"
    said = f"versions {span(min(entry.present), max(entry.present))}"
    if entry.tagged:
        said += f", tagged in {span(min(entry.tagged), max(entry.tagged))}"
    return said


def message_table(cls: type[Message], root: str) -> str:
    """All fields of a message; nested ones are indented below the field that holds them."""
    listed = entries(cls)
    if not listed:
        return '<p class="no-fields">No fields.</p>'
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "\n".join(_field(cls, entry, root) for entry in listed)
    versions = f'data-first="{cls.min_version}" data-last="{cls.max_version}"'
    return (
        f'<div class="message" data-name="{cls.__name__}" {versions}>'
        + box(f'<table class="fields"><thead><tr>{head}</tr></thead>\n{body}</table>')
        + "</div>"
    )


def _field(cls: type[Message], entry: Entry, root: str) -> str:
    """A field: a line of facts, and one with its meaning."""
    present = sorted(entry.present)
    shown = f' data-first="{present[0]}" data-last="{present[-1]}"' if present else ""
    facts_line = "".join(f"<td>{cell}</td>" for cell in _fact_cells(cls, entry))
    return (
        f'<tbody id="{entry.anchor}"{shown} style="--depth:{entry.row.depth}">'
        f'<tr><th scope="row">{_name(entry)}</th>{facts_line}</tr>'
        f'<tr><td colspan="{len(COLUMNS)}"><div>{_meaning(entry, root)}</div></td></tr></tbody>'
    )


def _name(entry: Entry) -> str:
    row = entry.row
    link = f'<a class="name" href="#{entry.anchor}" title="{escape(entry.path)}">{row.name}</a>'
    return link if row.kafka_name == camel_case(row.name) else f"{link} ({row.kafka_name})"


def _fact_cells(cls: type[Message], entry: Entry) -> tuple[str, ...]:
    row = entry.row
    when = "" if row.tag is None or row.tagged == row.versions else f" <small>{row.tagged}</small>"
    return (
        code(row.type),
        f"{strip(cls, entry)} <small>{row.versions}</small>",
        code(row.default),
        "" if row.tag is None else f"{row.tag}{when}",
        row.nullable,
    )


def _meaning(entry: Entry, root: str) -> str:
    row = entry.row
    parts = [field_html(row.doc, is_error=is_error_field(row.name), root=root)]
    if row.ignorable:
        parts.append(
            '<small class="mark" title="Dropped, not refused, in versions without the field">'
            "ignorable</small>"
        )
    if entry.struct is not None:
        about = field_html(own_doc(entry.struct), is_error=False, root=root)
        parts.append(f'<small class="struct">{entry.struct.kafka_name}: {about}</small>')
    return " ".join(parts)


def change_table(classes: Sequence[type[Message]]) -> str:
    """Which fields each version adds and takes away; empty when there is one version alone."""
    found = {cls: changes(cls) for cls in classes}
    versions = sorted({version for cls in classes for version in all_versions(cls)[1:]})
    if not versions:
        return ""
    rows = []
    for version in versions:
        becomes = any(cls.flexible_from == version for cls in classes)
        label = f"v{version - 1} → v{version}" + ("<br><small>flexible</small>" if becomes else "")
        rows.append([label, *(_changes_at(found[cls], version) for cls in classes)])
    return table(("", *(cls.__name__ for cls in classes)), rows, "changes")


def _changes_at(found: Iterable[Change], version: int) -> str:
    return "<br>".join(_change_line(change) for change in found if change.version == version)


def _change_line(change: Change) -> str:
    sign, note = SIGNS[change.kind]
    path = change.entry.path.replace(".", ".<wbr>")
    return (
        f'<span class="{change.kind.split()[0]}">{sign} '
        f'<a href="#{change.entry.anchor}"><code>{path}</code></a></span>'
        + (f" <small>{note}</small>" if note else "")
    )
