"""An authorizer for tests, and the errors that answers have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fencepost.runtime.requests.access import Client
from fencepost.runtime.requests.permissions import Permission
from fencepost.wire.message import Struct


class Rules:
    """An authorizer that refuses some permissions, or all, and notes what it is asked."""

    def __init__(self, *refused: Permission, all_refused: bool = False) -> None:
        self.refused = set(refused)
        self.all_refused = all_refused
        self.asked: set[Permission] = set()
        self.logged: set[Permission] = set()

    @property
    def version(self) -> object:
        return self

    def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
        assert client.client_host and client.principal.name == "ANONYMOUS"
        self.asked.add(permission)
        if not quiet:
            self.logged.add(permission)
        return not self.all_refused and permission not in self.refused

    def grant(self, client: Client, permission: Permission, name: str) -> tuple[bool, None]:
        return self.allows(client, permission, name, quiet=False), None

    def allows_any(self, client: Client, permission: Permission) -> bool:
        return self.allows(client, permission, "any", quiet=False)


def errors_in(struct: Any) -> Iterator[int]:
    """The error codes of a response, but for 0, in their order."""
    for descriptor in type(struct).fields:
        value = getattr(struct, descriptor.name)
        if descriptor.name.endswith("error_code") and value:
            yield int(value)
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, Struct):
                yield from errors_in(one)
