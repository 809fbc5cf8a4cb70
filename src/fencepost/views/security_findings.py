"""What a node or a cluster leaves open, and to whom, in sentences.

The same rules look at a configuration file and at a cluster that runs: both are configs by name.
A finding is `open` where a stranger, or more users than meant, can do something; a `note` is what
an operator should know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import ClassVar, Final, NamedTuple

from fencepost.client.acls import AclBinding
from fencepost.machines.image.acls import WILDCARD, AclOperation, PermissionType, ResourceType
from fencepost.views.view import View

OPEN: Final = "open"
NOTE: Final = "note"
ANONYMOUS: Final = "User:ANONYMOUS"
EVERY_USER: Final = "User:*"
EXPIRES_SOON_DAYS: Final = 30
ALLOW_ANONYMOUS: Final = "fencepost.allow.anonymous.listeners"
REFUSED: Final = f"; a node of Fencepost does not start with it unless {ALLOW_ANONYMOUS}=true"
_HARMLESS: Final = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)


class Finding(View, frozen=True):
    """One sentence, and whether it is of something that is open."""

    columns: ClassVar = {"": "kind", "what": "sentence"}

    kind: str
    subject: str
    """What it is about: a listener's name, a config's, `acls`, a file."""
    sentence: str


class ListenerAt(NamedTuple):
    """A listener as configs have it."""

    name: str
    host: str
    port: str
    protocol: str

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


def listeners_of(configs: Mapping[str, str | None]) -> list[ListenerAt]:
    """The listeners that `listeners` and `listener.security.protocol.map` describe."""
    pairs = [one.split(":") for one in _list(configs, "listener.security.protocol.map")]
    protocols = {pair[0].strip().upper(): pair[-1].strip().upper() for pair in pairs}
    found = []
    for text in _list(configs, "listeners") or ["PLAINTEXT://127.0.0.1:9092"]:
        name, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        name = name.strip().upper()
        found.append(ListenerAt(name, host or "0.0.0.0", port, protocols.get(name, name)))
    return found


def findings_of_configs(configs: Mapping[str, str | None]) -> list[Finding]:
    """What a node's configs leave open. A config that is not there, or whose value is not shown
    (None), is taken to be Kafka's default."""
    found = []
    for listener in listeners_of(configs):
        found += _of_listener(listener, configs)
    return found + _of_authorizer(configs)


def _of_listener(listener: ListenerAt, configs: Mapping[str, str | None]) -> list[Finding]:
    name, protocol = listener.name, listener.protocol
    where = f"listener {name} on {listener.host}:{listener.port}"
    if listener.is_local:
        reach, kind = f"{where} is reached from this machine only", NOTE
    else:
        reach, kind = f"{where} is reached from other machines", OPEN
    asks = _of(configs, name, "ssl.client.auth") == "required"
    has_login = protocol.startswith("SASL") or (protocol == "SSL" and asks)
    found = []
    if not has_login:
        text = f"{reach} and asks for no login: every client is {ANONYMOUS}"
        if kind == OPEN and ALLOW_ANONYMOUS in configs:
            meant = (configs[ALLOW_ANONYMOUS] or "").lower() == "true"
            text += f" ({ALLOW_ANONYMOUS}=true says that it is meant)" if meant else REFUSED
        found.append(Finding(kind, name, text))
    if not protocol.endswith("SSL") and not listener.is_local:
        text = f"{where} does not encrypt: whoever is on the way reads and changes what is sent"
        if "PLAIN" in _mechanisms(configs, name) and protocol.startswith("SASL"):
            text += ", passwords of PLAIN among it"
        found.append(Finding(OPEN, name, text.replace("whoever is", "a machine that is")))
    if protocol.startswith("SASL"):
        mechanisms = ", ".join(_mechanisms(configs, name))
        found.append(Finding(NOTE, name, f"{where} asks for a login by {mechanisms}"))
    elif has_login:
        found.append(Finding(NOTE, name, f"{where} asks for a client's certificate"))
    return found


def _of_authorizer(configs: Mapping[str, str | None]) -> list[Finding]:
    key = "authorizer.class.name"
    if not configs.get(key):
        text = f"no authorizer is set ({key}): every client that is let in may do everything"
        return [Finding(OPEN, key, text)]
    found = []
    everyone = "allow.everyone.if.no.acl.found"
    if (configs.get(everyone) or "").lower() == "true":
        text = f"{everyone} is true: every client may do everything to what no ACL is about"
        found.append(Finding(OPEN, everyone, text))
    supers = [one.strip() for one in (configs.get("super.users") or "").split(";") if one.strip()]
    if ANONYMOUS in supers:
        text = f"{ANONYMOUS} is a super user: clients without a login may do everything"
        found.append(Finding(OPEN, "super.users", text))
    named = [one for one in supers if one != ANONYMOUS]
    if named:
        text = f"{', '.join(named)} may do everything, whatever the ACLs say"
        found.append(Finding(NOTE, "super.users", text))
    return found


def findings_of_acls(bindings: Iterable[AclBinding]) -> list[Finding]:
    """Rules that allow more than a user something to one thing."""
    found = []
    for one in bindings:
        if one.permission is not PermissionType.ALLOW:
            continue
        is_for_all = one.principal in (EVERY_USER, ANONYMOUS) and one.operation not in _HARMLESS
        is_wide = one.operation is AclOperation.ALL and (
            one.name == WILDCARD or one.resource_type is ResourceType.CLUSTER
        )
        if is_for_all or is_wide:
            found.append(Finding(OPEN if is_for_all else NOTE, "acls", f"{one}"))
    return found


def finding_of_quotas(entities: Iterable[Mapping[str, str | None]]) -> list[Finding]:
    """Whether there is a quota for users or clients that have none of their own."""
    if any(None in names.values() and "ip" not in names for names in entities):
        return []
    text = (
        "no default quota is set: a client may take all of a broker's network and time"
        " (fencepost quotas set --default-user)"
    )
    return [Finding(NOTE, "quotas", text)]


def finding_of_certificate(subject: str, days_left: float) -> list[Finding]:
    """Of a certificate that is good for so many days more."""
    if days_left < 0:
        text = f"the certificate of {subject} expired {_days(-days_left)} ago: clients refuse it"
        return [Finding(OPEN, subject, text)]
    if days_left < EXPIRES_SOON_DAYS:
        text = f"the certificate of {subject} expires in {_days(days_left)}"
        return [Finding(NOTE, subject, text)]
    return []


def _days(days: float) -> str:
    if days < 1:
        return "less than a day"
    return f"{days:.0f} day{'s' * (days >= 1.5)}"


def finding_of_mode(path: str, mode: int) -> list[Finding]:
    """Of a file with secrets that has this mode."""
    if not mode & 0o077:
        return []
    who = "every user of the machine" if mode & 0o007 else "its group"
    text = f"{path} has secrets and can be read by {who} (mode {mode:03o}): chmod 600 {path}"
    return [Finding(OPEN if mode & 0o007 else NOTE, path, text)]


def _mechanisms(configs: Mapping[str, str | None], listener: str) -> list[str]:
    text = _of(configs, listener, "sasl.enabled.mechanisms") or "GSSAPI"
    return [one.strip() for one in text.split(",")]


def _of(configs: Mapping[str, str | None], listener: str, key: str) -> str | None:
    own = configs.get(f"listener.name.{listener.lower()}.{key}")
    return configs.get(key) if own is None else own


def _list(configs: Mapping[str, str | None], key: str) -> list[str]:
    return [one.strip() for one in (configs.get(key) or "").split(",") if one.strip()]
