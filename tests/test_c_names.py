"""Names of the C headers: all have our prefix, since they share a file with CPython's headers.

What Cython writes includes headers of CPython's, some of them internal, and which names those take
changes with every release: 3.12 brought a `write_varint`, and a header of ours that had one too did
not compile any more. No interpreter that is there can tell what the next one brings, so the rule is
checked here, and `make pythons` builds the extensions with every interpreter there is.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEADERS = sorted((ROOT / "src").rglob("*.h"))
OURS = re.compile(r"fpost_|FPOST_|FENCEPOST_")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)+")
ENUM = re.compile(r"\benum\b[^{;]*\{(.*?)\}", re.DOTALL)
POINTED_TO = re.compile(r"\(\s*\*\s*(\w+)\s*\)")


def outside_braces(text: str) -> list[str]:
    """The declarations at file scope, without what is in braces."""
    flat, depth = "", 0
    for char in text:
        depth += char == "{"
        if depth == 0:
            flat += char
        elif char == "}":
            depth -= 1
            flat += "{}" if depth == 0 else ""
    # A function's body ends its declaration, the braces of a type do not.
    flat = re.sub(r"\)\s*\{\}", ");", flat)
    return [" ".join(part.split()) for part in flat.split(";") if part.strip()]


def names(source: str) -> set[str]:
    """What a header defines for everything that is included behind it."""
    code = COMMENT.sub(" ", source)
    found = set(DEFINE.findall(code))
    code = ATTRIBUTE.sub(" ", DIRECTIVE.sub(" ", code))
    for body in ENUM.findall(code):
        found |= {item.split("=")[0].strip() for item in body.split(",") if item.strip()}
    for declaration in outside_braces(code):
        if pointers := POINTED_TO.findall(declaration):
            found |= set(pointers)
        elif "(" in declaration:
            found.add(declaration.split("(")[0].split()[-1].lstrip("*"))
        else:
            plain = re.sub(r"\[[^]]*\]|=.*", "", declaration).replace("{}", " {} ")
            found |= {item.split()[-1].lstrip("*") for item in plain.split(",")}
            found |= set(re.findall(r"\b(?:struct|enum|union) (\w+)", plain))
    return found - {"{}"}


def test_there_are_headers():
    assert {path.name for path in HEADERS} >= {"_records.h", "_codec_objects.h"}


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.name)
def test_every_name_has_our_prefix(path: Path):
    found = names(path.read_text())
    assert len(found) > 10
    assert [name for name in sorted(found) if not OURS.match(name)] == []


def test_names_of_every_kind_are_found():
    source = """
    /* int in_a_comment; */
    #define MACRO(x) (x)
    #define LONG_MACRO do { \\
        int inside; } while (0)
    enum { FIRST = 1, SECOND };
    typedef struct { int member; } structure;
    struct tagged { int *other; };
    typedef int (*function_type)(int argument);
    static int table[2][3], second_table[4];
    static struct { int a; } instances[1 << 9];
    static const char *text = "int in_a_string;";
    static void declared(int argument);
    __attribute__((target("sse4.2"))) static inline int *
    defined(const int *argument, int other)
    {
        int local = 1;
        { int deeper; }
        return 0;
    }
    """
    assert names(source) == {
        *("MACRO", "LONG_MACRO", "FIRST", "SECOND", "structure", "tagged", "function_type"),
        *("table", "second_table", "instances", "text", "declared", "defined"),
    }
