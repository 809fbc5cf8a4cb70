"""Who a client is: what a session's authentication gives, and what authorization asks about."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

USER: Final = "User"
"""The type of the principals that authentication gives."""


class Principal(Struct, frozen=True):
    """Who a client is, as its authentication has shown (Kafka's `KafkaPrincipal`)."""

    type: str
    name: str
    token_authenticated: bool = False
    """Whether it showed a delegation token, with which no further token can be had (KIP-48)."""

    @classmethod
    def parse(cls, text: str) -> Principal:
        """The principal of a text such as `User:ada`: the type ends at the first colon."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    def is_same_as(self, other: Principal) -> bool:
        """Whether both are the same client: by type and name alone, as in Kafka."""
        return (self.type, self.name) == (other.type, other.name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A client that did not authenticate."""
