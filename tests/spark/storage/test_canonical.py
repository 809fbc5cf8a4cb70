"""One spelling for a location, whichever way it was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fencepost.arrow.storage import StorageError, canonical


def test_a_local_directory_has_one_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "real" / "dir"
    there.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    wanted = f"file://{there}"
    for spelling in (
        there,
        f"{there}/",
        f"{there}//",
        f"file:{there}",
        f"file://{there}",
        f"file:///{there}",
        f"FILE://localhost{there}",
        f"{tmp_path}/link/dir",
        f"file:{tmp_path}/link/../real/./dir",
        f"{tmp_path}/real//dir/../dir",
        "dir",
        "./dir/",
    ):
        assert canonical(spelling) == wanted, spelling


def test_what_is_not_there_yet_has_the_spelling_it_will_have(tmp_path: Path) -> None:
    before = canonical(f"{tmp_path}/a/b/")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert canonical(f"file:{tmp_path}/a/b") == before


def test_dots_go_by_text_before_links_are_followed_as_hadoop_does(tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    assert canonical(f"{tmp_path}/link/../far") == f"file://{tmp_path}/far"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("s3n://bucket//a/./c/../b", "s3://bucket/a/b"),
        ("S3A://bucket", "s3://bucket/"),
        ("gcs://bucket/a", "gs://bucket/a/"),
        ("abfss://box@Acc.dfs.core.windows.net/a", "abfs://box@acc.dfs.core.windows.net/a/"),
        ("hdfs://NN:8020/a", "hdfs://nn/a"),
        ("dbfs:/a/b/", "dbfs:/a//b"),
    ],
)
def test_stores_have_one_spelling(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/a", "s3://bucket/A"),
        ("s3://bucket/a", "s3://bucket2/a"),
        ("s3://bucket/a", "gs://bucket/a"),
        ("s3://bucket/a%20b", "s3://bucket/a b"),
        ("hdfs://nn:8021/a", "hdfs://nn/a"),
        ("/a/b", "/a/c"),
        ("/a%20b", "/a b"),
        ("abfs://one@acc.x/a", "abfs://two@acc.x/a"),
    ],
)
def test_other_places_have_another(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@given(
    st.sampled_from(["", "file:", "file://", "s3a://bucket", "hdfs://nn:9000", "dbfs:"]),
    st.lists(st.sampled_from(["a", "b c", "d%2F", "..", ".", "", "é", "x=1"]), max_size=6),
)
def test_it_is_its_own_spelling(prefix: str, parts: list[str]) -> None:
    once = canonical(f"{prefix}/no-such-place/{'/'.join(parts)}")
    assert canonical(once) == once
    assert not once.endswith("/") or once in ("file:///", "dbfs:///")
    assert ".." not in once.split("/")


@pytest.mark.parametrize("text", ["", "a\0b", "file://host/a"])
def test_no_location(text: str) -> None:
    with pytest.raises(StorageError):
        canonical(text)


def test_a_path_object(tmp_path: Path) -> None:
    assert canonical(tmp_path) == f"file://{os.path.realpath(tmp_path)}"
