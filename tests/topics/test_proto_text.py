"""The reader of .proto texts, against protoc: the same messages, fields and enums, whatever stands around them."""

import importlib.resources
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from riparian.topics.formats.protobuf.types import MessageTypes
from riparian.topics.schemas import PROTOBUF, RegisteredSchema

TEXTS = {
    "proto3": """
// comment
syntax = "proto3";
package com.shop;
import "google/protobuf/timestamp.proto";
import public "base.proto";
option java_package = "x";
option java_outer_classname = 'a" // b /* c';
/* block
 * { comment */
message Order {
  reserved 4, 10 to 20, 100 to max;
  reserved "foo", "bar";
  string id = 1 [deprecated = true, json_name="ID"];
  optional double a = 2;
  repeated int32 r = 3 [packed=false];
  map<string, X> m = 5;
  oneof k { option (word) = "}"; string s = 6; int64 t = 7; }
  google.protobuf.Timestamp when = 8; ;
  .com.shop.Color color = 9;
  shop.Base base = 22;
  enum Inner { option allow_alias = true; A = 0; B = 1; C = 1; D = -5; E = 0x10; reserved 7, 20 to max; }
  message X { double v = 1; Inner i = 2; X x = 3; map<int32, Inner> map_of_Things = 4; optional X _v = 5; }
  X x = 0x15;
  optional bool from = 027;
  repeated bytes message_kind = 24;
  float optional_ = 25;
}
message Second { message Third { message Fourth { fixed32 a = 1; sfixed64 b = 2; sint32 c = 3; } } Third.Fourth f = 1; }
enum Color {
  option (on_enum) = { a: 1 b: [1, 2] c { d: ";" } }; RED = 0 [(on_value) = 5, deprecated = true]; BLUE = 1; }
service S { rpc Foo(Order) returns (stream Order) { option deprecated = true; } rpc B(Order) returns (Order); }
import "google/protobuf/descriptor.proto";
extend google.protobuf.OneofOptions { string word = 50000; }
extend google.protobuf.EnumOptions { Aggregate on_enum = 50001; }
extend google.protobuf.EnumValueOptions { int32 on_value = 50002; }
message Aggregate { int32 a = 1; repeated int32 b = 2; Aggregate c = 3; string d = 4; }
""",
    "proto2": r"""
import weak "base.proto";
message M {
  required string id = 1;
  optional int32 n = 2 [default = -7];
  optional float f = 7 [default = inf, deprecated = true];
  optional string s = 8 [default = "a\"];\x41b" "mo're"];
  optional bytes bb = 12 [default = '\001\377'];
  optional group Gr = 3 { optional int32 z = 1; }
  repeated group Items = 4 { optional double p = 1; message Deep { optional bool q = 1; } }
  extensions 100 to 199, 500 to max;
  oneof o { string q = 21; group Og = 22 { optional int32 y = 1; } }
  map<bool, com.shop.Base> bases = 30;
}
extend M { optional string e2 = 101; }
enum Kind { NONE = -1; SOME = 2147483647; }
""",
    "edition": """
edition = "2023";
package ed;
option features.field_presence = IMPLICIT;
message M {
  string id = 1;
  int32 n = 2 [features.field_presence = EXPLICIT, deprecated = true];
  M sub = 3 [features.message_encoding = DELIMITED];
  repeated int32 r = 4 [features.repeated_field_encoding = EXPANDED];
  reserved foo, bar;
  enum E { option features.enum_type = CLOSED; A = 0; B = 1; }
  E e = 5 [features.field_presence = EXPLICIT];
  oneof k { string s = 6; }
}
""",
}
BASE = 'syntax = "proto3"; package com.shop; message Base { string q = 1; }'


def by_protoc(text: str) -> list[Any]:
    """The files of a text and of what it imports, those that it needs first."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "base.proto").write_text(BASE)
        (Path(folder) / "schema.proto").write_text(text)
        known = importlib.resources.files("grpc_tools") / "_proto"
        out = Path(folder) / "out"
        command = ["protoc", f"-I{folder}", f"-I{known}", "--include_imports", f"--descriptor_set_out={out}"]
        assert protoc.main([*command, "schema.proto"]) == 0
        return list(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file)


def messages_of(text: str) -> MessageTypes:
    return MessageTypes(RegisteredSchema(PROTOBUF, text, (("base.proto", RegisteredSchema(PROTOBUF, BASE)),)))


def shape(file: Any) -> Any:
    """What of a file decides how bytes are read."""

    def bare(message: Any) -> None:
        del message.reserved_range[:], message.reserved_name[:], message.extension_range[:], message.extension[:]
        for field in message.field:
            options(field)
            field.ClearField("json_name")
            field.ClearField("default_value")
        for oneof in message.oneof_decl:
            options(oneof)
        for one in message.nested_type:
            bare(one)
        for one in message.enum_type:
            enum(one)
        options(message)

    def enum(one: Any) -> None:
        options(one)
        del one.reserved_range[:], one.reserved_name[:]
        for value in one.value:
            value.ClearField("options")

    def options(one: Any) -> None:
        """All but features, and whether it is of a map."""
        kept = type(one.options)()
        if one.options.HasField("features"):
            kept.features.CopyFrom(one.options.features)
        if getattr(one.options, "map_entry", False):
            kept.map_entry = True
        one.ClearField("options")
        if kept.ByteSize():
            one.options.CopyFrom(kept)

    for one in file.message_type:
        bare(one)
    for one in file.enum_type:
        enum(one)
    options(file)
    for name in ("name", "dependency", "public_dependency", "weak_dependency", "service", "extension"):
        file.ClearField(name)
    if file.syntax == "proto2":
        file.ClearField("syntax")
    return file


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_the_messages_that_protoc_finds(name: str) -> None:
    found = descriptor_pb2.FileDescriptorProto()
    messages_of(TEXTS[name])._file.CopyToProto(found)
    assert str(shape(found)).splitlines() == str(shape(by_protoc(TEXTS[name])[-1])).splitlines()
