"""The storage against a real S3 server: pages of lists, large files, who wins of two writers."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from functools import partial

import pytest

from fencepost.arrow.storage import Storage, StorageError, storage_at

from .seaweed import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def storage(s3: S3Server, s3_directory: str) -> Storage:
    return storage_at(f"{s3_directory}/a dir/b=%2F", s3.options)


def test_what_is_written_is_read_listed_moved_and_deleted(storage: Storage) -> None:
    storage.write_bytes("t=é/one", b"old")
    storage.write_bytes("t=é/one", b"new")
    storage.write_bytes("other", b"")
    assert storage.read_bytes("t=é/one") == b"new"
    assert [(one.path, one.size) for one in storage.list()] == [("other", 0), ("t=é/one", 3)]
    assert all(one.modified_ms > 1_700_000_000_000 for one in storage.list())
    assert storage.names() == {"other": False, "t=é": True}
    storage.move_all([("t=é/one", "x/y/z"), ("gone", "never")])
    storage.move_all([("t=é/one", "x/y/z"), ("gone", "never")])
    assert [one.path for one in storage.list()] == ["other", "x/y/z"]
    assert not storage.exists("x/y")
    storage.delete("other")
    storage.delete("other")
    storage.delete_all("x")
    storage.delete_all("x")
    assert storage.list() == []
    with pytest.raises(FileNotFoundError, match="gone"):
        storage.read_bytes("gone")
    with pytest.raises(FileNotFoundError, match="gone"):
        storage.read_version("gone")


def test_lists_of_more_than_a_page_and_files_of_more_than_a_part(storage: Storage) -> None:
    for number in range(1_050):  # S3 lists a thousand at once
        storage.write_bytes(f"many/{number:04}", b"")
    assert [one.path for one in storage.list("many")] == [f"many/{n:04}" for n in range(1_050)]
    assert len(storage.names("many")) == 1_050
    data = bytes(range(256)) * 50_000  # Arrow sends 10 MiB at once
    with storage.open_output("large") as file:
        for start in range(0, len(data), 1_000_000):
            file.write(data[start : start + 1_000_000])
    with storage.open_input("large") as file:
        file.seek(12_000_000)
        assert file.read() == data[12_000_000:]
    with pytest.raises(StorageError, match="larger than 1000 bytes"):
        storage.read_bytes("large", most=1000)


def _create(storage: Storage, path: str, number: int) -> bool:
    return storage.create_bytes(path, b"%d" % number)


def _replace(storage: Storage, path: str, version: str, number: int) -> bool:
    return storage.replace_bytes(path, b"r%d" % number, version)


def test_of_many_that_write_at_once_one_wins(storage: Storage) -> None:
    assert storage.is_conditional

    def race(write: Callable[[int], bool]) -> list[int]:
        won: list[int] = []
        ready = threading.Barrier(4)

        def run(number: int) -> None:
            ready.wait()
            if write(number):
                won.append(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return won

    for attempt in range(10):
        path = f"state-{attempt}"
        (first,) = race(partial(_create, storage, path))
        data, version = storage.read_version(path)
        assert data == b"%d" % first
        (second,) = race(partial(_replace, storage, path, version))
        assert storage.read_bytes(path) == b"r%d" % second
        assert not storage.replace_bytes(path, b"late", version)
    with pytest.raises(FileNotFoundError):
        storage.replace_bytes("never", b"late", version)


def test_a_replacement_that_is_sent_again_has_succeeded(storage: Storage) -> None:
    storage.create_bytes("state", b"1")
    _, version = storage.read_version("state")
    assert storage.replace_bytes("state", b"2", version)
    assert storage.replace_bytes("state", b"2", version)  # its answer was lost


def test_tasks_get_it_as_it_is(storage: Storage) -> None:
    pickle.loads(pickle.dumps(storage.within("x"))).write_bytes("one", b"1")
    assert storage.read_bytes("x/one") == b"1"
    assert storage.within("x").create_bytes("two", b"2")
    assert storage.read_bytes("x/two") == b"2"


def test_without_conditional_puts_it_says_so(s3: S3Server, s3_directory: str) -> None:
    plain = storage_at(s3_directory, {**s3.options, "conditional": "false"})
    assert not plain.is_conditional
    assert plain.create_bytes("one", b"1")
    assert not plain.create_bytes("one", b"2")
    data, version = plain.read_version("one")
    assert data == b"1"
    assert plain.replace_bytes("one", b"3", version)
    assert not plain.replace_bytes("one", b"4", version)


def test_what_the_server_refuses(s3: S3Server, s3_directory: str) -> None:
    wrong = storage_at(s3_directory, {**s3.options, "fs.s3a.secret.key": "not it"})
    for ask in (
        lambda: wrong.read_bytes("one"),
        lambda: wrong.write_bytes("one", b""),
        lambda: wrong.create_bytes("one", b""),
        wrong.list,
    ):
        with pytest.raises(StorageError, match="s3://tests/t-"):
            ask()
    nowhere = storage_at("s3://No_such_bucket", s3.options)
    with pytest.raises(OSError, match="No_such_bucket"):
        nowhere.write_bytes("one", b"")
