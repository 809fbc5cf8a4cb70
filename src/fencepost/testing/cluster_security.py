"""A secured cluster for tests, in one step: an authority, certificates, users, passwords and ACLs.

    with Cluster(security=True) as cluster:
        Producer(cluster.security.login("app").confluent())

Three users are there: `admin`, a super user; `app`, who may do everything to topics, groups and
transactional ids; `guest`, who may do nothing. Others, and other ACLs, are named in
`ClusterSecurity`, or added while the cluster runs. Passwords are random unless they are given.

Nodes log in to each other as `node`. Everything that a client needs is in a directory `security`
beside those of the nodes: the authority's certificate, and for each user a file of client
properties, for its owner alone.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from fencepost.client.acls import AclBinding
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.client.jaas import jaas_line
from fencepost.client.scram_users import (
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from fencepost.client.security import PROTOCOLS, Security
from fencepost.machines.image.acls import WILDCARD, AclOperation, ResourceType
from fencepost.machines.image.scram import ScramMechanism
from fencepost.testing.access_tokens import AUDIENCE, ISSUER, AccessTokenIssuer
from fencepost.testing.certificates import LOCAL_HOSTS, Certificate, CertificateAuthority
from fencepost.testing.client_logins import OAUTHBEARER, ClientLogin
from fencepost.testing.login_files import ADMIN, CLIENT_LISTENER, DIRECTORY, security_in

APP: Final = "app"
GUEST: Final = "guest"
NODE: Final = "node"
USERS: Final = (ADMIN, APP, GUEST)
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULES: Final = "org.apache.kafka.common.security"
_OF_APP: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


class HasServers(Protocol):
    """The cluster that is secured."""

    @property
    def bootstrap_servers(self) -> str:
        """Where its brokers are."""
        ...


class ClusterSecurity:
    """How a cluster is secured, and what clients need for it; see the module.

    `protocol` is that of all listeners: SASL_SSL, SASL_PLAINTEXT, or SSL, where clients show
    certificates. Passwords of `users` may be None: random ones. With OAUTHBEARER among the
    `mechanisms` there is an issuer of access tokens. Brokers take PLAIN in any case: from all users
    where it is among the `mechanisms`, else from nodes and the super user alone, who are known
    before there is metadata. Needs the extra `security`.
    """

    issuer: AccessTokenIssuer
    """Signs access tokens of users, where OAUTHBEARER is among the mechanisms."""

    def __init__(
        self,
        protocol: str = "SASL_SSL",
        *,
        users: Mapping[str, str | None] | Iterable[str] = (),
        acls: Iterable[AclBinding] = (),
        mechanisms: Iterable[str] = MECHANISMS,
    ) -> None:
        """ValueError for a protocol that secures nothing, or a user's name that cannot be."""
        if protocol not in PROTOCOLS[1:]:
            raise ValueError(f"protocol={protocol!r}: it must be one of {', '.join(PROTOCOLS[1:])}")
        given = dict(users) if isinstance(users, Mapping) else dict.fromkeys(users)
        for name in given:
            _check_name(name)
        self.protocol = protocol
        self.mechanisms = tuple(mechanisms)
        self.acls = [
            *(AclBinding(kind, WILDCARD, f"User:{APP}", AclOperation.ALL) for kind in _OF_APP),
            *acls,
        ]
        self.authority = CertificateAuthority()
        """Signs the certificates of nodes and users."""
        self._passwords = {
            name: given.get(name) or secrets.token_urlsafe(18) for name in (*USERS, NODE, *given)
        }
        if OAUTHBEARER in self.mechanisms:
            self.issuer = AccessTokenIssuer()
        self._token_key = secrets.token_urlsafe(24)
        self._directory = Path()
        self._cluster: HasServers | None = None
        self._uses_tls = protocol.endswith("SSL")
        self._uses_sasl = protocol.startswith("SASL")

    # -- for clients -----------------------------------------------------------------------

    def login(
        self, user: str = APP, mechanism: str | None = None, *, password: str | None = None
    ) -> ClientLogin:
        """What a client of the cluster needs to log in as this user; by SASL unless the protocol
        is SSL. A `password` is shown instead of the user's own, for instance a wrong one; by
        OAUTHBEARER instead of an access token.

        KeyError for a user that there is not, where no password is given.
        """
        chosen: dict[str, Any] = {}
        if self._uses_sasl and (mechanism or self.mechanisms[0]) == OAUTHBEARER:
            chosen = {"mechanism": OAUTHBEARER, **self._access_token(user, password)}
        elif self._uses_sasl:
            chosen = {
                "mechanism": mechanism or self.mechanisms[0],
                "username": user,
                "password": self._passwords[user] if password is None else password,
            }
        else:
            chosen["certificate_file"] = self._certificate_file(user)
        return ClientLogin(
            self._running().bootstrap_servers,
            self.protocol,
            ca_file=self.ca_file if self._uses_tls else None,
            **chosen,
        )

    def _access_token(self, user: str, token: str | None) -> dict[str, Any]:
        if token is None:
            self._passwords[user]  # the user is there
            token = self.issuer.token(sub=user)
        digest = hashlib.sha256(token.encode()).hexdigest()
        path = self._directory / f"{user}-{digest[:8]}.jwt"
        _write_private(path, token)
        return {"token": token, "token_file": path}

    def stranger(self) -> ClientLogin:
        """What a client has that no one let in: a certificate of another authority, or a name and
        a password that are none."""
        if self._uses_sasl:
            return self.login("stranger", password="none of them")
        forged = CertificateAuthority("another authority").issue("stranger", hosts=())
        return ClientLogin(
            self._running().bootstrap_servers,
            self.protocol,
            ca_file=self.ca_file,
            certificate_file=forged.write(self._directory),
        )

    @property
    def ca_file(self) -> Path:
        """PEM: what clients have to trust."""
        return self._directory / "ca.pem"

    @property
    def client_security(self) -> Security:
        """The super user's login, for Fencepost's own connections. By PLAIN, which needs no user in
        the metadata."""
        return security_in(self._directory.parent)

    def client(self, user: str = ADMIN) -> Client:
        """A blocking client that logs in as this user; a context manager."""
        return Client(config=ClientConfig.from_props(self.login(user).properties()))

    # -- changes while it runs -------------------------------------------------------------

    def add_user(self, user: str, password: str | None = None) -> None:
        """Let another user log in: by SCRAM, or with a certificate where the protocol is SSL.
        ClientError, ValueError."""
        _check_name(user)
        self._passwords[user] = password or secrets.token_urlsafe(18)
        self._set_scram([user])

    def revoke_user(self, user: str) -> None:
        """The fault of a user who is not let in any more: no login by SCRAM, and no ACL that names
        it. Its connections stay until their sessions end, but may do nothing. ClientError."""
        from fencepost.client.acls import AclBindingFilter

        with self._admin_client() as client:
            admin = Admin(client)
            admin.delete_acls([AclBindingFilter(principal=f"User:{user}")])
            for info in admin.describe_user_scram_credentials([user]).get(user, ()):
                deletion = UserScramCredentialDeletion(user, info.mechanism)
                admin.alter_user_scram_credentials([deletion])

    def token(self, user: str = APP, *, good_for_ms: int | None = None) -> ClientLogin:
        """A login by a delegation token of this user, by SCRAM. With `good_for_ms` the fault of a
        token that has ended so many milliseconds later; the session that it opened ends, too.

        ClientError; ValueError where clients do not log in by SASL.
        """
        if not self._uses_sasl:
            raise ValueError(f"protocol={self.protocol!r}: a token is a login by SASL")
        with self.client(user) as client:
            admin = Admin(client)
            token = admin.create_delegation_token()
            if good_for_ms is not None:
                admin.expire_delegation_token(token.hmac, period_ms=good_for_ms)
        mechanism = next((one for one in self.mechanisms if one.startswith("SCRAM")), None)
        made = self.login(token.token_id, mechanism, password=token.password)
        return replace(made, is_delegation_token=True)

    def allow(self, *acls: AclBinding) -> None:
        """Add ACLs. ClientError."""
        with self._admin_client() as client:
            Admin(client).create_acls(acls)

    def replace_certificate(self, node_id: int, certificate: Certificate | None = None) -> None:
        """Put another certificate where a node reads its own: a new one, or a fault, such as
        `authority.issue_expired("node")`. The node reads it at its next start, or when it is told
        to."""
        made = certificate or self._issue_for_node()
        path = self._node_file(node_id)
        made.write(self._directory).replace(path)

    # -- for the cluster -------------------------------------------------------------------

    def prepare(self, directory: Path) -> None:
        """Make the files. OSError."""
        self._directory = directory / DIRECTORY
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.authority.write(self._directory)
        if OAUTHBEARER in self.mechanisms:
            self._key_set_file.write_bytes(self.issuer.key_set())

    def attach(self, cluster: HasServers) -> None:
        """The cluster is set up: its addresses are known. Write the users' client properties."""
        self._cluster = cluster
        for user in self._passwords:
            if user != NODE:
                # Of the metadata's users there are none before the super user has added them.
                mechanism = "PLAIN" if user == ADMIN and self._uses_sasl else None
                text = self.login(user, mechanism).properties_text()
                _write_private(self._directory / f"{user}.properties", text)

    def properties_of(self, node_id: int, is_broker: bool, others: Iterable[str]) -> dict[str, str]:
        """Broker configs of a node; `others` are the cluster's other listeners."""
        names = [CLIENT_LISTENER, *others]
        entries = {
            "listener.security.protocol.map": ",".join(f"{name}:{self.protocol}" for name in names),
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{NODE}",
            "delegation.token.secret.key": self._token_key,
        }
        if is_broker:
            entries["inter.broker.listener.name"] = CLIENT_LISTENER
        if self._uses_tls:
            entries |= self._tls_of(node_id)
        if self._uses_sasl:
            entries |= self._sasl_of(names)
        return entries

    def set_up(self) -> None:
        """Once the cluster serves: add users and ACLs. ClientError."""
        self._set_scram(list(self._passwords))
        self.allow(*self.acls)

    # -- inside ----------------------------------------------------------------------------

    def _tls_of(self, node_id: int) -> dict[str, str]:
        path = self._node_file(node_id)
        self._issue_for_node().write(self._directory).replace(path)
        entries = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }
        if not self._uses_sasl:
            entries["ssl.client.auth"] = "required"
            entries["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
        return entries

    def _sasl_of(self, names: Iterable[str]) -> dict[str, str]:
        # PLAIN: who logs in before there is metadata, nodes and the super user, cannot be in it.
        enabled = list(dict.fromkeys([*self.mechanisms, "PLAIN"]))
        users = self._passwords if "PLAIN" in self.mechanisms else (ADMIN, NODE)
        known = {f"user_{name}": self._passwords[name] for name in users}
        own = {"username": NODE, "password": self._passwords[NODE]}
        entries = {
            "sasl.enabled.mechanisms": ",".join(enabled),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
        }
        if OAUTHBEARER in enabled:
            keys = self._key_set_file.absolute().as_uri()
            entries |= {
                "sasl.oauthbearer.jwks.endpoint.url": keys,
                "fencepost.sasl.oauthbearer.allowed.urls": keys,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
            }
        for listener in names:
            prefix = f"listener.name.{listener.lower()}"
            for mechanism in enabled:
                if mechanism == OAUTHBEARER:
                    continue
                text = jaas_line(f"{_MODULES}.scram.ScramLoginModule", own)
                if mechanism == "PLAIN":
                    text = jaas_line(f"{_MODULES}.plain.PlainLoginModule", {**own, **known})
                entries[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = text
        return entries

    def _set_scram(self, users: Iterable[str]) -> None:
        wanted = [one for one in map(ScramMechanism.named, self.mechanisms) if one is not None]
        if not self._uses_sasl or not wanted:
            return
        with self._admin_client() as client:
            for mechanism in wanted:  # one request has room for one of each user
                credentials = [
                    UserScramCredentialUpsertion(name, mechanism, self._passwords[name], 4096)
                    for name in users
                ]
                Admin(client).alter_user_scram_credentials(credentials)

    def _admin_client(self) -> Client:
        servers = self._running().bootstrap_servers
        return Client(servers, security=self.client_security)

    def _issue_for_node(self) -> Certificate:
        return self.authority.issue(NODE, hosts=LOCAL_HOSTS)

    def _node_file(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.pem"

    @property
    def _key_set_file(self) -> Path:
        return self._directory / "jwks.json"

    def _certificate_file(self, user: str) -> Path:
        path = self._directory / f"{user}.pem"
        return (
            path if path.exists() else self.authority.issue(user, hosts=()).write(self._directory)
        )

    def _running(self) -> HasServers:
        if self._cluster is None:
            raise ValueError("no cluster is secured by this yet: give it to Cluster(security=...)")
        return self._cluster


def _check_name(user: str) -> None:
    if not user.isascii() or not user.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"user {user!r}: letters, digits, - and _ of ASCII are allowed")
    if user == NODE:
        raise ValueError(f"user {user!r}: that is whom nodes log in as")


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
