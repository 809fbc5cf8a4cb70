"""ACLs, ordered by what is asked of them: by type, pattern and name, then by principal.

Theory of operation
-------------------
A change to one of ten thousand ACLs costs what it touches, and ten thousand changes little: while
they are taken no client is served. What is read from an index is to be used before it is updated. A
decision looks at the literal patterns of the name and of `*`, and at prefixes of the name for each
length that a prefix of the type has; of each it finds without a search the rules for the principal,
and those for `User:*`, which are for all.

Whether a client may do something to some resource of a type is another question: for it there are
the places where a principal has ACLs of that type, those that allow and those that deny apart.

The order in which rules are found is Kafka's, which matters for the ACL that an audit line names:
the first that denies, or else the last that allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fencepost.machines.authorizer.hosts import ClientHost, Range, host_of_acl
from fencepost.machines.image.acls import WILDCARD, Acl, Pattern, PermissionType
from fencepost.wire.types import Uuid

EVERY_USER: Final = "User:*"
"""The principal of ACLs that are for every principal."""
MANY_RULES: Final = 32
"""From so many rules of one pattern on it is remembered which of them are for a client."""
CLIENTS_REMEMBERED: Final = 1_000

Place = tuple[int, int, str]
"""A resource type, a pattern type and a resource name."""
Holding = tuple[int, str, bool]
"""A resource type, a principal, and whether its ACLs allow: not, if they deny."""
ByPrincipal = Mapping[str, "tuple[Rule, ...]"]
_NO_RULES: Final[ByPrincipal] = {}
Change = tuple[Uuid, Acl | None, Acl | None]
"""An ACL's id, and what it was and is; None: it is not there."""


class Rule(NamedTuple):
    """An ACL, ready to be compared."""

    acl: Acl
    host: str | Range | None
    """None: every host."""

    @property
    def allows(self) -> bool:
        """Whether the ACL allows: otherwise it denies."""
        return self.acl.permission == PermissionType.ALLOW


class AclIndex:
    """All ACLs; see the module docstring."""

    __slots__ = ("_held", "_lengths", "_places", "_remembered", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many ACLs there are."""
        self._places: dict[Place, dict[str, tuple[Rule, ...]]] = {}
        self._held: dict[Holding, dict[Place, None]] = {}
        # By resource type: how many prefixes there are of each length, the longest first.
        self._lengths: dict[int, dict[int, int]] = {}
        # Of patterns with many rules, those for a client: there may be one for each of a thousand
        # addresses, and a client may ask for thousands of names that match.
        self._remembered: dict[tuple[int, str | None, ClientHost], Sequence[Rule]] = {}

    def update(self, changes: Iterable[Change]) -> None:
        """Take changes. An ACL that is not there is not taken away."""
        self._remembered.clear()
        opened: dict[tuple[Place, str], Counter[Acl]] = {}
        for _, old, new in changes:
            for acl, step in ((old, -1), (new, 1)):
                if acl is None:
                    continue
                rules = self._opened(opened, acl)
                if step > 0 or rules[acl]:
                    rules[acl] += step
                    self.count += step
        for (place, principal), acls in opened.items():
            self._put(place, principal, _rules(acls))

    def _opened(self, opened: dict[tuple[Place, str], Counter[Acl]], acl: Acl) -> Counter[Acl]:
        """The ACLs of its place and principal, open to be changed."""
        place = (acl.resource_type, acl.pattern_type, acl.resource_name)
        key = (place, acl.principal)
        rules = opened.get(key)
        if rules is None:
            known = self._places.get(place, _NO_RULES).get(acl.principal, ())
            rules = opened[key] = Counter(rule.acl for rule in known)
        return rules

    def _put(self, place: Place, principal: str, rules: tuple[Rule, ...]) -> None:
        """These are the rules of a place for a principal from now on."""
        there = self._places.get(place)
        if there is None:
            if not rules:
                return
            there = self._places[place] = {}
            self._count_length(place, 1)
        if rules:
            there[principal] = rules
        elif there.pop(principal, None) is not None and not there:
            del self._places[place]
            self._count_length(place, -1)
        # A pattern of another type, which no controller writes, is for no resource.
        is_pattern = place[1] in (Pattern.LITERAL, Pattern.PREFIXED)
        kinds = {rule.allows for rule in rules if is_pattern}
        for allows in (True, False):
            held = self._held.setdefault((place[0], principal, allows), {})
            if allows in kinds:
                held[place] = None
            else:
                held.pop(place, None)
            if not held:
                del self._held[place[0], principal, allows]

    def _count_length(self, place: Place, step: int) -> None:
        """One more or one less place: if it is of a prefix, its length is to be looked for."""
        kind, pattern, name = place
        if pattern != Pattern.PREFIXED:
            return
        counts = self._lengths.get(kind, {})
        length, is_new = len(name), len(name) not in counts
        counts[length] = counts.get(length, 0) + step
        if not counts[length]:
            del counts[length]
        elif is_new:
            counts = {one: counts[one] for one in sorted(counts, reverse=True)}
        self._lengths[kind] = counts

    def matching(self, resource_type: int, name: str) -> Iterator[ByPrincipal]:
        """The rules of each pattern that the resource matches, in Kafka's order."""
        places = self._places
        literal = places.get((resource_type, Pattern.LITERAL, name))
        if literal is not None:
            yield literal
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                prefixed = places.get((resource_type, Pattern.PREFIXED, name[:length]))
                if prefixed is not None:
                    yield prefixed
        if name != WILDCARD:
            wildcard = places.get((resource_type, Pattern.LITERAL, WILDCARD))
            if wildcard is not None:
                yield wildcard

    def rules_for(
        self, rules: ByPrincipal, principal: str | None, host: ClientHost
    ) -> Sequence[Rule]:
        """Those of one pattern's rules that are for the client, in their order.

        `principal` is None for one that no ACL can name. `User:*` is for principals of every type,
        as in Kafka.
        """
        own = () if principal is None or principal == EVERY_USER else rules.get(principal, ())
        of_all = rules.get(EVERY_USER, ())
        if len(own) + len(of_all) < MANY_RULES:
            return _for_client(own, of_all, host)
        key = (id(rules), principal, host)  # the rules stay until the next update
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= CLIENTS_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = _for_client(own, of_all, host)
        return found

    def of_type(
        self, resource_type: int, principal: str | None, host: ClientHost, *, allows: bool
    ) -> Iterator[Acl]:
        """The ACLs for the client about resources of the type, whatever their pattern: those that
        allow, or those that deny. `principal` is as in `rules_for`."""
        for one in dict.fromkeys((principal, EVERY_USER)):
            if one is None:
                continue
            for place in self._held.get((resource_type, one, allows), ()):
                for rule in self._places[place][one]:
                    if rule.allows == allows and (rule.host is None or host.is_in(rule.host)):
                        yield rule.acl


def _for_client(
    own: tuple[Rule, ...], of_all: tuple[Rule, ...], host: ClientHost
) -> Sequence[Rule]:
    if not own and not of_all:
        return ()
    found = [one for one in own if one.host is None or host.is_in(one.host)]
    others = [one for one in of_all if one.host is None or host.is_in(one.host)]
    return sorted(found + others, key=_order) if found and others else found or others


def _rules(acls: Counter[Acl]) -> tuple[Rule, ...]:
    return tuple(Rule(acl, host_of_acl(acl.host)) for acl in sorted(acls.elements()))


def _order(rule: Rule) -> Acl:
    return rule.acl
