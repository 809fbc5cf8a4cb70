"""Values as every command's --json shows them."""

from __future__ import annotations


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for people: text where they are UTF-8, else an object with their hex digits."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
