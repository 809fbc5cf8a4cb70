"""Which Protobuf file reads what another wrote; files that are none."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_tools.protoc")

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from fencepost.testing import SchemaRegistry
from fencepost.testing.registry import Reference
from fencepost.testing.registry.errors import RegistryError
from fencepost.testing.registry.protobuf_rules import ProtobufFile, unreadable
from fencepost.testing.registry.protobuf_schemas import normal_form, parse

PROTO3 = 'syntax = "proto3"; '
PROTO2 = 'syntax = "proto2"; '


def message(*fields: str, name: str = "M", head: str = PROTO3) -> str:
    return f"{head}message {name} {{ {' '.join(f'{one};' for one in fields)} }}"


CASES: list[tuple[str, str, str | None]] = [
    # new, old, reason
    (message("int32 a = 1"), message("int32 a = 1"), None),
    (message("int32 a = 1", "int32 b = 2"), message("int32 a = 1"), None),
    (message("int32 a = 1"), message("int32 a = 1", "int32 b = 2"), None),
    (message("int32 other = 1"), message("int32 a = 1"), None),
    (message("int64 a = 1"), message("int32 a = 1"), None),
    (message("bool a = 1"), message("uint64 a = 1"), None),
    (message("sint32 a = 1"), message("int32 a = 1"), "/M/1: the field is signed number"),
    (message("fixed32 a = 1"), message("sfixed32 a = 1"), None),
    (message("fixed64 a = 1"), message("fixed32 a = 1"), "/M/1: the field is fixed64"),
    (message("bytes a = 1"), message("string a = 1"), None),
    (message("string a = 1"), message("int32 a = 1"), "/M/1: the field is text, and was number"),
    (message("float a = 1"), message("double a = 1"), "/M/1: the field is float"),
    (message("E a = 1") + "enum E { Z = 0; }", message("int32 a = 1"), None),
    (message("N a = 1") + "message N {}", message("int32 a = 1"), "/M/1: the field is message"),
    (message("N a = 1") + "message N {}", message("O a = 1") + "message O {} message N {}",
     "the field is N, and was O"),
    (message("N a = 1") + "message N { int32 x = 1; }",
     message("N a = 1") + "message N { string x = 1; }", "/N/1: the field is number"),
    (message("M a = 1", "int32 b = 2"), message("M a = 1", "int64 b = 2"), None),
    (message("map<string, int32> a = 1"), message("map<string, int64> a = 1"), None),
    (message("map<string, int32> a = 1"), message("map<string, string> a = 1"), "/M/1/value"),
    (message("map<int32, int32> a = 1"), message("map<string, int32> a = 1"), "/M/1/key"),
    (message("map<string, int32> a = 1"), message("int32 a = 1"), "/M/1: the field is map"),
    (message("repeated int32 a = 1"), message("optional int32 a = 1"), "/M/1: the field is repeat"),
    (message("repeated int32 a = 1"), message("int32 a = 1"), None),  # proto3 has no word for it
    (message("repeated string a = 1"), message("optional string a = 1"), None),
    (message("required int32 a = 1", head=PROTO2), message(head=PROTO2), "new and required"),
    (message(head=PROTO2), message("required int32 a = 1", head=PROTO2), "the required field is"),
    (PROTO3 + "package a; message M {}", PROTO3 + "package b; message M {}", "the package is 'a'"),
    (PROTO3 + "message M {} message N {}", PROTO3 + "message N {} message M {}", None),
    (PROTO3 + "message M {}", PROTO3 + "message M {} message N {}", "/N: the message is gone"),
    (PROTO3 + "message M {}", PROTO3 + "message M { message I {} }", "/M/I: the message is gone"),
    (PROTO3 + "message M { message I { int32 a = 1; } }",
     PROTO3 + "message M { message I { string a = 1; } }", "/M/I/1: the field is number"),
    (PROTO3 + "message M {}", PROTO3 + "message M {} enum E { Z = 0; }", None),
    (message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof o { int32 a = 1; }"), None),
    (message("oneof o { int32 a = 1; }"), message("oneof o { int32 a = 1; int32 b = 2; }"),
     "/M/2: the field was in oneof o, and is gone"),
    (message("int32 z = 9"), message("oneof o { int32 a = 1; int32 b = 2; }", "int32 z = 9"), None),
    (message("int32 a = 1"), message("oneof o { int32 a = 1; int32 b = 2; }"),
     "/M/2: the field was in oneof o"),
    (message("int32 a = 1", "int32 b = 2"), message("oneof o { int32 a = 1; int32 b = 2; }"), None),
    (message("oneof o { int32 a = 1; int32 b = 2; }"), message("int32 a = 1", "int32 b = 2"),
     "/M/o: the oneof has fields that could be set together"),
    (message("oneof o { int32 a = 1; int32 b = 2; }"), message("int32 a = 1"), None),
    (message("optional int32 a = 1"), message("optional int32 a = 1", "optional int32 b = 2"),
     None),
]  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: Any) -> dict[str, str]:
    """Every file of the cases by its text, compiled in one go, in Base64."""
    place: Path = tmp_path_factory.mktemp("protos")
    texts = list(dict.fromkeys(text for new, old, _ in CASES for text in (new, old)))
    for number, text in enumerate(texts):
        # In packages of their own, since files of one run share their names.
        (place / f"f{number}.proto").write_text(text)
    found = {}
    for number, text in enumerate(texts):
        names = [f"f{number}.proto"]
        if number == 0:
            command = [sys.executable, "-c", _COMPILE, str(place), str(len(texts))]
            subprocess.run(command, check=True, timeout=300)
        made = FileDescriptorSet.FromString((place / f"{names[0]}.out").read_bytes()).file[0]
        found[text] = base64.b64encode(made.SerializeToString()).decode()
    return found


_COMPILE = """
import sys
from grpc_tools import protoc
place, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    name = f"f{number}.proto"
    words = ["", f"-I{place}", f"--descriptor_set_out={place}/{name}.out", name]
    assert protoc.main(words) == 0
"""


def file_of(text: str) -> ProtobufFile:
    return parse(text, {})[0]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_what_reads_what(compiled: dict[str, str], number: int):
    new, old, reason = CASES[number]
    found = unreadable(file_of(compiled[new]), file_of(compiled[old]))
    if reason is None:
        assert found == []
    else:
        assert any(reason in one for one in found), found


def test_text_and_descriptor_are_the_same_schema(compiled: dict[str, str]):
    text = CASES[0][0]
    with SchemaRegistry() as registry:
        first = registry.register("a", text, "PROTOBUF")
        assert registry.register("b", f"// a comment\n{text}", "PROTOBUF") == first
        assert registry.register("c", compiled[text], "PROTOBUF") == first
        other = message("int32 a = 1", name="Another")
        assert registry.register("d", other, "PROTOBUF") != first


def test_imports_of_references_and_of_googles_files():
    text = (
        PROTO3 + 'import "money.proto"; import "google/protobuf/timestamp.proto";'
        "message Bill { Money sum = 1; google.protobuf.Timestamp at = 2; }"
    )
    with SchemaRegistry() as registry:
        with pytest.raises(RegistryError, match=r"money\.proto"):
            registry.register("bill", text, "PROTOBUF")
        registry.register("money", message("int64 cents = 1", name="Money"), "PROTOBUF")
        named = [Reference("money.proto", "money", 1)]
        registry.register("bill", text, "PROTOBUF", named)
        registry.set_compatibility("NONE", "money")
        registry.register("money", message("string cents = 1", name="Money"), "PROTOBUF")
        with pytest.raises(RegistryError, match="/Bill/1/Money/1: the field is text") as caught:
            registry.register("bill", text, "PROTOBUF", [Reference("money.proto", "money", 2)])
        assert caught.value.code == 40901


def test_normal_forms(compiled: dict[str, str]):
    one = FileDescriptorProto.FromString(base64.b64decode(compiled[CASES[1][0]]))
    other = FileDescriptorProto()
    other.CopyFrom(one)
    other.message_type[0].field.reverse()
    forms = [file_of(base64.b64encode(file.SerializeToString()).decode()) for file in (one, other)]
    assert parse(compiled[CASES[1][0]], {})[1] == forms[0].file.SerializeToString()
    assert normal_form(forms[0]) == normal_form(forms[1])
    assert forms[0].file != forms[1].file


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROTO3 + "message M { int32 a = 1 }", 'Expected ";"'),
        (PROTO3 + "message M { Gone a = 1; }", '"Gone" is not defined'),
        (PROTO3 + "message M { int32 a = 1; int32 b = 1; }", "already been used"),
        (PROTO3 + 'import "gone.proto";', "gone.proto"),
        (PROTO3 + 'import "/etc/passwd";', "/etc/passwd"),
        ("{", "schema.proto"),
        ("\0\0", "schema.proto"),
        (PROTO3 + "message M {" * 2000, "schema.proto"),
    ],
)
def test_texts_that_are_no_file(text: str, words: str):
    with pytest.raises(RegistryError) as caught:
        parse(text, {})
    assert caught.value.code == 42201
    assert words in str(caught.value)
    assert len(str(caught.value)) < 600


def test_descriptors_that_make_no_sense():
    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="M").field.add(
        name="a", number=1, type=11, label=1, type_name=".Gone"
    )
    for broken in (file, FileDescriptorProto(dependency=["gone.proto"]),
                   FileDescriptorProto(dependency=["google/protobuf/../../os.proto"])):  # fmt: skip
        with pytest.raises(RegistryError) as caught:
            parse(base64.b64encode(broken.SerializeToString()).decode(), {})
        assert caught.value.code == 42201
