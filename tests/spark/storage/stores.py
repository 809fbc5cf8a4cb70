"""Stores for tests: in memory, slow, stale or failing, each an Arrow file system like any other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pyarrow import fs

from fencepost.arrow.storage import Storage


class Faulty(fs.FSSpecHandler):
    """Passes everything on to another file system, after `before` was told of it, which may raise.

    `stale` holds what lists say for as many more lists, whatever was written since.
    """

    def __init__(self, inner: fs.FileSystem, before: Callable[[str, str], None]) -> None:
        self.inner = inner
        self.before = before
        self.stale = 0
        self._seen: dict[str, Any] = {}

    def get_type_name(self) -> str:
        return "faulty"

    def normalize_path(self, path: str) -> str:
        return str(self.inner.normalize_path(path))

    def get_file_info(self, paths: Sequence[str]) -> Any:
        self.before("info", paths[0])
        return self.inner.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        self.before("list", selector.base_dir)
        if self.stale and selector.base_dir in self._seen:
            self.stale -= 1
            return self._seen[selector.base_dir]
        self._seen[selector.base_dir] = self.inner.get_file_info(selector)
        return self._seen[selector.base_dir]

    def create_dir(self, path: str, recursive: bool) -> None:
        self.inner.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.before("delete", path)
        self.inner.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        self.before("delete", path)
        self.inner.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_file(self, path: str) -> None:
        self.before("delete", path)
        self.inner.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        raise NotImplementedError("object stores cannot rename")

    def copy_file(self, src: str, dest: str) -> None:
        self.before("copy", dest)
        # In memory there are no directories unless they are made; in object stores there are none.
        self.inner.create_dir(dest.rpartition("/")[0])
        self.inner.copy_file(src, dest)

    def open_input_stream(self, path: str) -> Any:
        self.before("read", path)
        return self.inner.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        self.before("read", path)
        return self.inner.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.before("write", path)
        self.inner.create_dir(path.rpartition("/")[0])
        return self.inner.open_output_stream(path, metadata=metadata)


def faulty(
    before: Callable[[str, str], None] = lambda what, path: None,
) -> tuple[Storage, Faulty]:
    """A storage in memory, with a handler that tells `before` of every request."""
    handler = Faulty(fs._MockFileSystem(), before)
    return Storage(fs.PyFileSystem(handler), "bucket/dir", "s3://bucket/dir"), handler


class Failing:
    """A `before` that fails some requests of some kinds, drawn by a seed, until it is healed."""

    def __init__(self, seed: int, share: float, kinds: frozenset[str]) -> None:
        self._random = random.Random(seed)
        self._share = share
        self._kinds = kinds
        self.failed = 0

    def __call__(self, what: str, path: str) -> None:
        if what in self._kinds and self._random.random() < self._share:
            self.failed += 1
            raise OSError(f"503 Slow Down, at the {what} of {path}")

    def heal(self) -> None:
        self._share = 0.0
