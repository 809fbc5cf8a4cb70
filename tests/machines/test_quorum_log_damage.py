"""What a start does with a damaged metadata log: every finding, for every owner.

That the start does so is in `tests/runtime/metadata/test_metadata_damage.py` and
`test_metadata_log.py`.
"""

from __future__ import annotations

import pytest

from fencepost.machines.quorum.log_damage import TABLE, Action, Found, Owner, decide, find_damage

FORGOTTEN = Action.REFUSE_FORGOTTEN
ROWS = [
    # found                          observer          voter                            only voter
    ("LOG_GONE", Action.OPEN, FORGOTTEN, FORGOTTEN),
    ("STATE_GONE", Action.OPEN, FORGOTTEN, FORGOTTEN),
    ("DAMAGED_AND_STATE_GONE", Action.TRUNCATE, FORGOTTEN, FORGOTTEN),
    ("DAMAGED", Action.TRUNCATE, Action.ACKNOWLEDGE_AND_TRUNCATE, Action.REFUSE_ONLY_COPY),
    ("DAMAGED_SOMEWHERE", Action.REFUSE, Action.REFUSE, Action.REFUSE),
    ("DAMAGED_AGAIN", Action.REFUSE, Action.REFUSE, Action.REFUSE),
]


@pytest.mark.parametrize(("found", "observer", "voter", "only_voter"), ROWS)
def test_what_is_found_and_who_owns_it_decide(found, observer, voter, only_voter):
    assert decide(Found[found], Owner.OBSERVER) is observer
    assert decide(Found[found], Owner.VOTER) is voter
    assert decide(Found[found], Owner.ONLY_VOTER) is only_voter


def test_every_case_is_in_the_table():
    assert [row[0] for row in ROWS] == [found.name for found in Found]
    assert all(set(row) == set(Owner) for row in TABLE.values())


def test_no_voter_truncates_what_it_has_not_acknowledged():
    for row in TABLE.values():
        assert Action.TRUNCATE not in (row[Owner.VOTER], row[Owner.ONLY_VOTER])


@pytest.mark.parametrize("state_is_gone", [False, True])
@pytest.mark.parametrize(
    ("sound_end", "truncated_at", "found"),
    [
        (None, None, Found.DAMAGED_SOMEWHERE),
        (None, 5, Found.DAMAGED_SOMEWHERE),
        (0, None, None),
        (7, None, None),
        (4, 5, None),  # it was found again farther in front
        (5, 5, Found.DAMAGED_AGAIN),
        (6, 5, Found.DAMAGED_AGAIN),
    ],
)
def test_damage_is_what_its_offset_says(sound_end, truncated_at, found, state_is_gone):
    known = Found.DAMAGED_AND_STATE_GONE if state_is_gone else Found.DAMAGED
    assert find_damage(sound_end, truncated_at, state_is_gone=state_is_gone) is (found or known)
