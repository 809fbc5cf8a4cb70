"""What client quotas cost: CPU time of a one-record Produce and of a Fetch, without and with them.

    python benchmarks/security/quotas.py [--rounds N] [--requests N]

A node in this process whose logs are in memory, and connections without sockets, as in
`benchmarks/broker/produce_path.py` and `fetch_path.py`. The quotas are so high that they never
throttle: what is measured is the charging. The three cases take turns, so that a machine that is
busy for a while makes all of them longer; compare the least.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.broker import fetch_path, produce_path
from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.broker.net.listener import Listener
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.image.quotas import QuotaEntity, Quotas
from fencepost.machines.quota import ClientQuotas, Windows

NEVER = 1e15
ANY_USER: QuotaEntity = (("user", None),)
SOMEONE: QuotaEntity = (("user", "someone"),)
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
CASES: dict[str, QuotaEntity | None] = {
    "no quota": None,
    "of another": SOMEONE,
    "own, never exceeded": ANY_USER,
}
FETCHED_BYTES = 128


def set_quotas(gate: QuotaGate, held: ClientQuotas, entity: QuotaEntity | None) -> None:
    """Have the node hold its clients to them."""
    quotas: Quotas = PersistentMap()
    if entity is not None:
        quotas = quotas.set(entity, MappingProxyType(dict.fromkeys(KEYS, NEVER)))
    held.apply(quotas)
    gate.apply(held)


async def measure(arguments: argparse.Namespace, directory: str) -> dict[str, dict[str, float]]:
    """Microseconds per request at least, by API and case."""
    took_us: dict[str, dict[str, list[float]]] = {"Produce": {}, "Fetch": {}}
    partitions = produce_path.PARTITIONS
    async with produce_path.listening(directory, partitions, FETCHED_BYTES) as listener:
        held = ClientQuotas(Windows(11, 1_000), Windows(11, 1_000))
        for _ in range(arguments.rounds):
            for case, entity in CASES.items():
                set_quotas(listener.quotas, held, entity)
                produced = await produce_path.rounds(_produces(arguments), listener)
                took_us["Produce"].setdefault(case, []).extend(produced)
                fetched = fetch_path.rounds(_fetches(arguments), listener, partitions)
                took_us["Fetch"].setdefault(case, []).extend(fetched)
        _check(listener)
    return {api: {case: min(all_) for case, all_ in by.items()} for api, by in took_us.items()}


def _check(listener: Listener) -> None:
    """That the last case has charged its clients."""
    quotas = listener.quotas.quotas
    for one in (quotas.produced, quotas.fetched, quotas.requests):
        assert any(usage.value > 0 for usage in one.usages(0)), f"{one.key} was not charged"


def _produces(arguments: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(
        batch_bytes=1, connections=16, depth=5, requests=arguments.requests, rounds=3
    )


def _fetches(arguments: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(
        batch_bytes=FETCHED_BYTES,
        connections=16,
        partitions=1,
        sessions=True,
        requests=arguments.requests,
        rounds=3,
        calls=False,
    )


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1600, help="of each round")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=produce_path.in_memory()) as directory:
        took_us = asyncio.run(measure(arguments, directory))
    for api, by_case in took_us.items():
        without = by_case["no quota"]
        for case, least_us in by_case.items():
            print(f"{api:8} {case:22} {least_us:6.2f} us  {least_us - without:+6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
