"""What the handlers of this package are given besides a request: parts of a node, by their classes.

A handler is a function of a `RequestContext` and a request. Its keyword-only parameters name the
parts that it needs, each by the part's class or protocol; `bind_parts` gives them to it. The broker
does that when the first request of an API arrives, the simulator when a simulated broker starts.
Here are the protocols of those parts that a broker and a simulated broker provide in different
ways; the other parts are classes of `fencepost.runtime` that both of them run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, signature
from typing import Any, Final, Protocol, TypeVar, get_type_hints, runtime_checkable

from fencepost.machines.image import ClusterImage
from fencepost.runtime import cooperative
from fencepost.wire.api.create_topics import CreatableTopic

T = TypeVar("T")

INLINE_BYTES_MAX: Final = 256 * 1024
"""How much output of decompression an event loop waits for: 0.12 to 0.75 ms, depending on the
codec. With a quarter of it, requests with 100 and 200 KB of records cost 1.6 to 3 times as
much CPU."""


class ClusterMetadata(Protocol):
    """The cluster's metadata as the node has applied them."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as it is committed; another object after every change."""
        ...


class InternalTopicCreation(Protocol):
    """Creates topics that coordinators keep their state in."""

    def create(self, names: Iterable[str], /) -> None:
        """Have these topics created, if the node does that; nothing waits for it."""
        ...


@runtime_checkable
class StreamsTopicCreation(Protocol):
    """Creates the internal topics of Kafka Streams applications."""

    def create(self, topics: Iterable[CreatableTopic], errors_kept_ms: int, /) -> None:
        """Have these topics created; nothing waits for it. Why one could not be created is kept for
        so long, and it is not tried again before."""
        ...

    def errors_of(self, names: Iterable[str], /) -> dict[str, str]:
        """Why topics of these names were not created, as far as that is kept."""
        ...


@runtime_checkable
class LogReads(Protocol):
    """Reads logs and decompresses batches without keeping other requests waiting."""

    def read(self, work: Callable[[], T], /) -> cooperative.Pieces[T]:
        """What `work` returns, which reads a log. It may be called several times, so it must change
        nothing. Raises what `work` raises, or the OSError of the disk."""
        ...

    def decompress(self, work: Callable[[int], T], /) -> cooperative.Pieces[T]:
        """What `work(max_bytes)` returns. `work` raises DecompressionError MESSAGE_TOO_LARGE if
        there is more output than `max_bytes`; it may be called again then, with more."""
        ...


@runtime_checkable
class BatchDecompression(Protocol):
    """Decompresses batches that producers send, larger ones than a handler may by itself."""

    def reserve(self, size_bytes: int, /) -> bool:
        """Whether copies of so many bytes may wait for their turn; `release` them afterwards."""
        ...

    def release(self, size_bytes: int, /) -> None:
        """What was reserved is not needed any more."""
        ...

    def run(self, work: Callable[[int], T], /) -> cooperative.Pieces[T]:
        """What `work(max_bytes)` returns. `work` raises DecompressionError MESSAGE_TOO_LARGE if
        there is more output than `max_bytes`; it may be called again then, with more."""
        ...


class Parts(Protocol):
    """The parts of a node that handlers may ask for, by their classes or protocols."""

    def __contains__(self, kind: Any, /) -> bool:
        """Whether there is such a part."""
        ...

    def __getitem__(self, kind: Any, /) -> object:
        """The part, which there must be."""
        ...


class MissingPartError(Exception):
    """A handler needs what the node of its listener does not have, or make: a mistake of ours."""


def bind_parts(handler: Callable[..., Any], parts: Parts) -> Callable[..., Any]:
    """The handler with the parts that it names. MissingPartError if `parts` lacks one."""
    given = {}
    for name, parameter in signature(handler, eval_str=True).parameters.items():
        if parameter.kind is Parameter.KEYWORD_ONLY:
            given[name] = _find_part(parameter.annotation, parts, handler.__module__)
    return partial(handler, **given) if given else handler


def _find_part(wanted: Any, parts: Parts, whose: str) -> object:
    """A part of the node, or the named tuple of parts that is wanted."""
    if isinstance(wanted, type) and issubclass(wanted, tuple):
        make: Callable[..., object] = wanted
        return make(*(_find_part(one, parts, whose) for one in get_type_hints(wanted).values()))
    if wanted not in parts:
        raise MissingPartError(f"{whose} needs {wanted!r}")
    return parts[wanted]
