"""`fencepost security`: what is open to whom, which rule decides, and passwords as hashes."""

from __future__ import annotations

import argparse
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin, open_cluster
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_json
from fencepost.cli.secret_files import add_password_option, read_password
from fencepost.cli.security_words import (
    RESOURCE,
    RESOURCE_HELP,
    operation_of,
    principal_of,
    resource_of,
)

if TYPE_CHECKING:
    from datetime import datetime

    from fencepost.client.cluster import Cluster
    from fencepost.views.security_findings import Finding

SECRET_WORDS = ("password", "jaas.config", "secret", "keystore.key")
STORES = ("ssl.keystore.location",)

EXAMPLES = """\
`check` ends with exit code 1 if something is open: if strangers, or more users than one rule should
be about, can do something.

examples:
  fencepost security check --config server.properties
  fencepost security check -b broker:9093 --client-config admin.properties
  fencepost security explain ada READ topic:orders
  fencepost security explain ada write topic:orders --host 10.0.0.7
  fencepost security hash-password
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost security`."""
    parser = subparsers.add_parser(
        "security", description="What is open to whom, and which rule decides.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    checking = actions.add_parser("check", help="what a configuration, or a cluster, leaves open")
    checking.add_argument(
        "--config", type=Path, metavar="FILE", help="a node's properties, instead of a cluster"
    )
    finish_cluster_command(checking, check)

    explaining = actions.add_parser(
        "explain", help="which rule says whether a user may do something"
    )
    explaining.add_argument("principal", metavar="USER", help="ada is User:ada")
    explaining.add_argument("operation", metavar="OPERATION", help="such as read")
    explaining.add_argument("resource", metavar=RESOURCE, help=RESOURCE_HELP)
    explaining.add_argument("--host", help="at this address (default: one that no rule names)")
    finish_cluster_command(explaining, explain)

    hashing = actions.add_parser(
        "hash-password", help="print the hash that a file of PLAIN users has for a password"
    )
    add_password_option(hashing)
    hashing.set_defaults(run=print_hash)


@command
def print_hash(arguments: argparse.Namespace) -> int:
    """The password is asked for, or read from a file: never from the command line."""
    from fencepost.broker.security.password_hashes import hash_password

    print(hash_password(read_password(arguments, "the user").encode()))
    return 0


@command
def explain(arguments: argparse.Namespace) -> int:
    """By the cluster's rules, its super users and its default."""
    from fencepost.machines.image.acls import AclOperation
    from fencepost.views.acl_explanation import explaining, sentence_of
    from fencepost.views.tables import escaped

    principal = principal_of(arguments.principal)
    operation = operation_of(arguments.operation)
    if operation is AclOperation.ALL:
        raise UsageError("ALL stands for many operations: name one of them")
    resource = resource_of(arguments.resource)
    with open_cluster(arguments) as cluster:
        asking = explaining(cluster, principal, operation, resource, arguments.host)
        found, unknown = cluster.run(asking)
    if arguments.json:
        print_json(found)
        return 0
    print(escaped(found.sentence))
    for other in found.other_hosts:
        print(escaped(f"for other addresses a rule says that {sentence_of(other)}"))
    if unknown is not None:
        print(f"not known: whether it is a super user: {unknown}")
    return 0


@command
def check(arguments: argparse.Namespace) -> int:
    """A sentence per finding; 1 if something is open."""
    from fencepost.views.security_findings import OPEN
    from fencepost.views.tables import escaped

    found = _of_file(arguments.config) if arguments.config else _of_cluster(arguments)
    found.sort(key=lambda one: one.kind != OPEN)
    if arguments.json:
        print_json(found)
    else:
        for one in found:
            print(escaped(f"{one.kind}: {one.sentence}"))
    return 1 if any(one.kind == OPEN for one in found) else 0


def _of_file(path: Path) -> list[Finding]:
    from fencepost.log.errors import CorruptFileError
    from fencepost.log.properties import parse_properties
    from fencepost.views.security_findings import finding_of_mode, findings_of_configs

    try:
        entries = list(parse_properties(str(path), path.read_text(encoding="utf-8")))
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, UnicodeDecodeError, CorruptFileError) as error:
        raise InputError(f"--config: {error}") from error
    configs: dict[str, str | None] = {key: value.strip() for _, key, value in entries}
    found = findings_of_configs(configs)
    if any(word in key for key in configs for word in SECRET_WORDS):
        found += finding_of_mode(str(path), mode)
    for key, value in configs.items():
        if key.endswith(STORES) and value:
            password_key = key.removesuffix("location") + "password"
            password = configs.get(password_key) or configs.get("ssl.keystore.password")
            found += _of_store(Path(value), password)
    return found


def _of_store(path: Path, password: str | None) -> list[Finding]:
    """Of a file with a key, PEM or PKCS#12, and of the certificate in it."""
    from fencepost.views.security_findings import NOTE, Finding, finding_of_mode

    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        data = path.read_bytes()
    except OSError as error:
        return [Finding(NOTE, str(path), f"{path} cannot be read from here: {error.strerror}")]
    return [*finding_of_mode(str(path), mode), *_of_certificate(str(path), data, password)]


def _of_certificate(subject: str, data: bytes, password: str | None = None) -> list[Finding]:
    """How long the certificate is good that is first in a PEM text, or that goes with the key of a
    PKCS#12 file."""
    from datetime import UTC, datetime

    from fencepost.views.security_findings import NOTE, Finding, finding_of_certificate

    is_pem = b"-----BEGIN" in data
    if is_pem and b"-----BEGIN CERTIFICATE-----" not in data:
        return []
    try:
        until = _end_of_pem(data) if is_pem else _end_of_pkcs12(data, password)
    except ImportError:
        text = f"until when the certificate of {subject} is good is not known without cryptography"
        return [Finding(NOTE, subject, f"{text}: pip install 'fencepost[security]'")]
    except ValueError as error:
        return [Finding(NOTE, subject, f"the certificate of {subject} cannot be read: {error}")]
    left = until - datetime.now(UTC)
    return finding_of_certificate(subject, left.total_seconds() / 86_400)


def _end_of_pem(data: bytes) -> datetime:
    """When the first certificate expires. ValueError."""
    import ssl

    from fencepost.broker.security.certificate import read_subject

    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    first = data[data.index(begin) :].partition(end)
    return read_subject(ssl.PEM_cert_to_DER_cert((first[0] + first[1]).decode())).good_until


def _end_of_pkcs12(data: bytes, password: str | None) -> datetime:
    """When the certificate of the key expires. ValueError; ImportError without cryptography."""
    from cryptography.hazmat.primitives.serialization import pkcs12

    found = pkcs12.load_key_and_certificates(data, (password or "").encode())[1]
    if found is None:
        raise ValueError("no certificate goes with the key")
    return found.not_valid_after_utc


def _of_cluster(arguments: argparse.Namespace) -> list[Finding]:
    from fencepost.client.errors import BrokerError
    from fencepost.views.security_findings import (
        NOTE,
        Finding,
        finding_of_quotas,
        findings_of_acls,
        findings_of_configs,
    )

    found: list[Finding] = []
    with open_admin(arguments) as admin:
        configs, unknown = _configs_of_cluster(admin.cluster)
        if unknown is None:
            found += findings_of_configs(configs)
        else:
            found.append(Finding(NOTE, "configs", f"configs are not known: {unknown}"))
        try:
            found += findings_of_acls(admin.describe_acls())
        except BrokerError as error:
            found.append(Finding(NOTE, "acls", f"ACLs are not known: {error}"))
        try:
            entities = [entity.names for entity in admin.describe_client_quotas()]
            found += finding_of_quotas(entities)
        except BrokerError as error:
            found.append(Finding(NOTE, "quotas", f"quotas are not known: {error}"))
        if admin.cluster.config.security.uses_tls:
            found += _of_presented(admin.cluster)
    return found


def _of_presented(cluster: Cluster) -> list[Finding]:
    """The certificate that a broker shows."""
    import ssl

    from fencepost.views.security_findings import NOTE, Finding

    host, port = cluster.bootstrap[0]
    try:
        pem = ssl.get_server_certificate((host, port), timeout=10)
    except OSError as error:
        text = f"the certificate of {host}:{port} cannot be seen without one of the client: {error}"
        return [Finding(NOTE, f"{host}:{port}", text)]
    return _of_certificate(f"{host}:{port}", pem.encode())


def _configs_of_cluster(cluster: Cluster) -> tuple[dict[str, str | None], str | None]:
    """The configs of one broker, or why they are not known."""
    from fencepost.client.admin import BROKER_RESOURCE, Admin
    from fencepost.client.errors import BrokerError

    admin = Admin(cluster)
    try:
        first = admin.describe_cluster().brokers[0]
        entries = admin.describe_configs(BROKER_RESOURCE, str(first.node_id))
    except BrokerError as error:
        return {}, str(error)
    return {one.name: one.value for one in entries}, None
