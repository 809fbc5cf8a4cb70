"""`fencepost cluster up` where it cannot be: one clear line, and nothing that is half made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.testing.node_process import ClusterError
from fencepost.testing.quorum_cluster import QuorumCluster

from ..ports import refusing_port


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster that was made and never started; not to be changed."""
    directory = tmp_path_factory.mktemp("made") / "cluster"
    QuorumCluster(3, 1, directory=directory)
    return directory


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """The same at another place, with paths that fit."""
    directory = tmp_path / "copy"
    shutil.copytree(made, directory)
    for config in directory.glob("*/server.properties"):
        config.write_text(config.read_text().replace(str(made), str(directory)))
    return directory


def up(capsys: pytest.CaptureFixture[str], directory: Path, *options: str, code: int) -> str:
    """The line that the command ends with, its only one."""
    assert main(["cluster", "up", "--dir", str(directory), *options]) == code
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1, printed
    assert printed.err.startswith("fencepost cluster up: ")
    return printed.err


def test_a_file_is_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.touch()
    assert f"{path} is not a directory" in up(capsys, path, code=2)
    assert "Not a directory" in up(capsys, path / "below", code=1)


def test_a_port_that_is_taken_is_found_out_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "new"
    with refusing_port() as held:
        port = held.getsockname()[1]
        options = "--broker-port", str(port), "--controllers", "1"
        assert f"127.0.0.1:{port}: Address already in use" in up(
            capsys, directory, *options, code=1
        )
    assert not directory.exists()


def test_a_cluster_whose_ports_are_taken_runs_perhaps(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing_port() as held:
        port = held.getsockname()[1]
        config = copy / "controller-2" / "server.properties"
        lines = config.read_text().splitlines()
        others = [line for line in lines if not line.startswith("listeners=")]
        config.write_text("\n".join([*others, f"listeners=CONTROLLER://127.0.0.1:{port}", ""]))
        said = up(capsys, copy, code=1)
        assert f":{port}: Address already in use" in said and "runs already" in said


def test_a_cluster_that_was_copied_does_not_write_to_the_first_ones_data(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "elsewhere"
    shutil.copytree(made, directory)
    said = up(capsys, directory, code=2)
    assert f"log.dirs={made}/controller-1/data" in said
    assert f"{directory}/controller-1/data" in said


@pytest.mark.parametrize("gone", ["controller-3", "*"])
def test_a_cluster_that_was_not_made_to_its_end(
    copy: Path, gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for config in copy.glob(f"{gone}/server.properties"):
        config.unlink()
    said = up(capsys, copy, code=1)
    assert "has no server.properties" in said and "cut short" in said
    assert list(copy.glob("*/data/meta.properties")), "and nothing is removed"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=\\u12", "bad escape"),
        ("a=b\n", "`listeners` does not say a port"),
        ("listeners=CONTROLLER://127.0.0.1:x\n", "`listeners` does not say a port"),
    ],
)
def test_a_configuration_that_makes_no_sense(
    copy: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = copy / "controller-2" / "server.properties"
    config.write_text(text)
    said = up(capsys, copy, code=1)
    assert str(config) in said and says in said


def test_data_that_is_not_formatted(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(copy / "controller-1" / "data")
    assert "controller-1/data is not formatted" in up(capsys, copy, code=1)
    (copy / "controller-1" / "data").touch()
    assert "controller-1/data" in up(capsys, copy, code=1)


def test_what_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    """Something is in the second controller's place: what the first one got is removed."""
    directory = tmp_path / "new"
    directory.mkdir()
    (directory / "controller-2").touch()
    with pytest.raises(ClusterError, match="controller-2"):
        QuorumCluster(2, 1, directory=directory)
    assert [one.name for one in directory.iterdir()] == ["controller-2"]
