"""What a check of log directories has found."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.log.verify.problems import Counts, Problem, Severity
from fencepost.views.view import View


class ProblemView(View, frozen=True, tag_field="type", tag="problem"):
    """One finding: in which file, at which byte, and which offsets of the log it is about."""

    path: str
    position: int | None
    severity: str
    check: str
    text: str
    start_offset: int | None
    end_offset: int | None

    @classmethod
    def of(cls, one: Problem) -> ProblemView:
        """The view of a finding; severities in small letters."""
        return cls(**{**one._asdict(), "severity": one.severity.name.lower()})


class CheckSummary(View, frozen=True, tag_field="type", tag="summary"):
    """How much was looked at, and how many findings of each severity there were."""

    partitions: int
    segments: int
    batches: int
    size_bytes: int
    errors: int
    warnings: int
    notes: int

    @classmethod
    def of(cls, counts: Counts, found: Mapping[Severity, int]) -> CheckSummary:
        """The summary of one run over all its directories."""
        return cls(
            counts.partitions,
            counts.segments,
            counts.batches,
            counts.bytes,
            found[Severity.ERROR],
            found[Severity.WARNING],
            found[Severity.NOTE],
        )

    @property
    def is_sound(self) -> bool:
        """Whether there are but notes, or warnings that a start puts right."""
        return not self.errors + self.warnings
