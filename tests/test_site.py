"""The documentation's site: the reference has every message and every field as the codec has it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fencepost.broker import apis
from fencepost.broker.net.registry import ROUTES
from fencepost.wire import records
from fencepost.wire.api import API_NAMES, request_class, response_class
from fencepost.wire.describe import Row, rows
from fencepost.wire.draft import fetch_quorum_records
from fencepost.wire.error_meanings import MEANINGS, meaning
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.message import Message

from .in_turn import in_turn

ROOT = Path(__file__).resolve().parent.parent

CLASSES: list[type[Message]] = [
    *(request_class(key) for key in sorted(API_NAMES)),
    *(response_class(key) for key in sorted(API_NAMES)),
    *(records.message_class(name) for name in records.names()),
    fetch_quorum_records.FetchQuorumRecordsRequest,
    fetch_quorum_records.FetchQuorumRecordsResponse,
]


@pytest.fixture(scope="module")
def docs_site() -> Iterator[SimpleNamespace]:
    """The modules of tools/docs_site that are tested on their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        from docs_site import assemble, docstrings, prose, schema

        yield SimpleNamespace(assemble=assemble, docstrings=docstrings, prose=prose, schema=schema)


@pytest.fixture(scope="module")
def pages(docs_site: SimpleNamespace) -> dict[str, str]:
    """The source of every page by its path."""
    return dict(docs_site.assemble.source_pages())


class ShownField(NamedTuple):
    """One field as a page shows it."""

    name: str
    cells: list[str]
    meaning: str
    there: set[int]
    tagged: set[int]


class FieldReader(HTMLParser):
    """Reads the fields of all messages of a page, by anchor, and all links and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, ShownField] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self._anchor = ""
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.links.append(values["href"] or "")
        if tag == "tbody" and "id" in values:
            self._anchor = values["id"] or ""
            self.fields[self._anchor] = ShownField("", [], "", set(), set())
        elif tag in ("td", "th") and self._anchor:
            self._cell = []
        elif tag == "i" and self._anchor:
            self._mark(values["class"], int(values["data-v"] or ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self._anchor = ""
        elif tag in ("td", "th") and self._cell is not None:
            field = self.fields[self._anchor]
            text = " ".join("".join(self._cell).split())
            if tag == "th":
                field = field._replace(name=text)
            elif len(field.cells) < 5:
                field.cells.append(text)
            else:
                field = field._replace(meaning=text)
            self.fields[self._anchor] = field
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _mark(self, kind: str | None, version: int) -> None:
        if kind != "off":
            self.fields[self._anchor].there.add(version)
        if kind == "tag":
            self.fields[self._anchor].tagged.add(version)


@pytest.fixture(scope="module")
def read(pages: dict[str, str]) -> dict[str, FieldReader]:
    """What a reader of HTML finds on every page."""
    found = {}
    for path, text in pages.items():
        found[path] = FieldReader()
        for block in re.findall(r"^```{raw} html\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            found[path].feed(block)
    return found


def paths(listed: list[Row]) -> list[tuple[str, Row]]:
    """Every row with the names from the message down."""
    found: list[Any] = []
    above: list[Any] = []
    for row in listed:
        del above[row.depth :]
        above.append(row.name)
        found.append((".".join(above), row))
    return found


@pytest.fixture(scope="module")
def page_of(pages: dict[str, str]) -> dict[type[Message], str]:
    """The one page that has the message's heading."""
    headed: dict[str, list[str]] = {}
    for path, text in pages.items():
        for name in set(re.findall(r"^#+ (\w+)$", text, re.MULTILINE)):
            headed.setdefault(name, []).append(path)
    found = {}
    for cls in CLASSES:
        (found[cls],) = headed[cls.__name__]
    return found


@in_turn("cls", CLASSES)
def test_every_field_is_shown(
    cls: type[Message], page_of: dict[type[Message], str], read: dict[str, FieldReader]
):
    page = page_of[cls]
    for path, row in paths(rows(cls)):
        anchor = f"{cls.__name__}.{path}".lower().replace(".", "-").replace("_", "-")
        shown = read[page].fields[anchor]
        assert shown.name.split(" ")[0] == row.name
        assert row.doc
        assert shown.meaning.startswith(" ".join(row.doc.replace("`", "").split()))
        assert ("ignorable" in shown.meaning.split()) >= row.ignorable
        type_, versions, default, tag, nullable = shown.cells
        assert (type_, versions, default, nullable) == (
            row.type,
            row.versions,
            " ".join(row.default.split()),
            row.nullable,
        )
        assert tag.split(" ")[0] == ("" if row.tag is None else str(row.tag))


@in_turn("cls", CLASSES)
def test_strips_show_what_is_on_the_wire(
    cls: type[Message], page_of: dict[type[Message], str], read: dict[str, FieldReader]
):
    """Against the layouts that the codec encodes by, version for version."""
    fields = read[page_of[cls]].fields
    prefix = f"{cls.__name__.lower()}-"
    own = {anchor for anchor in fields if anchor.startswith(prefix)}
    for version in range(cls.min_version, cls.max_version + 1):
        wire = {
            prefix + path.replace(".", "-").replace("_", "-")
            for path, _ in paths(rows(cls, version))
        }
        assert {anchor for anchor in own if version in fields[anchor].there} == wire


def test_every_tag_is_marked(read: dict[str, FieldReader]):
    fields = read["reference/apis/fetch.md"].fields
    assert fields["fetchrequest-replica-state"].tagged == {15, 16, 17, 18}
    assert fields["fetchrequest-replica-state-replica-id"].tagged == set()
    assert fields["fetchrequest-cluster-id"].tagged == set(range(12, 19))


def test_there_is_a_page_for_every_api(pages: dict[str, str], read: dict[str, FieldReader]):
    listed = set(read["reference/apis/index.md"].links)
    assert len(listed) == len(API_NAMES) == 95
    titles = {
        re.search(r"^# (.*)$", text, re.M)[1]  # type: ignore[index]
        for path, text in pages.items()
        if path.startswith("reference/apis/") and not path.endswith("index.md")
    }
    assert titles == set(API_NAMES.values())


def test_the_index_says_what_the_broker_serves(pages: dict[str, str]):
    apis.load_all()
    for line in pages["reference/apis/index.md"].splitlines():
        cells = re.findall(r"<td>(.*?)</td>", line)
        if cells:
            route = ROUTES.get(int(cells[0]))
            low_high = (route.min_version, route.max_version) if route else None
            shown = tuple(int(one) for one in cells[5].split("-")) if cells[5] else None
            assert (shown * 2 if shown and len(shown) == 1 else shown) == low_high


def test_every_error_code_is_there(read: dict[str, FieldReader], pages: dict[str, str]):
    names = {f"error-{code.name.lower().replace('_', '-')}" for code in ErrorCode}
    assert set(read["reference/errors.md"].ids) == names
    assert MEANINGS.keys() == {int(code) for code in ErrorCode}
    for code in ErrorCode:
        (row,) = re.findall(rf"<tr .*><td>{int(code)}</td>.*</tr>", pages["reference/errors.md"])
        assert f">{error_name(code)}</a>" in row
        assert re.sub("`(.*?)`", r"<code>\1</code>", MEANINGS[code]) in row


def test_the_meaning_of_an_unknown_code():
    assert "does not know" in meaning(999)
    assert meaning(0) == "No error."


def test_anchors_are_unique(read: dict[str, FieldReader]):
    for path, found in read.items():
        assert len(found.ids) == len(set(found.ids)), path


def test_links_of_tables_lead_somewhere(read: dict[str, FieldReader]):
    checked = 0
    for path, found in read.items():
        for link in found.links:
            target, _, anchor = link.partition("#")
            page = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            page = path if not target else page.removesuffix(".html") + ".md"
            assert page in read, f"{path}: {link}"
            assert not anchor or anchor in read[page].ids, f"{path}: {link}"
            checked += 1
    assert checked > 3000


def test_changes_name_the_struct_and_not_its_fields(docs_site: SimpleNamespace):
    def named(cls: type[Message], version: int) -> list[tuple[str, str]]:
        return [
            (change.kind, change.entry.path)
            for change in docs_site.schema.changes(cls)
            if change.version == version
        ]

    assert named(request_class(1), 13) == [
        ("removed", "topics.topic"),
        ("added", "topics.topic_id"),
        ("removed", "forgotten_topics_data.topic"),
        ("added", "forgotten_topics_data.topic_id"),
    ]
    assert named(request_class(1), 15) == [("removed", "replica_id"), ("added", "replica_state")]
    assert named(request_class(1), 14) == []


def test_codes_are_found_in_docs_of_errors(docs_site: SimpleNamespace):
    doc = "0; 35 for v3, 42 (v5) or -1; 96 (kraft.version 1) after v6 to v7, 29 to 31, 300 never."
    assert docs_site.prose.codes_in(doc) == [-1, 29, 30, 31, 35, 42, 96]


def test_links_beyond_the_site_become_text(docs_site: SimpleNamespace):
    text = "[docs/FORMATS.md](docs/FORMATS.md#x), [here](#x), [code](examples), [a](https://b.c)"
    assert docs_site.assemble.with_local_links(text, ROOT) == (
        "[Files](FORMATS.md#x), [here](#x), code, [a](https://b.c)"
    )


def test_links_are_from_where_the_page_is(docs_site: SimpleNamespace):
    text = "[start](../start/codec.md), [FORMATS](../FORMATS.md#x), [README](../../README.md)"
    assert docs_site.assemble.with_local_links(text, ROOT / "docs" / "tutorials") == (
        "[start](../start/codec.md), [Files](../FORMATS.md#x), [README](../README.md)"
    )


def test_docstrings_become_what_autodoc_reads(docs_site: SimpleNamespace):
    lines = ["Theory", "------", "So:", "", "    a | b", "", "| x | y |", "|---|---|", "| `1` | |"]
    docs_site.docstrings.convert(None, "module", "m", None, None, lines)
    text = "\n".join(lines)
    assert text.startswith("**Theory**\nSo:\n\n::\n\n    a | b\n")
    assert "   * - x\n     - y\n   * - ``1``\n     - \n" in text


def test_every_page_is_in_a_table_of_contents(pages: dict[str, str]):
    listed = set()
    for path, text in pages.items():
        folder = posixpath.dirname(path)
        for block in re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL):
            listed |= {
                posixpath.join(folder, re.sub(r".*<(.*)>", r"\1", line))
                for line in block.splitlines()
                if line and not line.startswith(":")
            }
        if path.endswith(".rst"):
            entries = re.findall(r"^   (\w+)$", text, re.M)
            listed |= {posixpath.join(folder, entry) for entry in entries}
    assert listed == {path.rpartition(".")[0] for path in pages} - {"index"}


MOST_USED = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 19, 20, 22, 24, 25, 26, 28)


@pytest.mark.parametrize("key", MOST_USED, ids=API_NAMES.get)
def test_errors_of_the_most_used_apis_are_named_by_number(docs_site: SimpleNamespace, key: int):
    """The doc of an error code in an answer says which errors a client has to handle."""
    named = {
        (row.struct, row.name): docs_site.prose.codes_in(row.doc)
        for row in rows(response_class(key))
        if docs_site.prose.is_error_field(row.name)
    }
    assert named
    assert all(named.values()), named


def test_no_table_of_the_prose_is_cut_on_the_right():
    """What does not fit breaks: a table that scrolls inside the page is read as one that is cut."""
    style = (ROOT / "docs" / "_static" / "site.css").read_text()
    (cells,) = re.findall(r"^\.table-wrapper table\.docutils :is\(th, td\) \{(.*)\}$", style, re.M)
    (code,) = re.findall(r"^\.table-wrapper .* :is\(th, td\) code \{(.*)\}$", style, re.M)
    assert "overflow-wrap: anywhere" in cells
    assert "overflow-wrap: anywhere" in code
    assert "white-space: normal" in code
