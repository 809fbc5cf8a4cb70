"""Which member epoch a heartbeat may name (KIP-848, KIP-1071): every case of the rule."""

from __future__ import annotations

import pytest

from fencepost.machines.group.member_epochs import other_epoch

KNOWN, PREVIOUS, LEFT = 5, 3, -2


@pytest.mark.parametrize("owns", [False, True])
@pytest.mark.parametrize(
    ("known", "previous", "named", "is_taken"),
    [
        (KNOWN, PREVIOUS, 0, "always"),
        (KNOWN, PREVIOUS, KNOWN, "always"),
        (KNOWN, PREVIOUS, PREVIOUS, "if it owns what it has"),
        (KNOWN, PREVIOUS, PREVIOUS + 1, "never"),
        (KNOWN, PREVIOUS, PREVIOUS - 1, "never"),
        (KNOWN, PREVIOUS, KNOWN + 1, "never"),
        (LEFT, PREVIOUS, PREVIOUS, "never"),
    ],
)
def test_the_epoch_is_the_members_or_the_one_before(
    known: int, previous: int, named: int, is_taken: str, owns: bool
) -> None:
    refusal = other_epoch("consumer", named, known, previous, lambda: owns)
    if is_taken == "always" or (is_taken != "never" and owns):
        assert refusal is None
    else:
        assert refusal is not None
        size = "greater" if named > known else "smaller"
        assert f" {size} member epoch ({named}) than" in refusal.message
