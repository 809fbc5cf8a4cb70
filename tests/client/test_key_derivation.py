"""Files that ask for endless work before they open: private keys in PEM, PKCS#12, BER and DER."""

import pytest
from hypothesis import given, strategies as st

from fencepost.client.errors import ConfigError
from fencepost.client.key_derivation import (
    DEPTH_MAX,
    ELEMENTS_MAX,
    ROUNDS_MAX,
    TooMuchWorkError,
    check_pem_key,
    check_pkcs12,
)
from fencepost.client.security import Security
from fencepost.testing.certificates import CertificateAuthority

from ..endless_keys import (
    MD5_DES,
    PBKDF2,
    SHA1_3DES,
    indefinite,
    integer,
    octets,
    oid,
    pbes1,
    pbes2,
    pem,
    pkcs12,
    scrypt,
    sequence,
)

ONE = CertificateAuthority().issue("one")
BOMB = 2**31 - 1


def in_parts(content):
    half = len(content) // 2
    return indefinite(0x24, octets(content[:half]), octets(content[half:]))


@pytest.mark.parametrize(
    "algorithm",
    [
        pbes2(BOMB),
        pbes2(ROUNDS_MAX + 1),
        pbes2(BOMB, salt=sequence(integer(1))),
        pbes2(2**2000),
        pbes1(MD5_DES, BOMB),
        pbes1(SHA1_3DES, BOMB),
        scrypt(2**20, 8, 2**20),
        scrypt(2**30, 1, 1),
    ],
)
def test_a_key_that_takes_for_ever_to_decrypt_is_refused_before_that(algorithm):
    with pytest.raises(TooMuchWorkError, match=f"at most {ROUNDS_MAX} iterations"):
        check_pem_key(pem(algorithm))
    with pytest.raises(TooMuchWorkError, match=f"at most {ROUNDS_MAX} iterations"):
        check_pkcs12(pkcs12(algorithm, 1))


@pytest.mark.parametrize(
    "algorithm", [pbes2(2048), pbes2(1_000_000), pbes1(SHA1_3DES, 10_000), scrypt(2**14, 8, 1)]
)
def test_work_that_is_usual_is_done(algorithm):
    check_pem_key(pem(algorithm))
    check_pkcs12(pkcs12(algorithm, 10_000))


def test_the_rounds_of_a_file_are_added_up():
    check_pkcs12(pkcs12(pbes2(ROUNDS_MAX - 2), 1))
    with pytest.raises(TooMuchWorkError, match=f"has {ROUNDS_MAX + 1}"):
        check_pkcs12(pkcs12(pbes2(ROUNDS_MAX - 1), 1))
    with pytest.raises(TooMuchWorkError):
        check_pkcs12(pkcs12(pbes2(1), BOMB))


def test_other_forms_of_the_same_are_read_too():
    algorithm = pbes2(BOMB)

    def endless(*parts):
        return indefinite(0x30, *parts)

    for data in (
        pkcs12(algorithm, 1, group=endless),
        pkcs12(algorithm, 1, whole=in_parts),
        pkcs12(algorithm, 1, whole=in_parts, group=endless),
        pkcs12(algorithm, 1) + b"what is behind it",
        pkcs12(pbes2(1), BOMB, group=endless),
    ):
        with pytest.raises(TooMuchWorkError, match="at most"):
            check_pkcs12(data)
    long = sequence(
        sequence(
            oid(PBKDF2), sequence(octets(b"salt"), b"\x02\x88\0\0\0\0\0\0\0\4\x7f\xff\xff\xff")
        )
    )
    with pytest.raises(TooMuchWorkError, match="at most"):
        check_pkcs12(long)


@pytest.mark.parametrize(
    "data",
    [b"\x30\x80" * (DEPTH_MAX + 1), b"\x05\0" * (ELEMENTS_MAX + 1), b"\x30\x80" * 500_000],
    ids=["deep", "many", "deep and large"],
)
def test_files_made_to_be_read_for_ever(data):
    with pytest.raises(TooMuchWorkError, match="fewer elements"):
        check_pkcs12(data)


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_whatever_is_in_a_file(data, place, byte):
    changed = bytearray(pkcs12(pbes2(2048), 2048))
    changed[place % len(changed)] = byte
    for one in (data, bytes(changed), bytes(changed[: place % len(changed)])):
        try:
            check_pkcs12(one)
            check_pem_key(pem(one))
            check_pem_key(one.decode("latin-1"))
        except TooMuchWorkError:
            pass


def test_clients_refuse_such_files_too(tmp_path):
    certificate, key = tmp_path / "one.crt", tmp_path / "one.key"
    certificate.write_text(ONE.certificate_pem)
    key.write_text(pem(pbes2(BOMB)))
    store = tmp_path / "one.p12"
    store.write_bytes(pkcs12(pbes2(BOMB), 1))
    for security in (
        Security("SSL", certificate_file=str(certificate), key_file=str(key), key_password="x"),
        Security(
            "SSL",
            certificate_pem=ONE.certificate_pem,
            key_pem=pem(pbes2(BOMB)),
            key_password="x",
        ),
        Security("SSL", certificate_file=str(store), certificate_password="x"),
        Security("SSL", ca_file=str(store), ca_password="x"),
    ):
        with pytest.raises(ConfigError, match=f"at most {ROUNDS_MAX} iterations"):
            security.tls_context()
