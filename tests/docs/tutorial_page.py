"""The steps of a tutorial: its fenced blocks in order, each with the output that the page shows.

| language | what is done with it |
|---|---|
| `sh` | bash runs it, in the environment and directory that the block before it left |
| `python` | one interpreter runs all of them |
| any, with a first line such as `# shop.py` | a file of that name with this content |
| `output` | what the block before it prints: `…` is any text within a line, or any lines |
| `text` | nothing: it is for reading |

A shell block may begin with a line that says how it runs: `# in a second terminal` (or a third)
leaves its commands running until the end of the tutorial, and goes on once they have printed what
the page shows; `# until it prints what is below` repeats the commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE_LINE = re.compile(r"# ([\w.-]+\.\w+)$")
TERMINAL_LINE = re.compile(r"# in a (?:second|third|fourth) terminal$")
REPEAT_LINE = "# until it prints what is below"
PORT = re.compile(r"\b127\.0\.0\.1:(\d+)\b")
ANY = "…"


@dataclass(frozen=True)
class Step:
    """A block of a tutorial that does something."""

    where: str
    language: str
    text: str
    shown: str | None = None
    """What it prints; None where the page does not show it."""

    @property
    def first_line(self) -> str:
        return self.text.split("\n", 1)[0]

    @property
    def file_name(self) -> str | None:
        """The file that this is."""
        found = FILE_LINE.match(self.first_line)
        return found[1] if found else None

    @property
    def stays(self) -> bool:
        """Whether its commands go on in a terminal of their own."""
        return bool(TERMINAL_LINE.match(self.first_line))

    @property
    def repeats(self) -> bool:
        return self.first_line == REPEAT_LINE

    def accepts(self, printed: str) -> bool:
        """Whether `printed` is what the page shows."""
        return self.shown is None or bool(
            _pattern(self.shown).fullmatch(_with_single_spaces(printed))
        )


def steps(path: Path) -> list[Step]:
    """The steps of a page. ValueError for a block that would not be tried."""
    found: list[Step] = []
    for where, language, text in _blocks(path):
        if language == "output":
            if not found or found[-1].shown is not None or found[-1].file_name:
                raise ValueError(f"{where}: the output of no command")
            last = found.pop()
            found.append(Step(last.where, last.language, last.text, text))
        elif language != "text":
            step = Step(where, language, text)
            if language not in ("sh", "python") and step.file_name is None:
                raise ValueError(f"{where}: neither run nor a file")
            found.append(step)
    return found


def ports(path: Path) -> list[str]:
    """The ports of loopback that a page names."""
    return sorted(set(PORT.findall(path.read_text())))


def _blocks(path: Path) -> Iterator[tuple[str, str, str]]:
    text = path.read_text()
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path.name}:{line}", match[1], match[2]


def _pattern(shown: str) -> re.Pattern[str]:
    lines = [
        r"(?:.*\n)*?" if line == ANY else ".*?".join(map(re.escape, line.split(ANY))) + r"\n"
        for line in _with_single_spaces(shown).splitlines()
    ]
    return re.compile("".join(lines))


def _with_single_spaces(text: str) -> str:
    """Columns are as wide as what is in them."""
    return "".join(" ".join(line.split()) + "\n" for line in text.rstrip().splitlines())
