"""Secrets are compared in a time that does not tell how much of them was right (CVE-2021-38153).

Of the source, since no test can measure that: where secrets are at hand, `==` is not for them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fencepost

SOURCE = Path(fencepost.__file__).parent
PLACES = (
    "machines/sasl",
    "machines/scram_keys.py",
    "machines/image/token_secret.py",
    "machines/controller/tokens.py",
    "broker/security/plain_users.py",
    "broker/security/password_hashes.py",
    "client/protocol/sasl.py",
    "console/web/access.py",
    "cli/cluster/control.py",
)
SECRET = ("password", "secret", "hmac", "proof", "digest", "key", "signature", "shown")


def comparisons(text: str) -> Iterator[str]:
    """Comparisons of what has a secret's name for equality with what the source does not say."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
                is_equality = isinstance(operator, ast.Eq | ast.NotEq)
                is_of_text = isinstance(left, ast.Constant) or isinstance(right, ast.Constant)
                if is_equality and not is_of_text and any(map(is_secret, (left, right))):
                    yield ast.unparse(node)


def is_secret(node: ast.expr) -> bool:
    """Whether a name, an attribute, or what a call gives sounds like a secret."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return any(word in name.lower().split("_") for word in SECRET)


def test_secrets_are_not_compared_by_their_first_difference() -> None:
    files = [
        file for place in PLACES for file in ([SOURCE / place, *(SOURCE / place).rglob("*.py")])
    ]
    found = {
        f"{file.relative_to(SOURCE)}: {one}"
        for file in files
        if file.is_file()
        for one in comparisons(file.read_text())
    }
    assert found == set()


def test_such_a_comparison_is_found() -> None:
    assert list(comparisons("a if credential.stored_key == shown else b"))
    assert list(comparisons("signature_of(x) != given"))
    assert not list(comparisons("hmac.compare_digest(a, b) and len(password) == 3"))
    assert not list(comparisons("key == 'token'"))
