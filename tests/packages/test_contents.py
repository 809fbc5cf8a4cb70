"""The checks of a release find what they look for, and the files of this tree agree."""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "fencepost-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl"
MODULES = {"fencepost/__init__.py", "pyspark_fencepost/__init__.py"}
METADATA = (
    "Name: fencepost\nVersion: 0.1.0\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\n"
)


@pytest.fixture(scope="module")
def release() -> Iterator[SimpleNamespace]:
    """The modules of tools/release."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        from release import agreement, build, contents

        yield SimpleNamespace(agreement=agreement, build=build, contents=contents)


@pytest.fixture
def files(release: SimpleNamespace) -> dict[str, str]:
    """What a wheel that is all right has, by name."""
    names = [*MODULES, *release.contents.IN_WHEEL]
    names += [f"{one}.cpython-311-x86_64-linux-gnu.so" for one in release.contents.EXTENSIONS]
    info = "fencepost-0.1.0.dist-info"
    return {
        **dict.fromkeys(names, "x"),
        f"{info}/METADATA": METADATA,
        f"{info}/licenses/LICENSE": "Apache",
    }


def findings(release: SimpleNamespace, place: Path, files: dict[str, str]) -> list[str]:
    wheel = place / WHEEL
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    found = release.contents.wheel_findings(wheel, MODULES, ["/builds/42/"])
    return [one.removeprefix(f"{WHEEL}: ") for one in found]


def test_a_wheel_that_is_all_right(release, tmp_path: Path, files: dict[str, str]):
    assert findings(release, tmp_path, files) == []


@pytest.mark.parametrize(
    "name",
    [
        *("tests/test_a.py", "fencepost/wire/_codec.c", "fencepost/wire/_codec.pyx"),
        *("fencepost/batch/_crc32c.h", "fencepost/__pycache__/a.pyc", "setup.py"),
        *("fencepost/_not_built.json", "fencepost/log/tests/a.py"),
    ],
)
def test_what_does_not_belong_into_a_wheel(release, tmp_path: Path, files, name: str):
    found = findings(release, tmp_path, {**files, name: "x"})
    assert found == [f"{name}: does not belong into a wheel"]


def test_what_is_missing_in_a_wheel(release, tmp_path: Path, files: dict[str, str]):
    for name in list(files):
        fewer = {one: text for one, text in files.items() if one != name}
        (found, *_) = findings(release, tmp_path, fewer)
        assert "missing" in found or "not compiled" in found or "no line" in found, name


def test_paths_of_the_machine_and_extensions_of_others(release, tmp_path: Path, files):
    codec = "fencepost/wire/_codec.cpython-311-x86_64-linux-gnu.so"
    found = findings(release, tmp_path, {**files, codec: "\x7fELF /builds/42/src \0"})
    assert found == [f"{codec}: has the path /builds/42/ of the machine that built it"]
    found = findings(release, tmp_path, {**files, "fencepost/extra.abi3.so": "x"})
    assert found == ["fencepost/extra: is no extension of ours"]


def test_a_wheel_that_is_too_large(release, tmp_path: Path, files, monkeypatch):
    monkeypatch.setattr(release.contents, "WHEEL_BYTES_MAX", 100)
    (found,) = findings(release, tmp_path, files)
    assert "more than 100" in found


def packed(target: Path, members: dict[str, bytes], mtime: int) -> Path:
    with tarfile.open(target, "w:gz") as written:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid = len(data), mtime, mtime
            written.addfile(member, io.BytesIO(data))
    return target


def test_a_source_distribution_is_checked(release, tmp_path: Path):
    top = "fencepost-0.1.0"
    names = [*release.contents.IN_SDIST, *(f"src/{name}" for name in MODULES)]
    members = {f"{top}/{name}": b"x" for name in names}
    target = tmp_path / f"{top}.tar.gz"
    assert release.contents.sdist_findings(packed(target, members, 1), MODULES) == []
    for extra in ("tests/test_a.py", "src/fencepost/wire/_codec.c", "src/fencepost/a.so"):
        packed(target, {**members, f"{top}/{extra}": b"x"}, 1)
        (found,) = release.contents.sdist_findings(target, MODULES)
        assert f"{extra}: does not belong" in found
    packed(target, {**members, "../evil": b"x"}, 1)
    assert "../evil: is not below" in release.contents.sdist_findings(target, MODULES)[0]
    del members[f"{top}/LICENSE"]
    (found,) = release.contents.sdist_findings(packed(target, members, 1), MODULES)
    assert found.endswith("LICENSE: is missing")


def test_a_source_distribution_has_the_same_bytes_whenever_it_is_packed(release, tmp_path: Path):
    members = {"a-1/b": b"two", "a-1/a": b"one"}
    first = packed(tmp_path / "first.tar.gz", members, 1)
    second = packed(tmp_path / "second.tar.gz", dict(sorted(members.items())), 2)
    assert first.read_bytes() != second.read_bytes()
    one = release.build.repack(first, tmp_path / "one", 1_000_000)
    other = release.build.repack(second, tmp_path / "other", 1_000_000)
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as read:
        assert [(m.name, m.mtime, m.uid) for m in read] == [
            ("a-1/a", 1_000_000, 0),
            ("a-1/b", 1_000_000, 0),
        ]


def test_versions_and_pythons_agree(release, tmp_path: Path):
    """All but the date, which the changelog gets at the release."""
    found = release.agreement.disagreements(ROOT)
    assert [one for one in found if "has no date but 'not released yet'" not in one] == []
    for name in ("pyproject.toml", "CHANGELOG.md", "src/fencepost/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, old, new, said in (
        ("src/fencepost/__init__.py", '"0.1.0"', '"0.2.0"', "__version__ is 0.2.0, not 0.1.0"),
        ("CHANGELOG.md", "## 0.1.0", "## 0.0.9", "CHANGELOG.md begins with 0.0.9, not 0.1.0"),
        ("pyproject.toml", "cp314-*", "", "tool.cibuildwheel.build is"),
    ):
        path = tmp_path / name
        before = path.read_text()
        path.write_text(before.replace(old, new))
        assert any(said in one for one in release.agreement.disagreements(tmp_path)), name
        path.write_text(before)
