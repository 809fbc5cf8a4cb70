"""Security records that no controller writes, out of a snapshot that came from elsewhere.

A node takes over what the metadata log has. Records with codes that mean nothing, names without
form and numbers out of range must not stop it, and must not let anyone in.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from fencepost.machines.authorizer.decision import Policy
from fencepost.machines.authorizer.machine import AclAuthorizer
from fencepost.machines.image import ClusterImage, ReplayError, ScramMechanism, apply_records
from fencepost.machines.image.acls import AclOperation, PermissionType, ResourceType
from fencepost.machines.image.records import image_records
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.sasl import Challenge, Failed, ScramLookups, ScramServer
from fencepost.machines.session import Principal
from fencepost.runtime.credentials import ImageScramCredentials
from fencepost.runtime.token_credentials import ImageTokenCredentials
from fencepost.wire.records import metadata as records
from fencepost.wire.types import Uuid

BYTE = st.integers(-128, 127)
TEXT = st.text(max_size=8) | st.sampled_from(
    ["*", "User:*", "User:ada", ":", "User:", "ada", "\0", "10.0.0.0/8", "1.2.3.4/99", "::/0", "/"]
)
TIME = st.sampled_from([0, -1, 1, 1_000, 2**63 - 1, -(2**63)])
ADA = Principal("User", "ada")
NOW_MS = 1_000_000


def acl(*said: Any) -> records.AccessControlEntryRecord:
    kind, name, pattern, principal, host, operation, permission = said
    return records.AccessControlEntryRecord(
        id=Uuid(b"one of the ACLs!"),
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


@settings(max_examples=200, deadline=None)
@given(st.tuples(BYTE, TEXT, BYTE, TEXT, TEXT, BYTE, BYTE))
@example((2, "*", 3, "User:ada", "*", 2, 1))
@example((2, "*", 3, "User:ada", "*", 2, 99))
@example((2, "*", 77, "User:ada", "*", 2, 3))
@example((1, "*", 3, "User:ada", "*", 2, 3))
@example((2, "*", 3, "User:ada", "*", 2, 3))
def test_an_acl_that_means_nothing_grants_nothing(said: Any) -> None:
    image = apply_records(ClusterImage(), [acl(*said)])
    assert (
        apply_records(ClusterImage(), [one for one, _ in image_records(image)]).acls == image.acls
    )
    authorizer = AclAuthorizer(Policy())
    authorizer.learn(image.acls)
    authorizer.loaded()
    kind, name, pattern, principal, host, operation, permission = said
    for asked in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
        decision = authorizer.decide(ADA, "10.1.2.3", int(asked), int(ResourceType.TOPIC), "orders")
        any_topic = authorizer.decide_any(ADA, "10.1.2.3", int(asked), int(ResourceType.TOPIC))
        if decision.allowed or any_topic.allowed:
            assert permission == PermissionType.ALLOW
            assert kind == ResourceType.TOPIC
            assert pattern in (3, 4)
            assert principal in ("User:ada", "User:*")
            assert host in ("*", "10.0.0.0/8") or host == "10.1.2.3"
            assert operation == AclOperation.ALL or operation > AclOperation.ALL
        if decision.allowed:
            assert name == "*" or "orders".startswith(name)


CREDENTIAL = st.builds(
    records.UserScramCredentialRecord,
    name=st.just("ada") | TEXT,
    mechanism=BYTE | st.sampled_from([1, 2]),
    salt=st.binary(max_size=40),
    stored_key=st.binary(max_size=70),
    server_key=st.binary(max_size=70),
    iterations=st.integers(-(2**31), 2**31 - 1),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(CREDENTIAL, max_size=3), st.binary(max_size=70), st.sampled_from(ScramMechanism))
@example([records.UserScramCredentialRecord(name="ada", mechanism=1, iterations=4096)], b"", 1)
@example([records.UserScramCredentialRecord(name="ada", mechanism=1, iterations=2**31 - 1)], b"", 1)
def test_a_credential_that_no_password_makes_lets_nobody_in(
    said: list[Any], proof: bytes, number: int
) -> None:
    image = apply_records(ClusterImage(), said)
    again = apply_records(ClusterImage(), [one for one, _ in image_records(image)])
    assert again.scram == image.scram
    users, mechanism = ImageScramCredentials(lambda: image), ScramMechanism(number)
    lookups = ScramLookups(users, None, b"salts", users.iterations)
    server = ScramServer(mechanism, lookups, "nonce")
    step = server.step(b"n,,n=ada,r=mine")
    if isinstance(step, Challenge):
        final = b"c=biws,r=minenonce,p=" + base64.b64encode(proof)
        step = server.step(final)
    assert isinstance(step, Failed)


TOKEN = st.builds(
    records.DelegationTokenRecord,
    owner=TEXT | st.just("Group:ada"),
    requester=TEXT,
    renewers=st.lists(TEXT, max_size=2),
    issue_timestamp=TIME,
    max_timestamp=TIME,
    expiration_timestamp=TIME,
    token_id=st.just("t") | TEXT,
)


@settings(max_examples=100, deadline=None)
@given(TOKEN)
def test_a_token_of_no_user_or_past_its_time_is_none(said: Any) -> None:
    image = apply_records(ClusterImage(), [said])
    tokens = ImageTokenCredentials(lambda: image, TokenSecret("secret"), lambda: NOW_MS)
    found = tokens.find(said.token_id, "SCRAM-SHA-256")
    is_good = min(said.expiration_timestamp, said.max_timestamp) >= NOW_MS
    assert (found is not None) == (is_good and said.owner.startswith("User:"))


@pytest.mark.parametrize("back_ms", [0, 1, 3_600_000, 10**12])
def test_a_clock_that_is_set_decides_by_what_it_shows(back_ms: int) -> None:
    """A token is good by the wall clock, as in Kafka: one set back makes it good again, until the
    controller has removed it; one set forward ends it at once."""
    token = records.DelegationTokenRecord(
        owner="User:ada", max_timestamp=NOW_MS, expiration_timestamp=NOW_MS, token_id="t"
    )
    image, shown = apply_records(ClusterImage(), [token]), NOW_MS
    tokens = ImageTokenCredentials(lambda: image, TokenSecret("secret"), lambda: shown)
    assert tokens.find("t", "SCRAM-SHA-256") is not None
    shown = NOW_MS + 1
    assert tokens.find("t", "SCRAM-SHA-256") is None
    shown = NOW_MS - back_ms
    assert tokens.find("t", "SCRAM-SHA-256") is not None
    image = apply_records(image, [records.RemoveDelegationTokenRecord(token_id="t")])
    assert tokens.find("t", "SCRAM-SHA-256") is None


def test_records_that_refer_to_nothing_are_refused() -> None:
    for record in (
        records.RemoveAccessControlEntryRecord(id=Uuid(b"one of the ACLs!")),
        records.RemoveUserScramCredentialRecord(name="ada", mechanism=99),
    ):
        with pytest.raises(ReplayError):
            apply_records(ClusterImage(), [record])
