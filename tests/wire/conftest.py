"""Fixtures of the codec's tests: each test that touches messages runs on every backend there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.wire import backend
from fencepost.wire.message import Message

from .catalogue import CODECS, subclasses


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
