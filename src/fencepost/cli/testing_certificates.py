"""`fencepost testing certificates`: keys and certificates of an authority that exists once.

For clusters that are tried and tested: the authority's own key is thrown away, so nothing can be
added to what was made. Files are for their owner alone.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, Final

from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import UsageError, as_input_errors, offline_command

AUTHORITY_FILE: Final = "ca.pem"
CERTIFICATES_MAX: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
EXAMPLES: Final = """\
Files: ca.pem (whom to trust), NAME.pem (key and certificate, as ssl.keystore.location of type PEM
has them), and for each user NAME.properties, a file for --client-config.

examples:
  fencepost testing certificates certificates --node h1 --node h2=h2,10.0.0.2 --user admin
"""


def register_certificates(actions: Any) -> None:
    """Add the parser of `fencepost testing certificates`."""
    parser = actions.add_parser(
        "certificates", help="keys and certificates for nodes and users", epilog=EXAMPLES
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the files go")
    add_repeatable(
        parser,
        "--node",
        dest="nodes",
        metavar="NAME[=HOST,...]",
        help="a node, and what clients reach it by (default: its name, and loopback); may be"
        " repeated",
    )
    add_repeatable(parser, "--user", dest="users", metavar="NAME", help="a client; may be repeated")
    parser.add_argument(
        "--if-not-exists", action="store_true", help=f"be content if {AUTHORITY_FILE} is there"
    )
    parser.set_defaults(run=run)


@offline_command
def run(arguments: argparse.Namespace) -> int:
    """Check everything, then write."""
    with as_input_errors(ImportError):
        nodes = dict(_node(text) for text in arguments.nodes)
        users = [_checked(name, "--user") for name in arguments.users]
        _check_names([*(_node(text)[0] for text in arguments.nodes), *users])
        if (arguments.directory / AUTHORITY_FILE).exists():
            if arguments.if_not_exists:
                print(f"{arguments.directory / AUTHORITY_FILE} is there; nothing is made")
                return 0
            raise UsageError(
                f"{arguments.directory / AUTHORITY_FILE} is there, and its key is gone: name"
                " another directory, or remove the files"
            )
        write_certificates(arguments.directory, nodes, users)
    return 0


def write_certificates(directory: Path, nodes: dict[str, list[str]], users: list[str]) -> None:
    """Write the files and print their paths. ImportError without cryptography; OSError."""
    from fencepost.testing.certificates import CertificateAuthority

    authority = CertificateAuthority()
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    for name, hosts in nodes.items():
        print(authority.issue(name, hosts=hosts).write(directory))
    for name in users:
        print(authority.issue(name, hosts=()).write(directory))
        print(_write_properties(directory.absolute(), name))
    # The last: it says that all are there.
    print(authority.write(directory))


def _write_properties(directory: Path, user: str) -> Path:
    path = directory / f"{user}.properties"
    entries = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / AUTHORITY_FILE),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / f"{user}.pem"),
    }
    lines = [f"{key}={text}\n".replace("\\", "\\\\") for key, text in entries.items()]
    path.touch(mode=0o600)
    path.write_text("".join(lines))
    return path


def _node(text: str) -> tuple[str, list[str]]:
    """(name, hosts). UsageError."""
    from fencepost.testing.certificates import LOCAL_HOSTS

    name, equals, hosts = text.partition("=")
    _checked(name, "--node")
    if not equals:
        return name, [name, *LOCAL_HOSTS]
    return name, [_checked_host(host, text) for host in hosts.split(",")]


def _checked(name: str, option: str) -> str:
    if not _NAME.fullmatch(name) or f"{name}.pem" == AUTHORITY_FILE:
        raise UsageError(
            f"{option} {name!r}: allowed are letters, digits, . _ and -, 63 at most, but not 'ca'"
        )
    return name


def _checked_host(host: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9*:][A-Za-z0-9.:*-]{0,252}", host):
        raise UsageError(f"--node {text!r}: {host!r} is no host name and no address")
    return host


def _check_names(names: list[str]) -> None:
    if not names:
        raise UsageError("there is nothing to make: name a --node or a --user")
    if len(names) > CERTIFICATES_MAX:
        raise UsageError(f"{len(names)} certificates: allowed are {CERTIFICATES_MAX}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{twice[0]!r} is named twice")
