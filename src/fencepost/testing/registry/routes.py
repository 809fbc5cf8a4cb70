"""What the registry's REST API offers: a method and a path, and what is done.

Every answer is a value for JSON. Contexts, associations, GUIDs, rule sets, metadata and tags of
Confluent's registry are not there: a request with `metadata` or `ruleSet` is refused, others are
404.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from fencepost.testing.registry import errors
from fencepost.testing.registry.documents import read_json
from fencepost.testing.registry.errors import RegistryError, schema_not_found
from fencepost.testing.registry.schemas import KINDS, Reference, Schema
from fencepost.testing.registry.store import Store, Version

NUMBER_MAX: Final = (1 << 31) - 1
UNPROCESSABLE: Final = 422


@dataclass(frozen=True)
class Request:
    """`words` are what the path has in place of the route's {}."""

    words: tuple[str, ...]
    query: Mapping[str, str]
    body: Any

    def is_set(self, name: str) -> bool:
        """A flag of the query."""
        return self.query.get(name, "").lower() == "true"

    @property
    def subject(self) -> str | None:
        """The first word, if there is one."""
        return self.words[0] if self.words else None

    @property
    def named(self) -> str:
        """The subject, where the path always has one."""
        return self.words[0]

    @property
    def number(self) -> int | None:
        """The version; None for the latest. RegistryError."""
        word = self.words[1].strip().lower()
        if word in ("latest", "-1"):
            return None
        if not word.isdecimal() or not 0 < int(word[:11]) <= NUMBER_MAX:
            raise RegistryError(
                errors.INVALID_VERSION,
                f"The specified version '{self.words[1][:50]}' is not a valid version id. Allowed"
                ' values are between [1, 2^31-1] and the string "latest"',
            )
        return int(word)

    @property
    def schema_id(self) -> int:
        """The id in the path. RegistryError."""
        word = self.words[0]
        if not word.isdecimal() or int(word[:11]) > NUMBER_MAX:
            raise RegistryError(404, "HTTP 404 Not Found")
        return int(word)

    def page(self, values: list[Any]) -> list[Any]:
        """What `offset` and `limit` of the query leave."""
        try:
            offset, limit = int(self.query.get("offset", 0)), int(self.query.get("limit", -1))
        except ValueError as error:
            raise RegistryError(UNPROCESSABLE, f"offset and limit are numbers: {error}") from error
        start = max(0, offset)
        return values[start:] if limit < 0 else values[start : start + limit]


Handler = Callable[[Store, Request], Any]


def answer(store: Store, method: str, target: str, body: bytes) -> Any:
    """Do what is asked for. RegistryError."""
    try:
        split = urlsplit(target)
        fields = parse_qs(split.query, max_num_fields=50)
    except ValueError as error:
        raise RegistryError(400, f"the request's target is none: {error}") from error
    words = [unquote(one) for one in split.path.strip("/").split("/")] if split.path != "/" else []
    query = {name: values[-1] for name, values in fields.items()}
    is_known = False
    for route_method, route, handler in ROUTES:
        found = _match(route, words)
        if found is None:
            continue
        is_known = True
        if route_method == method:
            return handler(store, Request(found, query, _read(body) if body else None))
    raise RegistryError(*((405, "HTTP 405 Method Not Allowed") if is_known else _NOT_FOUND))


_NOT_FOUND: Final = 404, "HTTP 404 Not Found"


def _match(route: str, words: list[str]) -> tuple[str, ...] | None:
    parts = route.split("/")[1:] if route != "/" else []
    if len(parts) != len(words):
        return None
    if any(part not in ("{}", word) for part, word in zip(parts, words, strict=True)):
        return None
    return tuple(word for part, word in zip(parts, words, strict=True) if part == "{}")


def _read(body: bytes) -> Any:
    try:
        return read_json(body.decode())
    except (RegistryError, UnicodeDecodeError) as error:
        raise RegistryError(400, f"the request's body is no JSON: {error}") from error


# -- schemas in requests and answers ---------------------------------------------------------------


def _member(request: Request, name: str, kind: type, default: Any) -> Any:
    value = request.body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RegistryError(UNPROCESSABLE, f"{name} is no {kind.__name__}")
    return value


def _schema(store: Store, request: Request) -> Schema:
    """The one in the body. RegistryError."""
    if not isinstance(request.body, dict):
        raise RegistryError(UNPROCESSABLE, "the request has no object of JSON as its body")
    for name in ("metadata", "ruleSet"):
        if request.body.get(name):
            raise RegistryError(UNPROCESSABLE, f"{name} is not known to this registry")
    text = _member(request, "schema", str, None)
    if text is None:
        raise errors.invalid_schema("there is none")
    kind = _member(request, "schemaType", str, "AVRO")
    references = [_reference(one) for one in _member(request, "references", list, [])]
    normalize = request.is_set("normalize")
    return store.parse(request.named, kind, text, references, normalize)


def _reference(given: Any) -> Reference:
    if isinstance(given, dict):
        name, subject, version = (given.get(one) for one in ("name", "subject", "version"))
        if isinstance(name, str) and isinstance(subject, str) and isinstance(version, int):
            return Reference(name, subject, version)
    raise RegistryError(UNPROCESSABLE, "a reference has name, subject and version")


def _told(one: Version, format: str = "") -> dict[str, Any]:
    return {
        "subject": one.subject,
        "version": one.number,
        "id": one.schema_id,
        **one.schema.document(format),
    }


# -- subjects --------------------------------------------------------------------------------------


def _subjects(store: Store, request: Request) -> Any:
    found: dict[str, bool] = {}
    for one in store.all_versions(deleted=True):
        found[one.subject] = found.get(one.subject, True) and one.is_deleted
    prefix, is_only = request.query.get("subjectPrefix", ""), request.is_set("deletedOnly")
    return request.page(
        [
            subject
            for subject, is_deleted in found.items()
            if subject.startswith(prefix)
            and (is_deleted if is_only else not is_deleted or request.is_set("deleted"))
        ]
    )


def _versions(store: Store, request: Request) -> Any:
    is_only = request.is_set("deletedOnly")
    found = store.versions(request.named, deleted=request.is_set("deleted") or is_only)
    return request.page([one.number for one in found if one.is_deleted or not is_only])


def _register(store: Store, request: Request) -> Any:
    schema = _schema(store, request)
    schema_id, number = (_member(request, name, int, None) for name in ("id", "version"))
    schema_id = None if schema_id == -1 else schema_id
    made = store.register(request.named, schema, schema_id, None if number == -1 else number)
    return {"id": made.schema_id, "version": made.number, **made.schema.document()}


def _lookup(store: Store, request: Request) -> Any:
    schema, deleted = _schema(store, request), request.is_set("deleted")
    return _told(store.lookup(request.named, schema, deleted=deleted))


def _version(store: Store, request: Request) -> Any:
    found = store.version(request.named, request.number, deleted=request.is_set("deleted"))
    return _told(found, request.query.get("format", ""))


def _version_schema(store: Store, request: Request) -> Any:
    return Text(_version(store, request)["schema"])


def _referenced_by(store: Store, request: Request) -> Any:
    one = store.version(request.named, request.number, deleted=True)
    found = store.referenced_by(one.subject, one.number, deleted=request.is_set("deleted"))
    return request.page(sorted({other.schema_id for other in found}))


def _delete_subject(store: Store, request: Request) -> Any:
    return store.delete_subject(request.named, permanent=request.is_set("permanent"))


def _delete_version(store: Store, request: Request) -> Any:
    permanent = request.is_set("permanent")
    return store.delete_version(request.named, request.number, permanent=permanent)


# -- schemas by id ---------------------------------------------------------------------------------


def _all_schemas(store: Store, request: Request) -> Any:
    found: dict[object, Version] = {}
    for one in store.all_versions(deleted=request.is_set("deleted")):
        if one.subject.startswith(request.query.get("subjectPrefix", "")):
            key = one.subject if request.is_set("latestOnly") else (one.subject, one.number)
            found[key] = one
    return request.page([_told(one) for one in found.values()])


def _by_id(store: Store, request: Request) -> Any:
    # The query's `subject` tells other registries where to look: here an id is the same for all.
    return store.schema(request.schema_id).document(request.query.get("format", ""))


def _by_id_schema(store: Store, request: Request) -> Any:
    return Text(_by_id(store, request)["schema"])


def _used(store: Store, request: Request) -> list[Version]:
    found = store.with_id(request.schema_id)
    live = [one for one in found if not one.is_deleted or request.is_set("deleted")]
    if not live:
        raise schema_not_found(request.schema_id)
    return live


def _id_subjects(store: Store, request: Request) -> Any:
    return request.page(sorted({one.subject for one in _used(store, request)}))


def _id_versions(store: Store, request: Request) -> Any:
    used = _used(store, request)
    return request.page([{"subject": one.subject, "version": one.number} for one in used])


# -- settings --------------------------------------------------------------------------------------


def _config(store: Store, request: Request) -> Any:
    own = store.of(request.subject)
    is_set = own.compatibility is not None or own.normalize is not None
    if request.subject and not is_set and not request.is_set("defaultToGlobal"):
        raise RegistryError(
            errors.SUBJECT_COMPATIBILITY_NOT_CONFIGURED,
            f"Subject '{request.subject}' does not have subject-level compatibility configured",
        )
    told: dict[str, Any] = {"compatibilityLevel": store.compatibility(request.subject)}
    if store.normalize(request.subject):
        told["normalize"] = True
    return told


def _set_config(store: Store, request: Request) -> Any:
    if not isinstance(request.body, dict):
        raise RegistryError(UNPROCESSABLE, "the request has no object of JSON as its body")
    kept = {name: value for name, value in request.body.items() if value is not None}
    if unknown := set(kept) - {"compatibility", "normalize"}:
        raise RegistryError(UNPROCESSABLE, f"{min(unknown)} is not known to this registry")
    if not isinstance(kept.get("normalize", False), bool):
        raise RegistryError(UNPROCESSABLE, "normalize is true or false")
    if "compatibility" in kept:
        store.set_compatibility(request.subject, kept["compatibility"])
    if "normalize" in kept:
        store.of(request.subject).normalize = kept["normalize"]
    return kept


def _delete_config(store: Store, request: Request) -> Any:
    own = store.of(request.subject)
    if request.subject and own.compatibility is None and own.normalize is None:
        raise errors.subject_not_found(request.subject)
    told = {"compatibilityLevel": store.compatibility(request.subject)}
    own.compatibility = own.normalize = None
    return told


def _mode(store: Store, request: Request) -> Any:
    is_own = not request.subject or store.of(request.subject).mode is not None
    if not is_own and not request.is_set("defaultToGlobal"):
        raise RegistryError(
            errors.SUBJECT_MODE_NOT_CONFIGURED,
            f"Subject '{request.subject}' does not have subject-level mode configured",
        )
    return {"mode": store.mode(request.subject)}


def _set_mode(store: Store, request: Request) -> Any:
    mode = request.body.get("mode") if isinstance(request.body, dict) else None
    store.set_mode(request.subject, mode, force=request.is_set("force"))
    return {"mode": mode}


def _delete_mode(store: Store, request: Request) -> Any:
    own = store.of(request.subject)
    if request.subject and own.mode is None:
        raise errors.subject_not_found(request.subject)
    told = {"mode": store.mode(request.subject)}
    own.mode = None
    return told


# -- compatibility ---------------------------------------------------------------------------------


def _compatibility(store: Store, request: Request) -> Any:
    number = 0
    if len(request.words) > 1:
        if request.number is not None:
            number = request.number
            try:
                store.version(request.named, number)
            except RegistryError:
                raise errors.version_not_found(number) from None
        else:
            number = -1
    is_verbose = request.is_set("verbose")
    try:
        schema = _schema(store, request)
        reasons = store.incompatibilities(request.named, schema, number)
    except RegistryError as error:
        if not is_verbose or error.code != errors.INVALID_SCHEMA:
            raise
        reasons = [str(error)]
    told: dict[str, Any] = {"is_compatible": not reasons}
    if is_verbose:
        told["messages"] = reasons
    return told


class Text(str):
    """An answer that is no JSON but a text of its own."""

    __slots__ = ()


ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/", lambda *_: {}),
    ("GET", "/subjects", _subjects),
    ("POST", "/subjects/{}", _lookup),
    ("DELETE", "/subjects/{}", _delete_subject),
    ("GET", "/subjects/{}/versions", _versions),
    ("POST", "/subjects/{}/versions", _register),
    ("GET", "/subjects/{}/versions/{}", _version),
    ("DELETE", "/subjects/{}/versions/{}", _delete_version),
    ("GET", "/subjects/{}/versions/{}/schema", _version_schema),
    ("GET", "/subjects/{}/versions/{}/referencedby", _referenced_by),
    ("GET", "/schemas", _all_schemas),
    ("GET", "/schemas/types", lambda *_: list(KINDS)),
    ("GET", "/schemas/ids/{}", _by_id),
    ("GET", "/schemas/ids/{}/schema", _by_id_schema),
    ("GET", "/schemas/ids/{}/subjects", _id_subjects),
    ("GET", "/schemas/ids/{}/versions", _id_versions),
    *((method, path, handler)
      for path in ("/config", "/config/{}")
      for method, handler in (("GET", _config), ("PUT", _set_config), ("DELETE", _delete_config))),
    *((method, path, handler)
      for path in ("/mode", "/mode/{}")
      for method, handler in (("GET", _mode), ("PUT", _set_mode), ("DELETE", _delete_mode))),
    ("POST", "/compatibility/subjects/{}/versions", _compatibility),
    ("POST", "/compatibility/subjects/{}/versions/{}", _compatibility),
)  # fmt: skip
