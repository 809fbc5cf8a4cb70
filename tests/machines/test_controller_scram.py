"""AlterUserScramCredentials as the controller decides it: every row of Kafka's table, in order."""

from __future__ import annotations

import hashlib

import pytest

from fencepost.machines.image import ClusterImage, ScramMechanism, apply_records
from fencepost.machines.scram_keys import credential_of_salted_password
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord

from .controller_fixtures import Bench

SALTED = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)


def setting(
    name: str, mechanism: int = 1, iterations: int = 4096, salted: bytes = SALTED
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted,
    )


def alter(
    bench: Bench, *upsertions: ScramCredentialUpsertion, deleted: tuple[tuple[str, int], ...] = ()
) -> list[tuple[str, int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=n, mechanism=m) for n, m in deleted],
        upsertions=list(upsertions),
    )
    results = bench.do(bench.controller.security.decide_alter_scram_credentials(request)).results
    return [(one.user, int(one.error_code), one.error_message) for one in results]


def test_keys_are_stored_and_the_salted_password_is_not() -> None:
    bench = Bench()
    assert alter(bench, setting("ada")) == [("ada", 0, None)]
    made = credential_of_salted_password(ScramMechanism.SHA_256, SALTED, b"salt", 4096)
    assert bench.image.scram["ada", 1] == made
    (record,) = [one for one in bench.log if isinstance(one, UserScramCredentialRecord)]
    assert SALTED not in (record.salt, record.stored_key, record.server_key)
    assert (len(made.stored_key), len(made.server_key)) == (32, 32)
    alter(bench, setting("ada", 2))
    assert len(bench.image.scram["ada", 2].stored_key) == 64


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (setting(""), (93, "Username must not be empty")),
        (setting("", 9, 1), (93, "Username must not be empty")),
        (setting("a", 0, 1), (33, "Unknown SCRAM mechanism")),
        (setting("a", 3), (33, "Unknown SCRAM mechanism")),
        (setting("a", 1, 4095), (93, "Too few iterations")),
        (setting("a", 2, 4095), (93, "Too few iterations")),
        (setting("a", 2, 16385), (93, "Too many iterations")),
        (setting("a", salted=b""), (-1, None)),
    ],
)
def test_refused_changes_leave_the_good_ones(
    change: ScramCredentialUpsertion, refusal: tuple[int, str | None]
) -> None:
    bench = Bench()
    before = len(bench.log)
    results = alter(bench, setting("good", 2, 16384), change, setting("better"))
    assert results == [("good", 0, None), ("better", 0, None), (change.name, *refusal)]
    assert set(bench.image.scram) == {("good", 2), ("better", 1)}
    assert len(bench.log) == before + 2


def test_a_user_is_named_once_in_a_request() -> None:
    twice = "A user credential cannot be altered twice in the same request"
    bench = Bench()
    alter(bench, setting("ada"))
    assert alter(bench, setting("eve"), setting("eve", 2), setting("eve")) == [("eve", 92, twice)]
    assert alter(bench, deleted=(("ada", 1), ("ada", 1))) == [("ada", 92, twice)]
    assert alter(bench, setting("ada", 2), deleted=(("ada", 1),)) == [("ada", 92, twice)]
    assert set(bench.image.scram) == {("ada", 1)}
    first_refusal_stays = alter(bench, setting("x"), deleted=(("x", 1),))
    assert [code for _, code, _ in first_refusal_stays] == [91]


def test_deletions() -> None:
    bench = Bench()
    alter(bench, setting("ada"))
    absent = "Attempt to delete a user credential that does not exist"
    deleted = (("ada", 1), ("bob", 1), ("", 1), ("eve", 5))
    assert alter(bench, deleted=deleted) == [
        ("ada", 0, None),
        ("bob", 91, absent),
        ("", 93, "Username must not be empty"),
        ("eve", 33, "Unknown SCRAM mechanism"),
    ]
    assert alter(bench, deleted=(("ada", 1),)) == [("ada", 91, absent)]


def test_older_metadata_versions_have_no_users() -> None:
    bench = Bench(first_levels={"metadata.version": 10})
    message = "The current metadata.version does not support SCRAM"
    results = alter(bench, setting(""), setting("a"), deleted=(("b", 1),))
    assert results == [("b", 35, message), ("", 35, message), ("a", 35, message)]
    assert not bench.image.scram


def test_another_controller_replays_the_same_users() -> None:
    bench = Bench()
    alter(bench, setting("ada"), setting("bob", 2))
    alter(bench, setting("ada", 1, 8192), deleted=(("bob", 2),))
    again = apply_records(ClusterImage(), bench.log)
    assert again.scram == bench.image.scram
    assert [one.iterations for one in again.scram.values()] == [8192]
    assert isinstance(bench.log[1], FeatureLevelRecord)
