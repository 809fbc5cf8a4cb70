"""Structs inside of messages by name. Several messages can have structs of one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.cli.wire.lookup.names import load_all
from fencepost.wire.message import Message, Struct


class StructUse(NamedTuple):
    """A struct in one message, and the fields that hold it, such as `responses.partitions`."""

    message: type[Message]
    struct: type[Struct]
    paths: tuple[str, ...]


def find_structs(name: str) -> list[StructUse]:
    """Every message with a struct of this name, ours or Kafka's (which several structs can have).

    None when there is no such struct. Case does not count.
    """
    uses: list[StructUse] = []
    for message in load_all():
        found: dict[type[Struct], list[str]] = {}
        for path, struct in _structs(message, ""):
            if name.lower() in (one.lower() for one in _names(struct)):
                found.setdefault(struct, []).append(path)
        uses += [StructUse(message, struct, tuple(paths)) for struct, paths in found.items()]
    return uses


def struct_names() -> set[str]:
    """The names of all structs."""
    structs = {struct for message in load_all() for _, struct in _structs(message, "")}
    return {name for struct in structs for name in _names(struct)}


def _names(struct: type[Struct]) -> tuple[str, str]:
    return struct.__name__, struct.kafka_name


def _structs(holder: type[Struct], path: str) -> Iterator[tuple[str, type[Struct]]]:
    for field in holder.fields:
        if field.struct is not None:
            here = f"{path}.{field.name}" if path else field.name
            yield here, field.struct
            yield from _structs(field.struct, here)
