"""`fencepost man`: a page for each command, which a renderer has nothing to say against."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from fencepost.cli.commands import COMMANDS
from fencepost.cli.main import main
from fencepost.cli.man import page_of, write_pages

from ..waiting import DEADLINE_S

SECTIONS = re.compile(r"^\.SH (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man") / "man1"
    write_pages(directory)
    return directory


def test_there_is_a_page_for_every_command(pages: Path):
    names = {"fencepost", *(f"fencepost-{command.name}" for command in COMMANDS)}
    assert {path.name for path in pages.iterdir()} == {f"{name}.1" for name in names}
    for command in COMMANDS:
        text = (pages / f"fencepost-{command.name}.1").read_text()
        found = SECTIONS.findall(text)
        assert found[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
        assert found[3] in ("OPTIONS", "ACTIONS")
        assert found[-3:] == ["EXIT STATUS", "ENVIRONMENT", "SEE ALSO"]


def test_a_page_has_what_help_has():
    text = page_of("topics").replace("\\-", "-")
    assert "fencepost-topics - list, create, describe, alter and delete topics" in text
    assert ".SS create\n" in text
    assert "\\fB--replication-factor\\fR \\fIN\\fR" in text
    # Options of the cluster are those of all actions, and are there once.
    assert text.count("\\fB--client-config\\fR") == 1
    assert ".SH CLUSTER OPTIONS" in text
    example = page_of("format").replace("\\-", "-").partition(".SH EXAMPLES")[2]
    assert "fencepost format random-uuid" in example


def test_a_page_has_the_date_of_its_sources(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert '.TH FENCEPOST\\-MAN 1 "1970-01-02" "Fencepost ' in page_of("man")


def rendered(pages: Iterable[Path], *renderer: str) -> str:
    """What a renderer prints of pages; AssertionError if it finds a mistake in one."""
    if shutil.which(renderer[0]) is None:
        pytest.skip(f"{renderer[0]} is not on this machine")
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "PAGER": "cat"}
    done = subprocess.run(
        [*renderer, *map(str, pages)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Of a line that has a long word alone, such as an option's value.
    assert all("can't break line" in line for line in done.stderr.splitlines()), done.stderr
    return re.sub(".\b", "", done.stdout)


def test_mandoc_finds_no_mistake(pages: Path):
    rendered(sorted(pages.iterdir()), "mandoc", "-T", "lint", "-W", "error")


def test_man_shows_the_pages(pages: Path):
    shown = rendered([pages / "fencepost.1", pages / "fencepost-topics.1"], "man", "-l")
    assert "fencepost topics create [-h] [--partitions N]" in shown
    assert "who may do what, and how much" in shown
    assert not re.search(r"\\f[BIR]|^\.[A-Z]{2}\b", shown, re.MULTILINE)


def test_a_page_that_is_not_there_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["man", "topic"]) == 2
    assert capfd.readouterr().err == (
        "fencepost man: there is no command 'topic': did you mean topics?\n"
    )
    assert main(["man", "topics", "--dir", str(tmp_path)]) == 2
    assert capfd.readouterr().err.startswith("fencepost man: --dir is for all pages")
    file = tmp_path / "file"
    file.touch()
    assert main(["man", "--dir", str(file)]) == 1
    assert capfd.readouterr().err == f"fencepost man: {file}: File exists\n"
