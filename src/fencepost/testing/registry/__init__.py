"""A schema registry for tests: a server with Confluent's REST API, as far as clients use it.

    with SchemaRegistry() as registry:
        client = SchemaRegistryClient({"url": registry.url})

Subjects, versions, ids, references, lookups, deletes (soft and permanent), compatibility levels and
checks, modes, for Avro, Protobuf and JSON Schema; basic authentication and TLS if wanted. What it
keeps is in memory. Needs the extra `registry`.

* `server` is HTTP, `routes` the API, `store` what is registered;
* `schemas` is one schema of any type, `levels` which are compared with which;
* `avro_schemas`, `protobuf_schemas`, `json_schemas` parse, by libraries; `avro_rules`,
  `protobuf_rules`, `json_rules` say which can read what another wrote.
"""

from fencepost.testing.registry.errors import RegistryError
from fencepost.testing.registry.schemas import Reference
from fencepost.testing.registry.server import SchemaRegistry

__all__ = ["Reference", "RegistryError", "SchemaRegistry"]
