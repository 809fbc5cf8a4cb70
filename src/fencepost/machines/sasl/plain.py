"""The server's side of PLAIN (RFC 4616): one message, with the password as it is.

The message is `[authzid] NUL user NUL password` in UTF-8. SASLprep is not applied, as in Kafka.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.sasl.credentials import PlainPasswords
from fencepost.machines.sasl.steps import Done, Failed, SaslStep, Work

PLAIN: Final = "PLAIN"
PARTS: Final = 3
NO_USER: Final = "Authentication failed: username not specified"
NO_PASSWORD: Final = "Authentication failed: password not specified"
WRONG: Final = "Authentication failed: Invalid username or password"
OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class PlainServer:
    """See the module; `passwords` has those of all users."""

    def __init__(self, passwords: PlainPasswords) -> None:
        self._passwords = passwords
        self._is_over = False

    def step(self, token: bytes) -> SaslStep:
        """See `SaslServer`."""
        if self._is_over:
            return Failed("a token came behind the end of PLAIN")
        self._is_over = True
        parts = token.split(b"\0", PARTS)
        if len(parts) != PARTS:
            return _refused(
                f"Invalid SASL/PLAIN response: expected {PARTS} tokens, got {len(parts)}"
            )
        identity, name, password = parts
        if not name:
            return _refused(NO_USER)
        if not password:
            return _refused(NO_PASSWORD)
        try:
            user = name.decode()
        except UnicodeDecodeError:
            return _refused(WRONG)
        is_other = identity not in (b"", name)
        checked = self._passwords.check(user, password)
        if callable(checked):
            return Work(checked, lambda is_right: _judge(user, is_right, is_other))
        return _judge(user, checked, is_other)


def _judge(user: str, is_right: bool, is_other: bool) -> SaslStep:
    """The password comes first: only the user itself learns what is wrong with its identity."""
    if not is_right:
        return _refused(WRONG)
    if is_other:
        return _refused(OTHER_IDENTITY)
    return Done(b"", user)


def _refused(text: str) -> Failed:
    return Failed(text, told=text)
