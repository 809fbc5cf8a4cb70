"""The response with which a broker refuses a request: every item of it carries the error.

A response that fails a request lists what the request lists: a Produce with two partitions is
answered with two partitions, each with its error code. So the answer is made from the request, by
the declarations of both messages: an array of the response whose elements have error codes has one
element for each element of the request's array that it answers, and what names an element (topic,
partition, group, ...) is copied.

Where the error goes, as in Kafka's brokers:

* an error about a topic or partition (NOT_LEADER_OR_FOLLOWER, ...) is set on every partition, and
  not at the top, where clients would take it for one of the whole request;
* of a Fetch or ShareFetch, an error about its session is set at the top, with no partitions;
* any other error is set everywhere there is a field for it.

Metadata and DescribeLogDirs say what no request lists (the brokers, the directories). Their answer
is the broker's own with the error set in it: `spoil`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from fencepost.wire.api import response_class
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message, Struct
from fencepost.wire.schema import Field
from fencepost.wire.types import Primitive, Uuid

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, ALTER_SCRAM, SHARE_FETCH = 34, 35, 51, 78
SPOILED: Final = frozenset({METADATA, DESCRIBE_LOG_DIRS})
"""APIs whose failure is the broker's own answer with errors in it."""
ERROR_FIELDS: Final = frozenset({"error_code", "partition_error_code", "acknowledge_error_code"})
MESSAGE: Final = "injected by a test"
NAMES: Final = {
    "partition_index": ("partition", "index"),
    "partition": ("partition_index",),
    "partition_id": (),
    "index": ("partition",),
    "topic": ("name", "topic_name"),
    "topic_name": ("name", "topic"),
    "name": ("topic", "topic_name"),
    "user": ("name",),
    "topic_id": (),
    "group_id": (),
    "member_id": (),
    "group_instance_id": (),
    "transactional_id": (),
    "key": (),
    "resource_type": (),
    "resource_name": (),
    "feature": (),
    "producer_id": (),
    "id": (),
    "entity_type": (),
    "entity_name": (),
}
"""What names an element of a response, and how the request may call the same."""
UNKNOWN: Final = {
    "base_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "committed_offset": -1,
    "node_id": -1,
    "port": -1,
    "leader_id": -1,
}
"""What brokers say where an error leaves them nothing to say."""
COPIED_ARRAYS: Final = frozenset({"entity"})
E = ErrorCode
ABOUT_SESSION: Final = frozenset(
    {
        E.FETCH_SESSION_ID_NOT_FOUND,
        E.INVALID_FETCH_SESSION_EPOCH,
        E.FETCH_SESSION_TOPIC_ID_ERROR,
        E.SHARE_SESSION_NOT_FOUND,
        E.INVALID_SHARE_SESSION_EPOCH,
    }
)
ABOUT_PARTITION: Final = frozenset(
    {
        E.OFFSET_OUT_OF_RANGE,
        E.CORRUPT_MESSAGE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REPLICA_NOT_AVAILABLE,
        E.MESSAGE_TOO_LARGE,
        E.OFFSET_METADATA_TOO_LARGE,
        E.INVALID_TOPIC_EXCEPTION,
        E.RECORD_LIST_TOO_LARGE,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.TOPIC_AUTHORIZATION_FAILED,
        E.TOPIC_ALREADY_EXISTS,
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        E.DUPLICATE_SEQUENCE_NUMBER,
        E.KAFKA_STORAGE_ERROR,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.ELECTION_NOT_NEEDED,
        E.NO_REASSIGNMENT_IN_PROGRESS,
        E.INVALID_RECORD,
        E.UNSTABLE_OFFSET_COMMIT,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
        E.OFFSET_MOVED_TO_TIERED_STORAGE,
        E.INVALID_RECORD_STATE,
    }
)


def error_answer(request: Message, version: int, error: int) -> Message | None:
    """The response that refuses `request` in this version; None if its API has no error field."""
    assert request.api_key is not None
    cls = response_class(request.api_key)
    if not _has_errors(cls, version):
        return None
    answer = cls()
    is_about_session = error in ABOUT_SESSION and request.api_key in (FETCH, SHARE_FETCH)
    if not is_about_session:
        for field in _fields(cls, version):
            if field.is_array and field.struct is not None and _has_errors(field.struct, version):
                sources = _sources(request, field, version, request.api_key)
                items = [_item(field.struct, one, version, error) for one in sources]
                setattr(answer, field.name, items)
    _fill(answer, request, version)
    _set_top(answer, version, error)
    return answer


def spoil(answer: Message, version: int, error: int) -> bool:
    """Set `error` in a broker's own answer, in every item; whether there was a field for it."""
    if not _has_errors(type(answer), version):
        return False
    if answer.api_key == METADATA and error != ErrorCode.REBOOTSTRAP_REQUIRED:
        topics: list[Any] = getattr(answer, "topics")  # noqa: B009 - of that class alone
        for topic in topics:
            topic.error_code, topic.partitions = error, []
        return bool(topics)
    for field in _fields(type(answer), version):
        if field.is_array and field.struct is not None:
            for item in getattr(answer, field.name):
                if hasattr(item, "error_code"):
                    item.error_code = error
    _set_top(answer, version, error)
    return True


def _item(cls: type[Struct], source: Any, version: int, error: int) -> Struct:
    """An element that says `error` of `source`, an element of a request."""
    item = cls()
    for field in _fields(cls, version):
        if field.name in ERROR_FIELDS and field.primitive is Primitive.INT16:
            setattr(item, field.name, error)
        elif (
            field.is_array
            and field.struct is not None
            and isinstance(source, Struct)
            and (field.name in COPIED_ARRAYS or _has_errors(field.struct, version))
        ):
            sources = _sources(source, field, version)
            items = [_item(field.struct, one, version, error) for one in sources]
            setattr(item, field.name, items)
    _fill(item, source, version)
    return item


def _fill(item: Struct, source: Any, version: int) -> None:
    """Copy what names an element, and say of the rest that it is not known."""
    for field in _fields(type(item), version):
        if field.is_array or field.struct is not None:
            continue
        if field.name == "error_message":
            setattr(item, field.name, MESSAGE if not isinstance(item, Message) else None)
        elif field.name in UNKNOWN:
            setattr(item, field.name, UNKNOWN[field.name])
        elif field.name in NAMES:
            value = _named(field, source)
            if value is not None:
                setattr(item, field.name, value)


def _named(field: Field, source: Any) -> Any:
    """What the request has under the name of `field`; None if it does not say."""
    if isinstance(source, Struct):
        for name in (field.name, *NAMES[field.name]):
            if name in type(source)._specs:
                return getattr(source, name)
        return None
    if isinstance(source, Uuid):
        return source if field.primitive is Primitive.UUID else None
    if isinstance(source, str):
        return source if field.primitive is Primitive.STRING else None
    return source if field.primitive is Primitive.INT32 else None


def _sources(
    source: Struct, field: Field, version: int, api_key: int | None = None
) -> Iterable[Any]:
    """The elements of a request that `field` of its response answers."""
    if api_key == ALTER_REPLICA_LOG_DIRS:
        return [topic for one in source.dirs for topic in one.topics]  # type: ignore[attr-defined]
    arrays = [
        getattr(source, one.name)
        for one in _fields(type(source), version)
        if one.is_array and one.name != "forgotten_topics_data"
    ]
    if api_key == ALTER_SCRAM:
        return [item for array in arrays for item in array]
    same = getattr(source, field.name, None)
    if isinstance(same, list):
        return same
    return next((array for array in arrays if array is not None), [])


def _set_top(answer: Message, version: int, error: int) -> None:
    """The error of the whole request, if it is one, or if there is no other place for it."""
    names = {field.name for field in _fields(type(answer), version)}
    if "error_code" in names and (error not in ABOUT_PARTITION or not _has_items(answer)):
        answer.error_code = error  # type: ignore[attr-defined]
        if "error_message" in names:
            answer.error_message = MESSAGE  # type: ignore[attr-defined]


def _has_items(answer: Message) -> bool:
    return any(
        isinstance(value, list) and any(_has_error(item) for item in value)
        for value in (getattr(answer, field.name) for field in type(answer).fields)
    )


def _has_error(item: Any) -> bool:
    if not isinstance(item, Struct):
        return False
    if any(getattr(item, name, 0) for name in ERROR_FIELDS):
        return True
    values = (getattr(item, field.name) for field in type(item).fields)
    return any(isinstance(value, list) and any(map(_has_error, value)) for value in values)


def _fields(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.fields if field.versions.holds(version)]


@lru_cache(maxsize=4096)
def _has_errors(cls: type[Struct], version: int) -> bool:
    """Whether there is a place for an error code in the struct, or in what it holds."""
    return any(
        field.name in ERROR_FIELDS
        or (field.struct is not None and _has_errors(field.struct, version))
        for field in _fields(cls, version)
    )
