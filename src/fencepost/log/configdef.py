"""What a configuration key is: name, type, default and valid values, and how text is read.

Kafka's configurations are string maps; a `ConfigDef` knows how one of the strings is read. Brokers
and topics have tables of them (`fencepost.log.config.TOPIC_CONFIGS` here, the broker's own in the
broker). Text is read as Kafka reads it: numbers are decimal and must fit their width, booleans are
`true` or `false` in any case, lists are separated by commas, white space around a value is dropped.

A topic config that is not set falls back to a broker config, which often has another name and
sometimes another unit: `synonyms` names them in order of precedence.

Whatever is wrong with a value ends in one `ConfigError` that names the key, the value and what
would have been right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct


class ConfigError(ValueError):
    """A configuration key is unknown, or its value is not allowed.

    The text is for operators. `answer` is for clients that sent the value: the same in the shape of
    Kafka's messages, which programs compare.
    """

    def __init__(self, key: str, value: object, allowed: str, answer: str | None = None) -> None:
        shown = key if key.isprintable() else repr(key)  # a binary file has keys for terminals
        super().__init__(f"{shown}={value!r} is not allowed: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed
        self.answer = _invalid_value(key, value, allowed) if answer is None else answer

    def at(self, place: str) -> ConfigError:
        """The same error, which says as well where the value is written."""
        error = ConfigError(self.key, self.value, f"{self.allowed} ({place})", self.answer)
        error.allowed = self.allowed
        return error


def _invalid_value(key: str, value: object, reason: str) -> str:
    return f"Invalid value {value} for configuration {key}: {reason}"


def closest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that a user who wrote `name` may have meant; None if none is near."""
    from difflib import get_close_matches  # only for mistakes, and every node loads this module

    near = get_close_matches(name, list(names), n=1)
    return near[0] if near else None


class ConfigType(IntEnum):
    """Type of a config value; the numbers are those of DescribeConfigs responses (KIP-226)."""

    UNKNOWN = 0
    """Of a config that no table has: its value may be a secret."""
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_WIDTH_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_DECIMAL: Final = r"[+-]?\d{1,20}"
"""Digits of any script, which Java's `Long.parseLong` reads, too."""

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class Validator(Struct, frozen=True):
    """Which values of the right type are allowed, and how to say so.

    `names_most`: what it says has the largest number in it. `names_type`: it needs no type in front
    of it to be understood. `drops_repeats`: of a list, what comes again is dropped before it is
    looked at, as Kafka does since 4.2 (KAFKA-19875). `answer` makes of a config's name and a
    refused value what is wrong with it, and why, in the shape of messages of Kafka; None: clients
    see `describes` alone.
    """

    describes: str
    accepts: Callable[[Any], bool]
    names_most: bool = False
    names_type: bool = False
    drops_repeats: bool = False
    answer: Callable[[str, Any], tuple[Any, str]] | None = None


def at_least(least: float) -> Validator:
    """Numbers from `least` up."""
    return Validator(
        f"at least {least}",
        lambda value: value >= least,
        answer=lambda _, value: (value, f"Value must be at least {least}"),
    )


def between(least: float, most: float) -> Validator:
    """Numbers from `least` to `most`, both included."""

    def answer(_: str, value: Any) -> tuple[Any, str]:
        bound = f"at least {least}" if value < least else f"no more than {most}"
        return value, f"Value must be {bound}"

    describes = f"from {least} to {most}"
    return Validator(
        describes, lambda value: least <= value <= most, names_most=True, answer=answer
    )


def one_of(*names: str) -> Validator:
    """One of the strings `names`."""
    listed = ", ".join(names)
    return Validator(
        f"one of {listed}",
        lambda value: value in names,
        answer=lambda _, value: (value, f"String must be one of: {listed}"),
    )


def one_of_any_case(*names: str) -> Validator:
    """One of the strings `names`, in upper or lower case."""
    lowered = {name.lower() for name in names}
    listed = ", ".join(names)
    return Validator(
        f"one of {listed}",
        lambda value: value.lower() in lowered,
        answer=lambda _, value: (value, f"String must be one of (case insensitive): {listed}"),
    )


def each_of(*names: str, may_be_empty: bool = True) -> Validator:
    """A list of distinct strings out of `names`."""
    listed = ", ".join(names)

    def answer(_: str, value: Any) -> tuple[Any, str]:
        wrong = [item for item in value if item not in names]
        return wrong[0] if wrong else value, f"String must be one of: {listed}"

    return Validator(
        f"a list out of {listed}",
        lambda value: all(item in names for item in value) and (may_be_empty or len(value) > 0),
        drops_repeats=True,
        answer=answer,
    )


def distinct(*, may_be_empty: bool = False) -> Validator:
    """A list of distinct strings, none of them empty."""
    return Validator(
        "a list without empty values" + ("" if may_be_empty else ", at least one"),
        lambda value: all(value) and (may_be_empty or len(value) > 0),
        drops_repeats=True,
    )


def non_empty() -> Validator:
    """A string or list that is not empty."""
    return Validator("not empty", lambda value: len(value) > 0)


class Synonym(Struct, frozen=True):
    """A broker config a topic config falls back to; its value times `factor` is the topic's."""

    key: str
    factor: int = 1


class ConfigDef(Struct, frozen=True):
    """One configuration key.

    `default` is the typed value that holds when nothing is set (None: no default). `internal` keys
    are accepted but not listed or documented.
    """

    name: str
    type: ConfigType
    default: Any
    doc: str
    validator: Validator | None = None
    synonyms: tuple[Synonym, ...] = ()
    internal: bool = False

    @property
    def attribute(self) -> str:
        """The name as a Python attribute: `retention.ms` is `retention_ms`."""
        return self.name.replace(".", "_")

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        kind = self.type.name.lower()
        return f"{kind}, {self.validator.describes}" if self.validator else kind

    @property
    def _allowed_width(self) -> str:
        """Likewise, with the largest number the type has room for, for values it cannot hold."""
        bits = _WIDTH_BITS.get(self.type)
        if bits is None or (self.validator is not None and self.validator.names_most):
            return self.allowed
        return f"{self.allowed}, at most {(1 << bits - 1) - 1}"

    def _must_be(self, allowed: str) -> str:
        """A sentence of what is allowed, which begins with the name of the type."""
        rule = self.validator
        if rule is not None and (self.type is ConfigType.LIST or rule.names_type):
            return f"it must be {rule.describes}"
        article = "an" if self.type is ConfigType.INT else "a"
        return f"it must be {article} {allowed}"

    def parse(self, value: object) -> Any:
        """The typed value of `value`, which is text or already of the right type.

        Raises ConfigError. Lists come out as tuples, so values are immutable.
        """
        try:
            typed = _read(self.type, value)
        except ValueError:
            shown, must_be = self.redacted(value), self._must_be(self._allowed_width)
            answer = _invalid_value(self.name, shown, _expected(self.type))
            raise ConfigError(self.name, shown, must_be, answer) from None
        if self.validator is None:
            return typed
        if self.validator.drops_repeats:
            typed = tuple(dict.fromkeys(typed))
        if not self.validator.accepts(typed):
            must_be = self._must_be(self.allowed)
            raise ConfigError(self.name, self.redacted(value), must_be, self._answer(typed))
        return typed

    def _answer(self, value: Any) -> str | None:
        """What clients that sent a value are answered; None: what operators are told."""
        if self.validator is None or self.validator.answer is None:
            return None
        wrong, reason = self.validator.answer(self.name, value)
        if isinstance(wrong, float):
            wrong = _format_double(wrong)
        elif isinstance(wrong, tuple):
            wrong = f"[{', '.join(wrong)}]"
        return _invalid_value(self.name, self.redacted(wrong), reason)

    @property
    def is_sensitive(self) -> bool:
        """Whether values are kept secret."""
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def format(self, value: Any) -> str | None:
        """The text of a typed value, as DescribeConfigs shows it; None for a secret or None."""
        if value is None or self.is_sensitive:
            return None
        if self.type is ConfigType.BOOLEAN:
            return "true" if value else "false"
        if self.type is ConfigType.LIST:
            return ",".join(value)
        return _format_double(value) if self.type is ConfigType.DOUBLE else str(value)

    def redacted(self, value: object) -> object:
        """`value`, or a placeholder where it is secret: fit for logs and error messages."""
        return "[hidden]" if self.is_sensitive else value

    def from_broker(self, broker_configs: Mapping[str, Any]) -> Any:
        """The value this topic config takes from a broker's configs; the default if none is set.

        A broker config that is absent or None is not set. Raises ConfigError.
        """
        for synonym in self.synonyms:
            value = broker_configs.get(synonym.key)
            if value is None:
                continue
            return self.parse(value) if synonym.factor == 1 else self._scaled(synonym, value)
        return self.default

    def _scaled(self, synonym: Synonym, value: object) -> int:
        try:
            typed: int = _read(ConfigType.INT, value)
        except ValueError:
            raise ConfigError(synonym.key, value, "int") from None
        scaled = typed * synonym.factor if typed >= 0 else -1
        if self.validator is not None and not self.validator.accepts(scaled):
            raise ConfigError(synonym.key, value, f"{self.name} must be {self.allowed}")
        return scaled


def _expected(kind: ConfigType) -> str:
    """Why a text is none of this type, as Kafka says it."""
    if kind is ConfigType.BOOLEAN:
        return "Expected value to be either true or false"
    if kind is ConfigType.LIST:
        return "Expected a comma separated list."
    return f"Not a number of type {kind.name}"


def _format_double(number: float) -> str:
    """The number as Java writes it: from 0.001 to 10 million in full, else like 1.5E-4."""
    if number == 0 or 1e-3 <= abs(number) < 1e7 or math.isinf(number):
        return repr(float(number)).replace("inf", "Infinity")
    from decimal import Decimal  # few configs have such numbers, and every node loads this module

    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    first, *rest = map(str, digits)
    assert isinstance(exponent, int), "it is finite"
    power = exponent + len(rest)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"


def _read(kind: ConfigType, value: object) -> Any:
    if kind in _WIDTH_BITS:
        return _read_integer(value, _WIDTH_BITS[kind])
    if kind is ConfigType.BOOLEAN:
        return _read_boolean(value)
    if kind is ConfigType.DOUBLE:
        return _read_double(value)
    if kind is ConfigType.LIST:
        return _read_list(value)
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value if kind is ConfigType.PASSWORD else value.strip()


def _read_integer(value: object, bits: int) -> int:
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(_DECIMAL, text) is None:
            raise ValueError("not a whole number")
        value = int(text)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("not a whole number")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"does not fit {bits} bits")
    return value


def _read_boolean(value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower())
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _read_double(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("not a number")
    number = float(value)
    if math.isnan(number):
        raise ValueError("not a number")
    return number


def _read_list(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value.strip()
        return tuple(item.strip() for item in text.split(",")) if text else ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError("not a list")
    return tuple(value)
