"""`Caller`: who sent a request about a group, and where its answer goes."""

from __future__ import annotations

from typing import Any, NamedTuple


class Caller(NamedTuple):
    """`uuid` makes the id of a new member unique; `token` is what the reply is given to."""

    token: Any
    api_version: int
    client_id: str = ""
    client_host: str = ""
    uuid: str = ""
