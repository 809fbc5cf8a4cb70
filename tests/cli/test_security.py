"""`fencepost security check` of a file, and of a broker that has nothing to be asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli.main import main

from .commands import Fencepost


def test_a_file_is_checked(run: Fencepost, tmp_path: Path):
    pytest.importorskip("cryptography")
    from fencepost.testing.certificates import CertificateAuthority

    expired = CertificateAuthority().issue_expired("broker-1").write(tmp_path)
    config = tmp_path / "server.properties"
    config.write_text(
        "listeners=SSL://0.0.0.0:9093\nssl.key.password=x\n"
        f"ssl.keystore.location={expired}\nssl.keystore.type=PEM\n"
    )
    config.chmod(0o644)
    checked = run("security", "check", "--config", str(config))
    assert checked.code == 1
    for words in (
        "listener SSL on 0.0.0.0:9093 is reached from other machines and asks for no login",
        "no authorizer is set",
        f"{config} has secrets and can be read by every user of the machine",
        f"the certificate of {expired} expired 1 day ago",
    ):
        assert f"open: {words}" in checked.out
    kinds = {
        one["kind"] for one in run("security", "check", "--config", str(config), "--json").json
    }
    assert kinds == {"open"}
    assert run("security", "check", "--config", str(tmp_path / "none")).code == 1


def test_a_key_store_in_pkcs12_is_opened_with_its_password(run: Fencepost, tmp_path: Path):
    pytest.importorskip("cryptography")
    from fencepost.testing.certificates import CertificateAuthority

    authority = CertificateAuthority()
    expired = authority.issue_expired("broker-1").write_pkcs12(
        tmp_path, "opens", authority.certificate_pem
    )
    config = tmp_path / "server.properties"
    own = "listener.name.ssl.ssl.keystore"
    for password, says in (
        (f"{own}.password=opens\nssl.keystore.password=other\n", "expired 1 day ago"),
        ("ssl.keystore.password=opens\n", "expired 1 day ago"),
        ("ssl.keystore.password=other\n", "cannot be read"),
        ("", "cannot be read"),
    ):
        config.write_text(f"listeners=SSL://:9093\n{own}.location={expired}\n{password}")
        config.chmod(0o600)
        assert (
            f"the certificate of {expired} {says}"
            in run("security", "check", "--config", str(config)).out
        )
    expired.write_bytes(b"\x30\x82garbage")
    assert "cannot be read" in run("security", "check", "--config", str(config)).out


def test_a_file_is_told_whether_a_node_starts_with_it(run: Fencepost, tmp_path: Path):
    config = tmp_path / "server.properties"
    for value, says in (
        ("true", "=true says that it is meant"),
        ("false", "does not start with it"),
    ):
        config.write_text(
            f"listeners=PLAINTEXT://:9092\nfencepost.allow.anonymous.listeners={value}\n"
        )
        checked = run("security", "check", "--config", str(config))
        assert checked.code == 1 and says in checked.out


def test_a_broker_is_checked(run: Fencepost):
    checked = run("security", "check")
    assert checked.code == 1
    assert "open: no authorizer is set" in checked.out
    assert "is reached from this machine only and asks for no login" in checked.out


def test_without_an_authorizer_no_rule_decides(run: Fencepost):
    ran = run("security", "explain", "ada", "read", "topic:orders")
    assert ran.code == 1 and "SECURITY_DISABLED" in ran.err
    assert run("security", "explain", "ada", "all", "topic:orders").code == 2


def test_a_password_becomes_what_a_file_of_users_has_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from fencepost.broker.security.password_hashes import parse_hash

    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    words = ["security", "hash-password", "--password-file", str(secret)]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "horse" not in shown.out + shown.err
    assert parse_hash(shown.out.strip()).matches(b"correct horse")
    assert main(words[:2]) == 2, "there is no terminal to ask at"
    assert "give --password-file FILE" in capsys.readouterr().err
    secret.write_text("\n")
    assert main(words) != 0
