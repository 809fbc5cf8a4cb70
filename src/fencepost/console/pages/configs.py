"""Configs: of brokers beside each other, of a topic or a group against defaults; text to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from fencepost.client.admin import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    listing_config_resources,
)
from fencepost.client.config_descriptions import DescribedConfig, describing_many_configs
from fencepost.client.errors import ClientError
from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.page import (
    Block,
    Cell,
    Field,
    Level,
    Matrix,
    MatrixRow,
    Page,
    Section,
    Sentence,
    Table,
    Text as TextBlock,
)
from fencepost.console.session import Session, now_ms
from fencepost.views.config_comparison import (
    HIDDEN,
    OF_ITS_OWN,
    ComparedConfig,
    ConfigAgainstDefault,
    compared_configs,
    properties_text,
)
from fencepost.views.view import View, count

SHOW: Final = ("different", "all")
CELL_CHARACTERS: Final = 60
GROUPS_SHOWN: Final = 200
BROKERS_MAX: Final = 50
"""Brokers that one page asks, each with a request of its own."""


class GroupWithConfigs(View, frozen=True):
    """A group that has configs of its own."""

    columns: ClassVar = {"group": "group"}

    group: str


async def configs(session: Session, asked: Asked) -> Page:
    """The configs of a topic or a group, else of all brokers."""
    show, wanted = asked.choice("show", SHOW), asked.text("filter")
    topic, group = asked.text("topic"), asked.text("group")
    if topic:
        sections = [await _resource(session, TOPIC_RESOURCE, topic, show, wanted)]
        title = f"Configs of topic {topic}"
    elif group:
        sections = [await _resource(session, GROUP_RESOURCE, group, show, wanted)]
        title = f"Configs of group {group}"
    else:
        sections = [await _brokers(session, show, wanted), await _groups(session)]
        title = "Configs of brokers"
    return Page(
        title,
        sections,
        now_ms(),
        refresh_s=None,
        fields=[
            Field("show", "show", show, SHOW),
            Field("filter", "config contains", wanted),
            Field("topic", "of topic", topic),
            Field("group", "of group", group),
        ],
    )


async def _brokers(session: Session, show: str, wanted: str) -> Section:
    """Each broker tells its own configs: one request for each."""
    sample = await session.sample()
    nodes = {id_: node for id_, node in sorted(sample.brokers.items()) if id_ not in sample.fenced}
    asked_for = dict(list(nodes.items())[:BROKERS_MAX])
    answers = await session.run_each(
        {
            id_: describing_many_configs(session.cluster, BROKER_RESOURCE, [str(id_)], node=node)
            for id_, node in asked_for.items()
        }
    )
    told: dict[int, Sequence[DescribedConfig]] = {}
    sentences = [Sentence("Each broker is asked for its own: Kafka has no other way.")]
    for id_, answer in answers.items():
        if isinstance(answer, str):
            sentences.append(Sentence(f"Broker {id_} does not tell: {answer}.", "warning"))
        else:
            told[id_] = answer.get(str(id_), [])
    for id_ in sorted(sample.fenced):
        sentences.append(Sentence(f"Broker {id_} is fenced, and was not asked.", "warning"))
    if len(asked_for) < len(nodes):
        sentences.append(Sentence(f"Only {BROKERS_MAX} of {len(nodes)} brokers were asked."))
    found = [one for one in compared_configs(told, all_of_them=show == "all") if wanted in one.name]
    sentences[1:1] = _differences(found)
    return Section("", sentences, [_matrix(found, list(told))], found)


def _differences(found: Sequence[ComparedConfig]) -> list[Sentence]:
    names = [one.name for one in found if one.differs and one.name not in OF_ITS_OWN]
    if not names:
        return [Sentence("Brokers agree, but for what each has of its own.", "good")]
    return [Sentence(f"Brokers differ in {', '.join(names)}.", "warning")]


def _matrix(found: Sequence[ComparedConfig], brokers: Sequence[int]) -> Matrix:
    return Matrix(
        "configs by brokers",
        "config",
        [*(f"broker {id_}" for id_ in brokers), "default"],
        [
            MatrixRow(
                one.name,
                [*(_cell(one, one.values, id_) for id_ in brokers), _default(one)],
                level="warning" if one.differs and one.name not in OF_ITS_OWN else None,
            )
            for one in found
        ],
    )


def _cell(one: ComparedConfig, values: Mapping[int, str | None], broker: int) -> Cell | None:
    if broker not in values:
        return None
    if one.sensitive:
        return Cell(HIDDEN, "sensitive: it is never shown")
    return _cut(values[broker], "note" if broker in one.set_on else None)


def _default(one: ComparedConfig) -> Cell:
    return Cell(HIDDEN) if one.sensitive else _cut(one.default, None)


def _cut(value: str | None, level: Level | None) -> Cell:
    text = "–" if value is None else value or '""'
    if len(text) > CELL_CHARACTERS:
        return Cell(f"{text[:CELL_CHARACTERS]}…", text[:4_000], level)
    return Cell(text, level=level)


async def _groups(session: Session) -> Section:
    """Groups that have configs of their own (KIP-1142)."""
    heading = "Groups with configs of their own"
    try:
        names = await session.run(listing_config_resources(session.cluster, GROUP_RESOURCE))
    except ClientError as error:
        return Section(heading, [Sentence(f"They are not known: {error}.")])
    rows = [GroupWithConfigs(name) for name in names[:GROUPS_SHOWN]]
    links = {"group": [path_to("configs", group=row.group) for row in rows]}
    table = Table("groups", GroupWithConfigs, rows, links, total=len(names))
    return Section(heading, [Sentence(f"{count(len(names), 'group')}.")], [table], rows)


async def _resource(
    session: Session, resource_type: int, name: str, show: str, wanted: str
) -> Section:
    """One topic's or group's configs: one request."""
    described = await session.run(describing_many_configs(session.cluster, resource_type, [name]))
    if name not in described:
        raise NotThere(f"no topic {name!r} in this cluster")
    found = [ConfigAgainstDefault.of(one) for one in described[name]]
    own = [one for one in found if one.source in ("topic", "group")]
    set_somewhere = [one for one in found if not one.is_default]
    shown = [one for one in (found if show == "all" else set_somewhere) if wanted in one.name]
    kind = "topic" if resource_type == TOPIC_RESOURCE else "group"
    sentences = [
        Sentence(f"{count(len(own), 'config')} set on the {kind} itself, of {len(found)}."),
        Sentence(f"{len(set_somewhere) - len(own)} come from the brokers' configuration."),
    ]
    table = Table("configs", ConfigAgainstDefault, shown)
    text = properties_text(own)
    blocks: list[Block] = [table]
    if text:
        blocks.append(TextBlock("to copy", text))
    return Section("", sentences, blocks, shown)
