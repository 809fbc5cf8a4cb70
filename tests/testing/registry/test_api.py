"""The registry's REST API: by Confluent's client, and by requests that no client sends."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError

from fencepost.testing import SchemaRegistry
from fencepost.testing.registry import server
from fencepost.testing.registry.documents import SCHEMA_BYTES_MAX
from fencepost.testing.registry.server import BODY_BYTES_MAX, CONTENT_TYPE

from ...waiting import DEADLINE_S


def record(*fields: str, name: str = "Order", **more: Any) -> str:
    """An Avro record; `id long`, or `id long 5` with a default."""
    made = []
    for field in fields:
        word, kind, *default = field.split()
        made.append(
            {"name": word, "type": kind, **({"default": int(default[0])} if default else {})}
        )
    return json.dumps({"type": "record", "name": name, "fields": made, **more})


def avro(*fields: str) -> Schema:
    return Schema(record(*fields), "AVRO")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        yield made


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return client_of(registry)


def client_of(registry: SchemaRegistry, **more: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url, "max.retries": 0, **more})


def refused(call: Any, *arguments: Any, **more: Any) -> tuple[int, int]:
    """Status and code of the refusal."""
    with pytest.raises(SchemaRegistryError) as caught:
        call(*arguments, **more)
    return caught.value.http_status_code, caught.value.error_code


def ask(
    registry: SchemaRegistry, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Status and document of an answer, whatever is asked for."""
    connection = http.client.HTTPConnection("127.0.0.1", registry.port, timeout=60)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        return answer.status, json.loads(text)
    finally:
        connection.close()


# -- versions and ids ------------------------------------------------------------------------------


def test_equal_schemas_have_one_id_and_others_another(client: SchemaRegistryClient):
    first = client.register_schema("a", avro("id long"))
    spaced = Schema(json.dumps(json.loads(record("id long")), indent=3), "AVRO")
    assert client.register_schema("b", spaced) == first
    second = client.register_schema("a", avro("id long", "note int 5"))
    assert second == first + 1
    assert client.get_versions("a") == [1, 2]
    assert client.get_versions("b") == [1]
    assert client_of_versions(client, first) == [("a", 1), ("b", 1)]
    assert client.get_subjects() == ["a", "b"]
    assert json.loads(client.get_schema(second).schema_str)["fields"][1]["name"] == "note"


def client_of_versions(client: SchemaRegistryClient, schema_id: int) -> list[tuple[str, int]]:
    return [(one.subject, one.version) for one in client.get_schema_versions(schema_id)]


def test_names_in_full_and_in_parts_are_the_same_schema(registry: SchemaRegistry):
    full = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
    parts = {"fields": [{"type": {"type": "long"}, "name": "id"}], "namespace": "shop",
             "name": "Order", "type": "record"}  # fmt: skip
    other = {**parts, "namespace": "store"}
    ids = [registry.register(name, json.dumps(one)) for name, one in
           (("a", full), ("b", parts), ("c", other))]  # fmt: skip
    assert ids[0] == ids[1] != ids[2]


def test_lookup_and_what_is_not_there(client: SchemaRegistryClient):
    client.register_schema("a", avro("id long"))
    found = client.lookup_schema("a", avro("id long"))
    assert (found.subject, found.version, found.schema_id) == ("a", 1, 1)
    assert refused(client.lookup_schema, "a", avro("id int")) == (404, 40403)
    assert refused(client.lookup_schema, "b", avro("id long")) == (404, 40401)
    assert refused(client.get_latest_version, "b") == (404, 40401)
    assert refused(client.get_version, "a", 2) == (404, 40402)
    assert refused(client.get_schema, 99) == (404, 40403)
    assert refused(client.get_versions, "b") == (404, 40401)
    assert refused(client.delete_subject, "b") == (404, 40401)


@pytest.mark.parametrize("version", ["0", "-2", "x", "2147483648", "99999999999999999999999"])
def test_versions_that_are_none(registry: SchemaRegistry, version: str):
    registry.register("a", '"int"')
    status, document = ask(registry, "GET", f"/subjects/a/versions/{version}")
    assert (status, document["error_code"]) == (422, 42202)


def test_names_of_subjects_with_slashes_and_spaces(client: SchemaRegistryClient):
    for subject in ("a/b", "ü %2F?", "a b#c"):
        client.register_schema(subject, avro("id long"))
        assert client.get_latest_version(subject).subject == subject
    assert len(client.get_subjects()) == 3


def test_a_schema_as_a_text_of_its_own(registry: SchemaRegistry):
    registry.register("a", '{"type": "string"}')
    for path in ("/schemas/ids/1/schema", "/subjects/a/versions/latest/schema"):
        assert ask(registry, "GET", path) == (200, {"type": "string"})
    assert ask(registry, "GET", "/schemas/ids/1") == (200, {"schema": '{"type": "string"}'})
    assert ask(registry, "GET", "/schemas/ids/x")[0] == 404
    assert ask(registry, "GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])


# -- deletes ---------------------------------------------------------------------------------------


def test_soft_deleted_versions_keep_their_ids(registry: SchemaRegistry):
    client = client_of(registry)
    registry.set_compatibility("NONE")
    for kind in ("int", "long", "string"):
        client.register_schema("a", Schema(f'"{kind}"', "AVRO"))
    assert client.delete_version("a", 2) == 2
    assert client.get_versions("a") == [1, 3]
    assert client.get_versions("a", deleted=True) == [1, 2, 3]
    assert client_of(registry).get_schema(2).schema_str == '"long"'
    assert refused(client.get_version, "a", 2) == (404, 40402)
    assert refused(client.delete_version, "a", 2) == (404, 40406)
    assert refused(client.delete_version, "a", 1, permanent=True) == (404, 40407)
    client.clear_caches()
    assert client.register_schema("a", Schema('"long"', "AVRO")) == 2
    assert client.get_versions("a") == [1, 3, 4]  # the number is not used twice


def test_permanently_deleted_versions_are_gone_with_their_ids(registry: SchemaRegistry):
    client = client_of(registry)
    client.register_schema("a", Schema('"int"', "AVRO"))
    client.set_compatibility("a", "FULL")
    assert refused(client.delete_subject, "a", permanent=True) == (404, 40405)
    assert client.delete_subject("a") == [1]
    assert refused(client.delete_subject, "a") == (404, 40404)
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == ["a"]
    assert refused(client.get_versions, "a") == (404, 40401)
    # The client's own delete of both kinds asks for the first again.
    assert ask(registry, "DELETE", "/subjects/a?permanent=true") == (200, [1])
    assert refused(client_of(registry).get_schema, 1) == (404, 40403)
    assert client.get_subjects(deleted=True) == []
    assert refused(client.get_config, "a") == (404, 40408)
    assert client_of(registry).register_schema("a", Schema('"long"', "AVRO")) == 2
    assert client.get_versions("a") == [1]


def test_one_version_is_deleted_permanently(registry: SchemaRegistry):
    client = client_of(registry)
    client.register_schema("a", Schema('"int"', "AVRO"))
    client.delete_version("a", 1)
    assert ask(registry, "DELETE", "/subjects/a/versions/1?permanent=true") == (200, 1)
    assert client.get_subjects(deleted=True) == []
    assert (
        ask(registry, "DELETE", "/subjects/a/versions/1?permanent=true")[1]["error_code"] == 40401
    )


def test_numbers_go_on_behind_those_that_are_left(registry: SchemaRegistry):
    registry.set_compatibility("NONE")
    for kind in ("int", "long"):
        registry.register("a", f'"{kind}"')
    for query in ("", "?permanent=true"):
        assert ask(registry, "DELETE", f"/subjects/a/versions/1{query}") == (200, 1)
    registry.register("a", '"string"')
    assert ask(registry, "GET", "/subjects/a/versions?deleted=true") == (200, [2, 3])


# -- references ------------------------------------------------------------------------------------

MONEY = record("cents long", name="Money")
BILL = json.dumps({"type": "record", "name": "Bill", "fields": [{"name": "sum", "type": "Money"}]})


def test_references_are_kept_resolved_and_guarded(
    client: SchemaRegistryClient, registry: SchemaRegistry
):
    client.register_schema("money", Schema(MONEY, "AVRO"))
    refers = Schema(BILL, "AVRO", [SchemaReference("Money", "money", 1)])
    bill = client.register_schema("bill", refers)
    assert client.get_schema(bill).references == refers.references
    assert client.get_referenced_by("money", 1) == [bill]
    assert refused(client.delete_version, "money", 1) == (422, 42206)
    assert refused(client.delete_subject, "money") == (422, 42206)
    assert refused(client.register_schema, "b", Schema(BILL, "AVRO")) == (422, 42201)
    for subject, version in (("nowhere", 1), ("money", 2)):
        wrong = Schema(BILL, "AVRO", [SchemaReference("Money", subject, version)])
        assert refused(client.register_schema, "b", wrong) == (422, 42201)
    client.delete_subject("bill")
    assert client.delete_subject("money") == [1]
    # A version that is soft-deleted can still be decoded by, with what it names.
    for path in ("/subjects/money", "/subjects/money/versions/1"):
        assert ask(registry, "DELETE", f"{path}?permanent=true")[1]["error_code"] == 42206
    assert ask(registry, "DELETE", "/subjects/bill?permanent=true") == (200, [1])
    assert ask(registry, "DELETE", "/subjects/money?permanent=true") == (200, [1])


def test_a_reference_is_part_of_what_makes_a_schema_the_same(client: SchemaRegistryClient):
    client.set_compatibility(level="NONE")
    for name in ("m1", "m2"):
        client.register_schema(name, Schema(MONEY, "AVRO"))
    ids = {
        client.register_schema("bill", Schema(BILL, "AVRO", [SchemaReference("Money", name, 1)]))
        for name in ("m1", "m2")
    }
    assert len(ids) == 2


# -- settings --------------------------------------------------------------------------------------


def test_levels_of_a_subject_and_of_all(client: SchemaRegistryClient, registry: SchemaRegistry):
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility(level="FULL")
    assert client.get_compatibility() == "FULL"
    assert refused(client.get_compatibility, "a") == (404, 40408)
    path = "/config/a?defaultToGlobal=true"
    assert ask(registry, "GET", path) == (200, {"compatibilityLevel": "FULL"})
    client.set_compatibility("a", "NONE")
    assert client.get_compatibility("a") == "NONE"
    assert refused(client.set_compatibility, "a", "SIDEWAYS") == (422, 42203)
    assert client.get_compatibility("a") == "NONE"
    assert client.delete_config("a").compatibility_level == "NONE"
    assert refused(client.get_compatibility, "a") == (404, 40408)
    assert refused(client.delete_config, "a") == (404, 40401)
    client.delete_config()
    assert client.get_compatibility() == "BACKWARD"
    status, document = ask(registry, "PUT", "/config", {"compatibilityGroup": "x"})
    assert (status, "compatibilityGroup" in document["message"]) == (422, True)


def test_modes(client: SchemaRegistryClient, registry: SchemaRegistry):
    client.register_schema("a", Schema('"int"', "AVRO"))
    assert client.get_global_mode() == "READWRITE"
    assert refused(client.get_mode, "a") == (404, 40409)
    client.update_mode("a", "READONLY")
    for call, arguments in (
        (client.register_schema, ("a", Schema('"long"', "AVRO"))),
        (client.delete_subject, ("a",)),
        (client.delete_version, ("a", 1)),
    ):
        assert refused(call, *arguments) == (422, 42205)
    assert client.get_latest_version("a").version == 1
    client.delete_mode("a")
    assert client.register_schema("a", Schema('"long"', "AVRO")) == 2
    assert refused(client.update_mode, "a", "WHATEVER") == (422, 42204)
    assert refused(client.update_mode, "a", "IMPORT") == (422, 42205)
    client.update_mode("b", "IMPORT")
    body = {"schema": '"bytes"', "id": 77, "version": 5}
    assert ask(registry, "POST", "/subjects/b/versions", body)[1]["id"] == 77
    assert client.get_versions("b") == [5]
    assert ask(registry, "POST", "/subjects/a/versions", body)[1]["error_code"] == 42205
    other = {**body, "schema": '"float"', "version": 6}
    assert ask(registry, "POST", "/subjects/b/versions", other)[1]["error_code"] == 42205
    assert client.register_schema("c", Schema('"double"', "AVRO")) == 78


def test_normalized_by_request_and_by_setting(
    client: SchemaRegistryClient, registry: SchemaRegistry
):
    one, other = '{"title": "x", "type": "object"}', '{"type": "object", "title": "x"}'
    first = client.register_schema("a", Schema(one, "JSON"), normalize_schemas=True)
    assert client.register_schema("a", Schema(other, "JSON"), normalize_schemas=True) == first
    body = {"schema": other, "schemaType": "JSON"}
    assert ask(registry, "POST", "/subjects/a", body)[1]["error_code"] == 40403
    assert ask(registry, "POST", "/subjects/a?normalize=true", body)[1]["id"] == first
    assert ask(registry, "PUT", "/config/b", {"normalize": True})[0] == 200
    assert ask(registry, "GET", "/config/b")[1]["normalize"] is True
    assert client.register_schema("b", Schema(one, "JSON")) == first
    assert client.register_schema("c", Schema(other, "JSON")) != first


# -- compatibility ---------------------------------------------------------------------------------

LONG, OPTIONAL, REQUIRED = ("id long",), ("id long", "n int 5"), ("id long", "n int")


@pytest.mark.parametrize(
    ("level", "earlier", "new", "is_allowed"),
    [
        ("NONE", [LONG], ("id string",), True),
        ("BACKWARD", [LONG], OPTIONAL, True),
        ("BACKWARD", [LONG], REQUIRED, False),
        ("BACKWARD", [REQUIRED], LONG, True),
        ("BACKWARD", [LONG, OPTIONAL], REQUIRED, True),
        ("BACKWARD_TRANSITIVE", [LONG, OPTIONAL], REQUIRED, False),
        ("FORWARD", [LONG], REQUIRED, True),
        ("FORWARD", [REQUIRED], LONG, False),
        ("FORWARD", [REQUIRED, OPTIONAL], LONG, True),
        ("FORWARD_TRANSITIVE", [REQUIRED, OPTIONAL], LONG, False),
        ("FULL", [LONG], OPTIONAL, True),
        ("FULL", [LONG], REQUIRED, False),
        ("FULL", [REQUIRED], LONG, False),
        ("FULL", [REQUIRED, OPTIONAL], LONG, True),
        ("FULL_TRANSITIVE", [REQUIRED, OPTIONAL], LONG, False),
        ("FULL_TRANSITIVE", [LONG, OPTIONAL], LONG, True),
    ],
)
def test_levels(
    registry: SchemaRegistry, level: str, earlier: list[Any], new: Any, is_allowed: bool
):
    client = client_of(registry)
    client.set_compatibility("a", "NONE")
    for fields in earlier:
        client.register_schema("a", avro(*fields))
    client.set_compatibility("a", level)
    path = "/compatibility/subjects/a/versions?verbose=true"
    status, told = ask(registry, "POST", path, {"schema": record(*new)})
    assert (status, told["is_compatible"], not told["messages"]) == (200, is_allowed, is_allowed)
    if new not in earlier:
        if is_allowed:
            client.register_schema("a", avro(*new))
        else:
            assert refused(client.register_schema, "a", avro(*new)) == (409, 40901)
            assert len(client.get_versions("a")) == len(earlier)


def test_the_refusal_says_why(client: SchemaRegistryClient):
    client.register_schema("a", avro("id long"))
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema("a", avro("id long", "n int"))
    assert "/n: the reader's field has no default and was not written" in str(caught.value)
    assert "(the new schema reads version 1)" in str(caught.value)


def test_compatibility_with_one_version(client: SchemaRegistryClient, registry: SchemaRegistry):
    client.set_compatibility("a", "NONE")
    client.register_schema("a", Schema('"string"', "AVRO"))
    client.register_schema("a", Schema('"int"', "AVRO"))
    client.set_compatibility("a", "BACKWARD")
    wider = Schema('"long"', "AVRO")
    assert client.test_compatibility("a", wider, "latest") is True
    assert client.test_compatibility("a", wider, 2) is True
    assert client.test_compatibility("a", wider, 1) is False
    assert client.test_compatibility("nowhere", wider, "latest") is True
    assert refused(client.test_compatibility, "a", wider, 3) == (404, 40402)
    assert refused(client.test_compatibility, "a", Schema("{", "AVRO"), 2) == (422, 42201)
    path = "/compatibility/subjects/a/versions/2?verbose=true"
    told = ask(registry, "POST", path, {"schema": "{"})[1]
    assert told["is_compatible"] is False
    assert "no JSON" in told["messages"][0]


def test_deleted_versions_are_not_compared(client: SchemaRegistryClient):
    client.register_schema("a", Schema('"string"', "AVRO"))
    client.delete_version("a", 1)
    assert client.register_schema("a", Schema('"int"', "AVRO")) == 2


def test_another_type_of_schema_is_incompatible(client: SchemaRegistryClient):
    client.register_schema("a", Schema('"string"', "AVRO"))
    assert refused(client.register_schema, "a", Schema("{}", "JSON")) == (409, 40901)


# -- logins, TLS, faults ---------------------------------------------------------------------------


def test_credentials():
    with SchemaRegistry(credentials="user:se:cret") as registry:
        known = client_of(registry, **{"basic.auth.user.info": "user:se:cret"})
        assert known.register_schema("a", Schema('"int"', "AVRO")) == 1
        for given in ("user:wrong", "user:se:cre", "x:se:cret"):
            wrong = client_of(registry, **{"basic.auth.user.info": given})
            assert refused(wrong.get_subjects) == (401, 401)
        assert ask(registry, "GET", "/subjects")[0] == 401
        assert ask(registry, "GET", "/subjects", Authorization="Basic ä")[0] == 401


def test_tls(tmp_path: Path):
    pytest.importorskip("cryptography")
    from fencepost.testing.certificates import CertificateAuthority

    authority = CertificateAuthority()
    (tmp_path / "ca.pem").write_text(authority.certificate_pem)
    with SchemaRegistry(certificate=authority.issue("registry")) as registry:
        silent = socket.create_connection(("127.0.0.1", registry.port))
        assert registry.url.startswith("https://")
        client = client_of(registry, **{"ssl.ca.location": str(tmp_path / "ca.pem")})
        assert client.register_schema("a", Schema('"int"', "AVRO")) == 1
        with pytest.raises(Exception, match=r"(?i)certificate|ssl"):
            client_of(registry).get_subjects()
        silent.close()


def test_failures_on_demand(registry: SchemaRegistry, client: SchemaRegistryClient):
    registry.fail(503, 2)
    assert [refused(client.get_subjects)[0] for _ in range(2)] == [503, 503]
    assert client.get_subjects() == []
    registry.fail(500)
    assert refused(client.get_subjects)[0] == 500
    registry.heal()
    assert client.get_subjects() == []
    assert registry.asked == {"/subjects": 5}


def test_it_stops_and_starts_at_the_same_port_with_its_schemas(registry: SchemaRegistry):
    registry.register("a", '"int"')
    client, port = client_of(registry), registry.port
    assert client.get_subjects() == ["a"]
    registry.close()
    registry.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    with pytest.raises(OSError, match="not running"):
        _ = registry.url
    registry.start()
    assert (registry.port, client_of(registry).get_subjects()) == (port, ["a"])


# -- strangers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/subjects/a/versions", b"{", 400, 400),
        ("POST", "/subjects/a/versions", b"\xff", 400, 400),
        ("POST", "/subjects/a/versions", b"[" * 100_000, 400, 400),
        ("POST", "/subjects/a/versions", b'{"schema": NaN}', 400, 400),
        ("POST", "/subjects/a/versions", None, 422, 422),
        ("POST", "/subjects/a/versions", [], 422, 422),
        ("POST", "/subjects/a/versions", {}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": ""}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": 5}, 422, 422),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": []}, 422, 422),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "references": [5]}, 422, 422),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "id": True}, 422, 422),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "ruleSet": {"a": 1}}, 422, 422),
        ("POST", "/subjects//versions", {"schema": '"int"'}, 422, 42208),
        ("POST", "/subjects/a/versions", {"schema": '"int"' + " " * SCHEMA_BYTES_MAX}, 422, 42209),
        ("PUT", "/config", {"compatibility": ["FULL"]}, 422, 42203),
        ("PUT", "/config", {"normalize": "yes"}, 422, 422),
        ("PUT", "/config", [], 422, 422),
        ("PUT", "/mode/a", {}, 422, 42204),
        ("GET", "/subjects?limit=x", None, 422, 422),
        ("GET", "/subjects?" + "a=1&" * 60, None, 400, 400),
        ("POST", "/subjects/a/versions", b'{"schema": 1e400}', 400, 400),
        ("GET", "/nothing", None, 404, 404),
        ("PUT", "/subjects", None, 405, 405),
        ("GET", "/contexts", None, 404, 404),
    ],
)
def test_requests_that_are_refused(
    registry: SchemaRegistry, method: str, path: str, body: Any, status: int, code: int
):
    found = ask(registry, method, path, body)
    assert (found[0], found[1]["error_code"]) == (status, code)
    assert ask(registry, "GET", "/subjects") == (200, [])


def test_a_target_that_is_none(registry: SchemaRegistry):
    status, answer = registry.respond("GET", "http://[::1/subjects", None, b"")
    assert (status, json.loads(answer)["error_code"]) == (400, 400)


def test_bodies_of_no_length_or_too_much(registry: SchemaRegistry):
    for length, status in ((str(BODY_BYTES_MAX + 1), 413), ("9" * 30, 413), ("-1", 411)):
        with socket.create_connection(("127.0.0.1", registry.port), timeout=60) as connection:
            connection.sendall(
                f"POST /subjects/a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode()
            )
            assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())
    with socket.create_connection(("127.0.0.1", registry.port), timeout=60) as connection:
        connection.sendall(b"POST /subjects/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 411 ")
    with socket.create_connection(("127.0.0.1", registry.port), timeout=60) as connection:
        connection.sendall(b"POST /subjects/a HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    with socket.create_connection(("127.0.0.1", registry.port), timeout=60) as connection:
        connection.sendall(b"\0\xff\n\n")
        connection.recv(1000)
    assert ask(registry, "GET", "/subjects") == (200, [])


def test_more_connections_than_there_may_be(registry: SchemaRegistry, monkeypatch: Any):
    monkeypatch.setattr("fencepost.testing.registry.server.CONNECTIONS_MAX", 3)
    opened = [socket.create_connection(("127.0.0.1", registry.port), timeout=60) for _ in range(3)]
    for one in opened:
        one.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert one.recv(100).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", registry.port), timeout=60) as more:
        more.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert more.recv(100) == b""
    for one in opened:
        one.close()


def test_pages(client: SchemaRegistryClient, registry: SchemaRegistry):
    for name in ("a1", "a2", "b1"):
        client.register_schema(name, Schema('"int"', "AVRO"))
    assert ask(registry, "GET", "/subjects?offset=1&limit=1") == (200, ["a2"])
    assert ask(registry, "GET", "/subjects?subjectPrefix=b") == (200, ["b1"])
    client.set_compatibility(level="NONE")
    client.register_schema("a1", Schema('"string"', "AVRO"))
    found = ask(registry, "GET", "/schemas?latestOnly=true&subjectPrefix=a")[1]
    assert [(one["subject"], one["version"]) for one in found] == [("a1", 2), ("a2", 1)]


class HeldComparison:
    """In place of `incompatibilities`: the first comparison waits until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()
        self.seen: list[tuple[str, list[int]]] = []
        self._really = server.incompatibilities
        monkeypatch.setattr(server, "incompatibilities", self)

    def __call__(self, level: str, new: Any, earlier: Any) -> list[str]:
        self.seen.append((level, [number for number, _ in earlier]))
        if not self.began.is_set():
            self.began.set()
            assert self.goes_on.wait(DEADLINE_S)
        return self._really(level, new, earlier)


def test_others_are_answered_while_schemas_are_compared(
    registry: SchemaRegistry, client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
):
    client.register_schema("s", avro("a long"))
    held = HeldComparison(monkeypatch)
    with ThreadPoolExecutor() as pool:
        added = pool.submit(client_of(registry).register_schema, "s", avro("a long", "b long 1"))
        assert held.began.wait(DEADLINE_S)
        assert client.get_subjects() == ["s"]
        assert ask(registry, "GET", "/subjects/s/versions") == (200, [1])
        held.goes_on.set()
        added.result(DEADLINE_S)
    assert ask(registry, "GET", "/subjects/s/versions") == (200, [1, 2])
    assert held.seen == [("BACKWARD", [1])]


@pytest.mark.parametrize("change", ["version", "level", "read-only", "reference"])
def test_what_changes_while_schemas_are_compared_counts(
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
):
    """The comparison was with what is not there any more, so it is made again, or is refused."""
    client.register_schema("s", avro("a long"))
    client.register_schema("named", Schema(record("x long", name="Named"), "AVRO"))
    held = HeldComparison(monkeypatch)
    named = SchemaReference("Named", "named", 1)
    new = Schema(record("a long", "b long 1"), "AVRO", [named] if change == "reference" else [])
    with ThreadPoolExecutor() as pool:
        added = pool.submit(client_of(registry).register_schema, "s", new)
        assert held.began.wait(DEADLINE_S)
        if change == "version":
            # Read by this one, the new schema's b is no long.
            registry.put_unchecked(99, record("a long", "b string"), subject="s")
        elif change == "level":
            registry.set_compatibility("FORWARD_TRANSITIVE", "s")
        elif change == "read-only":
            assert ask(registry, "PUT", "/mode/s", {"mode": "READONLY"})[0] == 200
        else:
            client.delete_subject("named")
            client.delete_subject("named", permanent=True)
        held.goes_on.set()
        if change == "level":
            added.result(DEADLINE_S)
            assert held.seen == [("BACKWARD", [1]), ("FORWARD_TRANSITIVE", [1])]
            return
        with pytest.raises(SchemaRegistryError) as caught:
            added.result(DEADLINE_S)
    expected = {"version": (409, 40901), "read-only": (422, 42205), "reference": (422, 42201)}
    assert (caught.value.http_status_code, caught.value.error_code) == expected[change]
    if change == "version":
        assert held.seen == [("BACKWARD", [1]), ("BACKWARD", [1, 2])]
