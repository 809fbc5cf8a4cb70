"""A mapping that is never changed: every change makes a new one that shares almost all of the old.

Theory of operation
-------------------
The cluster image is replaced after every committed batch, and most batches touch one partition of
thousands. A copied dict would cost time in proportion to the cluster; this costs time in proportion
to the change, and two versions can be compared by walking only the parts they do not share.

A map is a tree over a 32-bit hash of the key. A node is either a leaf, a small dict of at most
`LEAF_KEYS` entries, or a branch, a tuple of `FANOUT` nodes chosen by the next `BITS` bits of the
hash. A leaf that grows beyond its limit becomes a branch, except at the bottom of the tree, where
all bits are spent and keys with one hash share a leaf of any size. Nodes are never modified once
they are part of a map. Branches do not shrink back to leaves: an emptied branch is rare and cheap.

The hash is CRC-32 of the key's bytes and not `hash()`, which differs from process to process for
strings: the order of iteration must be a function of the history of the map alone, or one seed
would not make one simulated world.
"""

from __future__ import annotations

import zlib
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

BITS = 4
FANOUT = 1 << BITS
LEAF_KEYS = 16
_HASH_BITS = 32
_MASK = FANOUT - 1

MANY_KEYS = 32
"""From so many new values on they are put into a map together."""

# A node is dict[K, V] (leaf) or tuple[node, ...] (branch); None stands for an empty leaf.
_Node = Any
_Entry = tuple[int, Any, Any]  # what is left of a key's hash, the key, its value
_EMPTY_BRANCH: tuple[_Node, ...] = (None,) * FANOUT


def _hash_of(key: object) -> int:
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return zlib.crc32(key)
    if isinstance(key, int):
        return zlib.crc32(key.to_bytes(16, "big", signed=True))
    if isinstance(key, tuple):
        digest = len(key)
        for part in key:
            digest = zlib.crc32(_hash_of(part).to_bytes(4, "big"), digest)
        return digest
    if key is None:
        return 0
    raise TypeError(f"a persistent map cannot hold keys of type {type(key).__name__}")


class PersistentMap(Mapping[K, V], Generic[K, V]):
    """An immutable mapping with `set`, `remove` and `update` that return new maps.

    Keys are str, bytes, int, None or tuples of these; values are anything but None.
    """

    __slots__ = ("_root", "_size")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._root: _Node = None
        self._size = 0
        pairs = items.items() if isinstance(items, Mapping) else items
        for key, value in pairs:
            self._put(key, value)

    def __getitem__(self, key: K) -> V:
        node = self._leaf(key)
        if node is None:
            raise KeyError(key)
        return cast(V, node[key])

    def __contains__(self, key: object) -> bool:
        node = self._leaf(key)
        return node is not None and key in node

    def _leaf(self, key: object) -> _Node:
        """Where the key is if it is anywhere."""
        node = self._root
        if type(node) is tuple:
            digest = _hash_of(key)
            while type(node) is tuple:
                node = node[digest & _MASK]
                digest >>= BITS
        return node

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for key, _ in _entries(self._root):
            yield key

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

    def items(self) -> ItemsView[K, V]:
        """The entries, without a search for each."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """The values, without a search for each."""
        return _Values(self)

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """This map with `key` bound to `value`."""
        return self.update({key: value})

    def remove(self, key: K) -> PersistentMap[K, V]:
        """This map without `key`. Raises KeyError if it is not there."""
        if key not in self:
            raise KeyError(key)
        return self.update({key: None})

    def update(self, changes: Mapping[K, V | None]) -> PersistentMap[K, V]:
        """This map with all of `changes`; None as a value removes the key if it is there."""
        if not changes:
            return self
        new: PersistentMap[K, V] = PersistentMap()
        new._root = self._root
        new._size = self._size
        if len(changes) < MANY_KEYS or any(value is None for value in changes.values()):
            for key, value in changes.items():
                if value is None:
                    new._drop(key)
                else:
                    new._put(key, value)
            return new
        entries = [(_hash_of(key), key, value) for key, value in changes.items()]
        new._root, grown = _with_many(new._root, entries, 0)
        new._size += grown
        return new

    def changes_since(self, old: PersistentMap[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
        """(key, old value or None, new value or None) wherever this map differs from `old`.

        Costs time in proportion to what the two maps do not share. Values are compared by
        equality once they are not the same object.
        """
        yield from _changes(old._root, self._root)

    # The next two replace the root of a map that no caller has seen yet; nodes are copied.

    def _put(self, key: K, value: V) -> None:
        assert value is not None, "None as a value means absence"
        self._root, grown = _with(self._root, key, value, _hash_of(key), 0)
        self._size += grown

    def _drop(self, key: K) -> None:
        if key in self:
            self._root = _without(self._root, key, _hash_of(key))
            self._size -= 1


class _Items(ItemsView[K, V]):
    _mapping: PersistentMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return _entries(self._mapping._root)


class _Values(ValuesView[V]):
    _mapping: PersistentMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in _entries(self._mapping._root))


def _with(node: _Node, key: Any, value: Any, digest: int, depth: int) -> tuple[_Node, int]:
    """`node` with the entry, and by how much that makes the map grow."""
    if node is None:
        return {key: value}, 1
    if type(node) is tuple:
        index = digest & _MASK
        child, grown = _with(node[index], key, value, digest >> BITS, depth + 1)
        return node[:index] + (child,) + node[index + 1 :], grown
    if key in node or len(node) < LEAF_KEYS or depth * BITS >= _HASH_BITS:
        leaf = dict(node)
        leaf[key] = value
        return leaf, len(leaf) - len(node)
    branch: _Node = _EMPTY_BRANCH
    for other, held in node.items():
        branch, _ = _with(branch, other, held, _hash_of(other) >> (depth * BITS), depth)
    branch, grown = _with(branch, key, value, digest, depth)
    return branch, grown


def _with_many(node: _Node, entries: list[_Entry], depth: int) -> tuple[_Node, int]:
    """`node` with all entries: the same as with one after the other, and each branch is made once.

    A key may be there twice: the last value counts.
    """
    if len(entries) == 1:
        digest, key, value = entries[0]
        return _with(node, key, value, digest, depth)
    if type(node) is tuple:
        return _branch_with(node, entries, depth)
    held: dict[Any, Any] = {} if node is None else node
    if len(entries) <= 2 * LEAF_KEYS or depth * BITS >= _HASH_BITS:
        leaf = dict(held)
        leaf.update((key, value) for _, key, value in entries)
        if len(leaf) <= LEAF_KEYS or depth * BITS >= _HASH_BITS:
            return leaf, len(leaf) - len(held)
    older = [(_hash_of(key) >> (depth * BITS), key, value) for key, value in held.items()]
    branch, grown = _branch_with(_EMPTY_BRANCH, older + entries, depth)
    return branch, grown - len(held)


def _branch_with(
    node: tuple[_Node, ...], entries: list[_Entry], depth: int
) -> tuple[tuple[_Node, ...], int]:
    shares: dict[int, list[_Entry]] = {}
    for digest, key, value in entries:
        share = shares.get(digest & _MASK)
        if share is None:
            share = shares[digest & _MASK] = []
        share.append((digest >> BITS, key, value))
    children, grown = list(node), 0
    for index, share in shares.items():
        children[index], more = _with_many(children[index], share, depth + 1)
        grown += more
    return tuple(children), grown


def _without(node: _Node, key: Any, digest: int) -> _Node:
    """`node` without the key, which is known to be there."""
    if type(node) is tuple:
        index = digest & _MASK
        child = _without(node[index], key, digest >> BITS)
        return node[:index] + (child,) + node[index + 1 :]
    leaf = dict(node)
    del leaf[key]
    return leaf or None


def _entries(root: _Node) -> Iterator[tuple[Any, Any]]:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if type(node) is tuple:
            nodes.extend(reversed(node))
        elif node is not None:
            yield from node.items()


def _changes(old: _Node, new: _Node) -> Iterator[tuple[Any, Any, Any]]:
    if old is new:
        return
    if type(old) is tuple and type(new) is tuple:
        for old_child, new_child in zip(old, new, strict=True):
            yield from _changes(old_child, new_child)
        return
    before = dict(_entries(old))
    after = dict(_entries(new))
    for key, value in before.items():
        now = after.get(key)
        if now is not value and now != value:
            yield key, value, now
    for key, value in after.items():
        if key not in before:
            yield key, None, value
