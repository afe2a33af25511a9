"""The protobuf messages of Chakra's format, built from a table of their fields.

Numbers and types of the fields are those of MLCommons' published schema (schema/protobuf/et_def.proto of
github.com/mlcommons/chakra). The message of a storage node is kept packed: field 11 is read as bytes.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from perfcast.traces.chakra.trace import SCALAR_KINDS

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

_PACKAGE = "ChakraProtoMsg"
#: Of each message: name, number and type of its fields; '[]' marks a repeated one.
_FIELDS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "AttributeProto[]")),
    "IOInfo": (("values", 1, "string"), ("shapes", 2, "string"), ("types", 3, "string")),
    "Node": (
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "int32"),
        ("ctrl_deps", 4, "uint64[]"),
        ("data_deps", 5, "uint64[]"),
        ("start_time_micros", 6, "uint64"),
        ("duration_micros", 7, "uint64"),
        ("inputs", 8, "IOInfo"),
        ("outputs", 9, "IOInfo"),
        ("attr", 10, "AttributeProto[]"),
        ("storage", 11, "bytes"),
    ),
}


@cache
def message_classes() -> Any:
    """Classes ``GlobalMetadata`` and ``Node``, with all that they hold."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="perfcast/chakra.proto", package=_PACKAGE, syntax="proto3")
    _add_attributes(file)
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, *field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _FIELDS
    }
    return SimpleNamespace(**found)


def _add_attributes(file: Any) -> None:
    """An attribute has one of thirty values: each scalar kind, and a message that lists them."""
    attribute = file.message_type.add(name="AttributeProto")
    _add_field(attribute, "name", 1, "string")
    _add_field(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for place, kind in enumerate(SCALAR_KINDS):
        container = f"{kind.capitalize()}List"
        _add_field(file.message_type.add(name=container), "values", 1, f"{kind}[]")
        for offset, (name, type_) in enumerate(((f"{kind}_val", kind), (f"{kind}_list", container))):
            _add_field(attribute, name, 3 + 2 * place + offset, type_)
            attribute.field[-1].oneof_index = 0


def _add_field(message: DescriptorProto, name: str, number: int, type_: str) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    base = type_.removesuffix("[]")
    field = message.field.add(name=name, number=number)
    field.label = Field.LABEL_REPEATED if base != type_ else Field.LABEL_OPTIONAL
    if base in SCALAR_KINDS:
        field.type = Field.Type.Value(f"TYPE_{base.upper()}")
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".{_PACKAGE}.{base}"
