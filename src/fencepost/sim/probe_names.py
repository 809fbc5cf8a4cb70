"""The names of all coverage probes, read from the sources: what a long run can be held to."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

_PROBE = re.compile(r"^ +probe\(\"([a-z_.]+)\"\)", re.MULTILINE)

OUT_OF_REACH: dict[str, str] = {
    "channel.": "from brokers to controllers, which the simulator does not have",
    "quorum.draft.": "followers that speak the draft FetchQuorumRecords",
}
"""Prefixes of probes that no world can hit, and why."""


def probe_names() -> list[str]:
    """Every probe of the package that a world may hit, sorted."""
    found: set[str] = set()
    for module in _modules(files("fencepost")):
        found.update(_PROBE.findall(module.read_text()))
    return sorted(name for name in found if not name.startswith(tuple(OUT_OF_REACH)))


def _modules(folder: Traversable) -> list[Traversable]:
    modules: list[Traversable] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            modules += _modules(entry)
        elif entry.name.endswith(".py"):
            modules.append(entry)
    return modules
