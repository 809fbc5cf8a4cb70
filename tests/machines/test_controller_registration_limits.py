"""A registration larger than any node's is refused, and nothing of it is written."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire.api import broker_registration as of_brokers, controller_registration as of_both
from fencepost.wire.errors import ErrorCode

from .controller_fixtures import Bench, uuid

LONG = "x" * 256


def listeners(count: int, module: Any, **changes: str) -> list[Any]:
    made = [{"name": f"L{n}", "host": "h", "port": 1, **changes} for n in range(count)]
    return [module.Listener(security_protocol=0, **one) for one in made]


def features(module: Any, count: int, name: str = "") -> list[Any]:
    runs = module.Feature(
        name="metadata.version", min_supported_version=7, max_supported_version=30
    )
    more = [module.Feature(name=f"{name}{number}") for number in range(count)]
    return [runs, *more]


@pytest.mark.parametrize(
    "changes",
    [
        {"listeners": listeners(101, of_brokers)},
        {"listeners": listeners(1, of_brokers, name=LONG)},
        {"listeners": listeners(1, of_brokers, host=LONG)},
        {"features": features(of_brokers, 1000)},
        {"features": features(of_brokers, 1, LONG)},
        {"log_dirs": [uuid(1000 + number) for number in range(1001)]},
        {"rack": LONG},
    ],
)
def test_a_broker_that_says_too_much(changes: dict[str, Any]) -> None:
    bench = Bench()
    before = len(bench.log)
    assert bench.register(4, **changes).error_code == ErrorCode.INVALID_REGISTRATION
    assert len(bench.log) == before


def test_a_broker_that_says_as_much_as_it_may() -> None:
    bench = Bench()
    answer = bench.register(
        4,
        listeners=listeners(100, of_brokers, host=LONG[1:]),
        log_dirs=[uuid(1000 + number) for number in range(1000)],
        rack=LONG[1:],
    )
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "changes",
    [
        {"listeners": listeners(101, of_both)},
        {"listeners": listeners(1, of_both, host=LONG)},
        {"features": features(of_both, 1000)},
    ],
)
def test_a_controller_that_says_too_much(changes: dict[str, Any]) -> None:
    bench = Bench()
    before = len(bench.log)
    said = {"features": features(of_both, 0), "listeners": listeners(1, of_both), **changes}
    request = of_both.ControllerRegistrationRequest(
        controller_id=3, incarnation_id=uuid(3), zk_migration_ready=False, **said
    )
    answer = bench.do(bench.controller.decide_register_controller(request))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert len(bench.log) == before
