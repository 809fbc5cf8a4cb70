"""`fencepost man`: manual pages, made from the parser of every command.

A page in `man(7)` for `fencepost` and for each command, with its actions. Options of a group with
a title of its own, such as those that name a cluster, are the same for all actions of a command, so
its page has them once.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import fencepost
from fencepost.cli.commands import COMMANDS, GROUPS
from fencepost.cli.failures import UsageError, offline_command

PROGRAM: Final = "fencepost"
SECTION: Final = 1
EXAMPLES: Final = """\
examples:
  fencepost man | man -l -
  fencepost man topics | man -l -
  fencepost man --dir ~/.local/share/man/man1       (then `man fencepost-topics`)
"""
ENVIRONMENT: Final = (
    ("FENCEPOST_BOOTSTRAP", "HOST:PORT,... of brokers, where -b names none."),
    ("FENCEPOST_PURE", "1: no C extensions, which is slower."),
)
EXIT_STATUS: Final = (
    ("0", "It is done."),
    ("1", "It did not work out; a line on standard error says why."),
    ("2", "The command line or the configuration is wrong."),
    ("130", "It was interrupted."),
)
NOT_SHOWN: Final = (argparse._SubParsersAction, argparse._HelpAction)
"""Actions that are sections of a page, and the one that every parser has."""
_DATE_VARIABLE: Final = "SOURCE_DATE_EPOCH"
_PLAIN_GROUPS: Final = ("positional arguments", "options")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_EXAMPLES_BEGIN: Final = re.compile(r"^examples:\n", re.MULTILINE)


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost man`."""
    parser = subparsers.add_parser(
        "man",
        description="Print a manual page, or write all of them into a directory.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "page", nargs="?", metavar="COMMAND", help="whose page (default: that of fencepost)"
    )
    parser.add_argument("--dir", type=Path, metavar="DIR", help="write all pages there")
    parser.set_defaults(run=run)


@offline_command
def run(arguments: argparse.Namespace) -> int:
    """Print a page, or write all."""
    if arguments.dir is None:
        print(page_of(arguments.page), end="")
    elif arguments.page is None:
        write_pages(arguments.dir)
    else:
        raise UsageError("--dir is for all pages; leave the command out")
    return 0


def page_of(command: str | None) -> str:
    """The page of a command, or of `fencepost` itself. UsageError for one that is none."""
    pages = dict(all_pages())
    if command is None:
        return pages[PROGRAM]
    name = f"{PROGRAM}-{command}"
    if name not in pages:
        from fencepost.cli.command_line import unknown_name

        names = [one.name for one in COMMANDS]
        raise UsageError(unknown_name("command", command, names, "`fencepost --help` lists them"))
    return pages[name]


def write_pages(directory: Path) -> None:
    """Write all pages as `NAME.1`; the directory is made if it is not there. OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in all_pages():
        (directory / f"{name}.{SECTION}").write_text(text, encoding="utf-8")


def all_pages() -> Iterator[tuple[str, str]]:
    """(name, text) of each page."""
    from fencepost.cli.main import build_whole_parser

    parser = build_whole_parser()
    _without_colour(parser)
    yield PROGRAM, _program_page(parser)
    parsers = _subparsers(parser)
    for command in COMMANDS:
        yield (
            f"{PROGRAM}-{command.name}",
            _command_page(command.name, command.help, parsers[command.name]),
        )


# -- pages -----------------------------------------------------------------------------------


def _program_page(parser: argparse.ArgumentParser) -> str:
    lines = [
        *_head(PROGRAM, "Kafka's replicated log in Python"),
        ".SH SYNOPSIS",
        f".B {PROGRAM}",
        r"\fICOMMAND\fR [\fIOPTION\fR ...]",
        ".SH DESCRIPTION",
        *_text(parser.description or ""),
        ".SH COMMANDS",
    ]
    for group in GROUPS:
        lines.append(f".SS {_escaped(group)}")
        for command in COMMANDS:
            if command.group == group:
                lines += _item(rf"\fB{PROGRAM}\-{_escaped(command.name)}\fR(1)", command.help)
    lines += [".SH OPTIONS", *_options(parser, parser._optionals._group_actions)]
    others = [f"{PROGRAM}-{command.name}" for command in COMMANDS]
    return _page([*lines, *_end(others)])


def _command_page(name: str, purpose: str, parser: argparse.ArgumentParser) -> str:
    actions = list(_leaves(parser))
    lines = [*_head(f"{PROGRAM}-{name}", purpose), ".SH SYNOPSIS"]
    for one in actions:
        lines += _synopsis(one)
    lines += [".SH DESCRIPTION", *_text(parser.description or f"{purpose}.")]
    if actions == [parser]:
        lines += [".SH OPTIONS", *_own_options(parser)]
    else:
        lines.append(".SH ACTIONS")
        for one in actions:
            words = one.prog.split()[2:]
            lines += [f".SS {_escaped(' '.join(words))}", *_text(_purpose(parser, words))]
            lines += [*_text(one.description or ""), *_own_options(one)]
    lines += _shared_options(actions)
    seen: set[str] = set()
    for one in [parser, *actions]:
        if one.epilog and one.epilog not in seen:
            seen.add(one.epilog)
            lines += _epilog(one.epilog)
    return _page([*lines, *_end([PROGRAM])])


def _head(name: str, purpose: str) -> list[str]:
    given = os.environ.get(_DATE_VARIABLE, "")
    now = datetime.fromtimestamp(int(given), UTC) if given.isdecimal() else datetime.now(UTC)
    title = f'.TH {_escaped(name.upper())} {SECTION} "{now:%Y-%m-%d}"'
    return [
        f'{title} "Fencepost {_escaped(fencepost.__version__)}" "Fencepost"',
        ".ad l",
        ".SH NAME",
        rf"{_escaped(name)} \- {_escaped(purpose)}",
    ]


def _end(others: Iterable[str]) -> list[str]:
    lines = [".SH EXIT STATUS"]
    for code, meaning in EXIT_STATUS:
        lines += _item(_escaped(code), meaning)
    lines.append(".SH ENVIRONMENT")
    for variable, meaning in ENVIRONMENT:
        lines += _item(rf"\fB{_escaped(variable)}\fR", meaning)
    return [
        *lines,
        ".SH SEE ALSO",
        ", ".join(rf"\fB{_escaped(one)}\fR({SECTION})" for one in others),
    ]


def _synopsis(parser: argparse.ArgumentParser) -> list[str]:
    usage = " ".join(parser.format_usage().split()).removeprefix(f"usage: {parser.prog}")
    return [f'.SY "{_escaped(parser.prog)}"', _escaped(usage.strip()), ".YS"]


def _epilog(text: str) -> list[str]:
    """What is below the options: prose, and examples, as they stand."""
    notes, *examples = _EXAMPLES_BEGIN.split(text, maxsplit=1)
    lines = [".SH NOTES", *_as_it_stands(notes)] if notes.strip() else []
    return lines + [line for one in examples for line in [".SH EXAMPLES", *_as_it_stands(one)]]


# -- options ---------------------------------------------------------------------------------


def _own_options(parser: argparse.ArgumentParser) -> list[str]:
    lines = []
    for group in parser._action_groups:
        if group.title in _PLAIN_GROUPS:
            lines += _options(parser, group._group_actions)
    return lines


def _shared_options(parsers: Iterable[argparse.ArgumentParser]) -> list[str]:
    """Those of groups with a title, once, by title."""
    found: dict[str, dict[str, list[str]]] = {}
    for parser in parsers:
        for group in parser._action_groups:
            if group.title and group.title not in _PLAIN_GROUPS:
                shown = found.setdefault(group.title, {})
                for action in group._group_actions:
                    shown.setdefault(_signature(action), _options(parser, [action]))
    lines = []
    for title, shown in found.items():
        lines += [
            f".SH {_escaped(title.upper())} OPTIONS",
            *(one for each in shown.values() for one in each),
        ]
    return lines


def _options(parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]) -> list[str]:
    formatter = parser._get_formatter()
    lines = []
    for action in actions:
        if action.help is argparse.SUPPRESS or isinstance(action, NOT_SHOWN):
            continue
        text = formatter._expand_help(action) if action.help else ""
        if action.choices is not None and action.metavar is not None:
            text = f"{text} ({', '.join(map(str, action.choices))})".strip()
        lines += _item(_signature(action), text)
    return lines


def _signature(action: argparse.Action) -> str:
    """An option or an argument with what it takes."""
    value = argparse.HelpFormatter("")._format_args(action, _metavar(action))
    shown = rf"\fI{_escaped(value)}\fR" if value else ""
    if not action.option_strings:
        return shown
    names = ", ".join(rf"\fB{_escaped(one)}\fR" for one in action.option_strings)
    return f"{names} {shown}".rstrip()


def _metavar(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


# -- parsers ---------------------------------------------------------------------------------


def _without_colour(parser: argparse.ArgumentParser) -> None:
    """From Python 3.14 on a parser colours its usage where the output is a terminal."""
    parser.color = False  # type: ignore[attr-defined, unused-ignore]
    for one in _subparsers(parser).values():
        _without_colour(one)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers without actions of their own, at any depth."""
    inner = _subparsers(parser)
    if not inner:
        yield parser
    for one in inner.values():
        yield from _leaves(one)


def _purpose(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """What the list of a command's actions says about one of them."""
    purpose = ""
    for word in words:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                shown = {one.dest: one.help for one in action._choices_actions}
                purpose = shown.get(word) or purpose
                parser = action.choices[word]
                break
    return f"{purpose}." if purpose else ""


# -- man(7) ----------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def _marked(text: str) -> str:
    """Text with what stands between backquotes in bold, and no line that begins a request."""
    bold = _CODE.sub(lambda match: f"\0{match[1]}\1", text)
    shown = _escaped(bold).replace("\0", r"\fB").replace("\1", r"\fR")
    return rf"\&{shown}" if shown[:1] in (".", "'") else shown


def _text(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        joined = " ".join(paragraph.split())
        if joined:
            lines += [".PP", _marked(joined[0].upper() + joined[1:])]
    return lines


def _item(term: str, text: str) -> list[str]:
    return [".TP", term, _marked(" ".join(text.split())) or r"\&"]


def _as_it_stands(text: str) -> list[str]:
    return [".nf", *(_marked(line) or r"\&" for line in text.strip("\n").splitlines()), ".fi"]


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
