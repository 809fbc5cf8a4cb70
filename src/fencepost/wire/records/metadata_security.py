"""Metadata records about who may do what: ACLs, SCRAM credentials, delegation tokens, quotas.

Secrets in here are salted keys, never passwords, but still worth keeping out of logs and dumps.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bool, Bytes, Float64, Int8, Int32, Int64, String, Uuid


class AccessControlEntryRecord(Message, record_id=18, kind="metadata", versions="0", flexible="0+"):
    """An access rule exists (KIP-801)."""

    id: Uuid = field(doc="Id of the rule, by which it is removed.")
    resource_type: Int8 = field(
        doc="2 topic, 3 group, 4 cluster, 5 transactional id, 6 token, 7 user.",
    )
    resource_name: String = field(doc="Name or prefix the rule is about, or `*`.")
    pattern_type: Int8 = field(doc="3 for a literal name, 4 for a prefix.")
    principal: String = field(doc="Whom the rule is about, such as `User:alice`.")
    host: String = field(doc="Address the principal must come from, or `*`.")
    operation: Int8 = field(doc="Number of the operation, as in the ACL requests.")
    permission_type: Int8 = field(doc="2 denies, 3 allows.")


class RemoveAccessControlEntryRecord(
    Message, record_id=19, kind="metadata", versions="0", flexible="0+"
):
    """An access rule is gone."""

    id: Uuid = field(doc="Id of the rule.")


class UserScramCredentialRecord(
    Message, record_id=11, kind="metadata", versions="0", flexible="0+"
):
    """A user's SCRAM credential is set (KIP-900)."""

    name: String = field(doc="Name of the user.")
    mechanism: Int8 = field(doc="1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512.")
    salt: Bytes = field(secret=ALWAYS, doc="Random salt of the keys.")
    stored_key: Bytes = field(secret=ALWAYS, doc="Key the server checks the client's proof with.")
    server_key: Bytes = field(secret=ALWAYS, doc="Key the server proves itself with.")
    iterations: Int32 = field(doc="How often the hash was applied.")


class RemoveUserScramCredentialRecord(
    Message, record_id=22, kind="metadata", versions="0", flexible="0+"
):
    """A user's SCRAM credential is gone."""

    name: String = field(doc="Name of the user.")
    mechanism: Int8 = field(doc="1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512.")


class DelegationTokenRecord(Message, record_id=10, kind="metadata", versions="0", flexible="0+"):
    """A delegation token was issued or renewed (KIP-900)."""

    owner: String = field(doc="Principal the token stands for.")
    requester: String = field(doc="Principal that asked for the token.")
    renewers: list[String] = field(doc="Principals that may renew it.")
    issue_timestamp: Int64 = field(doc="Milliseconds since 1970 at which it was issued.")
    max_timestamp: Int64 = field(doc="Milliseconds since 1970 after which it cannot be renewed.")
    expiration_timestamp: Int64 = field(
        doc="Milliseconds since 1970 at which it ends unless renewed.",
    )
    token_id: String = field(doc="Id of the token.")


class RemoveDelegationTokenRecord(
    Message, record_id=26, kind="metadata", versions="0", flexible="0+"
):
    """A delegation token is gone."""

    token_id: String = field(doc="Id of the token.")


class EntityData(Struct):
    """One part of the name of what a quota is for."""

    entity_type: String = field(doc="`user`, `client-id` or `ip`.")
    entity_name: String | None = field(doc="The name; null for the default of that type.")


class ClientQuotaRecord(Message, record_id=14, kind="metadata", versions="0", flexible="0+"):
    """A quota is set or removed (KIP-546)."""

    entity: list[EntityData] = field(doc="What the quota is for, part by part.")
    key: String = field(doc="Which quota, such as `producer_byte_rate`.")
    value: Float64 = field(doc="The limit, in the unit of the quota.")
    remove: Bool = field(doc="Whether the quota is taken away.")
