"""Refusals in answers of the administration of security: one per row, or one for all."""

from __future__ import annotations

from typing import Any

from fencepost.client.errors import BrokerError, ClientError
from fencepost.wire.errors import is_retriable


def passing(answer: Any) -> int:
    """The error of a response or of a row, if trying again may help; else 0."""
    code: int = answer.error_code
    return code if is_retriable(code) else 0


def raise_refusal(answer: Any, what: str) -> None:
    """Raise BrokerError for the error of a response or of a row, with the broker's words."""
    if answer.error_code:
        text = getattr(answer, "error_message", None)
        raise BrokerError.of(answer.error_code, f"{what}: {text}" if text else what)


class Refusals:
    """The rows of one answer that were refused."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._rows: list[tuple[str, Any]] = []

    def note(self, name: str, row: Any) -> None:
        """Look at the row of `name`."""
        if row.error_code:
            self._rows.append((name, row))

    def check(self, asked: int, answered: int) -> None:
        """Raise BrokerError for the first refused row, naming it and how many more there are;
        ClientError if there are not as many rows as were asked for."""
        if asked != answered:
            raise ClientError(f"{self._what}: {asked} rows were answered with {answered}")
        if not self._rows:
            return
        name, first = self._rows[0]
        more = f" (and {len(self._rows) - 1} more of {asked})" if len(self._rows) > 1 else ""
        raise_refusal(first, f"{self._what}: {name}{more}")
