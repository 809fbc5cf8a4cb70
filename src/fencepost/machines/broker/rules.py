"""The rules of a broker's lifecycle by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for `BrokerLifecycle`: each rule is a function of the facts that it
is given and of nothing else. Production uses `RULES`; an ablation is a subclass that overrides some
of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final


class LifecycleRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all brokers."""

    __slots__ = ()

    def has_caught_up(self, is_caught_up: bool) -> bool:
        """Whether a broker that starts may trust its metadata with files: once it has read its own
        registration. Before, a topic in them may be an older one of the same name."""
        return is_caught_up

    def wants_to_be_fenced(self, is_ready: bool) -> bool:
        """Whether a heartbeat asks to stay fenced: until the logs are loaded the broker serves
        nothing, and must not be elected leader."""
        return not is_ready

    def may_stop(self, should_shut_down: bool) -> bool:
        """Whether a broker in its controlled shutdown may stop: when the controller says so, which
        waits until all others know who leads in its place."""
        return should_shut_down


RULES: Final = LifecycleRules()
"""What production brokers go by."""

RULE_NAMES: Final = tuple(name for name in vars(LifecycleRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
