"""What a Raft voter keeps of its elections, and its JSON form in the file `quorum-state`.

Layout of the file: one JSON object whose keys are Kafka's field names with a small first letter,
in schema order, and behind them `data_version`, the version of the rest. v0 belongs to
kraft.version 0, whose voters are configured (KIP-595), v1 to kraft.version 1 (KIP-853): the voters
have moved into the log, so the file no longer names them, and a vote is for a node with its disk.

Traps: the class is flexible, but no node ever writes it in its binary form; ids are Kafka's base64
text in JSON; Kafka reads no file that lacks a key of its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.wire import json_form
from fencepost.wire.json_form import JsonFormError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int32, Int64, String, Uuid

NO_NODE: Final = -1
"""No leader, or no vote."""

VERSION_KEY: Final = "data_version"


class QuorumVoter(Struct, kafka_name="Voter"):
    """A configured voter."""

    voter_id: Int32 = field("0", doc="Node id of the voter.")


class QuorumStateData(Message, kind="data", versions="0-1", flexible="0+"):
    """The epoch a voter has reached, whom it follows there and whom it voted for."""

    cluster_id: String = field("0", doc="Id of the cluster; always empty, no node fills it in.")
    leader_id: Int32 = field(default=NO_NODE, doc="Node id of the epoch's leader; -1 when unknown.")
    leader_epoch: Int32 = field(default=-1, doc="The epoch; -1 before the first.")
    voted_id: Int32 = field(
        default=NO_NODE,
        doc="Node id that got this voter's vote in the epoch; -1 for no vote yet.",
    )
    voted_directory_id: Uuid = field(
        "1+",
        doc="Directory id that the vote went to; zero when there was no vote, or the id unknown.",
    )
    applied_offset: Int64 = field("0", doc="Always 0; was to be the offset applied so far.")
    current_voters: list[QuorumVoter] | None = field(
        "0",
        doc="The voters when this was written; they are configured, and this is for people.",
    )


def to_file(state: QuorumStateData, version: int) -> dict[str, Any]:
    """The object in the file. Raises JsonFormError and UnsupportedVersionError."""
    content: dict[str, Any] = _renamed(json_form.to_json(state, version), _json_names())
    content[VERSION_KEY] = version
    return content


def from_file(content: Any) -> tuple[QuorumStateData, int]:
    """The state in the file's object, and its version.

    JsonFormError for another version, for missing, unknown and misnamed keys, and for values of
    the wrong type or out of range.
    """
    if not isinstance(content, dict):
        raise JsonFormError("not an object")
    version = content.get(VERSION_KEY)
    if type(version) is not int or not 0 <= version <= QuorumStateData.max_version:
        raise JsonFormError(f"is {version!r}, neither 0 nor 1", VERSION_KEY)
    names = _json_names()
    present = {
        names[entry.name] for entry in QuorumStateData.fields if entry.versions.holds(version)
    }
    found = content.keys() - {VERSION_KEY}
    if found != present:
        raise JsonFormError(
            f"lacks {sorted(present - found)} and has unknown {sorted(found - present)}"
        )
    body = {key: value for key, value in content.items() if key != VERSION_KEY}
    originals = {renamed: name for name, renamed in names.items()}
    return json_form.from_json(QuorumStateData, version, _renamed(body, originals)), version


def _json_names() -> dict[str, str]:
    """Our name of every field -> its key in the file."""
    fields = (*QuorumStateData.fields, *QuorumVoter.fields)
    return {entry.name: entry.kafka_name[0].lower() + entry.kafka_name[1:] for entry in fields}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """JSON with other keys; an unknown key gets a `?` in front and is refused later."""
    if isinstance(value, dict):
        return {names.get(key, f"?{key}"): _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return value
