"""Reading stored results of `fencepost audit` for the console; needs the extra `arrow`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fencepost.arrow.storage import storage_at
from fencepost.spark.audit.reading import READ_BYTES_MAX, NoResult, read_result
from fencepost.views.audit import AuditListed, AuditView, FindingView, StoredAudit

SEVERITIES: Final = ("error", "warning", "note")


class CannotRead(ValueError):
    """A place has no result of an audit; the text says why."""


def rows_of(places: Mapping[str, str]) -> list[AuditListed]:
    """What these places have, by name."""
    return [_row(name, place) for name, place in places.items()]


def _row(name: str, place: str) -> AuditListed:
    try:
        found = read(place)
    except CannotRead as error:
        return AuditListed(name, None, None, None, None, str(error))
    errors, warnings, notes = (found.count_of(one) for one in SEVERITIES)
    return AuditListed(name, errors, warnings, notes, found.differing, None)


def read(place: str) -> StoredAudit:
    """What `fencepost audit` wrote into a directory, or printed as JSON into a file. CannotRead."""
    found = _printed(Path(place)) if Path(place).is_file() else _written(place)
    strange = next((one for one in found.findings if one.severity not in SEVERITIES), None)
    if strange is not None:
        raise CannotRead(f"{place}: a finding has the severity {strange.severity[:80]!r}")
    return found


def _written(place: str) -> StoredAudit:
    try:
        found = read_result(storage_at(place))
    except (NoResult, OSError) as error:
        raise CannotRead(str(error)) from None
    differing = sum(not one.is_equal for one in found.ranges)
    findings = [FindingView(*one) for one in found.findings]
    return StoredAudit(findings, len(found.ranges), differing, None)


def _printed(path: Path) -> StoredAudit:
    try:
        with path.open("rb") as file:
            data = file.read(READ_BYTES_MAX + 1)
        if len(data) > READ_BYTES_MAX:
            raise CannotRead(f"{path}: larger than {READ_BYTES_MAX} bytes")
        found = msgspec.json.decode(data, type=AuditView)
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CannotRead(f"{path}: not what `fencepost audit --json` prints: {error}") from None
    ranges = found.summary.ranges, found.summary.differing_ranges
    return StoredAudit(found.findings, *ranges, found.summary.sentence)
