"""The source folder of the site: hand-written pages copied, generated ones written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs_site import api_pages, error_page, python_pages, record_pages

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
START = "index.md"
GUIDES = (
    "README",
    "OVERVIEW",
    "GUIDE",
    "OPERATIONS",
    "CONSOLE",
    "CONSOLE_RECORDS",
    "SECURING",
    "CLIENT",
    "MIGRATING",
    "SPARK",
    "EXACTLY_ONCE",
    "LAKES",
    "TABLES",
    "CHECKPOINTS",
    "REGISTRY",
    "EXECUTORS",
    "AUDIT",
    "ARROW",
    "CODEC",
    "FORMATS",
    "ARCHITECTURE",
    "GLOSSARY",
    "TESTING",
    "KAFKA_TESTS",
    "SIMULATOR",
    "PERFORMANCE",
    "SCALE",
    "CONTRIBUTING",
    "RELEASING",
    "CHANGELOG",
    "SECURITY",
)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]*)(#[\w-]+)?\)")

CONTENTS = """
```{toctree}
:hidden:
:caption: Guides

README <README>
%(guides)s
```

```{toctree}
:hidden:
:caption: Protocol

reference/apis/index
reference/records/index
reference/errors
```

```{toctree}
:hidden:
:caption: Python

python/index
```
"""

REFERENCE = """
## Reference

| you want to | read |
|---|---|
| write, debug or fake a client or broker | [all APIs](reference/apis/index.md), field by field |
| read what Kafka writes into its own logs and files | [records](reference/records/index.md) |
| know what an answer means | [error codes](reference/errors.md) |
| serve voters of FetchQuorumRecords | [the draft](reference/records/fetch-quorum-records.md) |
| call all this from Python | [modules](python/index.rst) |
"""


def source_pages() -> Iterator[tuple[str, str]]:
    """Path and text of every page of the site."""
    for path in hand_written():
        text = with_local_links(path.read_text(), path.parent)
        if path.name == START:
            text += REFERENCE + CONTENTS % {"guides": "\n".join(GUIDES[1:])}
        yield path.name, text
    yield from generated_pages()


def generated_pages() -> Iterator[tuple[str, str]]:
    """The pages that are made from the classes."""
    yield from api_pages.pages()
    yield from record_pages.pages()
    yield from error_page.pages()
    yield from python_pages.pages()


def hand_written() -> list[Path]:
    """The pages that people wrote."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


def with_local_links(text: str, folder: Path) -> str:
    """Links as the site needs them: docs/ is its root, and what is not on it is only named."""

    def rewrite(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve() if match[2] else None
        if target is None:
            return match[0]
        if target.parent not in (DOCS, ROOT) or target.suffix != ".md":
            return match[1]
        return f"[{_label(match[1])}]({target.name}{match[3] or ''})"

    return LINK.sub(rewrite, text).replace("](docs/", "](")


def _label(text: str) -> str:
    """Names of files as titles would be: `docs/GUIDE.md` becomes `GUIDE`."""
    return re.sub(r"^(?:docs/)?([A-Z]+)\.md$", r"\1", text)


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
