"""What is tried of a tutorial's page, and that a page which says something else is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from .tutorial_page import Step, ports, steps
from .tutorial_session import Session, TutorialError


def page(directory: Path, *blocks: tuple[str, str]) -> Path:
    path = directory / "page.md"
    text = "\n".join(f"Words.\n\n```{language}\n{text}\n```\n" for language, text in blocks)
    path.write_text(f"# Page\n\n{text}")
    return path


def carried_out(path: Path, directory: Path) -> None:
    session = Session(path, directory)
    try:
        session.carry_out()
    finally:
        session.close()


def test_blocks_have_the_output_that_follows_them(tmp_path: Path):
    path = page(tmp_path, ("sh", "echo 1"), ("output", "1"), ("text", "read"), ("python", "# a.py"))
    assert steps(path) == [
        Step("page.md:5", "sh", "echo 1\n", "1\n"),
        Step("page.md:23", "python", "# a.py\n"),
    ]
    assert [step.file_name for step in steps(path)] == [None, "a.py"]


@pytest.mark.parametrize(
    "blocks",
    [
        [("output", "1")],
        [("sh", "echo 1"), ("output", "1"), ("output", "1")],
        [("python", "# a.py"), ("output", "1")],
        [("yaml", "on: push")],
    ],
    ids=["no command", "shown twice", "of a file", "no file"],
)
def test_a_block_that_would_not_be_tried_is_an_error(blocks: list[tuple[str, str]], tmp_path: Path):
    with pytest.raises(ValueError, match=r"page.md:\d+"):
        steps(page(tmp_path, *blocks))


@pytest.mark.parametrize(
    ("shown", "printed", "accepted"),
    [
        ("a b", "a   b\n", True),
        ("a b", "a b\nc\n", False),
        ("a …", "a b c\n", True),
        ("a …", "b\n", False),
        ("…\nb", "x\ny\nb\n", True),
        ("…\nb", "b\n", True),
        ("a\n…", "a\n", True),
        ("a.c", "abc\n", False),
        ("a", "\n\na\n", False),
    ],
)
def test_what_is_printed_is_compared(shown: str, printed: str, accepted: bool):
    assert Step("page.md:1", "sh", "true\n", shown).accepts(printed) is accepted


def test_blocks_go_on_where_the_one_before_ended(tmp_path: Path):
    path = page(
        tmp_path,
        ("sh", "export SIZE=3; mkdir place; cd place"),
        ("python", "x = 2"),
        ("sh", 'echo "$SIZE $(basename "$PWD")"'),
        ("output", "3 place"),
        ("python", "print(x + 1)\n1 / 0"),
        ("output", "3\n…\nZeroDivisionError: division by zero"),
    )
    carried_out(path, tmp_path)


def test_ports_of_the_page_are_free_ones_and_shown_as_the_page_has_them(tmp_path: Path):
    serve = (
        "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=9092, bind='127.0.0.1')"
    )
    path = page(
        tmp_path,
        ("sh", f'# in a second terminal\npython -u -c "{serve}"'),
        ("output", "… port 9092 …"),
        (
            "sh",
            "# until it prints what is below\ncurl -fsS -o got http://127.0.0.1:9092/ && echo ok",
        ),
        ("output", "ok"),
    )
    assert ports(path) == ["9092"]
    session = Session(path, tmp_path)
    try:
        session.carry_out()
        assert session.processes()
    finally:
        session.close()
    assert not session.processes()


@pytest.mark.parametrize(
    "blocks",
    [
        [("sh", "echo 2"), ("output", "1")],
        [("sh", "false")],
        [("sh", "false\ntrue")],
        [("python", "1 / 0")],
        [("python", "print(2)"), ("output", "1")],
        [("sh", "# in a second terminal\necho 1"), ("output", "1")],
    ],
    ids=["shell", "exit code", "first of two", "exception", "python", "ended"],
)
def test_a_page_that_is_wrong_is_found_out(blocks: list[tuple[str, str]], tmp_path: Path):
    with pytest.raises(TutorialError, match=r"page.md:5"):
        carried_out(page(tmp_path, *blocks), tmp_path)
