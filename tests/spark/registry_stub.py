"""A schema registry for tests: the questions of its REST API that are asked here, on loopback."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Reference = tuple[str, str, int]  # name, subject, version


class RegistryStub:
    """Serves the schemas put into it; `asked` counts paths, `status` 500 makes it refuse all."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.status = 200
        self.credentials: str | None = None
        self._documents: dict[str, dict[str, Any]] = {}
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, document = stub._answer(self.path, self.headers.get("Authorization"))
                body = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(
        self, schema_id: int, text: str, kind: str = "AVRO", references: Sequence[Reference] = ()
    ) -> None:
        """A schema, which is version 1 of the subject `s<id>` as well."""
        document: dict[str, Any] = {"schema": text}
        if kind != "AVRO":  # which registries leave out
            document["schemaType"] = kind
        if references:
            document["references"] = [
                {"name": name, "subject": subject, "version": version}
                for name, subject, version in references
            ]
        self._documents[f"/schemas/ids/{schema_id}"] = document
        for version in ("1", "latest"):
            self._documents[f"/subjects/s{schema_id}/versions/{version}"] = {
                **document, "subject": f"s{schema_id}", "version": 1, "id": schema_id,
            }  # fmt: skip

    def _answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        place = urlsplit(path).path
        self.asked[place] += 1
        if self.credentials is not None:
            expected = "Basic " + base64.b64encode(self.credentials.encode()).decode()
            if authorization != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.status != 200:
            return self.status, {"error_code": self.status, "message": "no"}
        if place not in self._documents:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, self._documents[place]
