"""Ports for servers that are started later: none is given out twice."""

from __future__ import annotations

import socket

import pytest

from fencepost.testing import ports
from fencepost.testing.ports import ENOUGH, LOOPBACK, free_ports


def test_a_port_that_was_given_out_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be about to listen, and the port is not in use until then."""
    monkeypatch.setattr(ports, "_given", set())
    first = free_ports(300)
    assert not set(first) & set(free_ports(300))


def test_ports_are_given_again_when_few_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_given", set())
    monkeypatch.setattr(ports, "_ephemeral_from", lambda: ports.LOWEST + ENOUGH + 100)
    for _ in range(3):
        for port in free_ports(90):
            socket.create_server((LOOPBACK, port)).close()
