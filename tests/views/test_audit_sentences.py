"""What an audit has found, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.views.audit import AuditSummary, FindingView


def finding(**said: Any) -> FindingView:
    fields: dict[str, Any] = dict.fromkeys(FindingView.__struct_fields__)
    fields |= {"topic": "t", "partition": 0, "replica": 1, "path": "/d/t-0", "text": "is damaged"}
    return FindingView(**fields | {"severity": "error", "check": "crc"} | said)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, "error: t-0 replica 1: /d/t-0: is damaged [crc]"),
        ({"topic": "", "partition": -1}, "error: replica 1: /d/t-0: is damaged [crc]"),
        ({"position": 0}, "error: t-0 replica 1: /d/t-0 at 0: is damaged [crc]"),
        (
            {"start_offset": 0, "end_offset": 10},
            "error: t-0 replica 1 offsets 0-9: /d/t-0: is damaged [crc]",
        ),
        ({"start_offset": 7}, "error: t-0 replica 1 offsets 7-: /d/t-0: is damaged [crc]"),
    ],
)
def test_a_finding_names_its_last_offset_and_not_the_one_behind_it(
    said: dict[str, Any], sentence: str
) -> None:
    assert finding(**said).sentence == sentence


@pytest.mark.parametrize(
    ("errors", "warnings", "verdict"),
    [(0, 0, "sound: 0 errors, 0 warn"), (1, 0, "not sound: 1 err"), (0, 1, "not sound: 0 err")],
)
def test_notes_alone_leave_a_log_sound(errors: int, warnings: int, verdict: str) -> None:
    said = AuditSummary(3, 0, 2, 4, 5, 600, 7, 2, errors, warnings, 1, 0.25).sentence
    assert said.startswith(verdict)
    assert "5 of 7 ranges equal in all replicas" in said


@pytest.mark.parametrize(
    ("others", "words"),
    [(0, "in 2 partitions of 3 brokers, 4 segments"),
     (2, "of 3 brokers and 2 nodes with the metadata log alone, 4 segments")],
)  # fmt: skip
def test_controllers_are_not_counted_as_brokers(others: int, words: str) -> None:
    assert words in AuditSummary(3, others, 2, 4, 5, 600, 7, 2, 0, 0, 1, 0.25).sentence
