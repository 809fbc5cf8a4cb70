"""Users that a cluster has from its first start: `fencepost format --add-scram` (KIP-900).

The only way to have a user where brokers themselves log in with SCRAM. An argument is
`MECHANISM=[name=..,password=..]`, or with `saltedpassword=..,salt=..` instead of the password, and
`iterations=..`; values may be quoted, salts are base64. The rules are those of Kafka's storage
tool, and so are the errors, but that these never repeat what may be part of a secret.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode
from collections.abc import Iterable
from typing import Final

from fencepost.log.errors import LogError
from fencepost.machines.image import ScramMechanism
from fencepost.machines.image.scram import credential_record
from fencepost.machines.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    credential_of_salted_password,
    salted_password,
)
from fencepost.wire.records.metadata import UserScramCredentialRecord

SALT_BYTES: Final = 24
_INT32: Final = range(-(1 << 31), 1 << 31)
_QUOTED_LETTERS_MIN: Final = 2


class ScramArgumentError(LogError):
    """An argument of `--add-scram` cannot be taken."""


def parse_scram_arguments(arguments: Iterable[str]) -> list[UserScramCredentialRecord]:
    """The records of the users, in their order. Raises ScramArgumentError."""
    return [_record(*_mechanism_and_components(argument.strip())) for argument in arguments]


def _mechanism_and_components(argument: str) -> tuple[ScramMechanism, dict[str, str]]:
    name, equals, components = argument.partition("=")
    if not equals:
        raise ScramArgumentError("Failed to find equals sign in a SCRAM argument")
    mechanism = ScramMechanism.named(name)
    if mechanism is None:
        raise ScramArgumentError(
            f"The add-scram mechanism {name} is not supported; there are"
            f" {', '.join(each.mechanism_name for each in ScramMechanism)}"
        )
    if not components.startswith("["):
        raise ScramArgumentError("Expected configuration string to start with [")
    if not components.endswith("]"):
        raise ScramArgumentError("Expected configuration string to end with ]")
    return mechanism, dict(_components(components[1:-1]))


def _components(text: str) -> Iterable[tuple[str, str]]:
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:  # commas at the end are ignored
        del parts[-1]
    for number, part in enumerate(parts, 1):
        key, equals, value = part.partition("=")
        if not equals:
            raise ScramArgumentError(f"No equals sign found in SCRAM component {number}")
        if len(value) >= _QUOTED_LETTERS_MIN and value[0] == value[-1] == '"':
            value = value[1:-1]
        yield key, value


def _record(mechanism: ScramMechanism, given: dict[str, str]) -> UserScramCredentialRecord:
    name = given.pop("name", None)
    if name is None:
        raise ScramArgumentError("You must supply 'name' to add-scram")
    salt = None
    if (salt_text := given.pop("salt", None)) is not None:
        salt = _from_base64(salt_text, f"Failed to decode given salt: {salt_text}")
    iterations = _iterations(given.pop("iterations", None))
    password, salted_text = given.pop("password", None), given.pop("saltedpassword", None)
    salted = None
    if password is None:
        if salted_text is None:
            raise ScramArgumentError(
                "You must supply one of 'password' or 'saltedpassword' to add-scram"
            )
        if salt is None:
            raise ScramArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted = _from_base64(salted_text, "Failed to decode given saltedPassword")
    if given:
        raise ScramArgumentError(f"Unknown SCRAM configurations: {', '.join(sorted(given))}")
    _check_iterations(mechanism, iterations)
    if salt is None:
        salt = secrets.token_bytes(SALT_BYTES)
    if salted is None:
        assert password is not None, "one of them is given"
        salted = salted_password(mechanism, password.encode(), salt, iterations)
    if not salted:
        raise ScramArgumentError("Failed to use given saltedPassword: it is empty")
    credential = credential_of_salted_password(mechanism, salted, salt, iterations)
    return credential_record(name, mechanism, credential)


def _iterations(text: str | None) -> int:
    if text is None:
        return ITERATIONS_MIN
    if re.fullmatch(r"[+-]?\d{1,10}", text) and int(text) in _INT32:
        return int(text)
    raise ScramArgumentError(f"Failed to parse iterations count: {text}")


def _check_iterations(mechanism: ScramMechanism, iterations: int) -> None:
    kind = mechanism.mechanism_name.replace("-", "_")
    if iterations < ITERATIONS_MIN:
        raise ScramArgumentError(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {kind}"
        )
    if iterations > ITERATIONS_MAX:
        raise ScramArgumentError(
            f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {kind}"
        )


def _from_base64(text: str, message: str) -> bytes:
    """The bytes of a base64 text, whose padding may be left out. ScramArgumentError."""
    bare = text.rstrip("=")
    padding = len(text) - len(bare)
    wanted = -len(bare) % 4
    if not re.fullmatch("[A-Za-z0-9+/]*", bare) or wanted > 2 or padding not in (0, wanted):
        raise ScramArgumentError(message)
    return b64decode(bare + "=" * wanted)
