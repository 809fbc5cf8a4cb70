"""Methods of messages that the compiled backend has of its own do what is declared in Python."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from fencepost.wire import backend
from fencepost.wire.api import ApiVersionsRequest, FetchRequest
from fencepost.wire.errors import (
    DecodeError,
    EncodeError,
    TooManyElementsError,
    UnsupportedVersionError,
)
from fencepost.wire.message import Message

from .catalogue import CODECS
from .samples import Point, Sample

METHODS = ("decode", "read", "encode", "encode_parts")


def method(name: str) -> Any:
    """What the class has under that name, unbound."""
    found = vars(Message)[name]
    return found.__func__ if isinstance(found, classmethod) else found


def declared(name: str) -> Any:
    """The same in Python."""
    return inspect.unwrap(method(name))


@pytest.fixture(params=["as used", "as declared"])
def call(request: pytest.FixtureRequest) -> Any:
    """Calls a method of `Message` with its first argument in front."""
    find = method if request.param == "as used" else declared
    return lambda name, *arguments, **options: find(name)(*arguments, **options)


def test_compiled_methods_are_in_use():
    for name in METHODS:
        assert inspect.isfunction(declared(name))
        assert inspect.isfunction(method(name)) == ("c" not in CODECS)


def test_they_look_as_they_are_declared():
    for name in METHODS:
        used, said = method(name), declared(name)
        assert inspect.signature(used) == inspect.signature(said)
        assert inspect.getdoc(used) == inspect.getdoc(said)
        for attribute in ("__name__", "__qualname__", "__module__"):
            assert getattr(used, attribute) == getattr(said, attribute)
    parameters = str(inspect.signature(FetchRequest.decode))
    assert parameters.startswith("(data: 'Buffer', version: 'int', *, max_elements: 'int' = ")
    assert pickle.loads(pickle.dumps(FetchRequest.decode)) == FetchRequest.decode


@pytest.mark.usefixtures("on_backend")
def test_what_they_take_and_give(call: Any):
    sample = Sample(points=[Point(x=n) for n in range(3)], content=b"content")
    data = call("encode", sample, 3)
    assert type(data) is bytes
    assert b"".join(call("encode_parts", sample, version=3)) == data
    assert call("encode", sample, version=3) == data
    decode = call("decode", Sample, data, version=3, max_elements=20, allow_trailing=False)
    assert decode == call("decode", Sample, data, 3) == sample
    assert call("read", Sample, b"--" + data + b"-", 2, 3) == (sample, 2 + len(data))
    assert call("decode", Sample, bytearray(data), True + 2) == sample
    with pytest.raises(TypeError):
        call("decode", Sample, data, 3, 20)
    with pytest.raises(TypeError):
        call("decode", Sample, data)
    with pytest.raises(TypeError):
        call("decode", Sample, data, 3, most=20)
    with pytest.raises(TypeError):
        call("decode", Sample, data, [3])


@pytest.mark.usefixtures("on_backend")
def test_what_is_behind_the_message(call: Any):
    data = Sample(small=1).encode(0) + b"x"
    with pytest.raises(DecodeError, match="left over"):
        call("decode", Sample, data, 0)
    with pytest.raises(DecodeError, match="left over"):
        call("decode", Sample, data, 0, allow_trailing=0)
    for yes in (True, 1, "yes"):
        assert call("decode", Sample, data, 0, allow_trailing=yes) == Sample(small=1)


@pytest.mark.usefixtures("on_backend")
def test_what_they_refuse(call: Any):
    data = Sample(points=[Point(x=n) for n in range(3)]).encode(0)
    assert len(call("decode", Sample, data, 0, max_elements=3).points) == 3
    for options in ({}, {"allow_trailing": True}):
        with pytest.raises(TooManyElementsError):
            call("decode", Sample, data, 0, max_elements=2, **options)
        with pytest.raises(TooManyElementsError):
            call("decode", Sample, data, 0, max_elements=False, **options)
    with pytest.raises(TooManyElementsError):
        call("read", Sample, data, 0, 0, max_elements=2)
    for version in (-1, 4, "3", None, 1.5):
        for name in ("decode", "encode", "encode_parts"):
            arguments = (Sample, data) if name == "decode" else (Sample(),)
            with pytest.raises(UnsupportedVersionError):
                call(name, *arguments, version)
        with pytest.raises(UnsupportedVersionError):
            call("read", Sample, data, 0, version)
    for name in ("encode", "encode_parts"):
        with pytest.raises(EncodeError):
            call(name, Sample(small=1 << 20), 0)
        with pytest.raises(AttributeError):
            call(name, Point(), 0)


@pytest.mark.parametrize("made_by", sorted(CODECS))
def test_a_version_may_have_any_codec(made_by: str, monkeypatch: pytest.MonkeyPatch, call: Any):
    """Codecs come from `backend.make_codec`, once for each version."""
    made = []

    def make(layout: Any) -> Any:
        codec = CODECS[made_by](layout)
        made.append((layout.version, type(codec)))
        return codec

    monkeypatch.setattr(backend, "make_codec", make)
    monkeypatch.setattr(ApiVersionsRequest, "_codecs", copy.copy(ApiVersionsRequest._codecs))
    ApiVersionsRequest._codecs.clear()
    message = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for _ in range(2):
        data = call("encode", message, 3)
        assert call("decode", ApiVersionsRequest, data, 3) == message
        assert call("decode", ApiVersionsRequest, data + b"x", 3, allow_trailing=True) == message
        assert made == [(3, type(ApiVersionsRequest._codecs[3]))]
