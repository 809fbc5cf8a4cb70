"""Names of certificates as Java writes them: golden vectors of java.security 21, hostile bytes."""

import contextlib
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from fencepost.broker.security.certificate import (
    CertificateError,
    distinguished_name,
    read_subject,
)
from fencepost.testing.certificates import CertificateAuthority

# Each is the content of a name (DER) and what X500Principal.getName() says of it.
GOLDEN = [
    (
        "310b300906035504061302444531133011060355040a0c0a41636d652c20496e632e310c300a0603"
        "55040b0c03522b443111300f06035504030c0862726f6b65722d31",
        "CN=broker-1,OU=R\\+D,O=Acme\\, Inc.,C=DE",
    ),
    (
        "310a300806035504030c01613114301206092a864886f70d01090116056140622e63",
        "1.2.840.113549.1.9.1=#16056140622e63,CN=a",
    ),
    (
        "31133011060a0992268993f22c64011916036f726731173015060a0992268993f22c640119160765"
        "78616d706c6531123010060a0992268993f22c6401010c027531310a300806035504030c0178",
        "CN=x,UID=u1,DC=example,DC=org",
    ),
    (
        "3114300806035504030c01613008060355040b0c01623114300806035504070c016c300806035504090c0173",
        "L=l+STREET=s,CN=a+OU=b",
    ),
    ("311a301806035504030c11206c65616420616e6420747261696c2020", "CN=\\ lead and trail\\ \\ "),
    ("310f300d06035504030c06237368617270310c300a060355040a0c03612362", "O=a\\#b,CN=\\#sharp"),
    ("3116301406035504030c0d7122753c6f3e743b653d5c2b2c", 'CN=q\\"u\\<o\\>t\\;e\\=\\\\\\+\\,'),
    ("311c301a06035504030c134dc3bc6c6c657220e697a5e69cac20f09f9880", "CN=Müller 日本 😀"),
    ("310f300d06035504030c066e756c00696e", "CN=nul\\00in"),
    (
        "311e300e06035504030c0763720d6c660a78300c06035504080c050d6c656164",
        "CN=cr\rlf\nx+ST=\\\rlead",
    ),
    ("310f300d060355040314064dfc6c6c6572", "CN=M�ller"),
    ("310d300b06035504031e04004d00fc", "CN=\\00M\\00�"),
    ("3111300f06035504031c080000004d000000fc", "CN=#1c080000004d000000fc"),
    (
        "310c300a06035504031b0367656e310c300a06035504031203313233310c300a06035504031a0376"
        "6973310c300a06035504031603696135310a30080603550403020105",
        "CN=#020105,CN=ia5,CN=#1a03766973,CN=#1203313233,CN=gen",
    ),
    (
        "310c300a06035504040c03446f65310b3009060355040c0c024472310c300a060355040513033132"
        "33310a3008060355042e130171310a300806038837030c017831133011060b2b0601040182373c02"
        "010313024445",
        "1.3.6.1.4.1.311.60.2.1.3=#13024445,2.999.3=#0c0178,2.5.4.46=#130171,"
        "2.5.4.5=#1303313233,2.5.4.12=#0c024472,2.5.4.4=#0c03446f65",
    ),
    ("", ""),
    ("3109300706035504030c00", "CN="),
    ("310c300a06035504030c03202020", "CN=\\ \\ \\ "),
    ("3111300f06035504030c08626164fffe757466", "CN=bad��utf"),
    (
        "3128302606035504030c1f615f622a637c647e6540662167246825695e6a266b606c7b6d7d6e5b6f5d70",
        "CN=a_b*c|d~e@f!g$h%i^j&k`l{m}n[o]p",
    ),
    ("3114301206035504030c0b746162096e627370c2a020", "CN=tab\tnbsp\xa0\\ "),
]


@pytest.mark.parametrize(("der", "expected"), GOLDEN)
def test_golden_vectors(der, expected):
    assert distinguished_name(bytes.fromhex(der)) == expected


@pytest.mark.parametrize("der", [der for der, _ in GOLDEN[:6]])
def test_a_name_that_is_cut_is_refused(der):
    data = bytes.fromhex(der)
    whole = distinguished_name(data)
    for end in range(1, len(data)):
        with contextlib.suppress(CertificateError):
            assert distinguished_name(data[:end]) != whole


@pytest.mark.parametrize(
    "der",
    [
        "3000",  # no set
        "3100",  # an empty set
        "31023000",  # an attribute without anything
        "310530030601ff",  # a type alone
        "310730050601800c00",  # a type that ends early
        "3180",  # an indefinite length
        "3185ffffffffff",
        "31847fffffff",  # longer than what is there
        "3f0100",  # a tag of several bytes
        "31",
    ],
)
def test_hostile_names(der):
    with pytest.raises(CertificateError):
        distinguished_name(bytes.fromhex(der))


def der_of(hosts=("localhost", "127.0.0.1")) -> bytes:
    made = CertificateAuthority().issue("b1", hosts=hosts, unit="R+D")
    return ssl.PEM_cert_to_DER_cert(made.certificate_pem)


def test_the_subject_of_a_certificate():
    subject = read_subject(der_of())
    now = datetime.now(UTC)
    assert subject.good_until > now
    expired = ssl.PEM_cert_to_DER_cert(CertificateAuthority().issue_expired("a").certificate_pem)
    assert now - timedelta(days=3) < read_subject(expired).good_until < now
    assert subject.distinguished_name == r"CN=b1,OU=R\+D"
    assert subject.alternative_names == {b"\x82\x09localhost", b"\x87\x04\x7f\0\0\x01"}
    assert read_subject(der_of(())).alternative_names == frozenset()


def test_cut_and_garbled_certificates_end_in_an_error_or_a_name():
    der = der_of()
    for end in range(len(der)):
        with pytest.raises(CertificateError):
            read_subject(der[:end])
    for at in range(len(der)):
        for value in (0, 0x30, 0x7F, 0x80, 0xFF):
            with contextlib.suppress(CertificateError):
                read_subject(der[:at] + bytes([value]) + der[at + 1 :])
    with pytest.raises(CertificateError, match="65537 bytes"):
        read_subject(bytes(65_537))
