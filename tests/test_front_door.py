"""What a newcomer meets first is short and true: README, CI, hooks, issue forms, metadata."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from fencepost.cli.main import build_whole_parser
from fencepost.testing import Cluster

from .waiting import DEADLINE_S

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINES_MAX = 60
EXAMPLE_LINES_MAX = 12
FIRST_MINUTE_LINES_MAX = 5
FORM_TYPES = {"markdown", "input", "textarea", "dropdown", "checkboxes"}


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_readme_is_one_screen() -> None:
    assert len(README.splitlines()) <= LINES_MAX
    install, first_minute, example, commands = FENCE.findall(README)
    assert install[0] == "sh"
    assert install[1].startswith("python -m pip install '.[console]'")
    assert install[1].count("\n") == 1
    assert first_minute[1].count("\n") <= FIRST_MINUTE_LINES_MAX
    assert example[0] == "python"
    code = [line for line in example[1].splitlines()[1:] if line]
    assert len(code) <= EXAMPLE_LINES_MAX
    assert [line.split()[:2] for line in commands[1].splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]
    assert len(re.findall(r"!\[", README)) == 1


def test_the_first_minute_is_as_the_readme_has_it() -> None:
    """`serve` and `console`, which stay, are parsed; what is between them runs on a cluster."""
    language, text = FENCE.findall(README)[1]
    assert language == "sh"
    serve, *between, console = text.splitlines()
    for line in (serve, console):
        program, *words = shlex.split(line, comments=True)
        assert program == "fencepost"
        assert build_whole_parser().parse_args(words).command == words[0]
    fencepost = f'fencepost() {{ {sys.executable} -m fencepost.cli.main "$@"; }}\n'
    with Cluster() as cluster:
        ran = subprocess.run(
            ["sh", "-ec", fencepost + "\n".join(between)],
            env={**os.environ, "FENCEPOST_BOOTSTRAP": cluster.bootstrap_servers},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "hello"


def test_what_installs_fencepost_installs_it_from_somewhere() -> None:
    """It is on no package index: its name alone is none that pip can install."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    assert not [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages
        for line in page.read_text().splitlines()
        if re.search(r"pip install (-\S+ )*fencepost\b", line)
    ]


def test_hosted_ci_runs_what_ci_runs_on_the_oldest_python() -> None:
    workflow = loaded(".github/workflows/ci.yml")
    steps = workflow["jobs"]["run"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    versions = [step["with"]["python-version"] for step in steps if "setup-python" in str(step)]
    assert [f">={version}" for version in versions] == [project()["requires-python"]]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_hooks_are_the_checks_of_make_check() -> None:
    makefile = (ROOT / "Makefile").read_text()
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert check
    wanted = [line.split()[:2] for line in check[1].replace("$(BIN)/", "").splitlines()]
    repositories = loaded(".pre-commit-config.yaml")["repos"]
    assert [one["repo"] for one in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    entries = [hook["entry"].removeprefix(".venv/bin/").split()[:2] for hook in hooks]
    assert sorted(entries) == sorted(wanted)
    assert all(hook["language"] == "system" for hook in hooks)


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")),
    ids=lambda one: one.stem,
)
def test_issue_forms_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert ids
    assert len(ids) == len(set(ids))
    assert {field["type"] for field in form["body"]} <= FORM_TYPES
    assert all(
        field["attributes"].get("label") or field["attributes"].get("value")
        for field in form["body"]
    )


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == project()["version"]


def pythons() -> set[str]:
    """The versions of Python that the package's metadata names."""
    classifiers = project()["classifiers"]
    return {one.rpartition(" ")[2] for one in classifiers if ":: Python :: 3." in one}


def pinned(path: Path, version: str) -> set[tuple[str, str]]:
    """Names and versions that a file of requirements installs for a Python."""
    environment = {"python_version": version, "python_full_version": f"{version}.0"}
    lines = re.findall(r"^\w[^\\\n]*", path.read_text(), re.MULTILINE)
    return {
        (one.name, str(one.specifier))
        for one in map(Requirement, lines)
        if one.marker is None or one.marker.evaluate(environment)
    }


@pytest.mark.parametrize("version", sorted(pythons()))
def test_files_of_requirements_agree_in_one_environment(version: str) -> None:
    """`make docs`, `make fuzz` and `make packages` install theirs beside those of `make setup`,
    once: what another one changes afterwards would stay changed."""
    pins = {pin for path in (ROOT / "requirements").glob("*.txt") for pin in pinned(path, version)}
    names = [name for name, _ in pins]
    assert {(name, pin) for name, pin in pins if names.count(name) > 1} == set()
    assert {"docutils", "pytest", "msgspec"} <= set(names)


def test_the_package_says_who_made_it_and_which_pythons_it_is_for() -> None:
    metadata = project()
    assert metadata["authors"] == [{"name": "The Fencepost authors"}]
    named = pythons()
    assert metadata["requires-python"].removeprefix(">=") == min(named, key=lambda v: int(v[2:]))
    assert "Framework :: Pytest" in metadata["classifiers"]
    assert metadata["entry-points"]["pytest11"]
