"""The pages of what Kafka writes into logs and files, of headers, and of drafts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from docs_site.api_pages import LEGEND, WIDE, message_section
from docs_site.prose import markdown, module_markdown
from docs_site.tables import change_table, raw
from fencepost.wire import draft, header, records
from fencepost.wire.draft import fetch_quorum_records, mapping
from fencepost.wire.message import Message
from fencepost.wire.records import coordinator, framed

TITLES = {
    "consumer": "Consumer protocol",
    "control": "Control records",
    "group": "Group coordinator's log",
    "header": "Headers",
    "metadata": "Metadata log",
    "principal": "Principal of a forwarded request",
    "producer_snapshot": "Producer snapshots",
    "quorum_state": "Quorum state",
    "remote_log": "Remote log metadata",
    "share": "Share coordinator's log",
    "transaction": "Transaction coordinator's log",
    "txn_index": "Index of aborted transactions",
}
ROOT = "../"


@cache
def families() -> dict[str, list[type[Message]]]:
    """Every record class and header under its family.

    A family is a module, together with those whose names begin with its own (`group_classic` is
    of `group`, which has no class itself).
    """
    stems = {_stem(records.message_class(name)) for name in records.names()}
    found: dict[str, list[type[Message]]] = {}
    for name in records.names():
        cls = records.message_class(name)
        stem = _stem(cls)
        first = stem.partition("_")[0]
        is_part = first != stem and (first in stems or first in TITLES)
        found.setdefault(first if is_part else stem, []).append(cls)
    return dict(sorted(found.items()))


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of every page."""
    yield "reference/records/index.md", index_page()
    for family in families():
        yield f"reference/records/{_page(family)}.md", family_page(family)
    yield "reference/records/fetch-quorum-records.md", draft_page()


def index_page() -> str:
    """All families, and how records are framed."""
    lines = [
        f"- [{title(family)}]({_page(family)}.md): "
        + ", ".join(_link(cls, f"{_page(family)}.md") for cls in found)
        for family, found in families().items()
    ]
    lines.append(
        "- [FetchQuorumRecords, a draft](fetch-quorum-records.md): the request and the response "
        "of a proposal that was never released"
    )
    names = [*map(_page, families()), "fetch-quorum-records"]
    return "\n".join(
        [
            "# Records, headers and drafts\n",
            module_markdown(records, root=ROOT),
            "\n## All of them\n",
            *lines,
            "\n## In the metadata log and the log of remote segments\n",
            module_markdown(framed, root=ROOT),
            "\n## In the logs of coordinators\n",
            module_markdown(coordinator, root=ROOT),
            "\n```{toctree}\n:hidden:\n",
            *names,
            "```",
        ]
    )


def title(family: str) -> str:
    """What a family is called."""
    return TITLES.get(family) or family.replace("_", " ").capitalize()


def family_page(family: str) -> str:
    """One family: what it is, then its classes, module by module."""
    found = families()[family]
    main = header if family == "header" else import_module(f"{records.__name__}.{family}")
    by_module: dict[str, list[type[Message]]] = {}
    for cls in found:
        by_module.setdefault(cls.__module__, []).append(cls)
    parts = [f"{WIDE}# {title(family)}\n", module_markdown(main, root=ROOT), ""]
    if len(found) > 1:
        parts.append(f"Here: {', '.join(_link(cls) for cls in found)}.\n")
    parts.append(raw(LEGEND))
    for name, classes in sorted(by_module.items()):
        level = "##"
        module = import_module(name)
        if module is not main:
            parts += [f"## {_part_title(module)}\n", _rest(module), ""]
            level = "###"
        for cls in classes:
            parts += section(cls, level)
    return "\n".join(parts)


def draft_page() -> str:
    """FetchQuorumRecords and its translation."""
    request = fetch_quorum_records.FetchQuorumRecordsRequest
    response = fetch_quorum_records.FetchQuorumRecordsResponse
    return "\n".join(
        [
            f"{WIDE}# FetchQuorumRecords, a draft\n",
            module_markdown(fetch_quorum_records, root=ROOT),
            "",
            raw(LEGEND),
            *message_section(request, "##", ROOT),
            *message_section(response, "##", ROOT),
            "## What its versions changed\n",
            raw(change_table([request, response])),
            "## Drafts in this project\n",
            module_markdown(draft, root=ROOT),
            "\n## Translation into Fetch and back\n",
            module_markdown(mapping, root=ROOT),
            "",
        ]
    )


def section(cls: type[Message], level: str) -> list[str]:
    """One record, and what its versions changed."""
    changed = change_table([cls])
    return [*message_section(cls, level, ROOT), *([raw(changed)] if changed else [])]


def _stem(cls: type[Message]) -> str:
    return cls.__module__.rpartition(".")[2]


def _page(family: str) -> str:
    return family.replace("_", "-")


def _link(cls: type[Message], page: str = "") -> str:
    return f"[{cls.__name__}]({page}#{cls.__name__.lower()})"


def _part_title(module: ModuleType) -> str:
    first = (module.__doc__ or "").strip().partition("\n")[0]
    return markdown(first.rstrip("."), root=ROOT)


def _rest(module: ModuleType) -> str:
    return markdown((module.__doc__ or "").strip().partition("\n")[2].strip(), root=ROOT)
