"""Message classes by name or number, as people type them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from fencepost.cli.failures import InputError
from fencepost.wire import api, records
from fencepost.wire.message import Message

DRAFTS: Final = {"FetchQuorumRecords": "fencepost.wire.draft.fetch_quorum_records"}
"""Proposed APIs that no release of Kafka has, and where their messages are."""
_SIDES: Final = ("Request", "Response")
_NUMBER: Final = re.compile("[0-9]{1,5}")


def find(name: str) -> list[type[Message]]:
    """The classes that `name` stands for, none when it is no message.

    An API or its number is its request and its response; every other name is one message. Case
    does not count. InputError for a number that no API has.
    """
    wanted = name.lower()
    if _NUMBER.fullmatch(wanted):
        if int(wanted) not in api.API_NAMES:
            raise InputError(f"no API has the number {int(wanted)}")
        return _of_api(int(wanted))
    for key, api_name in api.API_NAMES.items():
        if wanted == api_name.lower():
            return _of_api(key)
    for draft in DRAFTS:
        if wanted == draft.lower():
            return [_load(draft + side) for side in _SIDES]
    found = {known.lower(): known for known in message_names()}.get(wanted)
    return [] if found is None else [_load(found)]


def unknown(name: str, also_known: Iterable[str]) -> InputError:
    """The error for a name that is no API, no message and none of `also_known`."""
    return InputError(_unknown(name, [*_api_names(), *message_names(), *also_known]))


def find_message(name: str) -> type[Message]:
    """The one message class with this name; InputError when there is none."""
    known = message_names()
    found = {one.lower(): one for one in known}.get(name.lower())
    if found is not None:
        return _load(found)
    api_name = api.API_NAMES.get(int(name), name) if _NUMBER.fullmatch(name) else name
    sides = [one for side in _SIDES for one in known if one.lower() == (api_name + side).lower()]
    if sides:
        raise InputError(f"{name} is an API: {' or '.join(sides)}?")
    raise InputError(_unknown(name, known))


def find_api_of(name: str) -> int:
    """The key of the API that `name` says, or that the request or response of this name is of."""
    lowered = name.lower()
    for key, api_name in api.API_NAMES.items():
        if lowered in [(api_name + side).lower() for side in _SIDES]:
            return key
    return find_api(name)


def find_api(name: str) -> int:
    """The key of the API with this name or number; InputError when there is none."""
    for key, api_name in api.API_NAMES.items():
        if name.lower() == api_name.lower() or name == str(key):
            return key
    raise InputError(_unknown(name, list(api.API_NAMES.values()), "API"))


def message_names() -> list[str]:
    """Every message there is: requests, responses, headers, records, drafts."""
    return [*(name + side for name in _api_names() for side in _SIDES), *records.names()]


def load_all() -> Iterator[type[Message]]:
    """Every message there is; that takes a while the first time."""
    return map(_load, message_names())


def _api_names() -> list[str]:
    return [*api.API_NAMES.values(), *DRAFTS]


def _of_api(key: int) -> list[type[Message]]:
    return [api.request_class(key), api.response_class(key)]


def _load(name: str) -> type[Message]:
    if name in records.names():
        return records.message_class(name)
    module = DRAFTS.get(name.removesuffix("Request").removesuffix("Response"))
    loaded: type[Message] = getattr(importlib.import_module(module) if module else api, name)
    return loaded


def _unknown(name: str, known: list[str], what: str = "message") -> str:
    lowered = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(lowered[one] for one in near)}?" if near else ""
    return f"no {what} is called {name!r}{hint}"
