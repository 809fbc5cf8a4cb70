"""`fencepost testing`: a cluster and a proxy with a control port, until a signal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from fencepost.cli.main import main

from ..waiting import DEADLINE_S

COMMAND = [sys.executable, "-m", "fencepost.cli.main", "testing"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["cluster", "--brokers", "0"], "--brokers 0"),
        (["cluster", "--brokers", "101"], "--brokers 101"),
        (["cluster", "--controllers", "-1"], "--controllers -1"),
        (["cluster", "--brokers", "2", "--controllers", "0"], "no cluster"),
        (["cluster", "--brokers", "2", "-o", "listeners=PLAINTEXT://:0"], "listeners"),
        (["cluster", "--control-port", "65536"], "--control-port 65536"),
        (["proxy", "-b", "nowhere"], "nowhere"),
        (["proxy", "-b", "127.0.0.1:9", "--port", "0"], "--port 0"),
    ],
)
def test_what_cannot_be_is_said_and_ends_with_2(arguments, word, capsys):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(["testing", *arguments]) == 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    said = capsys.readouterr().err
    assert said.startswith(f"fencepost testing {arguments[0]}: ")
    assert word in said


@pytest.mark.slow
def test_a_cluster_and_a_proxy_in_front_of_it():
    with subprocess.Popen([*COMMAND, "cluster"], stdout=subprocess.PIPE, text=True) as cluster:
        servers, control = where(cluster)
        with subprocess.Popen(
            [*COMMAND, "proxy", "-b", servers], stdout=subprocess.PIPE, text=True
        ) as proxy:
            begin, its_control = where(proxy)
            assert begin != servers
            assert asked(control)["bootstrap_servers"] == servers
            (target,) = asked(its_control)["targets"].values()
            assert target["address"] == servers
            proxy.send_signal(signal.SIGINT)
            assert proxy.wait(DEADLINE_S) == 0
        cluster.terminate()
        assert cluster.wait(DEADLINE_S) == 0


def where(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Where clients begin, and the control port's address, as the process says."""
    assert process.stdout is not None
    told = process.stdout.readline() + process.stdout.readline()
    assert process.stdout.readline().startswith("ready")
    found = re.fullmatch(r"clients: --bootstrap-server (\S+)\ncontrol: (\S+)\n", told)
    assert found, told
    return found[1], found[2]


def asked(control: str) -> dict:
    """What the control port shows."""
    with urllib.request.urlopen(control, timeout=DEADLINE_S) as answer:
        return json.load(answer)
