"""Refusals of the registry, with the error codes of Confluent's REST API.

The first three digits of a code are the HTTP status.
"""

from __future__ import annotations

from typing import Final

SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
SUBJECT_SOFT_DELETED: Final = 40404
SUBJECT_NOT_SOFT_DELETED: Final = 40405
VERSION_SOFT_DELETED: Final = 40406
VERSION_NOT_SOFT_DELETED: Final = 40407
SUBJECT_COMPATIBILITY_NOT_CONFIGURED: Final = 40408
SUBJECT_MODE_NOT_CONFIGURED: Final = 40409
INCOMPATIBLE_SCHEMA: Final = 40901
INVALID_SCHEMA: Final = 42201
INVALID_VERSION: Final = 42202
INVALID_COMPATIBILITY: Final = 42203
INVALID_MODE: Final = 42204
OPERATION_NOT_PERMITTED: Final = 42205
REFERENCE_EXISTS: Final = 42206
ID_DOES_NOT_MATCH: Final = 42207
INVALID_SUBJECT: Final = 42208
SCHEMA_TOO_LARGE: Final = 42209


class RegistryError(Exception):
    """A request is refused; `code` is the API's error code, the text its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100


def invalid_schema(reason: str) -> RegistryError:
    """A schema that cannot be parsed, or names what is not there."""
    return RegistryError(INVALID_SCHEMA, f"Invalid schema: {reason}")


def subject_not_found(subject: str) -> RegistryError:
    """No version of the subject is there."""
    return RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """The subject is there, the version is not."""
    return RegistryError(VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    """No such id, or no such schema under the subject."""
    which = "" if schema_id is None else f" {schema_id}"
    return RegistryError(SCHEMA_NOT_FOUND, f"Schema{which} not found")
