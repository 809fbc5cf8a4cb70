"""The picture of an audit: which partitions it has, and which findings stand where."""

from __future__ import annotations

from fencepost.cli.audit_drawing import MARKS_MAX, NOTES_MAX, PICTURES_MAX, pictures
from fencepost.log.verify.facts import PartitionFacts
from fencepost.spark.audit import Finding, Outcome
from fencepost.spark.audit.model import Copy, CopyReport, Partition


def finding(
    replica: int = 1,
    offsets: tuple[int | None, int | None] = (5, 7),
    severity: str = "error",
    number: int = 0,
) -> Finding:
    return Finding(
        "t", number, replica, severity, "check", *offsets, None, None, None, "path", None, "wrong"
    )


def report(replica: int = 1, number: int = 0, high_watermark: int | None = None) -> CopyReport:
    facts = PartitionFacts(start_offset=3, high_watermark=high_watermark)
    copy = Copy(replica, f"d/t-{number}", Partition("t", number), facts, True)
    return CopyReport(copy, 10, [(0, 3, 10)])


def outcome(findings: list[Finding], *reports: CopyReport) -> Outcome:
    found = Outcome(findings)
    for one in reports:
        found.reports.setdefault(one.copy.partition, []).append(one)
    return found


def test_a_mark_is_at_its_replica_and_its_offsets():
    findings = [
        finding(1, (5, 7)),
        finding(2, (5, 5)),
        finding(2, (6, None), "warning"),
        finding(2, (None, None), "note"),
    ]
    (picture,) = pictures(outcome(findings, report(1), report(2, high_watermark=0)))
    assert [row.label for row in picture.rows] == ["1", "2, HW 0"]
    marks = [[(one.start_offset, one.end_offset) for one in row.marks] for row in picture.rows]
    assert marks == [[(5, 7)], [(5, 6), (6, 7), (3, 10)]]
    assert picture.notes == [f"replica {id_}: wrong [check]" for id_ in (1, 2, 2)]


def test_partitions_with_problems_are_drawn_first_where_there_are_many():
    reports = [report(number=number) for number in range(PICTURES_MAX + 1)]
    findings = [finding(number=PICTURES_MAX), finding(number=7, severity="note")]
    shown = [one.heading for one in pictures(outcome(findings, *reports))]
    assert len(shown) == PICTURES_MAX
    assert (shown[0], shown[-2], shown[-1]) == ("t-0", "t-198", "t-200")


def test_marks_and_notes_of_a_partition_are_bounded():
    (picture,) = pictures(outcome([finding()] * (MARKS_MAX + 1), report()))
    assert len(picture.rows[0].marks) == MARKS_MAX
    assert len(picture.notes) == NOTES_MAX + 1
    assert picture.notes[-1] == f"and {MARKS_MAX + 1 - NOTES_MAX} more"
