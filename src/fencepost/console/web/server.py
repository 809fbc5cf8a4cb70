"""The console's HTTP server: uvicorn on one address, until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from fencepost.console.session import Session
from fencepost.console.web.application import application


def serve(session: Session, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Answer on `host`:`port` (0 for a free one) until the process is interrupted; `on_ready` is
    told the address. Raises OSError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        bound = listener.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        hosts = frozenset(f"{one}:{bound}" for one in (name, "localhost"))
        on_ready(f"http://{name}:{bound}/")
        config = uvicorn.Config(
            application(session, hosts),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[listener])
