"""The source folder of the site: hand-written pages copied, generated ones written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from docs_site import api_pages, error_page, python_pages, record_pages

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
START = "index.md"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)#]*)(#[\w-]+)?\)")
SECTION = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
PAGE = re.compile(r"\]\(([\w./-]+)\.(?:md|rst)(?:#[\w-]+)?\)")

CONTENTS = """
```{toctree}
:hidden:
:caption: %s

%s
```
"""

REFERENCE = """
What is made from the code:

| you want to | read |
|---|---|
| write, debug or fake a client or broker | [all APIs](reference/apis/index.md), field by field |
| read what Kafka writes into its own logs and files | [records](reference/records/index.md) |
| know what an answer means | [error codes](reference/errors.md) |
| serve voters of FetchQuorumRecords | [the draft](reference/records/fetch-quorum-records.md) |
| call all this from Python | [modules](python/index.rst) |

"""
BELOW_OTHERS = ("reference/records/fetch-quorum-records",)
"""Pages that the contents of another page list."""


def source_pages() -> Iterator[tuple[str, str]]:
    """Path and text of every page of the site."""
    for path in hand_written():
        place, text = place_of(path), with_local_links(path.read_text(), path.parent)
        yield place, with_contents(text) if place == START else text
    yield from generated_pages()


def with_contents(start: str) -> str:
    """The front page with the generated reference, and with what it lists as the contents of the
    site: a group for each of its sections, with the pages in the order in which they are named.
    """
    start = re.sub(r"`make docs` builds .*?\n\n", REFERENCE.lstrip(), start, flags=re.DOTALL)
    contents = ""
    listed = set(BELOW_OTHERS)
    for caption, text in SECTION.findall(start):
        pages = [page for page in dict.fromkeys(PAGE.findall(text)) if page not in listed]
        listed.update(pages)
        entries = [f"{page} <{page}>" if page == "README" else page for page in pages]
        contents += CONTENTS % (caption, "\n".join(entries))
    return start + contents


def generated_pages() -> Iterator[tuple[str, str]]:
    """The pages that are made from the classes."""
    yield from api_pages.pages()
    yield from record_pages.pages()
    yield from error_page.pages()
    yield from python_pages.pages()


def hand_written() -> list[Path]:
    """The pages that people wrote."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def place_of(path: Path) -> str:
    """Where a page that people wrote is on the site: docs/ is its root."""
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def with_local_links(text: str, folder: Path) -> str:
    """The links of a page in `folder` as the site needs them; what is not on it is only named."""
    here = place_of(folder)
    pages = set(hand_written())

    def rewrite(match: re.Match[str]) -> str:
        label, name, anchor = match[1], match[2], match[3] or ""
        if not name:
            return match[0]
        target = (folder / name).resolve()
        if target not in pages:
            return label
        link = posixpath.relpath(place_of(target), here)
        return f"[{_label(label, target)}]({link}{anchor})"

    return LINK.sub(rewrite, text).replace("](docs/", "](")


def _label(text: str, page: Path) -> str:
    """A link by the name of a page's file has the page's title: `FORMATS.md` becomes Files."""
    if text.removeprefix("docs/").removesuffix(".md") != page.stem or page.stem == "README":
        return text
    return page.read_text().split("\n", 1)[0].removeprefix("# ")


def write(folder: Path) -> None:
    """Make `folder` hold exactly the sources; files that are as they should be are not touched."""
    wanted: dict[Path, bytes] = {folder / name: text.encode() for name, text in source_pages()}
    pictures = (*DOCS.glob("*.png"), *DOCS.glob("*.svg"), *DOCS.glob("pictures/*.png"))
    wanted |= {folder / path.relative_to(DOCS): path.read_bytes() for path in pictures}
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    for path, content in wanted.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
