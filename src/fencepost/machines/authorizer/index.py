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
Key = tuple[Place, str]
"""A place and a principal."""
Holding = tuple[int, str, bool]
"""A resource type, a principal, and whether its ACLs allow: not, if they deny."""
ByPrincipal = Mapping[str, "tuple[Rule, ...]"]
_NO_RULES: Final[ByPrincipal] = {}
_ALLOW: Final = int(PermissionType.ALLOW)
_PATTERNS: Final = frozenset({int(Pattern.LITERAL), int(Pattern.PREFIXED)})
Change = tuple[Uuid, Acl | None, Acl | None]
"""An ACL's id, and what it was and is; None: it is not there."""


class Rule(NamedTuple):
    """An ACL, ready to be compared."""

    acl: Acl
    host: str | Range | None
    """None: every host."""
    allows: bool
    """Whether the ACL allows: otherwise it denies."""


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
        added: dict[Key, list[Acl]] = {}
        opened: dict[Key, Counter[Acl]] = {}
        for _, old, new in changes:
            if old is not None:
                key = _key_of(old)
                rules = self._opened(key, opened, added)
                if rules[old]:
                    rules[old] -= 1
                    self.count -= 1
            if new is not None:
                key = _key_of(new)
                if key in opened:
                    opened[key][new] += 1
                else:
                    added.setdefault(key, []).append(new)
                self.count += 1
        for key, acls in added.items():
            self._put(key, sorted([*self._acls_of(key), *acls]))
        for key, counted in opened.items():
            self._put(key, sorted(counted.elements()))

    def _opened(
        self, key: Key, opened: dict[Key, Counter[Acl]], added: dict[Key, list[Acl]]
    ) -> Counter[Acl]:
        """The ACLs with that key, those that were added to them among them, open for removals."""
        rules = opened.get(key)
        if rules is None:
            rules = opened[key] = Counter(self._acls_of(key))
            rules.update(added.pop(key, ()))
        return rules

    def _acls_of(self, key: Key) -> Iterator[Acl]:
        place, principal = key
        return (rule.acl for rule in self._places.get(place, _NO_RULES).get(principal, ()))

    def _put(self, key: Key, acls: Sequence[Acl]) -> None:
        """These are the ACLs of a place for a principal from now on, in order."""
        place, principal = key
        there = self._places.get(place)
        if there is None:
            if not acls:
                return
            there = self._places[place] = {}
            self._count_length(place, 1)
        rules = tuple(Rule(acl, host_of_acl(acl.host), acl.permission == _ALLOW) for acl in acls)
        if rules:
            there[principal] = rules
        elif there.pop(principal, None) is not None and not there:
            del self._places[place]
            self._count_length(place, -1)
        # A pattern of another type, which no controller writes, is for no resource.
        kinds = {rule.allows for rule in rules} if place[1] in _PATTERNS else ()
        for allows in (True, False):
            self._hold((place[0], principal, allows), place, is_held=allows in kinds)

    def _hold(self, holding: Holding, place: Place, *, is_held: bool) -> None:
        """Whether there is anything of that kind in that place."""
        held = self._held.get(holding)
        if is_held:
            if held is None:
                held = self._held[holding] = {}
            held[place] = None
        elif held is not None and place in held:
            del held[place]
            if not held:
                del self._held[holding]

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


def _key_of(acl: Acl) -> Key:
    return (acl.resource_type, acl.pattern_type, acl.resource_name), acl.principal


def _order(rule: Rule) -> Acl:
    return rule.acl
