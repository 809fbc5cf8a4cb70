"""Protobuf files of the registry: text is compiled by protoc, in a process with a time limit.

A schema comes as the text of a .proto file, or as a FileDescriptorProto in Base64, which is what
Confluent's client for Python sends. Both are the same schema if their descriptors are.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.testing.registry.errors import invalid_schema
from fencepost.testing.registry.protobuf_rules import ProtobufFile

COMPILE_TIMEOUT_S: Final = 60
ERROR_CHARACTERS_MAX: Final = 500
NAME: Final = "schema.proto"
_BUILT_IN: Final = {
    "google/protobuf/": "google.protobuf.",
    "google/type/": "google.type.",
    "confluent/": "confluent_kafka.schema_registry.confluent.",
}
"""Files that serializers do not register, and the modules that have them."""


def parse(text: str, references: Mapping[str, bytes]) -> tuple[ProtobufFile, bytes]:
    """The file and its descriptor; `references` are descriptors by the names that imports use, and
    those that they import in turn. RegistryError for what is no Protobuf file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    descriptor = _from_base64(text)
    if descriptor is None:
        descriptor = _compile(text, references)
    file = FileDescriptorProto.FromString(descriptor)
    file.ClearField("source_code_info")
    file.name = NAME
    others = {name: FileDescriptorProto.FromString(data) for name, data in references.items()}
    for name, one in others.items():
        one.name = name
    _check(file, others)
    messages: dict[str, tuple[Any, str]] = {}
    for one in (*others.values(), file):
        _collect(one.message_type, one.package, one.package, messages)
    return ProtobufFile(file, messages), file.SerializeToString(deterministic=True)


def normal_form(parsed: ProtobufFile) -> bytes:
    """The descriptor with imports and constants of enums in order and fields by their numbers."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    file.CopyFrom(parsed.file)
    file.dependency.sort()
    _sort(file.message_type, file.enum_type)
    return bytes(file.SerializeToString(deterministic=True))


def _sort(messages: Any, enums: Any) -> None:
    for enum in enums:
        enum.value.sort(key=lambda one: (one.number, one.name))
    for message in messages:
        message.field.sort(key=lambda one: one.number)
        _sort(message.nested_type, message.enum_type)


def _from_base64(text: str) -> bytes | None:
    """A descriptor; None for what is none, and so may be a text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text, validate=True)
        FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return data or None


def _compile(text: str, references: Mapping[str, bytes]) -> bytes:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    with tempfile.TemporaryDirectory(prefix="fencepost-proto-") as place:
        source, made, known = Path(place, NAME), Path(place, "made"), Path(place, "known")
        source.write_text(text, encoding="utf-8", errors="replace")
        imported = FileDescriptorSet()
        for name, data in {**_built_in(), **references}.items():
            file = FileDescriptorProto.FromString(data)
            file.name = name
            imported.file.append(file)
        known.write_bytes(imported.SerializeToString())
        command = [
            sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={known}",
            f"--proto_path={place}", f"--descriptor_set_out={made}", NAME,
        ]  # fmt: skip
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise invalid_schema(f"protoc took more than {COMPILE_TIMEOUT_S} s") from error
        if "No module named" in ran.stderr:
            raise invalid_schema(
                "text of Protobuf takes grpcio-tools: pip install 'fencepost[registry]'"
            )
        if ran.returncode or not made.exists():
            raise invalid_schema(_said(ran.stderr, place))
        compiled = FileDescriptorSet.FromString(made.read_bytes())
    return bytes(compiled.file[-1].SerializeToString())


def _said(errors: str, place: str) -> str:
    """The compiler's errors, without its warnings and the directory that is gone by now."""
    lines = [line for line in errors.splitlines() if NAME in line and "parser.cc" not in line]
    return " ".join(lines or errors.split()).replace(f"{place}/", "")[:ERROR_CHARACTERS_MAX]


def _built_in() -> dict[str, bytes]:
    """Descriptors of files that any Protobuf file may import, the innermost first."""
    found: dict[str, bytes] = {}
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"):
        found[f"google/protobuf/{name}.proto"] = _module(f"google.protobuf.{name}_pb2")
    name = "google/protobuf/descriptor.proto"
    found[name] = _module("google.protobuf.descriptor_pb2")
    return found


def _module(name: str) -> bytes:
    return bytes(importlib.import_module(name).DESCRIPTOR.serialized_pb)


def _check(file: Any, others: Mapping[str, Any]) -> None:
    """That the descriptor makes sense, with everything it imports. RegistryError."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    try:
        _add(pool, file, others, set())
        pool.FindFileByName(NAME)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:ERROR_CHARACTERS_MAX]
        raise invalid_schema(reason or type(error).__name__) from error


def _add(pool: Any, file: Any, others: Mapping[str, Any], added: set[str]) -> None:
    for name in file.dependency:
        if name in added:
            continue
        added.add(name)
        if name in others:
            _add(pool, others[name], others, added)
            continue
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        _add(pool, FileDescriptorProto.FromString(_import(name)), others, added)
    pool.AddSerializedFile(file.SerializeToString())


def _import(name: str) -> bytes:
    """A file that serializers do not register. ValueError for others."""
    for prefix, package in _BUILT_IN.items():
        rest = name.removeprefix(prefix).removesuffix(".proto")
        words = rest.split("/")
        if name.startswith(prefix) and all(word.isidentifier() for word in words):
            try:
                return _module(f"{package}{'.'.join(words)}_pb2")
            except ImportError:
                break
    raise ValueError(f"it imports {name}, which is not among its references")


def _collect(messages: Any, scope: str, package: str, found: dict[str, tuple[Any, str]]) -> None:
    for message in messages:
        name = f"{scope}.{message.name}" if scope else message.name
        found[name] = message, package
        _collect(message.nested_type, name, package, found)
