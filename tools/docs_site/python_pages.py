"""The pages about modules that users import: which ones, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Page(NamedTuple):
    """One page and what is on it."""

    name: str
    title: str
    about: str
    modules: dict[str, tuple[str, ...]]
    """Modules, each with the names that are shown; all public ones when empty."""


PAGES = (
    Page(
        "messages",
        "Messages",
        "Typed messages, their primitive types, frames, errors, and JSON.",
        {
            "fencepost.wire.message": ("Struct", "Message", "Request"),
            "fencepost.wire.schema": ("field", "VersionRange"),
            "fencepost.wire.types": ("Uuid",),
            "fencepost.wire.api": ("request_class", "response_class", "api_name"),
            "fencepost.wire.api.facts": (),
            "fencepost.wire.records": ("names", "message_class"),
            "fencepost.wire.frame": (),
            "fencepost.wire.errors": (
                "WireError",
                "DecodeError",
                "TooManyElementsError",
                "EncodeError",
                "UnsupportedVersionError",
                "UnknownApiError",
                "error_name",
                "is_retriable",
            ),
            "fencepost.wire.error_meanings": ("meaning",),
            "fencepost.wire.json_form": ("to_json", "from_json", "JsonFormError"),
            "fencepost.wire.describe": ("rows", "heading", "text"),
            "fencepost.wire.draft.mapping": (),
        },
    ),
    Page(
        "batches",
        "Record batches",
        "Records in and out of batches, one by one or as Arrow columns.",
        {"fencepost.batch.records": (), "fencepost.batch.columns": ()},
    ),
    Page(
        "clients",
        "Clients",
        "Clients for any Kafka-compatible cluster, blocking and for asyncio.",
        {
            "fencepost.client.config": ("ClientConfig",),
            "fencepost.client.cluster": (),
            "fencepost.client.producer": (),
            "fencepost.client.batch_producer": (),
            "fencepost.client.consumer": (),
            "fencepost.client.fetcher": (),
            "fencepost.client.offsets": (),
            "fencepost.client.admin": (),
            "fencepost.client.groups": (),
            "fencepost.client.metadata": (),
            "fencepost.client.errors": (),
            "fencepost.client.aio.cluster": (),
            "fencepost.client.aio.producer": (),
            "fencepost.client.aio.consumer": (),
        },
    ),
    Page(
        "arrow",
        "Topics as Arrow",
        "Tables, scans and streams of topics, without Spark.",
        {
            "fencepost.arrow.reading": ("read", "scan", "stream"),
            "fencepost.arrow.scanning": ("Scan",),
            "fencepost.arrow.streaming": ("Stream",),
            "fencepost.arrow.errors": (),
        },
    ),
    Page(
        "testing",
        "Testing",
        "A real broker in a child process, gone when the test ends.",
        {"fencepost.testing.cluster": ()},
    ),
)


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of every page; these are reStructuredText, which autodoc writes."""
    listed = [f"   {page.name}" for page in PAGES]
    lines = [*_title("Python", "="), "What to import, module by module.", ""]
    lines += [f"* :doc:`{page.name}`: {page.about[0].lower()}{page.about[1:]}" for page in PAGES]
    lines += ["", "Options of the Spark data source are in :doc:`/SPARK`.", ""]
    yield "python/index.rst", "\n".join([*lines, ".. toctree::", "   :hidden:", "", *listed, ""])
    for page in PAGES:
        yield f"python/{page.name}.rst", _page(page)


def _page(page: Page) -> str:
    lines = [*_title(page.title, "="), page.about, ""]
    for module, names in page.modules.items():
        lines += [*_title(module, "-"), f".. automodule:: {module}"]
        lines += [f"   :members: {', '.join(names)}" if names else "   :members:", ""]
    return "\n".join(lines)


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]
