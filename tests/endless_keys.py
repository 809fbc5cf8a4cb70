"""Private keys and PKCS#12 files that ask for as much work as a test wants; none of them opens."""

import base64

PBES2, PBKDF2 = bytes.fromhex("2a864886f70d01050d"), bytes.fromhex("2a864886f70d01050c")
SCRYPT, MD5_DES = bytes.fromhex("2b06010401da47040b"), bytes.fromhex("2a864886f70d010503")
SHA1_3DES = bytes.fromhex("2a864886f70d010c0103")
AES, SHA256 = bytes.fromhex("60864801650304012a"), bytes.fromhex("608648016503040201")
DATA, KEY_BAG = bytes.fromhex("2a864886f70d010701"), bytes.fromhex("2a864886f70d010c0a0102")
ENCRYPTED_DATA = bytes.fromhex("2a864886f70d010706")


def element(tag, *contents):
    content = b"".join(contents)
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes(4, "big")
    return bytes([tag, 0x84]) + length + content


def sequence(*parts):
    return element(0x30, *parts)


def octets(content):
    return element(0x04, content)


def oid(content):
    return element(0x06, content)


def integer(number):
    return element(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def indefinite(tag, *parts):
    """An element without a length, as BER has it."""
    return bytes([tag | 0x20, 0x80]) + b"".join(parts) + b"\0\0"


def pbes2(rounds, salt=b"salt" * 4):
    derived = sequence(oid(PBKDF2), sequence(octets(salt), integer(rounds)))
    return sequence(oid(PBES2), sequence(derived, sequence(oid(AES), octets(bytes(16)))))


def scrypt(n, r, p):
    numbers = sequence(octets(b"salt"), integer(n), integer(r), integer(p))
    derived = sequence(oid(SCRYPT), numbers)
    return sequence(oid(PBES2), sequence(derived, sequence(oid(AES), octets(bytes(16)))))


def pbes1(scheme, rounds):
    return sequence(oid(scheme), sequence(octets(b"salt" * 2), integer(rounds)))


def pem(algorithm, encrypted=bytes(64)):
    text = base64.encodebytes(sequence(algorithm, octets(encrypted))).decode()
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{text}-----END ENCRYPTED PRIVATE KEY-----\n"


def pkcs12(algorithm, mac_rounds, *, whole=octets, group=sequence):
    bag = sequence(oid(KEY_BAG), element(0xA0, sequence(algorithm, octets(bytes(64)))))
    encrypted = sequence(oid(DATA), pbes2(1), element(0x80, bytes(64)))
    safes = group(
        group(oid(DATA), element(0xA0, whole(sequence(bag)))),
        sequence(oid(ENCRYPTED_DATA), element(0xA0, sequence(integer(0), encrypted))),
    )
    digest = sequence(sequence(oid(SHA256)), octets(bytes(32)))
    mac = sequence(digest, octets(b"salt" * 2), integer(mac_rounds))
    return group(integer(3), group(oid(DATA), element(0xA0, whole(safes))), mac)
