"""Keys and certificates that are text in memory, for `ssl`, which reads files only."""

from __future__ import annotations

import os
import ssl
import tempfile


def load_pem(
    context: ssl.SSLContext, certificates: str, key: str, password: str | None = None
) -> None:
    """Have the context show the first of the `certificates`, with its `key`.

    The text is in a file without a name, in memory, where the system has such; else for a moment in
    one that no other user can read. Raises ssl.SSLError if it does not go together.
    """
    data = f"{key.strip()}\n{certificates.strip()}\n".encode()
    # Without a password `ssl` would ask for one on the terminal.
    secret = password or ""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            _write(handle, data)
            context.load_cert_chain(f"/proc/self/fd/{handle}", password=secret)
        finally:
            os.close(handle)
        return
    handle, path = tempfile.mkstemp()
    try:
        try:
            _write(handle, data)
        finally:
            os.close(handle)
        context.load_cert_chain(path, password=secret)
    finally:
        os.unlink(path)


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
