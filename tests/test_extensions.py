"""What was not built is told: by the build, which notes why, and by `fencepost --version`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fencepost import extensions
from fencepost.batch import backend as batch_backend
from fencepost.log import sync_threads
from fencepost.wire import backend as wire_backend

ROOT = Path(__file__).resolve().parent.parent
SOABI = sysconfig.get_config_var("SOABI")
KERNELS, CODEC = "fencepost.batch._kernels", "fencepost.wire._codec"
SYNC, PRODUCE = "fencepost.log._sync_threads", "fencepost.batch._produce"
FETCH, READ = "fencepost.wire._fetch", "fencepost.log._page_cache"
ROOMS = {
    "wire": CODEC,
    "batch": KERNELS,
    "produce": PRODUCE,
    "fetch": FETCH,
    "read": READ,
    "sync": SYNC,
}
ALL_PYTHON = f"({', '.join(f'{room}: python' for room in ROOMS)};"


def version_of(source: Path, **environment: str) -> list[str]:
    """The lines of `fencepost --version` with the package in `source`."""
    # In front of everything: a checkout may be installed by a hook that PYTHONPATH comes behind.
    there = f"import sys; sys.path.insert(0, {str(source)!r})"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{there}; from fencepost.cli.main import main; main()",
            "--version",
        ],
        env={**os.environ, "FENCEPOST_PURE": "0", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_version_says_why_python_is_in_use():
    backends, *reasons = version_of(ROOT / "src", FENCEPOST_PURE="1")
    assert ALL_PYTHON in backends
    assert reasons == [
        "wire runs in Python, slower: FENCEPOST_PURE=1 is set",
        "batch runs in Python, slower: FENCEPOST_PURE=1 is set",
        "produce runs in Python, slower: FENCEPOST_PURE=1 is set",
        "fetch runs in Python, slower: FENCEPOST_PURE=1 is set",
        "read runs in Python, slower: FENCEPOST_PURE=1 is set",
        "sync runs in Python, slower: FENCEPOST_PURE=1 is set",
    ]


def test_version_has_nothing_to_explain_about_c():
    lines = version_of(ROOT / "src")
    assert len(lines) == 1 + lines[0].count(": python")


def test_version_names_every_extension_that_is_missing():
    sources = (ROOT / "src").glob("fencepost/**/*.pyx")
    modules = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in sources}
    without = f"import sys; sys.modules.update(dict.fromkeys({modules}))"
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{without}; from fencepost.cli.main import main; main()",
            "--version",
        ],
        env={**os.environ, "FENCEPOST_PURE": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert modules == {name for name in modules if name in told}
    assert told.count("runs in Python, slower") == len(modules) > 0


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "note.json"
    monkeypatch.setattr(extensions, "NOTE", path)
    monkeypatch.delenv("FENCEPOST_PURE", raising=False)
    return path


def test_the_note_of_this_interpreter_is_told(note: Path):
    note.write_text(json.dumps({SOABI: {"a.b": "no cc"}, "cpython-309": {"a.c": "too old"}}))
    assert extensions.why_not_built("a.b") == "a.b was not built: no cc"
    assert extensions.why_not_built("a.c") == f"a.c is not installed for this interpreter ({SOABI})"


def test_the_note_for_any_interpreter_is_told(note: Path):
    note.write_text(json.dumps({"any": {"a.b": "Cython was not installed"}}))
    assert extensions.why_not_built("a.b") == "a.b was not built: Cython was not installed"


@pytest.mark.parametrize("text", [None, "", "{", "\0"])
def test_a_note_that_cannot_be_read_is_none(note: Path, text: str | None):
    if text is not None:
        note.write_text(text)
    assert "is not installed for this interpreter" in extensions.why_not_built("a.b")


def load(module: str, interface: int = 1) -> tuple[object, str]:
    compiled, why = extensions.load(module, interface)
    return compiled, why()


def test_a_module_of_other_sources_is_not_used(note: Path, tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_other_sources.py").write_text("INTERFACE = 7\n")
    (tmp_path / "in_need.py").write_text("import no_such_module_of_ours\n")
    (tmp_path / "broken.py").write_text("raise ImportError('undefined symbol: fpost')\n")
    for name in ("of_other_sources", "in_need", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert load("of_other_sources", 7)[0] is sys.modules["of_other_sources"]
    assert load("of_other_sources", 8) == (
        None,
        "of_other_sources was built from other sources (interface 7, not 8)",
    )
    assert load("in_need") == (None, "No module named 'no_such_module_of_ours'")
    assert load("broken") == (None, "undefined symbol: fpost")
    assert load("not_there")[1].startswith("not_there is not installed for this interpreter")


def test_every_backend_can_say_why():
    for backend in (wire_backend, batch_backend, sync_threads):
        assert bool(backend.why_python()) == (backend.name() == "python")


# -- the build -------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a build needs, with nothing built in it."""
    pytest.importorskip("Cython")
    built = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info", "_not_built.json")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=built)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def build(checkout: Path, *words: str, **environment: str) -> Path:
    """Run setup.py; the folder that has the package then."""
    command = [sys.executable, "setup.py", *words]
    env = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=checkout, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (checkout / "said").write_text(done.stderr)
    return checkout / "src"


COMPILER = os.environ.get("CC", "gcc")
# The last level that a compiler is told counts, so CFLAGS before setup.py's own would not.
QUICKLY = f'exec {COMPILER} "$@" -O0'


def compiler(checkout: Path, script: str) -> str:
    path = checkout / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_what_does_not_compile_is_told_with_the_compilers_own_error(checkout: Path):
    stale = checkout / "src" / (KERNELS.replace(".", "/") + sysconfig.get_config_var("EXT_SUFFIX"))
    stale.write_bytes(b"of an earlier build")
    fails = compiler(
        checkout, "echo 'a.h:1: warning: odd' >&2\necho 'a.h:2:  error: clash' >&2\nexit 1"
    )
    source = build(checkout, "build_ext", "--inplace", CC=fails)
    said = (checkout / "said").read_text()
    assert "fencepost: compiling 6 C extensions, half a minute of CPU; " in said
    assert "FENCEPOST_PURE_BUILD=1 does without them" in said
    assert " is built (" not in said
    backends, *reasons = version_of(source)
    assert ALL_PYTHON in backends
    assert reasons == [
        f"wire runs in Python, slower: {CODEC} was not built: a.h:2: error: clash",
        f"batch runs in Python, slower: {KERNELS} was not built: a.h:2: error: clash",
        f"produce runs in Python, slower: {PRODUCE} was not built: a.h:2: error: clash",
        f"fetch runs in Python, slower: {FETCH} was not built: a.h:2: error: clash",
        f"read runs in Python, slower: {READ} was not built: a.h:2: error: clash",
        f"sync runs in Python, slower: {SYNC} was not built: a.h:2: error: clash",
    ]
    assert not stale.exists()

    gone = build(checkout, "build_ext", "--inplace", CC="/no/such/compiler")
    assert all("/no/such/compiler" in line for line in version_of(gone)[1:])


@pytest.mark.long
def test_each_that_does_not_compile_is_told_and_the_others_are_used(checkout: Path):
    if shutil.which(COMPILER) is None:
        pytest.skip("there is no C compiler")
    quickly = compiler(checkout, QUICKLY)
    source = build(checkout, "build_ext", "--inplace", "--parallel", "2", CC=quickly)
    built = {path: path.read_bytes() for path in (checkout / "build").rglob("*.so")}
    for room, module in ROOMS.items():
        name = module.rpartition(".")[2]
        for path, content in built.items():
            path.write_bytes(content)  # newer than its sources, so it is not built again
            if path.name.startswith(f"{name}."):
                path.unlink()
        fails = compiler(checkout, f"echo '{name}.c:7: error: clash' >&2; exit 1")
        build(checkout, "build_ext", "--inplace", "--parallel", "2", CC=fails)
        backends, *reasons = version_of(source)
        assert reasons == [
            f"{room} runs in Python, slower: {module} was not built: {name}.c:7: error: clash"
        ]
        assert (backends.count(": c"), f"{room}: python" in backends) == (len(ROOMS) - 1, True)
    assert len(built) == len(ROOMS)


@pytest.mark.long
def test_builds_side_by_side_tell_each_its_own_error(checkout: Path):
    fails = compiler(
        checkout,
        """for word; do case "$word" in *.c) echo "$word:7: error: clash" >&2; esac; done
        sleep 0.2
        exit 1""",
    )
    source = build(checkout, "build_ext", "--inplace", "--parallel", "4", CC=fails)
    assert version_of(source)[1:] == [
        f"{room} runs in Python, slower: {module} was not built:"
        f" src/{module.replace('.', '/')}.c:7: error: clash"
        for room, module in ROOMS.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("build_ext", "--inplace"), ("build", "--build-lib", "lib")])
def test_a_pure_build_says_so(checkout: Path, words: tuple[str, ...]):
    (checkout / "examples" / "flights").mkdir(parents=True)
    source = build(checkout, *words, FENCEPOST_PURE_BUILD="1")
    source = source if "--inplace" in words else checkout / "lib"
    assert version_of(source)[1:] == [
        f"wire runs in Python, slower: {CODEC} was not built: FENCEPOST_PURE_BUILD=1 was set",
        f"batch runs in Python, slower: {KERNELS} was not built: FENCEPOST_PURE_BUILD=1 was set",
        f"produce runs in Python, slower: {PRODUCE} was not built: FENCEPOST_PURE_BUILD=1 was set",
        f"fetch runs in Python, slower: {FETCH} was not built: FENCEPOST_PURE_BUILD=1 was set",
        f"read runs in Python, slower: {READ} was not built: FENCEPOST_PURE_BUILD=1 was set",
        f"sync runs in Python, slower: {SYNC} was not built: FENCEPOST_PURE_BUILD=1 was set",
    ]


@pytest.mark.long
def test_a_build_that_succeeds_takes_the_note_back(checkout: Path):
    if shutil.which(COMPILER) is None:
        pytest.skip("there is no C compiler")
    build(checkout, "build_ext", "--inplace", FENCEPOST_PURE_BUILD="1")
    note = checkout / "src" / "fencepost" / "_not_built.json"
    assert note.exists()
    source = build(checkout, "build_ext", "--inplace", CC=compiler(checkout, QUICKLY))
    assert not note.exists()
    assert [line.count(": c") for line in version_of(source)] == [6]
