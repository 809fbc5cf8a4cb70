"""`fencepost console` where it cannot listen, or is asked for what no page takes."""

from __future__ import annotations

import socket

import pytest

from fencepost.cli.main import main

from ..ports import address_of, refusing_port

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once", "topic"], "topic: the page topic is about one: say which, as topic=..."),
        (["--once", "partition", "topic=orders"], "partition: the page partition is about one:"),
        (["--once", "topics", "rowz=1"], "rowz='1': did you mean rows? the page topics takes"),
        (["--once", "topics", "rows=1", "rows=2"], "rows='2': it is '1' already"),
        (["--diff", "old.json", "since=1h"], "since='1h': --diff takes filter, order, first, rows"),
    ],
)
def test_what_a_page_is_asked_for_is_checked_before_any_broker_is(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing_port() as held:
        assert main(["console", "-b", address_of(held), *words]) == 2
    assert said in capsys.readouterr().err
