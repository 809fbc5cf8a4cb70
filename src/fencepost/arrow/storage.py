"""A directory anywhere: on a local disk, in S3, Google Cloud Storage, Azure or HDFS.

    storage = storage_at("s3a://bucket/archive")
    storage.write_bytes("_fencepost/state.json", data)     # replaced as a whole
    [entry.path for entry in storage.list("topic=orders")]

Paths are relative to the directory, with `/` between their parts. All of it goes through Apache
Arrow's file systems, which need no JVM (but `hdfs:`, which needs Hadoop's libhdfs).

What every store promises here, and what callers may build on:

* a file appears as a whole, when its writer is closed: a local one is written under another name,
  flushed to the disk and renamed; an object is put. Readers see the old bytes or the new;
* `write_bytes` replaces. Of two writers at once the later wins;
* `create_bytes` writes only if nothing is there, and `replace_bytes` only if what is there is what
  was read. That takes a conditional put, which Arrow's file systems have not, and Obstore has
  (`conditional_puts`; the extra `lakes`). Without it they look first and then write:
  `is_conditional` is False then, and two drivers that write in the same moment may both succeed;
* S3, Google and Azure list what was written before the list began; a list of a store that is less
  strict may lack new files or still have deleted ones. So no decision is made from a list here or
  in an archive: what counts is named by a file that is read by its name.

Object stores have no rename: there `move_all` copies, in the store, and deletes. Either is done
again without harm by the next run, after one that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import posixpath
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from fencepost.arrow.conditional_puts import ConditionalPuts, conditional_puts

READ_BYTES_MAX: Final = 256 * 1024 * 1024
"""What `read_bytes` reads at most, unless told otherwise."""
DRAFT: Final = re.compile(r"\.fencepost-[0-9a-f]{12}\.draft")
"""Names of local files that are being written; a process that was killed may leave one."""
RETRIES: Final = 8
"""Tries of one S3 request; the SDK waits longer from one to the next."""
_LOCATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//([^/?#]*))?(.*)", re.DOTALL)
_SAME_SCHEME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
_S3_NAMES: Final = {
    "fs.s3a.access.key": "access_key",
    "fs.s3a.secret.key": "secret_key",
    "fs.s3a.session.token": "session_token",
    "fs.s3a.endpoint": "endpoint_override",
    "fs.s3a.endpoint.region": "region",
    "fs.s3a.assumed.role.arn": "role_arn",
}
"""Hadoop's names for what Arrow calls otherwise, so that one set of settings serves both."""
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "s3": (
        *("access_key", "secret_key", "session_token", "anonymous", "region", "scheme"),
        *("endpoint_override", "role_arn", "session_name", "external_id"),
        *("force_virtual_addressing", "tls_ca_file_path", "request_timeout", "connect_timeout"),
    ),
    "gs": (
        *("anonymous", "access_token", "target_service_account", "endpoint_override"),
        *("scheme", "project_id"),
    ),
    "abfs": (
        *("account_name", "account_key", "sas_token", "tenant_id", "client_id", "client_secret"),
        *("blob_storage_authority", "dfs_storage_authority"),
        *("blob_storage_scheme", "dfs_storage_scheme"),
    ),
    "hdfs": ("user", "kerb_ticket", "replication"),
}
_FLAGS: Final = frozenset({"anonymous", "conditional", "force_virtual_addressing"})
_NUMBERS: Final = frozenset({"request_timeout", "connect_timeout", "replication"})


class StorageError(OSError):
    """A store that cannot be used as asked: its address, options or answer; the text says which."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file in a directory."""

    path: str
    """From the storage's directory."""
    size: int
    """In bytes."""
    modified_ms: int
    """Since 1970; 0 where the store does not tell."""


class Storage:
    """A directory in a file system of Arrow's; see the module. Make one by `storage_at`.

    FileNotFoundError for what is not there, StorageError for what the store refuses or cannot do.
    """

    def __init__(
        self,
        filesystem: fs.FileSystem,
        root: str,
        uri: str,
        puts: ConditionalPuts | None = None,
    ) -> None:
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self.uri = uri
        """The directory's one spelling (`canonical`)."""
        self._puts = puts

    @property
    def is_conditional(self) -> bool:
        """Whether of several writers that create or replace a file one succeeds, always."""
        return self._puts is not None

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks write files of their own, and decide nothing.
        return type(self), (self.filesystem, self.root, self.uri)

    def path_of(self, path: str) -> str:
        """A path as the file system takes it. StorageError where it leads out of the directory."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or path.startswith("/"):
            raise StorageError(f"{path!r} is no path within {self.uri}")
        return "/".join([self.root, *parts]) if parts else self.root or "/"

    def uri_of(self, path: str) -> str:
        """A path's whole location."""
        inner = path.strip("/")
        return f"{self.uri.removesuffix('/')}/{inner}" if inner else self.uri

    def within(self, path: str) -> Storage:
        """The storage of a directory in this one."""
        puts = self._puts and self._puts.within(path)
        return type(self)(self.filesystem, self.path_of(path), self.uri_of(path), puts)

    def read_bytes(self, path: str, most: int = READ_BYTES_MAX) -> bytes:
        """A file's contents, `most` bytes of them at most: StorageError for more."""
        with self._told(path), self.filesystem.open_input_stream(self.path_of(path)) as file:
            data = bytes(file.read(most + 1))
        if len(data) > most:
            raise StorageError(f"{self.uri_of(path)}: larger than {most} bytes")
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file as a whole, or make it."""
        with self.open_output(path) as file:
            file.write(data)

    def create_bytes(self, path: str, data: bytes) -> bool:
        """Make a file unless it is there; whether it was made. See `is_conditional`."""
        if self._puts is not None:
            with self._told(path):
                return self._puts.create(path, data)
        if self.exists(path):
            return False
        self.write_bytes(path, data)
        return True

    def read_version(self, path: str, most: int = READ_BYTES_MAX) -> tuple[bytes, str]:
        """A file's contents, and what `replace_bytes` knows them by."""
        if self._puts is not None:
            if self.size(path) > most:
                raise StorageError(f"{self.uri_of(path)}: larger than {most} bytes")
            with self._told(path):
                return self._puts.read(path)
        data = self.read_bytes(path, most)
        return data, hashlib.sha256(data).hexdigest()

    def replace_bytes(self, path: str, data: bytes, version: str) -> bool:
        """Replace a file unless another writer did since; whether it was. See `is_conditional`."""
        if self._puts is not None:
            with self._told(path):
                return self._puts.replace(path, data, version)
        if self.read_version(path)[1] != version:
            return False
        self.write_bytes(path, data)
        return True

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        with self._told(path):
            return bool(self.filesystem.get_file_info(self.path_of(path)).is_file)

    def size(self, path: str) -> int:
        """Of a file, in bytes."""
        with self._told(path):
            info = self.filesystem.get_file_info(self.path_of(path))
        if not info.is_file:
            raise FileNotFoundError(2, "there is no such file", self.uri_of(path))
        return int(info.size)

    def list(self, path: str = "") -> list[Entry]:
        """All files under a directory, in its directories too, by path; none where it is not."""
        return sorted(
            Entry(self._within_root(info.path), *_facts(info))
            for info in self._infos(path, recursive=True)
            if info.is_file and not DRAFT.fullmatch(info.base_name)
        )

    def names(self, path: str = "") -> dict[str, bool]:
        """What is in a directory itself, by name, and whether it is a directory."""
        found = self._infos(path, recursive=False)
        return {
            info.base_name: not info.is_file for info in sorted(found, key=lambda one: one.path)
        }

    def _infos(self, path: str, *, recursive: bool) -> Iterable[fs.FileInfo]:
        selector = fs.FileSelector(self.path_of(path), allow_not_found=True, recursive=recursive)
        with self._told(path):
            found: list[fs.FileInfo] = self.filesystem.get_file_info(selector)
        return found

    def _within_root(self, path: str) -> str:
        return path.removeprefix("/" if not self.root else f"{self.root}/")

    def open_input(self, path: str) -> pa.NativeFile:
        """A file for reading at any place, for `pyarrow.parquet` too."""
        with self._told(path):
            return self.filesystem.open_input_file(self.path_of(path))

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A file for writing, which appears, or replaces what is there, when the block ends.

        After an exception in the block nothing new is left. But a store may show the unfinished
        file for a moment, so what is written in pieces should have a name that is not yet used.
        """
        place = self.path_of(path)
        with self._told(path):
            file = self.filesystem.open_output_stream(place)
        try:
            yield file
        except BaseException:
            # Arrow has no way to give up an upload: it ends when the file is closed, or forgotten.
            with contextlib.suppress(OSError, pa.ArrowException):
                file.close()
            with contextlib.suppress(OSError, pa.ArrowException):
                self.filesystem.delete_file(place)
            raise
        with self._told(path):
            file.close()

    def copy(self, source: str, target: str) -> None:
        """A file under one more name, by the store itself where it can, replacing what is there."""
        with self._told(source):
            self.filesystem.copy_file(self.path_of(source), self.path_of(target))

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """Give files other names; those that are not there have been moved already."""
        for source, target in moves:
            if self.exists(source):
                with contextlib.suppress(FileNotFoundError):
                    self.copy(source, target)
                    self.delete(source)

    def delete(self, path: str) -> None:
        """Remove a file; nothing where there is none."""
        with self._told(path), contextlib.suppress(FileNotFoundError):
            if self.filesystem.get_file_info(self.path_of(path)).is_file:
                self.filesystem.delete_file(self.path_of(path))

    def delete_all(self, path: str) -> None:
        """Remove a directory with all that is in it; nothing where there is none."""
        if self.path_of(path) == "/":
            raise StorageError(f"{self.uri_of(path)}: is not removed as a whole")
        with self._told(path):
            self.filesystem.delete_dir_contents(self.path_of(path), missing_dir_ok=True)
        with contextlib.suppress(OSError):
            self.filesystem.delete_dir(self.path_of(path))

    @contextlib.contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """What Arrow and the stores raise, as our errors with the file's location."""
        try:
            yield
        except StorageError:
            raise
        except FileNotFoundError as error:
            raise FileNotFoundError(2, "there is no such file", self.uri_of(path)) from error
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"{self.uri_of(path)}: {error}") from error


class LocalStorage(Storage):
    """A local directory: files are flushed to the disk, and appear by rename."""

    @property
    def is_conditional(self) -> bool:
        return True

    def create_bytes(self, path: str, data: bytes) -> bool:
        target = Path(self.path_of(path))
        with self._told(path), self._drafted(target) as (draft, file):
            file.write(data)
            _flush(file)
            try:
                os.link(draft, target)
            except FileExistsError:
                return False
            sync(target.parent)
        return True

    def exists(self, path: str) -> bool:
        with self._told(path):
            return Path(self.path_of(path)).is_file()

    def replace_bytes(self, path: str, data: bytes, version: str) -> bool:
        directory = os.open(Path(self.path_of(path)).parent, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)  # between processes of this machine
            return super().replace_bytes(path, data, version)
        finally:
            os.close(directory)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """By rename; on the disk when this returns."""
        places: set[Path] = set()
        for source, target in moves:
            old, new = Path(self.path_of(source)), Path(self.path_of(target))
            with self._told(target):
                if old.parent not in places or new.parent not in places:
                    new.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    old.rename(new)
            places |= {old.parent, new.parent}
        for place in places:
            with contextlib.suppress(FileNotFoundError):
                sync(place)

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        target = Path(self.path_of(path))
        with self._told(path), self._drafted(target) as (draft, file):
            yield file
            if not file.closed:
                _flush(file)
            draft.replace(target)
            sync(target.parent)

    @contextlib.contextmanager
    def _drafted(self, target: Path) -> Iterator[tuple[Path, Any]]:
        """A file beside the target under another name, which goes if it was not renamed."""
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".fencepost-{secrets.token_hex(6)}.draft")
        try:
            with draft.open("wb") as file:
                yield draft, file
        finally:
            draft.unlink(missing_ok=True)


def storage_at(uri: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """The storage of a directory, which need not be there yet. StorageError.

    `uri` is a path, or a URI with `file:`, `s3:` (`s3a:`), `gs:`, `abfs:` (`abfss:`) or `hdfs:`.
    `options` are Arrow's for the file system by their own names (`region`, `endpoint_override`), or
    Hadoop's `fs.s3a.` ones, also as `spark.hadoop.fs.s3a.`; those of other stores are ignored. What
    is not given is taken from where the store's own SDK looks: environment, profiles, instance.
    `conditional=false` does without conditional puts, for stores that have none.
    """
    name = canonical(uri)
    scheme, authority, path = _parts(name)
    if scheme == "file":
        # As given, with links: they may lead elsewhere on other machines, whose tasks use it too.
        given_path = _cleaned(os.path.abspath(_parts(os.fspath(uri))[2]))
        return LocalStorage(fs.LocalFileSystem(), given_path, name)
    if scheme not in _OPTIONS:
        raise StorageError(
            f"{name}: there is no file system for {scheme}: here; known are paths, file:, s3:, "
            "s3a:, gs:, abfs: and hdfs:"
        )
    if scheme in ("s3", "gs") and ("@" in authority or ":" in authority):
        # Not shown: what older Hadoops took there is a secret key, and locations are logged.
        raise StorageError(
            f"{scheme}: the location has more than a bucket's name; give keys as options"
        )
    if not authority and scheme != "hdfs":
        raise StorageError(f"{name}: names no {'container' if scheme == 'abfs' else 'bucket'}")
    given = _options(scheme, options or {})
    conditional = _value("conditional", (options or {}).get("conditional", "true"))
    try:
        filesystem, root = _MAKERS[scheme](authority, path, given)
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        raise StorageError(f"{name}: {error}") from error
    puts = conditional_puts(scheme, authority, path, given) if conditional else None
    return Storage(filesystem, root, name, puts)


def canonical(uri: str | os.PathLike[str]) -> str:
    """The one spelling of a location, for comparing and for names that are made of it.

    Paths and `file:` URIs become `file:///...`: absolute, `..` and `.` and doubled slashes gone as
    Hadoop's `Path` takes them away (by text), then symbolic links followed. `s3a:` and `s3n:` are
    `s3:`, `gcs:` is `gs:`, `abfss:` is `abfs:`, schemes and hosts in small letters. Percent signs
    are letters, as for Hadoop. Schemes that are not known here are cleaned alike. StorageError for
    what names no place, or a place on another machine.
    """
    text = os.fspath(uri)
    if not text or "\0" in text:
        raise StorageError(f"{text!r} is no location")
    scheme, authority, path = _parts(text)
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise StorageError(f"{text}: file: URIs name no machine, as {authority!r} would be")
        return f"file://{os.path.realpath(_cleaned(os.path.abspath(path)))}"
    authority = authority if scheme in ("s3", "gs") else _small_host(authority)
    if scheme == "hdfs":
        authority = authority.removesuffix(":8020")
    path = _cleaned(path)
    return f"{scheme}://{authority}{'' if authority and path == '/' else path}"


def absolute(uri: str | os.PathLike[str]) -> str:
    """A location that another process takes for the same, wherever it works; links stay links."""
    scheme, _, path = _parts(os.fspath(uri))
    return os.path.abspath(path) if scheme == "file" else os.fspath(uri)


def _parts(text: str) -> tuple[str, str, str]:
    """Scheme, authority and path of a location; what has no scheme is a local path."""
    match = _LOCATION.fullmatch(text)
    if match is None:
        return "file", "", text
    scheme = match[1].lower()
    return _SAME_SCHEME.get(scheme, scheme), match[3] or "", match[4]


def _cleaned(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _small_host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    return f"{user}{at}{host.lower()}"


def _facts(info: fs.FileInfo) -> tuple[int, int]:
    modified = info.mtime_ns
    return int(info.size or 0), 0 if modified is None else int(modified // 1_000_000)


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Have a file or a directory on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _options(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one store by Arrow's names. StorageError for a value that is none."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        name = key.removeprefix("spark.hadoop.")
        if scheme == "s3":
            name = _S3_NAMES.get(name, name)
        if name in _OPTIONS[scheme] and value not in (None, ""):
            found[name] = _value(name, value)
    if scheme == "s3" and "endpoint_override" in found:
        _split_endpoint(found, options)
    return found


def _value(name: str, value: Any) -> Any:
    text = str(value)
    if name in _FLAGS:
        if text.lower() not in ("true", "false"):
            raise StorageError(f"option {name}: {text!r} is neither true nor false")
        return text.lower() == "true"
    if name in _NUMBERS:
        try:
            return float(text) if "timeout" in name else int(text)
        except ValueError:
            raise StorageError(f"option {name}: {text!r} is no number") from None
    return text


def _split_endpoint(found: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Arrow takes an endpoint's scheme apart from it, and Hadoop a setting for its absence."""
    scheme, separator, host = found["endpoint_override"].partition("://")
    plain = ("fs.s3a.connection.ssl.enabled", "spark.hadoop.fs.s3a.connection.ssl.enabled")
    if separator:
        found["endpoint_override"] = host.rstrip("/")
        found.setdefault("scheme", scheme)
    elif any(str(options.get(name, "")).lower() == "false" for name in plain):
        found.setdefault("scheme", "http")


def _s3(bucket: str, path: str, given: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    strategy = fs.AwsStandardS3RetryStrategy(max_attempts=RETRIES)
    return fs.S3FileSystem(retry_strategy=strategy, **given), bucket + path


def _gs(bucket: str, path: str, given: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    return fs.GcsFileSystem(**given), bucket + path


def _abfs(authority: str, path: str, given: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    container, at, host = authority.rpartition("@")
    if not at:
        container = authority
    elif "account_name" not in given:
        given = {**given, "account_name": host.partition(".")[0]}
    return fs.AzureFileSystem(**given), container + path


def _hdfs(authority: str, path: str, given: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    host, _, port = authority.partition(":")
    return fs.HadoopFileSystem(host or "default", int(port or 0), **given), path


_MAKERS: Final = {"s3": _s3, "gs": _gs, "abfs": _abfs, "hdfs": _hdfs}
