"""A member of a group by librdkafka that says what it has and what it reads.

Arguments: bootstrap servers, group, topic, "classic" or "consumer", and configs as KEY=VALUE. It
leaves when its standard input ends. The lines that it prints: see `go/reader/main.go`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException


def say(what: str) -> None:
    os.write(1, f"{time.time_ns()} {what}\n".encode())


def main() -> None:
    servers, group, topic, protocol, *more = sys.argv[1:]
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 200,
        "log_level": 0,
    }
    if protocol == "classic":
        config["partition.assignment.strategy"] = "range"
        config["heartbeat.interval.ms"] = 300
    else:
        config["group.remote.assignor"] = "range"
    config |= dict(pair.split("=", 1) for pair in more)
    consumer = Consumer(config)
    is_over = threading.Event()
    positions: dict[int, int] = {}

    def wait_for_the_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()

    def commit() -> None:
        if positions:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                say(f"error {error}")
            positions.clear()

    def given(_consumer: Consumer, partitions: list[Any]) -> None:
        for one in partitions:
            say(f"+ {one.partition}")

    def taken(_consumer: Consumer, partitions: list[Any]) -> None:
        commit()
        for one in partitions:
            say(f"- {one.partition}")

    def lost(_consumer: Consumer, partitions: list[Any]) -> None:
        for one in partitions:
            say(f"- {one.partition}")

    consumer.subscribe([topic], on_assign=given, on_revoke=taken, on_lost=lost)
    while not is_over.is_set():
        for message in consumer.consume(100, timeout=0.2):
            if message.error():
                say(f"error {message.error()}")
            else:
                say(f"r {message.partition()} {message.offset()}")
                positions[message.partition()] = message.offset()
    consumer.close()
    say("left")


if __name__ == "__main__":
    main()
