"""Secured clusters of nodes of both kinds: SASL_SSL everywhere, users of SCRAM, an authorizer.

Brokers log in by SCRAM, at each other and at controllers. Controllers log in at each other by
PLAIN: users of SCRAM are in the metadata log, of which a voter of a new quorum has nothing yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.errors import AuthenticationFailed, ClientError
from fencepost.client.jaas import jaas_line
from fencepost.client.security import Security
from fencepost.testing.certificates import CertificateAuthority
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.describe_acls import DescribeAclsRequest
from fencepost.wire.api.describe_client_quotas import DescribeClientQuotasRequest
from fencepost.wire.api.describe_delegation_token import DescribeDelegationTokenRequest
from fencepost.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from ..waiting import DEADLINE_MS
from .apache import HOST
from .quorum import SMALL_JVM, Node, Quorum

MECHANISM = "SCRAM-SHA-512"
ADMIN, NODE = "admin", "node"
PASSWORDS = {ADMIN: "admin's word", NODE: "node's word"}
ANY = 1
_MODULES = "org.apache.kafka.common.security"


class SecuredQuorum(Quorum):
    """A `Quorum` whose listeners are all SASL_SSL; see the module."""

    def __init__(
        self,
        directory: Path,
        controllers: tuple[str, ...],
        brokers: tuple[str, ...],
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.authority = CertificateAuthority()
        directory.mkdir(parents=True, exist_ok=True)
        self.ca_file = self.authority.write(directory)
        self._certificate = self.authority.issue(NODE).write(directory)
        super().__init__(directory, controllers, brokers, config=config, jvm=SMALL_JVM)

    def _plan(self, kind: str, node_id: int, roles: str, port: int) -> Node:
        node = super()._plan(kind, node_id, roles, port)
        listener = "CONTROLLER" if roles == "controller" else "CLIENTS"
        node.config |= self._secured(roles) | {"listeners": f"{listener}://{HOST}:{port}"}
        if roles == "broker":
            node.config["advertised.listeners"] = f"{listener}://{HOST}:{port}"
        node.security = self.security(ADMIN)
        return node

    def _secured(self, roles: str) -> dict[str, str]:
        own = {"username": NODE, "password": PASSWORDS[NODE]}
        known = {f"user_{name}": word for name, word in PASSWORDS.items()}
        scram = jaas_line(f"{_MODULES}.scram.ScramLoginModule", own)
        plain = jaas_line(f"{_MODULES}.plain.PlainLoginModule", own | known)
        config = {
            "listener.security.protocol.map": "CONTROLLER:SASL_SSL,CLIENTS:SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.controller.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "listener.name.controller.plain.sasl.jaas.config": plain,
            "listener.name.controller.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": scram,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": "PLAIN" if roles == "controller" else MECHANISM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{NODE}",
            "delegation.token.secret.key": "of all nodes",
        }
        return config | ({"inter.broker.listener.name": "CLIENTS"} if roles == "broker" else {})

    def format_with_users(self) -> None:
        """Format all directories, with the users that are there from the start."""
        words = (f"{MECHANISM}=[name={name},password={word}]" for name, word in PASSWORDS.items())
        self.format(*(part for word in words for part in ("--add-scram", word)))

    def security(self, user: str, password: str | None = None, **more: Any) -> Security:
        """A login of this user, who has its own name as password unless told otherwise."""
        return Security(
            protocol="SASL_SSL",
            ca_file=str(self.ca_file),
            mechanism=MECHANISM,
            username=user,
            password=password or PASSWORDS.get(user, user),
            **more,
        )

    def client(self, user: str = ADMIN) -> Client:
        """Of all brokers that run."""
        running = (one for one in self.nodes.values() if one.is_running and one.roles == "broker")
        servers = ",".join(one.address for one in running)
        return Client(servers, config=ClientConfig(security=self.security(user)))


def ask(node: Node, security: Security, request: Message) -> Any:
    """What this very node answers. ClientError where the login fails."""
    with Connection(HOST, node.port, timeout_ms=DEADLINE_MS, security=security) as connection:
        return connection.request(request)


def lets_in(node: Node, security: Security) -> bool:
    """Whether the login succeeds at this node."""
    try:
        Connection(HOST, node.port, timeout_ms=DEADLINE_MS, security=security).close()
    except AuthenticationFailed:
        return False
    return True


def creates(node: Node, security: Security, topic: str) -> ErrorCode:
    """What a broker answers who is asked for a topic, which its controller decides."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
        ],
        timeout_ms=20_000,
        validate_only=False,
    )
    return ErrorCode(ask(node, security, request).topics[0].error_code)


def seen(node: Node, security: Security) -> dict[str, list[str]]:
    """Everything about security that this node tells of the metadata, or why it does not now."""
    acls = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    found: dict[str, list[str]] = {}
    try:
        found["acls"] = [
            f"{one.resource_type} {one.resource_name} {one.pattern_type} {acl}"
            for one in ask(node, security, acls).resources
            for acl in one.acls
        ]
        users = ask(node, security, DescribeUserScramCredentialsRequest(users=None))
        found["users"] = [str(one) for one in users.results]
        quotas = DescribeClientQuotasRequest(components=[], strict=False)
        found["quotas"] = [_said(one) for one in ask(node, security, quotas).entries or ()]
        tokens = ask(node, security, DescribeDelegationTokenRequest(owners=None))
        found["tokens"] = [str(one) for one in tokens.tokens]
    except (ClientError, OSError) as error:
        found["error"] = [str(error)]
    return {what: sorted(said) for what, said in found.items()}


def _said(quota: Any) -> str:
    """A quota without the order of its keys, which in Kafka is that of a hash table."""
    entity = sorted((part.entity_type, part.entity_name) for part in quota.entity)
    return f"{entity} {sorted((one.key, one.value) for one in quota.values)}"
