"""`fencepost console` where it cannot listen."""

from __future__ import annotations

import socket

import pytest

from fencepost.cli.main import main

pytest.importorskip("uvicorn", reason="pip install 'fencepost[console]'")


@pytest.mark.parametrize("port", [-1, 65_536, 70_000])
def test_a_port_that_is_none_is_spoken_of_as_a_port(
    port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", f"--port={port}"]) == 2
    said = capsys.readouterr().err
    assert said == f"fencepost console: --port {port}: a port is a number from 0 to 65535\n"


def test_a_port_in_use_comes_with_what_to_do_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["console", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use (another process" in said
    assert "give another port in --listen HOST:PORT or --port" in said
