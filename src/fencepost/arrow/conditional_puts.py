"""Puts that succeed only if a file is as it was: what two drivers of one archive are told apart by.

S3 (since 2024, `If-None-Match` and `If-Match`), Google (generations) and Azure (ETags) have them;
Arrow's file systems do not offer them, Obstore does, which is the extra `lakes`. It finds
credentials by itself as Arrow does, from the environment or the instance; for profiles of AWS it
needs boto3, which is used where it is installed and no key is given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

_NAMES: Final[dict[str, dict[str, str]]] = {
    "s3": {
        "access_key": "access_key_id",
        "secret_key": "secret_access_key",
        "session_token": "session_token",
        "region": "region",
        "anonymous": "skip_signature",
        "force_virtual_addressing": "virtual_hosted_style_request",
    },
    "gs": {"anonymous": "skip_signature"},
    "abfs": {
        "account_name": "account_name",
        "account_key": "account_key",
        "sas_token": "sas_token",
        "tenant_id": "tenant_id",
        "client_id": "client_id",
        "client_secret": "client_secret",
    },
}
"""Arrow's names of options, and Obstore's."""


class ConditionalPuts:
    """Puts into a directory of a store. OSError, FileNotFoundError."""

    def __init__(self, store: Any, prefix: str) -> None:
        self._store = store
        self._prefix = prefix.strip("/")

    def within(self, path: str) -> ConditionalPuts:
        return ConditionalPuts(self._store, self._key(path))

    def create(self, path: str, data: bytes) -> bool:
        """Put unless there is a file; whether that was done."""
        if self._put(path, data, "create"):
            return True
        try:
            return self._has_put(path, data)
        except FileNotFoundError:  # deleted since
            return False

    def replace(self, path: str, data: bytes, version: str) -> bool:
        """Put if the file is of this version; whether that was done."""
        return self._put(path, data, {"e_tag": version or None}) or self._has_put(path, data)

    def _has_put(self, path: str, data: bytes) -> bool:
        """Whether a put that was refused has been done: one whose answer was lost is sent again,
        and finds what it wrote itself. What another writer put that is the same to the byte is as
        good as one's own, since it says the same."""
        return self.read(path)[0] == data

    def read(self, path: str) -> tuple[bytes, str]:
        """A file's contents and version."""
        from obstore.exceptions import BaseError, NotFoundError

        try:
            found = self._store.get(self._key(path))
            return bytes(found.bytes()), str(found.meta["e_tag"] or "")
        except NotFoundError as error:
            raise FileNotFoundError(2, "there is no such file", path) from error
        except BaseError as error:
            raise OSError(_first_line(error)) from error

    def _put(self, path: str, data: bytes, mode: Any) -> bool:
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            self._store.put(self._key(path), data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except BaseError as error:
            raise OSError(_first_line(error)) from error
        return True

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path.strip("/")) if part)


def conditional_puts(
    scheme: str, authority: str, path: str, given: Mapping[str, Any]
) -> ConditionalPuts | None:
    """Puts into a store; None where it has none, or Obstore is not installed. OSError."""
    if scheme not in _NAMES:
        return None
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        return None
    names = _NAMES[scheme]
    config = {names[name]: value for name, value in given.items() if name in names}
    try:
        if scheme == "s3":
            store: Any = S3Store(authority, **config, **_s3_connection(given))
        elif scheme == "gs":
            store = GCSStore(authority, **config)
        else:
            store = AzureStore(authority.partition("@")[0], **_with_account(authority, config))
    except BaseError as error:
        raise OSError(_first_line(error)) from error
    return ConditionalPuts(store, path)


def _s3_connection(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if endpoint := given.get("endpoint_override"):
        scheme = given.get("scheme", "https")
        found["endpoint"] = f"{scheme}://{endpoint}"
        found["client_options"] = {"allow_http": scheme == "http"}
    elif os.environ.get("AWS_ENDPOINT_URL", "").startswith("http:"):
        found["client_options"] = {"allow_http": True}
    if "access_key" not in given and "AWS_ACCESS_KEY_ID" not in os.environ:
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError:
            return found
        found["credential_provider"] = Boto3CredentialProvider()
    return found


def _with_account(authority: str, config: Mapping[str, Any]) -> dict[str, Any]:
    _, at, host = authority.partition("@")
    return {"account_name": host.partition(".")[0], **config} if at else dict(config)


def _first_line(error: BaseException) -> str:
    """Obstore's texts go on with pages of how it knows."""
    return next(iter(str(error).splitlines()), type(error).__name__)
