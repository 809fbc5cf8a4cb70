"""Fixtures of the codec's tests: each test that touches messages runs on every backend there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.wire import backend
from fencepost.wire.message import Message

from .catalogue import CODECS, subclasses

TRY_EVERY_CODEC = {"test_codecs_agree.py", "test_hostile.py"}
USE_NO_CODEC = {
    "test_api_facts.py",
    "test_describe.py",
    "test_sanitized.py",
    "test_schema_conformance.py",
    "test_schema_digests.py",
    "test_schema_of_kafka_python.py",
    "test_typing.py",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test on every backend has been on the one without C, too, when that runs by itself."""
    if item.path.name in TRY_EVERY_CODEC | USE_NO_CODEC or "on_backend" in getattr(
        item, "fixturenames", ()
    ):
        item.add_marker("same_without_c")


@pytest.fixture(params=sorted(CODECS))
def on_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Makes all messages use one backend during a test."""
    classes: list[Any] = subclasses(Message)
    monkeypatch.setattr(backend, "make_codec", CODECS[request.param])
    for cls in classes:
        cls._codecs.clear()
    yield request.param
    for cls in classes:
        cls._codecs.clear()
