"""The configs of one listener, and of one SASL mechanism on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.broker.config.prefixed_keys import LISTENER_KEYS, MECHANISM_KEYS, prefixed


class ListenerConfig:
    """What holds for a listener: its mechanism's value, else its own, else that of all."""

    def __init__(
        self,
        listener: str,
        mechanism: str | None,
        get: Callable[[str], Any],
        is_set: Callable[[str], bool],
    ) -> None:
        """`get` and `is_set` take whole keys, with their prefixes."""
        self.listener = listener
        self.mechanism = mechanism
        self._get = get
        self._is_set = is_set

    def get(self, key: str) -> Any:
        """The typed value in force; KeyError for a key that does not exist."""
        return self._get(self.name_of(key))

    def name_of(self, key: str) -> str:
        """The whole key whose value `get` gives: for what is said of a value."""
        for mechanism in (self.mechanism, None):
            keys = LISTENER_KEYS if mechanism is None else MECHANISM_KEYS
            whole = prefixed(key, self.listener, mechanism)
            if key in keys and self._is_set(whole):
                return whole
        return key

    def has_own(self, key: str) -> bool:
        """Whether the listener or the mechanism has a value that is not that of all listeners."""
        return self.name_of(key) != key

    def is_set(self, key: str) -> bool:
        """Whether the value is configured, at whatever level, and not the default."""
        return self._is_set(self.name_of(key))
