"""A directory anywhere: what it promises on a local disk, and in stores that fail or are stale."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest
from pyarrow import fs

from fencepost.arrow.storage import Entry, Storage, StorageError, storage_at

from .stores import Failing, faulty


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_at(tmp_path / "dir") if request.param == "local" else faulty()[0]


class TestEveryStorage:
    def test_what_is_written_is_read_and_replaced_as_a_whole(self, storage: Storage) -> None:
        storage.write_bytes("a/b/c", b"old and long")
        storage.write_bytes("a/b/c", b"new")
        assert storage.read_bytes("a/b/c") == b"new"
        assert storage.size("a/b/c") == 3

    def test_only_the_first_creates(self, storage: Storage) -> None:
        assert storage.create_bytes("a/state", b"first")
        assert not storage.create_bytes("a/state", b"second")
        assert storage.read_bytes("a/state") == b"first"

    def test_what_is_not_there(self, storage: Storage) -> None:
        assert storage.list() == []
        assert storage.list("nothing/here") == []
        assert not storage.exists("nothing")
        storage.delete("nothing")
        storage.delete_all("nothing")
        for ask in (storage.read_bytes, storage.open_input, storage.size):
            with pytest.raises(FileNotFoundError, match="nothing"):
                ask("nothing")

    def test_a_list_has_the_files_of_all_directories_below(self, storage: Storage) -> None:
        for path in ("top", "a/one", "a/b/two", "ab/three"):
            storage.write_bytes(path, path.encode())
        assert [one.path for one in storage.list()] == ["a/b/two", "a/one", "ab/three", "top"]
        found = storage.list("a")
        assert [(one.path, one.size) for one in found] == [("a/b/two", 7), ("a/one", 5)]
        assert all(isinstance(one, Entry) for one in found)
        assert [one.path for one in storage.within("a").list()] == ["b/two", "one"]
        assert storage.within("a").uri_of("one") == storage.uri_of("a/one")

    def test_a_directory_is_no_file(self, storage: Storage) -> None:
        storage.write_bytes("a/one", b"1")
        assert not storage.exists("a")
        storage.delete("a")
        assert storage.exists("a/one")

    def test_a_block_that_fails_leaves_nothing_new(self, storage: Storage) -> None:
        def write_half() -> None:
            with storage.open_output("a/one") as file:
                file.write(b"half of it")
                raise KeyError

        with pytest.raises(KeyError):
            write_half()
        assert storage.list() == []

    def test_files_are_read_at_any_place(self, storage: Storage) -> None:
        storage.write_bytes("one", bytes(range(100)))
        with storage.open_input("one") as file:
            file.seek(90)
            assert file.read() == bytes(range(90, 100))

    def test_copy_and_delete(self, storage: Storage) -> None:
        storage.write_bytes("here/one", b"1")
        storage.write_bytes("there/kept", b"k")
        storage.copy("here/one", "there/one")
        storage.delete("here/one")
        assert [one.path for one in storage.list()] == ["there/kept", "there/one"]
        assert storage.read_bytes("there/one") == b"1"
        storage.delete_all("there")
        assert storage.list() == []

    def test_no_path_leads_out(self, storage: Storage) -> None:
        for path in ("../other", "a/../../other", "/etc/passwd"):
            for ask in (storage.read_bytes, storage.exists, storage.delete, storage.within):
                with pytest.raises(StorageError, match="no path within"):
                    ask(path)
        with pytest.raises(StorageError, match="not removed as a whole"):
            storage_at("/").delete_all("")

    def test_too_large_a_file_is_not_read_whole(self, storage: Storage) -> None:
        storage.write_bytes("one", b"12345")
        assert storage.read_bytes("one", most=5) == b"12345"
        with pytest.raises(StorageError, match="larger than 4 bytes"):
            storage.read_bytes("one", most=4)


class TestLocal:
    def test_of_many_that_create_at_once_one_does(self, tmp_path: Path) -> None:
        storage = storage_at(tmp_path)
        assert storage.is_conditional
        for attempt in range(20):
            won: list[int] = []
            ready = threading.Barrier(4)

            def create(number: int, attempt: int = attempt, won: list[int] = won) -> None:
                ready.wait()  # noqa: B023
                if storage.create_bytes(f"{attempt}", b"%d" % number):
                    won.append(number)

            threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert storage.read_bytes(f"{attempt}") == b"%d" % won[0]
            assert len(won) == 1

    def test_drafts_of_what_was_killed_are_not_listed(self, tmp_path: Path) -> None:
        (tmp_path / ".fencepost-0123456789ab.draft").write_bytes(b"half")
        (tmp_path / "whole").write_bytes(b"whole")
        assert [one.path for one in storage_at(tmp_path).list()] == ["whole"]

    def test_the_old_file_is_there_until_the_new_one_is_whole(self, tmp_path: Path) -> None:
        storage = storage_at(tmp_path)
        storage.write_bytes("one", b"old")
        with (tmp_path / "one").open("rb") as reader:
            with storage.open_output("one") as file:
                file.write(b"new")
                file.flush()
                assert storage.read_bytes("one") == b"old"
            assert reader.read() == b"old"  # one that has begun goes on with what it has
        assert storage.read_bytes("one") == b"new"
        assert sorted(os.listdir(tmp_path)) == ["one"]

    def test_it_travels_to_tasks(self, tmp_path: Path) -> None:
        storage = pickle.loads(pickle.dumps(storage_at(tmp_path)))
        storage.write_bytes("one", b"1")
        assert (tmp_path / "one").read_bytes() == b"1"
        assert storage.is_conditional

    def test_a_file_where_a_directory_should_be(self, tmp_path: Path) -> None:
        (tmp_path / "one").write_bytes(b"1")
        with pytest.raises(StorageError, match="one/two"):
            storage_at(tmp_path).write_bytes("one/two", b"2")

    def test_a_root_directory(self) -> None:
        assert storage_at("/").path_of("etc/hosts") == "/etc/hosts"
        assert storage_at("/").uri_of("etc/hosts") == "file:///etc/hosts"


class TestFailing:
    @pytest.mark.parametrize("kind", ["read", "write", "list", "info", "copy", "delete"])
    def test_failures_are_told_with_the_location(self, kind: str) -> None:
        failing = Failing(1, 1.0, frozenset())
        storage, _ = faulty(failing)
        storage.write_bytes("one", b"1")
        failing._kinds = frozenset({kind})
        asks = {
            "read": lambda: storage.read_bytes("one"),
            "write": lambda: storage.write_bytes("one", b"2"),
            "list": storage.list,
            "info": lambda: storage.exists("one"),
            "copy": lambda: storage.copy("one", "two"),
            "delete": lambda: storage.delete("one"),
        }
        with pytest.raises(StorageError, match=r"s3://bucket/dir.*503 Slow Down"):
            asks[kind]()
        failing.heal()
        assert storage.read_bytes("one") == b"1"

    def test_a_stale_list_does_not_change_what_is_read_by_name(self) -> None:
        storage, handler = faulty()
        storage.write_bytes("old", b"1")
        assert [one.path for one in storage.list()] == ["old"]
        handler.stale = 1
        storage.write_bytes("new", b"2")
        storage.delete("old")
        assert [one.path for one in storage.list()] == ["old"]
        assert storage.exists("new")
        assert not storage.exists("old")
        assert [one.path for one in storage.list()] == ["new"]

    def test_it_does_not_claim_what_the_store_cannot(self) -> None:
        assert not faulty()[0].is_conditional


class TestMaking:
    def test_s3_by_arrows_names_and_by_hadoops(self) -> None:
        by_arrow = storage_at(
            "s3://bucket/dir",
            {
                "access_key": "a",
                "secret_key": "b",
                "region": "us-east-1",
                "scheme": "http",
                "endpoint_override": "127.0.0.1:1",
            },
        )
        by_hadoop = storage_at(
            "s3a://bucket/dir/",
            {
                "spark.hadoop.fs.s3a.access.key": "a",
                "spark.hadoop.fs.s3a.secret.key": "b",
                "fs.s3a.endpoint.region": "us-east-1",
                "fs.s3a.endpoint": "http://127.0.0.1:1",
                "fs.s3a.path.style.access": "true",
                "spark.sql.shuffle.partitions": "1",
            },
        )
        assert isinstance(by_hadoop.filesystem, fs.S3FileSystem)
        assert by_hadoop.filesystem.equals(by_arrow.filesystem)
        assert by_hadoop.uri == by_arrow.uri == "s3://bucket/dir"
        assert by_hadoop.path_of("one") == "bucket/dir/one"

    def test_without_tls_as_hadoop_says_it(self) -> None:
        base = {"access_key": "a", "secret_key": "b", "region": "r"}
        plain = storage_at(
            "s3://b/d",
            {**base, "fs.s3a.endpoint": "h:1", "fs.s3a.connection.ssl.enabled": "false"},
        )
        same = storage_at("s3://b/d", {**base, "endpoint_override": "h:1", "scheme": "http"})
        other = storage_at("s3://b/d", {**base, "endpoint_override": "h:1"})
        assert plain.filesystem.equals(same.filesystem)
        assert not plain.filesystem.equals(other.filesystem)

    def test_other_stores(self) -> None:
        google = storage_at("gs://bucket/dir", {"anonymous": "true"})
        assert google.filesystem.type_name == "gcs"
        assert google.path_of("one") == "bucket/dir/one"
        azure = storage_at(
            "abfss://container@Account.dfs.core.windows.net/dir", {"account_key": "a2V5"}
        )
        assert azure.filesystem.type_name == "abfs"
        assert azure.path_of("one") == "container/dir/one"

    @pytest.mark.parametrize(
        ("uri", "options", "told"),
        [
            ("ftp://host/dir", {}, "no file system for ftp:"),
            ("s3:///dir", {}, "names no bucket"),
            ("abfs:///dir", {}, "names no container"),
            ("s3://b", {"anonymous": "perhaps"}, "neither true nor false"),
            ("s3://b", {"request_timeout": "soon"}, "is no number"),
            ("s3://b", {"access_key": "only"}, "secret"),
            ("hdfs://host:port/dir", {}, "hdfs://host:port"),
            ("file://elsewhere/dir", {}, "name no machine"),
            ("", {}, "is no location"),
        ],
    )
    def test_refusals(self, uri: str, options: dict[str, str], told: str) -> None:
        with pytest.raises(StorageError, match=told):
            storage_at(uri, options)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs"])
def test_keys_in_a_location_are_refused_and_not_shown(scheme: str):
    with pytest.raises(StorageError, match="give keys as options") as caught:
        storage_at(f"{scheme}://AKID:hidden-key@bucket/archive", {"region": "x"})
    assert "hidden-key" not in str(caught.value)
