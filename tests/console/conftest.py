"""What tests of the console share: a session's pages over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.client.config import ClientConfig

HOST = "127.0.0.1:8093"


@pytest.fixture
def browse() -> Iterator[Callable[..., Any]]:
    """A function that opens a console of a cluster, by its addresses or a client's config, as a
    test client of its routes."""
    pytest.importorskip("htpy")
    testclient = pytest.importorskip("starlette.testclient")
    from fencepost.console.session import Options, Session
    from fencepost.console.web.application import application

    with ExitStack() as stack:

        def open_console(to: str | ClientConfig, **options: Any) -> Any:
            config = ClientConfig(bootstrap_servers=to) if isinstance(to, str) else to
            session = Session(config, Options(**options))
            routes = application(session, frozenset({HOST}))
            return stack.enter_context(testclient.TestClient(routes, base_url=f"http://{HOST}"))

        yield open_console
