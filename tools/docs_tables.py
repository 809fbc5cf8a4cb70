"""Writes the tables of docs/ that say what the code already says.

    python tools/docs_tables.py [--check]

A section of a document between `<!-- table NAME -->` and `<!-- end NAME -->` belongs to the
function of that name in TABLES and is replaced by what it returns. `--check` changes nothing and
exits with 1 if something is out of date; tests/test_docs.py does the same.

Whether a configuration key does anything is found out by looking at the sources: a key counts as
read if the broker asks for it by name, or looks at the attribute that a topic's key becomes.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import alerts_table
import kafka_tests_table

from fencepost.broker import apis
from fencepost.broker.config.keys import (
    ALIASES,
    BROKER_CONFIGS,
    DIFFERENT_DEFAULTS,
    DYNAMIC_BROKER_KEYS,
    REFUSED,
    REMOVED,
)
from fencepost.broker.metrics.catalogue import CATALOGUE
from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES, Route
from fencepost.broker.net.served import BROKER, SERVED
from fencepost.cli.commands import COMMANDS
from fencepost.client.config import DNS_LOOKUPS, KNOWN, ClientConfig
from fencepost.client.java_properties import JAVA_ONLY
from fencepost.client.protocol.oauthbearer import TokenSource
from fencepost.client.security import Security
from fencepost.log.config import TOPIC_CONFIGS
from fencepost.log.configdef import INT_MAX, LONG_MAX, ConfigDef, Validator
from fencepost.machines.group.configs import GROUP_CONFIGS
from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.listing import everything
from fencepost.wire import api

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCES = ROOT / "src" / "fencepost"
MARK = re.compile(r"(<!-- table ([a-z-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
LARGEST = {INT_MAX: "2^31-1", LONG_MAX: "2^63-1"}
FIXED = frozenset({"remote.storage.enable"})
"""Keys that have one allowed value: no code needs to ask for it."""
CHECKS_ONLY = frozenset({"check_pairs"})
"""Functions that compare values with each other and do nothing with them."""


# -- which keys are read ---------------------------------------------------------------------


def _trees(*places: str) -> Iterator[tuple[Path, ast.Module]]:
    for place in places:
        path = SOURCES / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield file, ast.parse(file.read_text())


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those inside of CHECKS_ONLY."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef) and child.name in CHECKS_ONLY:
            continue
        yield child
        yield from _nodes(child)


def _derived_attributes() -> dict[str, set[str]]:
    """Properties of LogConfig, and the configs that each looks at.

    A field that the module works out when a config is made, `produce_rules` by `_produce_rules`,
    counts as one of them.
    """
    found: dict[str, set[str]] = {}
    for _, tree in _trees("log/config.py"):
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            is_property = any(
                isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list
            )
            if is_property or node.name in functions:
                found[node.name.lstrip("_")] = _attributes_used(node, functions)
    return found


def _attributes_used(function: ast.FunctionDef, others: Mapping[str, ast.FunctionDef]) -> set[str]:
    """The attributes that a function looks at, or one of the `others` that it calls."""
    used: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Name) and node.id in others and node.id != function.name:
            used |= _attributes_used(others[node.id], others)
    return used


@cache
def read_keys() -> frozenset[str]:
    """Broker and topic keys that some code of the broker looks at."""
    tables = {*(SOURCES / "broker" / "config" / "keys").iterdir(), SOURCES / "log" / "config.py"}
    texts: set[str] = set()
    attributes: set[str] = set()
    for path, tree in _trees("broker", "runtime", "log", "machines"):
        if path in tables:
            continue
        for node in _nodes(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.Attribute):
                attributes.add(node.attr)
    for name, uses in _derived_attributes().items():
        if name in attributes:
            attributes |= uses
    topic_keys = {
        name
        for name, definition in TOPIC_CONFIGS.items()
        if definition.attribute in attributes or {definition.attribute, name} & texts
    }
    synonyms = {synonym.key for name in topic_keys for synonym in TOPIC_CONFIGS[name].synonyms}
    return frozenset(topic_keys | synonyms | (BROKER_CONFIGS.keys() & texts) | FIXED)


# -- tables ----------------------------------------------------------------------------------


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars in cells are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def _value(definition: ConfigDef) -> str:
    if definition.default is None:
        return ""
    if definition.default in LARGEST and not isinstance(definition.default, bool):
        return LARGEST[definition.default]
    text = definition.format(definition.default)
    return f"`{text}`" if text else "empty"


def _allowed(validator: Validator | None) -> str:
    if validator is None:
        return ""
    return validator.describes.replace("-9223372036854775808", "-2^63")


def _what(definition: ConfigDef) -> str:
    parts = [definition.doc.removesuffix(".")]
    allowed = _allowed(definition.validator)
    if allowed:
        parts.append(f"({allowed})")
    return " ".join(parts)


def _name(name: str) -> str:
    return f"`{name}`"


def _changeable(name: str) -> str:
    """A broker's key, with a star if it may change while the broker runs."""
    return _name(name) + ("\\*" if name in DYNAMIC_BROKER_KEYS else "")


def broker_configs() -> str:
    """Keys of server.properties that do something, but for those that give topics' defaults."""
    defaults = {s.key for definition in TOPIC_CONFIGS.values() for s in definition.synonyms}
    return markdown(
        ("key", "default", "what it is"),
        (
            (_changeable(name), _value(definition), _what(definition))
            for name, definition in sorted(BROKER_CONFIGS.items())
            if name not in defaults and definition.has_effect
        ),
    )


def topic_configs() -> str:
    """Configs of topics that do something, with the broker's keys behind them."""
    rows = []
    for name in sorted(TOPIC_CONFIGS):
        definition = TOPIC_CONFIGS[name]
        if definition.internal or name not in read_keys():
            continue
        keys = ", ".join(_changeable(synonym.key) for synonym in definition.synonyms)
        rows.append((_name(name), _value(definition), keys, _what(definition)))
    return markdown(("topic config", "default", "broker key", "what it is"), rows)


def group_configs() -> str:
    """Configs of groups that do something, with the broker's keys of defaults and bounds."""
    rows = []
    for name, definition in sorted(GROUP_CONFIGS.items()):
        if definition.internal:
            continue
        bounds = [key for key in (definition.least_key, definition.most_key) if key is not None]
        keys = [definition.broker_key] if definition.broker_key is not None else []
        cells = [", ".join(map(_changeable, named)) for named in (keys, bounds)]
        rows.append((_name(name), _value(definition), *cells, _what(definition)))
    return markdown(("group config", "default", "broker key", "bounds", "what it is"), rows)


def unread_configs() -> str:
    """Keys that are checked, stored and shown, and nothing else."""
    topic = [n for n, d in TOPIC_CONFIGS.items() if not d.internal and n not in read_keys()]
    broker = [n for n, d in BROKER_CONFIGS.items() if not d.has_effect and d.refusal is None]
    rows = [
        ("topics", ", ".join(map(_name, sorted(topic)))),
        ("brokers", ", ".join(map(_changeable, sorted(broker)))),
    ]
    return markdown(("of", "keys"), rows)


def other_configs() -> str:
    """Kafka's keys that must have their defaults, that are gone, and that are refused."""
    reasons: dict[str, list[str]] = {}
    for name, definition in sorted(BROKER_CONFIGS.items()):
        if definition.refusal is not None:
            reasons.setdefault(definition.refusal, []).append(name)
    refused: dict[str, list[str]] = {}
    for prefix, reason in REFUSED:
        refused.setdefault(reason, []).append(prefix + ("\\*" if prefix.endswith(".") else ""))
    rows = [
        (", ".join(_together(names)), f"no value but Kafka's default: {reason}")
        for reason, names in reasons.items()
    ]
    rows += [(", ".join(map(_name, names)), f"refused: {why}") for why, names in refused.items()]
    rows += [(_name(old), f"read as `{new}`") for old, new in sorted(ALIASES.items())]
    rows += [(", ".join(map(_name, sorted(REMOVED))), "of before 4.0: accepted, without effect")]
    return markdown(("keys", "what happens"), rows)


def _together(names: Sequence[str]) -> list[str]:
    """The names; all keys of an area (what is before the first dot) become one."""
    areas: dict[str, list[str]] = {}
    for name in names:
        areas.setdefault(name.split(".")[0] + ".", []).append(name)
    found: list[str] = []
    for area, some in areas.items():
        whole = [name for name in BROKER_CONFIGS if name.startswith(area)] == sorted(some)
        found += [_name(area + "\\*")] if whole and len(some) > 1 else map(_name, some)
    return found


def different_defaults() -> str:
    """Keys whose defaults are not Kafka's."""
    return markdown(
        ("key", "here", "Kafka", "why"),
        (
            (
                _name(name),
                _value(BROKER_CONFIGS[name]),
                "must be given" if other.kafka is None else f"`{other.kafka}`",
                other.why,
            )
            for name, other in sorted(DIFFERENT_DEFAULTS.items())
        ),
    )


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def served_apis() -> str:
    """What ApiVersions advertises to clients: the registry of handlers."""
    return _routes(ROUTES)


def controller_apis() -> str:
    """Likewise to the quorum and to brokers, on controllers' listeners."""
    return _routes(CONTROLLER_ROUTES)


def _routes(routes: Mapping[int, Route]) -> str:
    apis.load_all()
    rows = []
    for key in sorted(routes):
        route = routes[key]
        versions = _span(route.min_version, route.max_version)
        if route.advertised_min_version != route.min_version:
            versions += f" (advertised from {route.advertised_min_version})"
        released = route.request_class
        rows.append(
            (
                str(key),
                route.name,
                versions,
                _span(released.min_version, released.max_version),
            )
        )
    return markdown(("key", "API", "versions served", "versions ever defined"), rows)


def permissions() -> str:
    """What each API asks a client for, where it is served."""
    rows = []
    for row in sorted(SERVED, key=lambda one: (one.api_key, one.listeners)):
        name = api.request_class(row.api_key).__name__.removesuffix("Request")
        where = "" if row.listeners == (BROKER,) else f" ({', '.join(row.listeners)})"
        asked = [
            f"{one.operation.name} on {one.resource_type.name.replace('_', ' ').lower()}"
            for one in row.asks
        ]
        rows.append(
            (str(row.api_key), name + where, "; ".join(asked).replace("_", r"\_") or "nothing")
        )
    return markdown(("key", "API", "asks for"), rows)


def commands() -> str:
    """The command line."""
    return markdown(
        ("command", "what it does"),
        ((_name(f"fencepost {command.name}"), command.help) for command in COMMANDS),
    )


def codec_apis() -> str:
    """What `fencepost.wire.api` has."""
    rows = []
    for key in sorted(api.API_NAMES):
        request, response = api.request_class(key), api.response_class(key)
        flexible = request.flexible_from
        rows.append(
            (
                str(key),
                api.API_NAMES[key],
                _span(request.min_version, request.max_version),
                "never" if flexible is None else f"{flexible}+",
                _name(request.__module__.rpartition(".")[2]),
            )
        )
        assert (request.min_version, request.max_version) == (
            response.min_version,
            response.max_version,
        )
    return markdown(("key", "API", "versions", "flexible", "module"), rows)


def client_properties() -> str:
    """Client properties, for `kafka.*` options in Spark and `-X` on the command line."""
    owners = ClientConfig(), Security(), TokenSource()
    said = {"acks": "all", "client.dns.lookup": DNS_LOOKUPS[0]}  # where the field has another form
    unsaid = {
        "partitioner.class", "sasl.login.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class",
    }  # fmt: skip
    rows = []
    for key, prop in KNOWN.items():
        owner = next(one for one in owners if hasattr(one, prop.attribute))
        text = said.get(key, _text(getattr(owner, prop.attribute)))
        if key in unsaid or text == "()":
            text = ""
        rows.append((_name(key), f"`{text}`" if text != "" else ""))
    return markdown(("property", "default"), rows)


def java_properties() -> str:
    """Client properties that only Java clients have a use for, by the reason."""
    keys: dict[str, list[str]] = {}
    for key, (_, reason) in JAVA_ONLY.items():
        keys.setdefault(reason, []).append(f"`{key}`")
    rows = ((", ".join(names), reason) for reason, names in keys.items())
    return markdown(("properties", "why they have no effect"), rows)


def _text(default: object) -> str:
    if isinstance(default, bool):
        return "true" if default else "false"
    return "" if default is None else str(default)


def _simulator(kind: str, heading: str) -> str:
    return markdown(
        (heading, "what it is"),
        ((_name(name), says) for name, says in getattr(everything(), kind).items()),
    )


def sim_faults() -> str:
    """Faults of the simulator, from the first lines of their files."""
    return _simulator("faults", "fault")


def sim_checks() -> str:
    """Its checks, likewise."""
    return _simulator("checks", "check")


def sim_ablations() -> str:
    """Its ablations, and how each is noticed."""
    rows = []
    for name in ablation_names():
        ablation = load_ablation(name)
        noticed = [*ablation.scenarios, *(["searched"] if ablation.is_found_by_search else [])]
        rows.append((_name(name), ablation.says, ", ".join(noticed)))
    return markdown(("ablation", "the bug", "noticed by"), rows)


def sim_commands() -> str:
    """The commands of scenarios, from their docstrings."""
    return markdown(
        ("command", "what it does"),
        (
            (usage, says)
            for usage, _, says in (text.partition(": ") for text in everything().commands.values())
        ),
    )


def metrics() -> str:
    """Every metric of a node."""
    rows = [
        (
            f"`{one.name}`",
            one.kind.value,
            ", ".join(f"`{label}`" for label in one.labels) + (" or none" if one.has_total else ""),
            one.doc.removesuffix("."),
        )
        for one in CATALOGUE.values()
    ]
    return markdown(("metric", "kind", "labels", "what it says"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "metrics": metrics,
    "alerts": alerts_table.alerts,
    "broker-configs": broker_configs,
    "topic-configs": topic_configs,
    "group-configs": group_configs,
    "different-defaults": different_defaults,
    "unread-configs": unread_configs,
    "other-configs": other_configs,
    "served-apis": served_apis,
    "controller-apis": controller_apis,
    "permissions": permissions,
    "commands": commands,
    "codec-apis": codec_apis,
    "client-properties": client_properties,
    "java-properties": java_properties,
    "sim-faults": sim_faults,
    "sim-checks": sim_checks,
    "sim-ablations": sim_ablations,
    "sim-commands": sim_commands,
    "kafka-tests-totals": kafka_tests_table.totals,
    "kafka-tests-failures": kafka_tests_table.failures,
    "kafka-tests-not-offered": kafka_tests_table.not_offered,
    "kafka-tests-internals": kafka_tests_table.internals,
    "kafka-tests-classes": kafka_tests_table.by_class,
}


def rewritten(text: str) -> str:
    """A document with its tables as they should be. KeyError for a table that is not in TABLES."""
    return MARK.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


def main() -> int:
    """Rewrite the documents, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 if stale")
    check = parser.parse_args().check
    stale = []
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text()
        current = rewritten(text)
        if current != text:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(current)
    for name in stale:
        print(f"{name} {'is out of date' if check else 'rewritten'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
