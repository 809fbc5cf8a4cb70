"""The picture of an audit: replicas by offsets, as `fencepost epochs` draws them, with findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from fencepost.client.lineage import ReplicaLineage
from fencepost.client.offsets import EpochSpan
from fencepost.spark.audit import Finding, Outcome
from fencepost.spark.audit.model import CopyReport
from fencepost.views.epochs_drawing import DIVERGING_COLOR, Mark, Picture, Row

PICTURES_MAX: Final = 200
MARKS_MAX: Final = 500
NOTES_MAX: Final = 20
"""Of a partition."""
_COLORS: Final = {"error": DIVERGING_COLOR, "warning": "#f58518", "note": "#bab0ac"}


def pictures(outcome: Outcome) -> list[Picture]:
    """A picture of each partition; of the first ones, with problems or not, if there are many."""
    findings: dict[tuple[str, int], list[Finding]] = defaultdict(list)
    for one in outcome.findings:
        findings[one.topic, one.partition].append(one)
    wheres = sorted(
        outcome.reports,
        key=lambda where: (not any(one.is_problem for one in findings[where]), where),
    )
    shown = sorted(wheres[:PICTURES_MAX])
    return [_picture(str(where), outcome.reports[where], findings[where]) for where in shown]


def _picture(name: str, reports: Sequence[CopyReport], findings: Sequence[Finding]) -> Picture:
    rows = [
        Row(
            _label(one),
            _lineage(one),
            marks=[
                Mark(start, max(end, start + 1), _COLORS[finding.severity], finding.text)
                for finding in findings[:MARKS_MAX]
                if finding.replica == one.copy.replica
                for start, end in [_offsets(finding, one)]
            ],
        )
        for one in reports
    ]
    notes = [
        f"replica {one.replica}: {one.text} [{one.check}]" for one in findings if one.is_problem
    ]
    if len(notes) > NOTES_MAX:
        notes[NOTES_MAX:] = [f"and {len(notes) - NOTES_MAX} more"]
    return Picture(name, rows, notes)


def _label(report: CopyReport) -> str:
    high_watermark = report.copy.facts.high_watermark
    known = "" if high_watermark is None else f", HW {high_watermark}"
    return f"{report.copy.replica}{known}"


def _lineage(report: CopyReport) -> ReplicaLineage:
    spans = tuple(EpochSpan(*span) for span in report.spans)
    return ReplicaLineage(report.copy.replica, spans, report.copy.facts.high_watermark or -1)


def _offsets(finding: Finding, report: CopyReport) -> tuple[int, int]:
    """Those that it is about; the whole log if it does not say."""
    if finding.start_offset is None:
        return report.copy.start_offset, report.end_offset
    end = finding.start_offset + 1 if finding.end_offset is None else finding.end_offset
    return finding.start_offset, end
