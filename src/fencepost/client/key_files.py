"""Keys and trusted certificates, out of files and out of the configuration (KIP-651).

`ssl.keystore.*` and `ssl.truststore.*` of listeners and of clients are read as Kafka reads them:
PEM in a file or in the configuration itself, and PKCS#12. `JKS`, the default type of listeners, is
Java's word for "JKS or PKCS#12", so what is in the file decides: keytool has written PKCS#12 since
Java 9. A file of the older formats is refused with the command that converts it, and so is a node's
file with a key that other users of the machine can read.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from fencepost.client.key_derivation import TooMuchWorkError, check_pem_key, check_pkcs12
from fencepost.log.configdef import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        PKCS12KeyAndCertificates,
    )

STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
FILE_BYTES_MAX: Final = 1024 * 1024
_PEM_BLOCK: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]{1,64})-----.*?-----END \1-----", re.ASCII | re.DOTALL
)
_JAVA_MAGIC: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
TRUST_FLAGS: Final = ssl.VERIFY_X509_PARTIAL_CHAIN
"""How a context checks certificates against a trust store: each one in it is trusted itself, as in
Java. OpenSSL would want the chain to end in one that signs itself, and of several such of the same
subject it would look at the first alone."""
_NEEDS_EXTRA: Final = "a PEM file, or `pip install 'fencepost[security]'`, which reads PKCS#12"


class StoreConfig(Protocol):
    """Where the keys of key stores have their values: a listener's configs, or a client's."""

    def get(self, key: str) -> Any:
        """The typed value; None if there is none. A type that is "" leaves it to the content."""

    def name_of(self, key: str) -> str:
        """What the key is called where it is written."""


class KeyPair(Struct, frozen=True):
    """A private key and the certificate chain that goes with it, in PEM."""

    certificates: str
    key: str
    password: str | None = None
    """What the key is encrypted with."""

    def __repr__(self) -> str:
        return "KeyPair(...)"


def key_pair(config: StoreConfig, *, is_private: bool = True) -> KeyPair | None:
    """What a listener, or what connects to one, shows of itself; None if none is configured.

    `is_private` refuses a file that other users can read. ConfigError.
    """
    store = _Store(config, "ssl.keystore", ("ssl.keystore.key", "ssl.keystore.certificate.chain"))
    key, chain = store.inline
    password = config.get("ssl.key.password")
    if key is not None or chain is not None:
        if key is None or chain is None:
            name = config.name_of("ssl.keystore.key" if key is None else store.inline_keys[1])
            raise ConfigError(name, None, "set, as the other half of the pair is")
        return _checked_pair(store, chain, key, password, config.name_of("ssl.keystore.key"))
    if store.path is None:
        return None
    data = store.read(is_secret=is_private)
    if store.is_pem(data):
        text = store.decoded(data)
        blocks = [(found[1], found[0]) for found in _PEM_BLOCK.finditer(text)]
        keys = [block for label, block in blocks if label.endswith("PRIVATE KEY")]
        certificates = [block for label, block in blocks if label == "CERTIFICATE"]
        if len(keys) != 1 or not certificates:
            raise store.error("a PEM file with one private key and its certificate chain")
        name = store.location_key
        return _checked_pair(store, "\n".join(certificates), keys[0], password, name)
    if password not in (None, store.password):
        allowed = f"the value of {config.name_of('ssl.keystore.password')}, or left out"
        raise ConfigError(config.name_of("ssl.key.password"), "[hidden]", allowed)
    return _pkcs12_pair(store, data)


def trusted_certificates(config: StoreConfig) -> str | None:
    """The certificates of authorities that sign for the other side, in PEM; None if none are
    configured. ConfigError."""
    store = _Store(config, "ssl.truststore", ("ssl.truststore.certificates",))
    (inline,) = store.inline
    if inline is None and store.path is None:
        return None
    if inline is not None:
        text = inline
    else:
        data = store.read()
        if not store.is_pem(data):
            return _pkcs12_certificates(store, data)
        text = store.decoded(data)
    found = [one[0] for one in _PEM_BLOCK.finditer(text) if one[1] == "CERTIFICATE"]
    if not found:
        raise store.error("certificates in PEM")
    return "\n".join(found)


def check_files(config: StoreConfig) -> None:
    """Refuse what is no key store or contradicts itself, without opening it. ConfigError.

    A file that cannot be read is left to where it is used, which may be another machine.
    """
    for store in (
        _Store(config, "ssl.keystore", ("ssl.keystore.key", "ssl.keystore.certificate.chain")),
        _Store(config, "ssl.truststore", ("ssl.truststore.certificates",)),
    ):
        if store.path is not None and os.access(store.path, os.R_OK):
            store.is_pem(store.read())


def check_key_file(path: str) -> None:
    """Refuse a private key in a file of its own that takes too long to decrypt. ConfigError.

    That the file cannot be read is left to OpenSSL to say.
    """
    with contextlib.suppress(OSError), open(path, "rb") as file:
        text = file.read(FILE_BYTES_MAX).decode("ascii", "replace")
        for found in _PEM_BLOCK.finditer(text):
            if found[1].endswith("PRIVATE KEY"):
                _check_work(found[0], "ssl.key.location", path)


class _Store:
    """The keys of one key store, checked against each other."""

    def __init__(self, config: StoreConfig, prefix: str, inline_keys: tuple[str, ...]) -> None:
        self.inline_keys = tuple(map(config.name_of, inline_keys))
        self.inline = tuple(map(config.get, inline_keys))
        self.type: str = config.get(f"{prefix}.type").upper()
        self.location_key = config.name_of(f"{prefix}.location")
        location = config.get(f"{prefix}.location")
        self.path = None if location is None else Path(location)
        self.password: str | None = config.get(f"{prefix}.password")
        self._password_key = config.name_of(f"{prefix}.password")
        type_key = config.name_of(f"{prefix}.type")
        is_inline = any(one is not None for one in self.inline)
        self.key = self.inline_keys[0] if is_inline else self.location_key
        if is_inline and self.path is not None:
            raise ConfigError(self.location_key, location, f"left out, as {self.key} is set")
        if is_inline and self.type not in ("PEM", ""):
            raise ConfigError(type_key, self.type, f"PEM, as {self.key} is set")
        if is_inline or self.type == "PEM":
            self._check_password(is_pem=True)
        elif self.path is not None and self.type:
            self._check_password(is_pem=False)

    def _check_password(self, *, is_pem: bool) -> None:
        if is_pem and self.password is not None:
            allowed = "left out: a PEM file has no password; its key's is ssl.key.password"
            raise ConfigError(self._password_key, "[hidden]", allowed)
        if not is_pem and self.password is None:
            raise ConfigError(self._password_key, None, f"set, as {self.location_key} is")

    def is_pem(self, data: bytes) -> bool:
        """Whether this content is PEM and no PKCS#12: as the type says. ConfigError."""
        if self.type:
            return self.type == "PEM"
        is_pem = data[:1] != b"\x30" or b"-----BEGIN" in data
        self._check_password(is_pem=is_pem)
        return is_pem

    def error(self, allowed: str) -> ConfigError:
        """What to say of the content; that itself is not shown."""
        return ConfigError(self.key, "[hidden]" if self.path is None else str(self.path), allowed)

    def read(self, *, is_secret: bool = False) -> bytes:
        """The bytes of the file. ConfigError."""
        assert self.path is not None
        if "\0" in str(self.path):
            raise self.error("a file that can be read: no file's name has a NUL")
        try:
            # Without O_NONBLOCK a pipe would be waited for.
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise self.error("a file")
                if is_secret and mode & (stat.S_IROTH | stat.S_IWOTH):
                    allowed = f"a file that only its owner can read (`chmod 600 {self.path}`)"
                    raise self.error(allowed)
                data: bytes | None = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise self.error(f"a file that can be read: {error.strerror}") from None
        if data is None:  # a file that waits for more, as some of /proc do
            raise self.error("a file that can be read: there is nothing in it now")
        if len(data) > FILE_BYTES_MAX:
            raise self.error(f"a file of at most {FILE_BYTES_MAX} bytes")
        if old := _JAVA_MAGIC.get(data[:4]):
            raise self.error(
                f"PKCS#12 or PEM; this is {old}, which `keytool -importkeystore -srckeystore"
                f" {self.path} -destkeystore {self.path.with_suffix('.p12')} -deststoretype"
                " PKCS12` converts"
            )
        if self.type not in ("PEM", "") and data[:1] != b"\x30":
            hint = f"; for PEM set {self.location_key.removesuffix('location')}type=PEM"
            raise self.error("a PKCS#12 file" + (hint if b"-----BEGIN" in data else ""))
        return data

    def decoded(self, data: bytes) -> str:
        """The text of a PEM file. ConfigError."""
        if self.type and data[:1] == b"\x30" and b"-----BEGIN" not in data:
            type_key = f"{self.location_key.removesuffix('location')}type"
            raise self.error(f"a PEM file; for PKCS#12 set {type_key}=PKCS12")
        return data.decode("ascii", "replace")


def _checked_pair(
    store: _Store, certificates: str, key: str, password: str | None, name: str
) -> KeyPair:
    is_encrypted = "ENCRYPTED" in key
    if is_encrypted and password is None:
        raise store.error("a key that is not encrypted, or its password in ssl.key.password")
    blocks = {found[1] for found in _PEM_BLOCK.finditer(key)}
    if len(blocks) != 1 or not next(iter(blocks)).endswith("PRIVATE KEY"):
        raise ConfigError(name, "[hidden]", "one private key in PEM")
    _check_work(key, name, "[hidden]")
    return KeyPair(certificates, key, password if is_encrypted else None)


def _check_work(key: str, name: str, value: str) -> None:
    """Refuse a key in PEM, the value of config `name`, that takes too long to decrypt."""
    try:
        check_pem_key(key)
    except TooMuchWorkError as error:
        raise ConfigError(name, value, f"a key with {error}") from None


def _pkcs12(store: _Store, data: bytes) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise store.error(_NEEDS_EXTRA) from None
    try:
        check_pkcs12(data)
    except TooMuchWorkError as error:
        raise store.error(f"a PKCS#12 file with {error}") from None
    try:
        return pkcs12.load_pkcs12(data, (store.password or "").encode())
    except ValueError:
        raise store.error("a PKCS#12 file that the password opens") from None


def _pkcs12_pair(store: _Store, data: bytes) -> KeyPair:
    found = _pkcs12(store, data)
    if found.key is None or found.cert is None:
        raise store.error("a PKCS#12 file with a private key and its certificate chain")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(_pem([found.cert, *found.additional_certs]), key.decode())


def _pkcs12_certificates(store: _Store, data: bytes) -> str:
    found = _pkcs12(store, data)
    certificates = [*([found.cert] if found.cert else []), *found.additional_certs]
    if not certificates:
        raise store.error("a PKCS#12 file with certificates")
    return _pem(certificates)


def _pem(certificates: Iterable[PKCS12Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(one.certificate.public_bytes(Encoding.PEM) for one in certificates).decode()
