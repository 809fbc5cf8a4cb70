"""Creating and deleting topics, changing their configs, deleting records, producing one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from fencepost.batch.partitioner import partition_for_key
from fencepost.client.admin import (
    TOPIC_RESOURCE,
    ConfigChange,
    altering_configs,
    creating_topic,
    deleting_records,
    deleting_topic,
    describing_configs,
    describing_topic,
)
from fencepost.client.aio.producer import AsyncProducer
from fencepost.client.metadata import TopicInfo, TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, listing_offsets
from fencepost.console.asked import Asked, BadQuery
from fencepost.console.page import Sentence
from fencepost.console.session import Session
from fencepost.console.writes.plan import CannotBe, Plan
from fencepost.views.view import count

PARTITIONS_MAX: Final = 10_000
REPLICAS_MAX: Final = 1_000
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
SET, DELETE = 0, 1


async def create_topic(session: Session, asked: Asked) -> Plan:
    """A topic; the controller is asked whether it may be (`validate_only`)."""
    name = required(asked, "topic")
    partitions = asked.number("partitions", 1, 1, PARTITIONS_MAX)
    replicas = asked.number("replicas", 1, 1, REPLICAS_MAX)
    configs = dict(_settings(asked, "configs"))
    await session.run(
        creating_topic(
            session.cluster, name, partitions, replicas, configs=configs, validate_only=True
        )
    )

    async def carry_out(session: Session) -> str:
        made = await session.run(
            creating_topic(session.cluster, name, partitions, replicas, configs=configs)
        )
        return f"Topic {name} was created, with id {made.topic_id}."

    diff = [
        f"+ topic {name}: {count(partitions, 'partition')}, {count(replicas, 'replica')} each",
        *(f"+ {key}={value}" for key, value in sorted(configs.items())),
    ]
    return Plan(name, diff, carry_out, audited={"partitions": partitions, "replicas": replicas})


async def delete_topic(session: Session, asked: Asked) -> Plan:
    """A topic with all that is in it."""
    info = await _topic(session, asked)
    begin, end = await _log_ends(session, info, info.partition_ids)
    offsets = sum(end[one] - begin[one] for one in begin)

    async def carry_out(session: Session) -> str:
        await session.run(deleting_topic(session.cluster, info.name))
        return f"Topic {info.name} was deleted."

    held = count(offsets, "offset")
    diff = [f"- topic {info.name}: {count(len(info.partitions), 'partition')}, {held}"]
    warning = Sentence("What it holds cannot be had again.", "warning")
    return Plan(info.name, diff, carry_out, [warning], {"offsets": offsets})


async def alter_configs(session: Session, asked: Asked) -> Plan:
    """Configs of a topic: `set` (key=value, parted by line breaks or commas) and `delete`."""
    info = await _topic(session, asked)
    wanted: dict[str, str | None] = dict(_settings(asked, "set"))
    wanted |= dict.fromkeys(_words(asked, "delete"))
    if not wanted:
        raise BadQuery("set", "", "key=value of a config is needed here, or its key in delete")
    entries = await session.run(describing_configs(session.cluster, TOPIC_RESOURCE, info.name))
    known = {entry.name: entry for entry in entries}
    changes = [
        ConfigChange(key, value, DELETE if value is None else SET) for key, value in wanted.items()
    ]
    await session.run(
        altering_configs(session.cluster, TOPIC_RESOURCE, info.name, changes, validate_only=True)
    )

    async def carry_out(session: Session) -> str:
        await session.run(altering_configs(session.cluster, TOPIC_RESOURCE, info.name, changes))
        return f"Altered {count(len(changes), 'config')} of topic {info.name}."

    diff = []
    for key, value in sorted(wanted.items()):
        entry = known.get(key)
        if entry is not None:
            hidden = "(hidden)" if entry.sensitive else entry.value
            diff.append(f"- {key}={hidden} ({entry.source})")
        diff.append(f"+ {key}: not set on the topic" if value is None else f"+ {key}={value}")
    return Plan(info.name, diff, carry_out, audited={"keys": sorted(wanted)})


async def delete_records(session: Session, asked: Asked) -> Plan:
    """The records of a partition before an offset."""
    info = await _topic(session, asked)
    number = asked.number("partition", 0, 0, INT32_MAX)
    where = TopicPartition(info.name, number)
    begin, end = await _log_ends(session, info, [number])
    before = asked.number("before", begin[where], 0, INT64_MAX)
    if not begin[where] < before <= end[where]:
        raise CannotBe(
            f"{where} has the offsets {begin[where]} to {end[where]}: `before` has to be above the"
            " first, and at most the last"
        )

    async def carry_out(session: Session) -> str:
        low = await session.run(deleting_records(session.cluster, {where: before}))
        return f"{where} begins at offset {low[where]} now."

    diff = [
        f"- {where} begins at offset {begin[where]}",
        f"+ {where} begins at offset {before}: {count(before - begin[where], 'offset')} less",
    ]
    warning = Sentence("Deleted records cannot be had again.", "warning")
    audited = {"partition": number, "before": before}
    return Plan(info.name, diff, carry_out, [warning], audited)


async def produce(session: Session, asked: Asked) -> Plan:
    """One record of text. An empty key is none; an empty value is a tombstone if so said."""
    info = await _topic(session, asked)
    key = asked.text("key")
    value = asked.text("value").replace("\r\n", "\n")  # as browsers send line breaks
    is_null = asked.choice("null", ("no", "yes")) == "yes"
    number = asked.number("partition", -1, -1, INT32_MAX)
    if number >= 0 and number not in info.partitions:
        raise CannotBe(f"topic {info.name} has no partition {number}")
    if is_null and value:
        raise BadQuery("null", "yes", "a record whose value is null has no value")
    data = None if is_null else value.encode()
    chosen = number if number >= 0 else None
    if chosen is None and key:
        chosen = partition_for_key(key.encode(), len(info.partitions))
    audited = {"partition": chosen, "value_bytes": None if data is None else len(data)}

    async def carry_out(session: Session) -> str:
        partition = random.choice(info.partition_ids) if chosen is None else chosen
        audited["partition"] = partition
        async with AsyncProducer(session.cluster) as producer:
            offset = await producer.send_and_wait(
                info.name,
                data,
                key=key.encode() if key else None,
                partition=partition,
            )
        return f"The record is in partition {partition} of topic {info.name} at offset {offset}."

    where = "any partition" if chosen is None else f"partition {chosen}"
    if number < 0 and key:
        where += ", that of its key"
    diff = [
        f"+ a record of topic {info.name}, in {where}",
        f"+ key {key!r}" if key else "+ no key",
        "+ value null" if data is None else f"+ value {value!r} ({count(len(data), 'byte')})",
    ]
    return Plan(info.name, diff, carry_out, audited=audited)


def required(asked: Asked, key: str) -> str:
    """A text that is not empty. Raises BadQuery."""
    value = asked.text(key).strip()
    if not value:
        raise BadQuery(key, value, "a name is needed here")
    return value


async def _topic(session: Session, asked: Asked) -> TopicInfo:
    return await session.run(describing_topic(session.cluster, required(asked, "topic")))


async def _log_ends(
    session: Session, info: TopicInfo, partitions: Sequence[int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where logs begin and end. CannotBe for a partition that the topic has not."""
    if unknown := [one for one in partitions if one not in info.partitions]:
        raise CannotBe(f"topic {info.name} has no partition {unknown[0]}")
    wanted = [TopicPartition(info.name, one) for one in partitions]
    begin, end = [
        await session.run(listing_offsets(session.cluster, dict.fromkeys(wanted, kind)))
        for kind in (EARLIEST, LATEST)
    ]
    return (
        {one: at.offset for one, at in begin.items()},
        {one: at.offset for one, at in end.items()},
    )


def _words(asked: Asked, key: str) -> list[str]:
    return [word.strip() for word in asked.text(key).replace("\n", ",").split(",") if word.strip()]


def _settings(asked: Asked, key: str) -> list[tuple[str, str]]:
    found = []
    for line in asked.text(key).splitlines():
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            raise BadQuery(key, line, "lines of key=value are allowed")
        found.append((name.strip(), value.strip()))
    return found
