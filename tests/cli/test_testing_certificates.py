"""`fencepost testing certificates`: files that nodes and clients take, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.client.config import ClientConfig
from fencepost.log.properties import decode_properties


def run(*words: object) -> int:
    return main(["testing", "certificates", *map(str, words)])


def test_files_are_made_once_and_name_each_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    from cryptography import x509

    made = tmp_path / "made"
    words = [made, "--node", "h1", "--node", "h2=h2,10.0.0.2", "--user", "admin"]
    assert run(*words) == 0
    names = {"ca.pem", "h1.pem", "h2.pem", "admin.pem", "admin.properties"}
    assert {path.name for path in made.iterdir()} == names
    assert {path.stat().st_mode & 0o077 for path in made.iterdir()} == {0}
    assert set(capfd.readouterr().out.split()) == {str(made / name) for name in names}

    authority = x509.load_pem_x509_certificate((made / "ca.pem").read_bytes())
    (node,) = x509.load_pem_x509_certificates((made / "h2.pem").read_bytes())
    node.verify_directly_issued_by(authority)
    hosts = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert hosts.get_values_for_type(x509.DNSName) == ["h2"]
    assert [str(one) for one in hosts.get_values_for_type(x509.IPAddress)] == ["10.0.0.2"]

    text = (made / "admin.properties").read_bytes()
    entries = decode_properties("admin.properties", text)
    config = ClientConfig.from_props({"bootstrap.servers": "h1:9092", **entries})
    assert config.security.uses_tls

    before = {path: path.read_bytes() for path in made.iterdir()}
    assert run(*words, "--if-not-exists") == 0
    assert run(*words) == 2
    assert "its key is gone" in capfd.readouterr().err
    assert {path: path.read_bytes() for path in made.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is nothing to make: name a --node or a --user"),
        (["--node", "../h1"], "--node '../h1': allowed are letters, digits, . _ and -"),
        (["--node", "ca"], "--node 'ca': allowed are"),
        (["--user", ""], "--user '': allowed are"),
        (["--node", "h1=a,,b"], "--node 'h1=a,,b': '' is no host name and no address"),
        (["--node", "h1", "--user", "h1"], "'h1' is named twice"),
        (["--node", "h1=a", "--node", "h1=b"], "'h1' is named twice"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    words: list[str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert run(tmp_path / "made", *words) == 2
    assert said in capfd.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_directory_that_cannot_be_made_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    file = tmp_path / "file"
    file.touch()
    assert run(file, "--user", "admin") == 1
    assert capfd.readouterr().err == f"fencepost testing certificates: {file}: File exists\n"
