"""The documents say what is so: tables are current, what they name exists, what they show runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from fencepost.cli.command_line import cluster_options_last
from fencepost.cli.main import build_parser
from fencepost.spark import options as spark_options

ROOT = Path(__file__).resolve().parent.parent
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = ROOT / "docs" / "tutorials"
"""Whose blocks `tests/docs/test_tutorials.py` runs, all of them."""
OURS = [path for path in DOCS if path.name != "ARCHITECTURE.md"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPARK_PAGES = (
    "AUDIT.md",
    "CHECKPOINTS.md",
    "EXACTLY_ONCE.md",
    "LAKES.md",
    "REGISTRY.md",
    "SPARK.md",
    "TABLES.md",
)
"""Whose blocks run in a session of Spark, one for each page."""
RUN_TIMEOUT_S = 240
SPARK_TIMEOUT_S = 600


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    path: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}"

    def begins_with(self, mark: str) -> bool:
        return self.text.split("\n", 1)[0] == mark


def blocks() -> list[Block]:
    found = []
    for path in OURS:
        if path.parent == TUTORIALS:
            continue
        text = path.read_text()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(path, line, match[1], match[2]))
    return found


BLOCKS = blocks()


def marked(language: str, mark: str) -> list[Block]:
    return [one for one in BLOCKS if one.language == language and one.begins_with(mark)]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def prose(path: Path) -> str:
    """A document without its fenced blocks."""
    return FENCE.sub("", path.read_text())


# -- what they say ---------------------------------------------------------------------------


def tool(name: str) -> ModuleType:
    """A script of tools/ as a module; it finds its neighbours as when it is run."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def docs_tables() -> ModuleType:
    return tool("docs_tables")


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_tables_are_current(path: Path, docs_tables: ModuleType):
    text = path.read_text()
    assert docs_tables.rewritten(text) == text, "run python tools/docs_tables.py"


def test_every_table_is_in_a_document(docs_tables: ModuleType):
    used = {match[2] for path in DOCS for match in docs_tables.MARK.finditer(path.read_text())}
    assert used == set(docs_tables.TABLES)


def test_the_picture_of_costs_is_that_of_their_table():
    picture = tool("performance_picture")
    costs = picture.costs_in(picture.PAGE.read_text())
    assert picture.PICTURE.read_text() == picture.draw(costs), "python tools/performance_picture.py"
    assert {cost.other for cost in costs} == {"Apache Kafka", "Spark's kafka"}
    assert ">0.24 s, 4.1 s with Apache Kafka<" in picture.PICTURE.read_text()
    with pytest.raises(ValueError, match="could not convert"):
        picture.costs_in(
            "<!-- costs -->\n| a |\n|---|\n| work, s | 1 | two | Kafka |\n<!-- end -->"
        )


def test_a_cost_of_several_runs_is_drawn_with_its_range():
    picture = tool("performance_picture")
    head = "<!-- costs -->\n| a |\n|---|\n"
    rows = "| work, s | 1 / 4 / 2 | 3 / 4 / 4 | `kafka` |\n| other, s | 1 | 2 | `kafka` |\n"
    costs = picture.costs_in(f"{head}{rows}<!-- end -->")
    assert costs[0].ratios == [1, 2, 3]
    assert costs[0].times_less == costs[1].times_less == 2
    drawn = picture.draw(costs)
    assert "1 to 4 s, 3 to 4 s with kafka<" in drawn
    bars = re.findall(r'<rect x="([0-9.]+)" y="[0-9]+" width="([0-9.]+)"', drawn)
    assert bars[0] == bars[1]
    ranges = re.findall(r'd="M([0-9.]+) [0-9]+H([0-9.]+)M', drawn)
    assert len(ranges) == 1, "a single run has no range"
    assert float(ranges[0][0]) == pytest.approx(float(bars[0][0]), abs=0.1)
    assert float(ranges[0][1]) > float(bars[0][0]) + float(bars[0][1])
    with pytest.raises(ValueError, match="work, s: 1 runs, 2 of the other"):
        picture.costs_in(f"{head}| work, s | 1 | 2 / 3 | kafka |\n<!-- end -->")


def test_the_axes_of_the_picture_of_scale_have_names():
    """It is drawn by a simulation of minutes, so only what is always in it is compared."""
    from benchmarks.scale.picture import AXES

    drawn = (ROOT / "docs" / "scale.svg").read_text().splitlines()
    assert tuple(drawn[2:4]) == AXES
    assert all(re.search(r">[a-z ,]{10,}</text>$", line) for line in AXES)


def test_a_key_that_nothing_reads_is_found_out(docs_tables: ModuleType):
    read = docs_tables.read_keys()
    assert {"retention.ms", "log.retention.hours", "num.partitions", "segment.bytes"} <= read
    assert "leader.replication.throttled.replicas" in read  # by the name of its attribute
    assert "no.such.key" not in read
    assert "log.local.retention.ms" not in read


PATH_NAMED = re.compile(
    r"`((?:src|tests|tools|docs|benchmarks|examples|requirements|\.ci)/[\w./<>*-]+)`"
)
LINK = re.compile(r"\]\(((?!https?:)[^)#]*)(?:#([\w-]+))?\)")


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_files_that_are_named_exist(path: Path):
    missing = [name for name in PATH_NAMED.findall(path.read_text()) if not list(ROOT.glob(name))]
    assert not missing


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_links_lead_somewhere(path: Path):
    for name, anchor in LINK.findall(path.read_text()):
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


TEST_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_tests_that_are_named_exist(path: Path):
    for file, name in TEST_NAMED.findall(path.read_text()):
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


DOTTED = re.compile(r"`(fencepost(?:\.\w+)+)`")


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_python_names_exist(path: Path):
    from fencepost.broker.config.keys import BROKER_CONFIGS

    for dotted in sorted(set(DOTTED.findall(path.read_text())) - BROKER_CONFIGS.keys()):
        module_name, _, attribute = dotted.rpartition(".")
        try:
            importlib.import_module(dotted)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module_name), attribute), dotted


ENVIRONMENT = re.compile(r"\bFENCEPOST_[A-Z_]+\b")


def test_environment_variables_are_looked_at():
    sources = "".join(
        path.read_text()
        for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), ROOT / "setup.py"]
        if path != Path(__file__).resolve()
    )
    named = {name for path in DOCS for name in ENVIRONMENT.findall(path.read_text())}
    assert named
    assert {name for name in named if f'"{name}"' not in sources} == set()


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command in shell blocks and code spans, split into words."""
    for block in BLOCKS:
        if block.language == "sh":
            joined = re.sub(r"\|\n\s*", "| ", block.text.replace("\\\n", " "))
            for line in joined.splitlines():
                for part in re.split(r"\s\|\s|\s&&\s", line):
                    words = shlex.split(part, comments=True)
                    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                        del words[0]
                    if words:
                        yield str(block), words
    for path in DOCS:
        for span in re.findall(r"`((?:fencepost|make|python)(?: [^`\n]+)?)`", prose(path)):
            if "..." not in span:
                yield path.name, shlex.split(span)


def test_commands_that_are_shown_exist(capsys: pytest.CaptureFixture[str]):
    makefile = (ROOT / "Makefile").read_text()
    checked = 0
    for where, words in command_lines():
        program = Path(words[0]).name
        if program == "make" and len(words) > 1:
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"{where}: {words}"
        elif program == "python" and words[-1] != "python" and words[1].endswith(".py"):
            assert (ROOT / words[1]).is_file(), f"{where}: {words}"
        elif program == "fencepost" and len(words) > 1:
            for index, word in enumerate(words):
                if word in (">", "<", "2>", "&"):
                    words = words[:index]
                    break
            assert accepted(words[1:]), f"{where}: {words}: {capsys.readouterr().err}"
        else:
            continue
        checked += 1
    assert checked > 20


def accepted(words: list[str]) -> bool:
    """Whether the command line takes these words; in prose an action may stand alone."""
    if words in (["--version"], ["--help"]) or (len(words) > 1 and words[1:] == ["--help"]):
        return True
    words = cluster_options_last(words)
    parser = build_parser(words[0])
    try:
        parser.parse_args(words)
    except SystemExit:
        # `fencepost topics`, `fencepost configs alter --topic`: spoken of, not to be typed.
        return bool(re.fullmatch(r"[a-z]+( [a-z]+)?( --[a-z-]+( \d+)?)?", " ".join(words))) and (
            words[0] in parser.format_help()
        )
    return True


def test_apis_that_are_said_to_be_missing_are(docs_tables: ModuleType):
    from fencepost.broker import apis
    from fencepost.broker.net.registry import ROUTES

    apis.load_all()
    served = {route.name for route in ROUTES.values()}
    text = document("DIFFERENCES.md").split("## What is not there\n")[1].split("\n## ")[0]
    said = {
        name
        for sentence in re.findall(r"not\s+served:(.*?)\.(?:\s|$)", text, re.DOTALL | re.IGNORECASE)
        for name in re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", sentence, flags=re.DOTALL))
    }
    assert said
    assert said & served == set()


def test_every_option_of_the_data_source_is_in_the_table():
    rows = re.findall(
        r"^\| `([\w.]+)` \| (?:read|stream|write)", document("SPARK.md"), re.MULTILINE
    )
    assert sorted(rows) == sorted({*spark_options.NAMES, *spark_options.WITHOUT_EFFECT})


def test_refused_properties_are_named():
    text = document("SPARK.md")
    for key in (*spark_options.REJECTED_FOR_SOURCES, *spark_options.REJECTED_FOR_SINKS):
        assert f"`kafka.{key}`" in text


def test_blocks_are_marked_or_meant_for_reading():
    """A Python block without a mark would never be tried."""
    unmarked = [
        str(one) for one in BLOCKS if one.language == "python" and not one.text.startswith("# runs")
    ]
    assert not unmarked


def test_every_page_with_blocks_for_spark_is_run():
    assert {one.path.name for one in marked("python", "# runs in Spark")} == set(SPARK_PAGES)


# -- what they show --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """What a user's shell has who activated the environment, and a broker to talk to."""
    from fencepost.testing import Cluster

    # Members get partitions with a heartbeat, which is each five seconds by default.
    often = {
        f"group.{kind}.{bound}heartbeat.interval.ms": 100
        for kind in ("consumer", "share")
        for bound in ("min.", "")
    }
    with Cluster(faults=False, config=often) as cluster:
        yield {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "FENCEPOST_BOOTSTRAP": cluster.bootstrap_servers,
        }


def run(
    command: list[str], environment: dict[str, str], place: Path, timeout_s: float = RUN_TIMEOUT_S
) -> str:
    done = subprocess.run(
        command,
        env=environment,
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"exit code {done.returncode}\n{output[-6000:]}"
    return output


@pytest.mark.slow
@pytest.mark.parametrize("block", marked("python", "# runs"), ids=str)
def test_python_blocks_run(block: Block, environment: dict[str, str], tmp_path: Path):
    script = tmp_path / "block.py"
    script.write_text(block.text.replace("127.0.0.1:9092", environment["FENCEPOST_BOOTSTRAP"]))
    run([sys.executable, str(script)], environment, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["ARROW.md", "CLIENT.md"])
def test_blocks_that_build_on_each_other_run_in_order(
    environment: dict[str, str], tmp_path: Path, page: str
):
    """The examples of a page, in one process, as a reader would try them."""
    ordered = marked("python", "# runs in order")
    assert {one.path.name for one in ordered} == {"ARROW.md", "CLIENT.md"}
    found = [one for one in ordered if one.path.name == page]
    script = tmp_path / "blocks.py"
    script.write_text("\n".join(f"# {one}\n{one.text}" for one in found) + 'print("all ran")\n')
    assert "all ran" in run([sys.executable, str(script)], environment, tmp_path)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("block", marked("python", "# runs with pytest"), ids=str)
def test_test_blocks_pass(block: Block, environment: dict[str, str], tmp_path: Path):
    script = tmp_path / "test_block.py"
    script.write_text(block.text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(script)]
    assert " passed" in run(command, environment, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", marked("sh", "# runs"), ids=str)
def test_shell_blocks_run(block: Block, environment: dict[str, str], tmp_path: Path):
    run(["bash", "-euo", "pipefail", "-c", block.text], environment, tmp_path)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(SPARK_TIMEOUT_S + 60)
@pytest.mark.parametrize("page", SPARK_PAGES)
def test_spark_blocks_run(environment: dict[str, str], tmp_path: Path, page: str):
    """All blocks of a page in one session, in order, as a reader would try them."""
    found = [one for one in marked("python", "# runs in Spark") if one.path.name == page]
    end = textwrap.dedent("""
        spark.stop()
        print("all blocks ran")
    """)
    script = tmp_path / "blocks.py"
    script.write_text("\n".join(f"# {one}\n{one.text}" for one in found) + end)
    output = run([sys.executable, str(script)], environment, tmp_path, SPARK_TIMEOUT_S)
    assert "all blocks ran" in output
