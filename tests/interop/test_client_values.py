"""Values of client properties at their edges, and addresses, drawn and held against the classes of
Apache Kafka's own clients.

The seed is printed; what may differ is listed here, with the reason.
"""

from __future__ import annotations

import random

import pytest

from fencepost.client.cluster import parse_servers
from fencepost.client.config import KNOWN, ClientConfig
from fencepost.client.errors import ConfigError

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SEED = random.SystemRandom().randrange(1 << 32)
EDGES = [
    edge + step
    for edge in (0, 10, 100, 1 << 15, 1 << 20, 1 << 31, 1 << 32, 1 << 63)
    for step in (-2, -1, 0, 1)
]
NUMBERS = [str(sign * edge) for edge in EDGES for sign in (1, -1)]
SPELLINGS = ["", " 7 ", "+7", "07", "7.0", "7e0", "1_000", "0x10", "٧", "true", "7L", "7 8", "--7"]

NOTHING_WORKS = "with so little time or room Java's clients can do nothing, either"
BROKERS_REFUSE = "brokers refuse it when a member joins, or a producer begins"
NO_TIME = "a time below 0 is none"
NARROWER = {
    **dict.fromkeys(
        ("request.timeout.ms", "default.api.timeout.ms", "max.block.ms", "delivery.timeout.ms",
         "max.request.size", "buffer.memory", "socket.connection.setup.timeout.ms",
         "sasl.login.read.timeout.ms"), (1, NOTHING_WORKS)),
    **dict.fromkeys(
        ("session.timeout.ms", "heartbeat.interval.ms", "transaction.timeout.ms"),
        (1, BROKERS_REFUSE)),
    **dict.fromkeys(
        ("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"), (0, NO_TIME)),
}  # fmt: skip
"""The least that is taken here where Java takes less, and why."""


def ours(key: str, value: str) -> bool:
    """Whether the value is taken, by itself."""
    try:
        KNOWN[key].parse(key, value)
    except ConfigError:
        return False
    return True


def numeric_properties() -> list[str]:
    """Those whose kind in Kafka is a number: what is no number must be refused of them."""
    return [key for key in KNOWN if ours(key, "7") and not ours(key, "surely no number")]


def test_numbers_are_taken_and_refused_as_by_kafka(kafka_jars: JarSet):
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    values = {*NUMBERS, *SPELLINGS}
    values |= {str(draw.randrange(-(1 << draw.randrange(1, 66)), 1 << 66)) for _ in range(40)}
    values |= {str(draw.randrange(-3, 200_000)) for _ in range(40)}
    cases = [(key, value) for key in numeric_properties() for value in sorted(values)]
    said = ask(
        PROGRAMS / "ClientValuesOracle.java",
        jars=kafka_jars,
        questions=[f"{key}\t{value}" for key, value in cases],
    ).splitlines()
    different = []
    for (key, value), words in zip(cases, said, strict=True):
        verdicts = set(words.split()) - {"-"}
        # Where a producer and a consumer differ there is one property for both here.
        wanted = "taken" in verdicts
        if wanted and key in NARROWER and int(value) < NARROWER[key][0]:
            wanted = False
        if verdicts and ours(key, value) is not wanted:
            different.append(f"{key}={value!r}: {words}")
    assert not different, "\n".join(different)


HOSTS = ["h", "kafka-1.example.com", "127.0.0.1", "[::1]", "::1", "[fe80::1%eth0]", "a_b", "", "[",
         "h[", "ü", "h/x", "h h", "a@b", "[h]", "]h", "[[h]]"]  # fmt: skip
PROTOCOLS = ["", "", "", "PLAINTEXT://", "ssl://", "SASL_SSL://", "://", "a.b%c-d_1://", "http:/",
             "X://Y://", "P L://", "Ü://"]  # fmt: skip
PORTS = ["9092", "1", "65535", "65536", "0", "-1", "", "x", "9092x", " 9092", "009092", "٩٠٩٢",
         "99999999999"]  # fmt: skip
SEPARATORS = [",", ", ", " , ", ",,", ";", " ", "\u00a0,"]


def drawn_servers(draw: random.Random) -> str:
    addresses = [
        draw.choice(PROTOCOLS) + draw.choice(HOSTS) + draw.choice([":"] * 8 + ["", "::"])
        + draw.choice(PORTS[:3] if draw.random() < 0.7 else PORTS)
        for _ in range(draw.choice([1, 1, 1, 2, 3]))
    ]  # fmt: skip
    text = addresses[0]
    for address in addresses[1:]:
        text += draw.choice(SEPARATORS) + address
    return draw.choice(["", "", " ", ","]) + text + draw.choice(["", "", " ", ",", " ,"])


def without_empty(text: str) -> str:
    return ",".join(part for part in text.split(",") if part.strip(" "))


def test_addresses_are_read_as_by_kafka(kafka_jars: JarSet):
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    texts = [drawn_servers(draw) for _ in range(1500)]
    said = ask(
        PROGRAMS / "ClientValuesOracle.java",
        jars=kafka_jars,
        questions=[
            f"bootstrap.servers\t{spelt}" for text in texts for spelt in (text, without_empty(text))
        ],
    ).splitlines()
    different = []
    taken = 0
    # Since 4.2 Kafka's clients refuse what is empty between commas; it is passed over here.
    for text, as_is, java in zip(texts, said[::2], said[1::2], strict=True):
        assert as_is in (java, "refused")
        try:
            found = ",".join(f"{host} {port}" for host, port in parse_servers(text))
        except ConfigError:
            found = "refused"
        taken += found != "refused"
        if found != java and not is_a_mistake(java):
            different.append(f"{text!r}: {java}; here {found}")
    assert taken > 100
    assert not different, "\n".join(different)


def is_a_mistake(java: str) -> bool:
    """Java takes it and cannot mean it: port 0, or no host."""
    return any(one.startswith(" ") or one.endswith(" 0") for one in java.split(","))


def test_a_configuration_has_what_was_drawn_for_it():
    assert ClientConfig.from_props({"bootstrap.servers": "PLAINTEXT://h:1"}).bootstrap_servers
