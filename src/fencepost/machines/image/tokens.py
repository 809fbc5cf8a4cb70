"""Delegation tokens, as the metadata log has them (KIP-48, in KRaft since 3.6).

The log holds who owns a token and until when it is good, and not its secret: that is
HMAC-SHA-512 of the token's id under `delegation.token.secret.key`, which every node computes.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from fencepost.machines.image.persistent import PersistentMap
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import DelegationTokenRecord


class TokenImage(Struct, frozen=True):
    """One delegation token. Principals are `Type:name`, times milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int

    def is_expired(self, wall_ms: int) -> bool:
        """Whether the token is no longer good at that time."""
        return self.max_timestamp < wall_ms or self.expiration_timestamp < wall_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether the principal (`Type:name`) owns the token or is one of its renewers."""
        return principal == self.owner or principal in self.renewers


TokensImage = PersistentMap[str, TokenImage]
"""Tokens by id."""


def token_record(token: TokenImage) -> DelegationTokenRecord:
    """The record that issues a token, or changes it."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
        token_id=token.token_id,
    )


def token_of_record(record: DelegationTokenRecord) -> TokenImage:
    """The token that a record issues or changes."""
    return TokenImage(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp=record.issue_timestamp,
        max_timestamp=record.max_timestamp,
        expiration_timestamp=record.expiration_timestamp,
    )


def token_records(tokens: TokensImage) -> Iterator[tuple[Message, int]]:
    """All tokens as a snapshot has them, by id."""
    for token_id in sorted(tokens):
        yield token_record(tokens[token_id]), 0
