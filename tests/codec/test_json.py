"""JSON by the canonical mapping of Protocol Buffers, with texts and messages written by hand."""

from __future__ import annotations

import base64
import json
import resource
import struct
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Codec
from flowbuf.errors import DecodeError, SchemaError
from tests.support.codec.messages import bytes_field, group_field, make_codec, number_field, tag, varint

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; PAID = 1; SENT = 2; ALSO_SENT = 2; LOST = -1; option allow_alias = true; }
message Line { string article = 1; uint32 count = 2; Line gift = 3; }
message Order {
  int64 order_number = 1;
  int32 small = 2;
  uint64 large = 3;
  float price = 4;
  double total = 5;
  bool paid = 6;
  string customer = 7;
  bytes token = 8;
  State state = 9;
  Line first = 10;
  repeated Line lines = 11;
  repeated sint32 counts = 12;
  map<string, Line> by_name = 13;
  map<int32, string> by_number = 14;
  map<bool, State> by_flag = 15;
  oneof payment { string card = 16; Line voucher = 17; google.protobuf.NullValue nothing = 18; }
  optional int32 maybe = 19;
  google.protobuf.Timestamp placed = 20;
  google.protobuf.Duration took = 21;
  google.protobuf.FieldMask mask = 22;
  google.protobuf.Struct extra = 23;
  google.protobuf.Value anything = 24;
  google.protobuf.ListValue list = 25;
  google.protobuf.Any box = 26;
  google.protobuf.Int64Value wrapped = 27;
  google.protobuf.StringValue wrapped_text = 28;
  repeated State states = 29;
  string renamed = 30 [json_name = "@strange \\"name\\""];
  map<uint64, double> by_large = 31;
  repeated google.protobuf.Value values = 32;
}
"""


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path = tmp_path_factory.mktemp("protos") / "order.proto"
    path.write_text(PROTO)
    return Codec.load(path, "Order")


def real(number: int, value: float) -> bytes:
    return tag(number, 1) + struct.pack("<d", value)


def narrow(number: int, value: float) -> bytes:
    return tag(number, 5) + struct.pack("<f", value)


VALUES: list[tuple[str, bytes]] = [
    ("{}", b""),
    # integers of 64 bits are strings
    ('{"orderNumber":"-5"}', number_field(1, -5)),
    ('{"orderNumber":"9223372036854775807"}', number_field(1, (1 << 63) - 1)),
    ('{"orderNumber":"-9223372036854775808"}', number_field(1, -(1 << 63))),
    ('{"small":-2147483648}', number_field(2, -(1 << 31))),
    ('{"large":"18446744073709551615"}', number_field(3, (1 << 64) - 1)),
    # the shortest number that reads back as the same float
    ('{"price":0.1}', narrow(4, 0.1)),
    ('{"price":3.4028235e+38}', narrow(4, 3.4028234663852886e38)),
    ('{"price":1e-45}', narrow(4, 1e-45)),
    ('{"price":-0.0}', narrow(4, -0.0)),
    ('{"price":16777216.0}', narrow(4, 16777216)),
    ('{"price":"NaN"}', tag(4, 5) + b"\0\0\xc0\x7f"),
    ('{"total":0.1}', real(5, 0.1)),
    ('{"total":1.7976931348623157e+308}', real(5, 1.7976931348623157e308)),
    ('{"total":5e-324}', real(5, 5e-324)),
    ('{"total":"Infinity"}', real(5, float("inf"))),
    ('{"total":"-Infinity"}', real(5, -float("inf"))),
    ('{"paid":true}', number_field(6, 1)),
    ('{"customer":"Zürich 漢字 😀"}', bytes_field(7, "Zürich 漢字 😀".encode())),
    ('{"customer":"a\\"b\\\\c\\n\\t\\u0000\\u001f\\u007f"}', bytes_field(7, b'a"b\\c\n\t\0\x1f\x7f')),
    ('{"token":"AA=="}', bytes_field(8, b"\0")),
    ('{"token":"AAE="}', bytes_field(8, b"\0\1")),
    ('{"token":"+/+/"}', bytes_field(8, b"\xfb\xff\xbf")),
    ('{"state":"SENT"}', number_field(9, 2)),
    ('{"state":"LOST"}', number_field(9, -1)),
    ('{"state":77}', number_field(9, 77)),
    ('{"first":{}}', bytes_field(10, b"")),
    ('{"first":{"gift":{"count":1}}}', bytes_field(10, bytes_field(3, number_field(2, 1)))),
    ('{"lines":[{},{"count":2}]}', bytes_field(11, b"") + bytes_field(11, number_field(2, 2))),
    ('{"counts":[0,-1,300]}', bytes_field(12, b"\0\1" + varint(600))),
    (
        '{"byName":{"":{},"a":{"count":1}}}',
        bytes_field(13, bytes_field(1, b"a") + bytes_field(2, number_field(2, 1)))
        + bytes_field(13, bytes_field(1, b"") + bytes_field(2, b"")),
    ),
    (
        '{"byNumber":{"-1":"x","2":""}}',
        bytes_field(14, number_field(1, -1) + bytes_field(2, b"x"))
        + bytes_field(14, number_field(1, 2) + bytes_field(2, b"")),
    ),
    ('{"byFlag":{"true":"PAID"}}', bytes_field(15, number_field(1, 1) + number_field(2, 1))),
    ('{"card":""}', bytes_field(16, b"")),
    ('{"voucher":{}}', bytes_field(17, b"")),
    ('{"nothing":null}', number_field(18, 0)),
    ('{"maybe":0}', number_field(19, 0)),
    # fractions of a second have 0, 3, 6 or 9 digits
    ('{"placed":"1970-01-01T00:00:00Z"}', bytes_field(20, b"")),
    ('{"placed":"2026-11-27T09:30:00.500Z"}',
     bytes_field(20, number_field(1, 1795771800) + number_field(2, 5 * 10**8))),
    ('{"placed":"1969-12-31T23:59:59.999999Z"}',
     bytes_field(20, number_field(1, -1) + number_field(2, 999999000))),
    ('{"placed":"0001-01-01T00:00:00.000000001Z"}',
     bytes_field(20, number_field(1, -62135596800) + number_field(2, 1))),
    ('{"placed":"9999-12-31T23:59:59Z"}', bytes_field(20, number_field(1, 253402300799))),
    ('{"placed":"2000-02-29T12:00:00Z"}', bytes_field(20, number_field(1, 951825600))),
    ('{"took":"0s"}', bytes_field(21, b"")),
    ('{"took":"-1.500s"}', bytes_field(21, number_field(1, -1) + number_field(2, -5 * 10**8))),
    ('{"took":"-0.000000001s"}', bytes_field(21, number_field(2, -1))),
    ('{"took":"315576000000s"}', bytes_field(21, number_field(1, 315576000000))),
    ('{"mask":""}', bytes_field(22, b"")),
    ('{"mask":"orderNumber,first.byName"}',
     bytes_field(22, bytes_field(1, b"order_number") + bytes_field(1, b"first.by_name"))),
    ('{"extra":{}}', bytes_field(23, b"")),
    (
        '{"extra":{"a":1.0,"b":[true,null]}}',
        bytes_field(
            23,
            bytes_field(1, bytes_field(1, b"a") + bytes_field(2, real(2, 1.0)))
            + bytes_field(
                1,
                bytes_field(1, b"b")
                + bytes_field(
                    2,
                    bytes_field(6, bytes_field(1, number_field(4, 1)) + bytes_field(1, number_field(1, 0))),
                ),
            ),
        ),
    ),
    ('{"anything":null}', bytes_field(24, number_field(1, 0))),
    ('{"anything":"x"}', bytes_field(24, bytes_field(3, b"x"))),
    ('{"anything":{}}', bytes_field(24, bytes_field(5, b""))),
    ('{"list":[]}', bytes_field(25, b"")),
    ('{"box":{}}', bytes_field(26, b"")),
    (
        '{"box":{"@type":"a/shop.Line","count":3}}',
        bytes_field(26, bytes_field(1, b"a/shop.Line") + bytes_field(2, number_field(2, 3))),
    ),
    ('{"box":{"@type":"a/shop.Line"}}', bytes_field(26, bytes_field(1, b"a/shop.Line"))),
    (
        '{"box":{"@type":"x.y/google.protobuf.Duration","value":"1s"}}',
        bytes_field(26, bytes_field(1, b"x.y/google.protobuf.Duration") + bytes_field(2, number_field(1, 1))),
    ),
    ('{"wrapped":"0"}', bytes_field(27, b"")),
    ('{"wrapped":"7"}', bytes_field(27, number_field(1, 7))),
    ('{"wrappedText":""}', bytes_field(28, b"")),
    ('{"states":["NEW","PAID"]}', bytes_field(29, b"\0\1")),
    ('{"@strange \\"name\\"":"x"}', bytes_field(30, b"x")),
    ('{"byLarge":{"1":0.5,"18446744073709551615":"NaN"}}',
     bytes_field(31, number_field(1, (1 << 64) - 1) + real(2, float("nan")))
     + bytes_field(31, number_field(1, 1) + real(2, 0.5))),
    ('{"values":[null,1.0]}', bytes_field(32, number_field(1, 0)) + bytes_field(32, real(2, 1.0))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), VALUES, ids=[text for text, _ in VALUES])
def test_values_have_the_canonical_form(codec: Codec, text: str, message: bytes) -> None:
    assert codec.to_json(message) == text
    assert codec.from_json(text) == message
    assert codec.from_json(text.encode()) == message
    assert codec.to_json(memoryview(bytearray(message))) == text
    json.loads(text)


ACCEPTED: list[tuple[str, str]] = [
    (' {"small" :\t1 ,\r\n"paid":false} ', '{"small":1}'),
    ('{"order_number":5}', '{"orderNumber":"5"}'),
    ('{"small":"12"}', '{"small":12}'),
    ('{"small":1.0}', '{"small":1}'),
    ('{"small":12e-1,"large":1e3}'.replace("12e-1", "120e-1"), '{"small":12,"large":"1000"}'),
    ('{"small":-0}', "{}"),
    ('{"orderNumber":9007199254740993}', '{"orderNumber":"9007199254740993"}'),
    ('{"large":18446744073709551615.000}', '{"large":"18446744073709551615"}'),
    ('{"total":1,"price":"2.5"}', '{"price":2.5,"total":1.0}'),
    ('{"customer":"\\u00e9\\ud83d\\ude00\\/\\b\\f"}', '{"customer":"é😀/\\b\\f"}'),
    ('{"c\\u0075stomer":"x"}', '{"customer":"x"}'),
    ('{"token":"-_-_"}', '{"token":"+/+/"}'),
    ('{"token":"AA"}', '{"token":"AA=="}'),
    ('{"state":"ALSO_SENT"}', '{"state":"SENT"}'),
    ('{"state":1}', '{"state":"PAID"}'),
    ('{"small":null,"lines":null,"byName":null,"first":null,"state":null,"wrapped":null}', "{}"),
    ('{"card":null,"voucher":{}}', '{"voucher":{}}'),
    ('{"placed":"2026-11-27T10:30:00.5+01:00"}', '{"placed":"2026-11-27T09:30:00.500Z"}'),
    ('{"placed":"1999-12-31T23:59:59.123456789-00:30"}', '{"placed":"2000-01-01T00:29:59.123456789Z"}'),
    ('{"took":"1.5s"}', '{"took":"1.500s"}'),
    ('{"box":{"count":3,"@type":"a/shop.Line"}}', '{"box":{"@type":"a/shop.Line","count":3}}'),
    ('{"box":{"value":"1s","@type":"a/google.protobuf.Duration"}}',
     '{"box":{"@type":"a/google.protobuf.Duration","value":"1s"}}'),
    # the output has the order of field numbers, and of keys
    ('{"customer":"x","small":1,"byNumber":{"10":"","-3":"","2":""},"orderNumber":1}',
     '{"orderNumber":"1","small":1,"customer":"x","byNumber":{"-3":"","2":"","10":""}}'),
    ('{"byName":{"b":{},"aa":{},"a":{}}}', '{"byName":{"a":{},"aa":{},"b":{}}}'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ACCEPTED)
def test_other_forms_are_read_too(codec: Codec, text: str, expected: str) -> None:
    message = codec.from_json(text)
    assert codec.to_json(message) == expected
    assert codec.from_json(expected) == message
    theirs = codec.message_class().FromString(message)
    assert theirs.SerializeToString(deterministic=True) == message


REFUSED: list[tuple[str, str]] = [
    ("", "byte 0: an object is expected here"),
    ("[]", "byte 0: an object is expected here"),
    ("null", "byte 0: an object is expected here"),
    ("{", "byte 1: a string is expected here"),
    ('{"small"}', "small: byte 8: a colon is expected here"),
    ('{"small":}', "small: byte 9: a number is expected here"),
    ('{"small":1,}', "byte 11: a string is expected here"),
    ('{"small":1 2}', "byte 11: a comma or the end is expected here"),
    ("{}}", "byte 2: more text behind the value"),
    ('{"smalll":1}', 'byte 1: an unknown field: "smalll"; did you mean small?'),
    ('{"small":1,"small":2}', 'byte 11: a key that occurs twice: "small"'),
    ('{"order_number":1,"orderNumber":1}', 'byte 18: a key that occurs twice: "orderNumber"'),
    ('{"byName":{"a":{},"a":{}}}', 'by_name: byte 18: a key that occurs twice: "a"'),
    ('{"byNumber":{"1":"","01":""}}', 'by_number: byte 20: a string that is not a number: "01"'),
    ('{"byFlag":{"yes":1}}', 'by_flag: byte 11: a key that is neither true nor false: "yes"'),
    ('{"byNumber":{"1":null}}', 'by_number["1"]: byte 17: null is no value of a map'),
    ('{"card":"x","voucher":{}}', "byte 25: two members of one oneof"),
    ('{"small":2147483648}', "small: byte 9: a number that does not fit int32: 2147483648"),
    ('{"small":0.5}', "small: byte 9: a number that does not fit int32: 0.5"),
    ('{"large":-1}', "large: byte 9: a number that does not fit uint64: -1"),
    ('{"large":18446744073709551616}',
     "large: byte 9: a number that does not fit uint64: 18446744073709551616"),
    ('{"small":true}', "small: byte 9: a number is expected here"),
    ('{"small":"1 "}', 'small: byte 9: a string that is not a number: "1 "'),
    ('{"small":""}', 'small: byte 9: a string that is not a number: ""'),
    ('{"small":+1}', "small: byte 9: a number is expected here"),
    ('{"small":01}', "small: byte 9: a number is expected here"),
    ('{"total":NaN}', "total: byte 9: a number is expected here"),
    ('{"total":1e400}', "total: byte 9: a number that does not fit double: 1e400"),
    ('{"price":3.5e38}', "price: byte 9: a number that does not fit float: 3.5e38"),
    ('{"total":"nan"}', 'total: byte 9: a string that is not a number: "nan"'),
    ('{"paid":1}', "paid: byte 8: true or false is expected here"),
    ('{"paid":"true"}', "paid: byte 8: true or false is expected here"),
    ('{"customer":5}', "customer: byte 12: a string is expected here"),
    ('{"customer":"a\tb"}', "customer: byte 13: a string without its end, or with a control character"),
    ('{"customer":"a', "customer: byte 13: a string without its end, or with a control character"),
    ('{"customer":"\\x"}', "customer: byte 13: an escape that JSON does not have, or half of a pair"),
    ('{"customer":"\\ud800"}', "customer: byte 13: an escape that JSON does not have, or half of a pair"),
    ('{"customer":"\\udc00\\ud800"}',
     "customer: byte 13: an escape that JSON does not have, or half of a pair"),
    ('{"token":"A"}', 'token: byte 9: a string that is not base64: "A"'),
    ('{"token":"A*=="}', 'token: byte 9: a string that is not base64: "A*=="'),
    ('{"state":"GONE"}', 'state: byte 9: an unknown member of the enum: "GONE"'),
    ('{"state":1.5}', "state: byte 9: a number that does not fit enum: 1.5"),
    ('{"state":true}', "state: byte 9: the name or number of an enum member is expected here"),
    ('{"lines":[{"count":1},{"count":-1}]}',
     "lines[1].count: byte 31: a number that does not fit uint32: -1"),
    ('{"lines":[null]}', "lines[0]: byte 10: null is no element of a repeated field"),
    ('{"lines":{}}', "lines: byte 9: an array is expected here"),
    ('{"placed":"2026-02-29T00:00:00Z"}', "placed: byte 10: a string that is not a time"),
    ('{"placed":"2026-01-01T24:00:00Z"}', "placed: byte 10: a string that is not a time"),
    ('{"placed":"2026-01-01t00:00:00Z"}', "placed: byte 10: a string that is not a time"),
    ('{"placed":"2026-01-01T00:00:00"}', "placed: byte 10: a string that is not a time"),
    ('{"placed":"2026-01-01T00:00:00.1234567890Z"}', "placed: byte 10: a string that is not a time"),
    ('{"placed":"0000-01-01T00:00:00Z"}', "placed: byte 10: a string that is not a time"),
    ('{"placed":"0001-01-01T00:00:00+01:00"}', "placed: byte 10: a string that is not a time"),
    ('{"took":"s"}', "took: byte 8: a string that is not a duration"),
    ('{"took":"1"}', "took: byte 8: a string that is not a duration"),
    ('{"took":"315576000001s"}', "took: byte 8: a string that is not a duration"),
    ('{"mask":"order_number"}', "mask: byte 8: a path that is not in lowerCamelCase"),
    ('{"anything":1e400}', "anything.number_value: byte 12: a number that does not fit double"),
    ('{"box":{"count":3}}', "box: byte 18: an Any without @type"),
    ('{"box":{"@type":"a/Nothing"}}',
     'box: byte 16: an Any of a type that the codec does not know: "a/Nothing"'),
    ('{"box":{"@type":"a/shop.Line","@type":"a/shop.Line"}}',
     'box: byte 30: a key that occurs twice: "@type"'),
    ('{"box":{"@type":"a/google.protobuf.Duration","value":"1s","@type":"x"}}',
     "box: byte 58: a key that occurs"),
    ('{"mask":"a\u202eb"}', "mask: byte 8: a path that is not in lowerCamelCase"),
    ('{"box":{"@type":"shop.Line"}}', "box: byte 16: an Any of a type that the codec does not know"),
    ('{"box":{"@type":"a/google.protobuf.Duration"}}',
     "box: byte 45: an Any of this type needs the member value"),
    ('{"box":{"@type":"a/shop.Line","countt":3}}',
     'box: byte 30: an unknown field: "countt"; did you mean count?'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_other_texts_are_refused_with_the_place(codec: Codec, text: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        codec.from_json(text)
    assert str(caught.value).startswith(problem)
    assert f"byte {caught.value.offset}" in problem
    assert problem.startswith(caught.value.path)
    assert 0 <= caught.value.offset <= len(text)


def test_halves_of_surrogate_pairs_in_a_str_are_refused(codec: Codec) -> None:
    with pytest.raises(DecodeError, match="byte 15: half of a surrogate pair"):
        codec.from_json('{"customer":"é\ud800"}')
    with pytest.raises(DecodeError, match="byte 13: a string that is not UTF-8"):
        codec.from_json(b'{"customer":"\xed\xa0\x80"}')


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"other":{"a":[1,{"b":null}],"c":"\\n"},"small":1}', '{"small":1}'),
        ('{"state":"GONE","small":1}', '{"small":1}'),
        ('{"states":["PAID","GONE","NEW"]}', '{"states":["PAID","NEW"]}'),
        ('{"states":["GONE"]}', "{}"),
        ('{"byFlag":{"true":"GONE","false":"PAID"}}', '{"byFlag":{"false":"PAID"}}'),
        ('{"box":{"@type":"a/shop.Line","other":3,"count":1}}', '{"box":{"@type":"a/shop.Line","count":1}}'),
    ],
)
def test_unknown_names_can_be_ignored(codec: Codec, text: str, rest: str) -> None:
    assert codec.to_json(codec.from_json(text, unknown="ignore")) == rest
    with pytest.raises(DecodeError, match="unknown"):
        codec.from_json(text)


def test_members_that_are_ignored_must_be_valid(codec: Codec) -> None:
    for value in ("", "nul", "[1,]", '{"a"}', "{1:2}", "01", '"\x01"', "[" * 1025 + "]" * 1025, "truefalse"):
        with pytest.raises(DecodeError):
            codec.from_json(f'{{"other":{value}}}', unknown="ignore")
    deep = "[" * 1024 + "]" * 1024
    assert codec.from_json(f'{{"other":{deep},"more":{deep}}}', unknown="ignore") == b""


def test_options_of_the_output(codec: Codec) -> None:
    message = codec.encode({"order_number": 1, "state": 2, "lines": [{"count": 0}]})
    text = codec.to_json(message, names="original", enums="number")
    assert text == '{"order_number":"1","state":2,"lines":[{}]}'
    complete = json.loads(codec.to_json(message, defaults=True))
    assert complete["lines"] == [{"article": "", "count": 0}]
    assert complete["state"] == "SENT"
    assert (complete["byName"], complete["counts"], complete["total"]) == ({}, [], 0)
    # fields with presence, messages and members of a oneof have no default
    assert not complete.keys() & {"maybe", "first", "card", "voucher", "nothing", "placed"}
    assert codec.from_json(codec.to_json(message, defaults=True)) == message
    for options in ({"names": "x"}, {"enums": "x"}):
        with pytest.raises(ValueError, match="is 'x'; it must be one of"):
            codec.to_json(message, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown is 'x'; it must be one of"):
        codec.from_json("{}", unknown="x")
    with pytest.raises(ValueError, match="defaults is 'omit'; it must be True or False"):
        codec.to_json(message, defaults="omit")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data is dict; it must be bytes; encode_json takes objects"):
        codec.to_json({})
    with pytest.raises(TypeError, match="text is dict; it must be str or bytes"):
        codec.from_json({})


def test_the_last_value_counts_and_parts_are_merged(codec: Codec) -> None:
    """Fields may be in any order, and occur several times."""
    line = bytes_field(10, number_field(2, 7))
    for message, text in [
        (number_field(6, 1) + number_field(2, 5) + number_field(2, 6), '{"small":6,"paid":true}'),
        (number_field(2, 5) + number_field(2, 0), "{}"),
        (line + number_field(2, 1) + bytes_field(10, bytes_field(1, b"x")),
         '{"small":1,"first":{"article":"x","count":7}}'),
        (bytes_field(16, b"x") + bytes_field(17, b""), '{"voucher":{}}'),
        (bytes_field(17, number_field(2, 1)) + bytes_field(16, b"x") + bytes_field(17, bytes_field(1, b"y")),
         '{"voucher":{"article":"y"}}'),
        (bytes_field(12, b"\2") + number_field(6, 1) + number_field(12, 4), '{"paid":true,"counts":[1,2]}'),
        (bytes_field(14, number_field(1, 1) + bytes_field(2, b"a")) + bytes_field(14, number_field(1, 1)),
         '{"byNumber":{"1":""}}'),
        (bytes_field(13, bytes_field(2, number_field(2, 1)) + bytes_field(1, b"k")
                     + bytes_field(2, bytes_field(1, b"x"))),
         '{"byName":{"k":{"article":"x","count":1}}}'),
        (bytes_field(20, number_field(2, 10**9) + number_field(1, 5)) + bytes_field(20, number_field(2, 2)),
         '{"placed":"1970-01-01T00:00:05.000000002Z"}'),
        (bytes_field(999, b"x") + number_field(2, 1) + number_field(998, 1), '{"small":1}'),
    ]:  # fmt: skip
        assert codec.to_json(message) == text
        theirs = codec.message_class().FromString(message).SerializeToString(deterministic=True)
        if b"\xba\x3e" not in theirs:  # google.protobuf keeps unknown fields
            assert codec.from_json(text) == theirs


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (bytes_field(10, tag(2, 0)), "first.count: byte 2: a varint that is cut short"),
        (bytes_field(11, b"") + bytes_field(11, b"\x0a\x05x"),
         "lines[1].article: byte 4: a length beyond the end"),
        (bytes_field(12, b"\1\x80"), "counts[1]: byte 3: a packed element that is cut short"),
        (bytes_field(7, b"\xff"), "customer: byte 2: a string that is not UTF-8"),
        (bytes_field(13, bytes_field(1, b"a") + bytes_field(2, b"\x0f")),
         'by_name["a"]: byte 7: wire type 7'),
        (bytes_field(20, number_field(1, 253402300800)),
         "placed: byte 3: a time outside of the years 1 to 9999"),
        (bytes_field(21, number_field(1, 1) + number_field(2, -1)),
         "took: byte 3: a duration of more than 10,000 years"),
        (bytes_field(22, bytes_field(1, b"aB")),
         "mask: byte 5: a path that lowerCamelCase cannot express: aB"),
        (bytes_field(22, bytes_field(1, b"a__b")),
         "mask: byte 5: a path that lowerCamelCase cannot express: a__b"),
        (bytes_field(24, real(2, float("nan"))), "anything.number_value: byte 3: NaN or infinity"),
        (bytes_field(26, bytes_field(1, b"a/b")),
         "box: byte 3: an Any of a type that the codec does not know: a/b"),
        # fields that are not in order
        (number_field(6, 1) + bytes_field(10, number_field(2, 1) + bytes_field(1, b"\xff")),
         "first.article: byte 8: a string that is not UTF-8"),
    ],
)  # fmt: skip
def test_messages_without_a_json_form_are_refused(codec: Codec, message: bytes, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        codec.to_json(message)
    assert str(caught.value).startswith(problem)
    assert caught.value.status == "bad_message"
    assert f"byte {caught.value.offset}:" in problem


def test_messages_are_nested_at_most_100_times(codec: Codec) -> None:
    """As in `encode` and `decode`: 100 messages inside the outermost one."""

    def nested(count: int) -> tuple[str, bytes]:
        text, message = "{}", b""
        for _ in range(count - 1):
            text, message = f'{{"gift":{text}}}', bytes_field(3, message)
        return f'{{"first":{text}}}', bytes_field(10, message)

    text, message = nested(100)
    assert codec.to_json(message) == text
    assert codec.from_json(text) == message
    codec.decode(message)
    text, message = nested(101)
    for call in (
        lambda: codec.to_json(message),
        lambda: codec.from_json(text),
        lambda: codec.decode(message),
    ):
        with pytest.raises(DecodeError, match="more than 100 messages inside each other"):
            call()
    for text in ('{"anything":' + "[" * 51 + "]" * 51 + "}", '{"extra":' + '{"a":' * 60 + "1" + "}" * 61):
        with pytest.raises(DecodeError, match="more than 100 messages inside each other"):
            codec.from_json(text)


def test_work_is_bounded_for_messages_out_of_order_at_every_level(codec: Codec) -> None:
    message = number_field(2, 1) + bytes_field(1, b"x" * 1000)
    for _ in range(99):
        message = bytes_field(3, message) + number_field(2, 1) + bytes_field(1, b"x" * 1000)
    text = codec.to_json(bytes_field(10, message))
    assert len(text) > 100_000
    assert json.loads(text)["first"]["gift"]["gift"]["count"] == 1


def test_groups_and_required_fields_of_proto2() -> None:
    old = make_codec("Old")
    message = number_field(1, 5) + group_field(20, number_field(1, 2)) + group_field(21, b"") * 2
    text = '{"must":5,"pair":{"a":2},"item":[{},{}]}'
    assert old.to_json(message) == text
    assert old.from_json(text) == message
    assert old.to_json(b"") == "{}"  # as `decode`, which does not require them
    with pytest.raises(DecodeError, match="byte 2: a required field is missing"):
        old.from_json("{}")
    with pytest.raises(DecodeError, match="a required field is missing"):
        old.from_json('{"must":null}')
    with pytest.raises(DecodeError, match=r"o_enum: byte 18: a number that does not fit enum: 5"):
        old.from_json('{"must":1,"oEnum":5}')
    # numbers that a closed enum does not have are unknown fields
    assert old.to_json(number_field(1, 5) + number_field(4, 5) + bytes_field(14, b"\1\5\2")) == (
        '{"must":5,"pEnum":["ONE","TWO"]}'
    )


def test_limits_of_a_schema_apply() -> None:
    record = Codec.load("record")
    assert (
        record.to_json(record.from_json('{"level":32767,"priority":255}')) == '{"level":32767,"priority":255}'
    )
    flows = Codec.load("goflow2")  # addresses of 4 or 16 bytes
    for size in range(1, 20):
        text = f'{{"srcAddr":"{base64.b64encode(bytes(range(size))).decode()}"}}'
        if size in (4, 16):
            assert flows.to_json(flows.from_json(text)) == text
        else:
            with pytest.raises(DecodeError, match="bytes of another size than the field has"):
                flows.from_json(text)
    for text in ('{"level":32768}', '{"priority":256}', '{"priority":-1}'):
        with pytest.raises(DecodeError, match="a number that does not fit"):
            record.from_json(text)


def test_extensions_are_named_in_brackets(tmp_path: Any) -> None:
    (tmp_path / "e.proto").write_text(
        'syntax = "proto2"; package p; message M { extensions 100 to 200; optional int32 a = 1; }'
        " extend M { optional string x = 100; repeated int32 n = 101; }"
        " message Scope { extend M { optional M inner = 102; } }"
    )
    codec = Codec.load(tmp_path / "e.proto", "M")
    message = (
        number_field(1, 1)
        + bytes_field(100, b"t")
        + number_field(101, 5)
        + bytes_field(102, number_field(1, 2))
    )
    text = '{"a":1,"[p.x]":"t","[p.n]":[5],"[p.Scope.inner]":{"a":2}}'
    assert codec.to_json(message) == text
    assert codec.from_json(text) == message


def test_paths_of_a_field_mask_may_be_empty(codec: Codec) -> None:
    message = bytes_field(22, bytes_field(1, b"a") + bytes_field(1, b""))
    assert codec.to_json(message) == '{"mask":"a,"}'
    assert codec.from_json('{"mask":"a,"}') == message


def test_unknown_fields_are_counted_wherever_they_are(codec: Codec) -> None:
    """Each of these messages has one: in front of a field, behind it, in a message of any form."""
    unknown = number_field(999, 1)
    for message in [
        unknown,
        number_field(2, 1) + unknown,
        unknown + number_field(6, 1) + number_field(2, 1),  # not in order
        bytes_field(10, unknown),
        bytes_field(13, bytes_field(1, b"a") + bytes_field(2, b"") + unknown),
        bytes_field(13, unknown + bytes_field(1, b"a")),
        bytes_field(20, number_field(1, 5) + unknown),
        bytes_field(22, unknown),
        bytes_field(23, bytes_field(1, bytes_field(1, b"a") + bytes_field(2, number_field(4, 1) + unknown))),
        bytes_field(26, unknown + bytes_field(1, b"a/shop.Line")),
        bytes_field(26, bytes_field(1, b"a/shop.Line") + bytes_field(2, unknown)),
        bytes_field(27, number_field(1, 7) + unknown),
    ]:
        stream = varint(len(message)) + message
        assert codec._converter().write_lines(stream, "json", False, "name")[1] == 1, message
    old = make_codec("Old")
    for message in (bytes_field(14, b"\1\5"), bytes_field(13, b""), number_field(4, 5)):
        stream = varint(len(message)) + message
        assert old._converter().write_lines(stream, "json", False, "name")[1] == (message[-1] == 5)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("Struct", "map<string, Value> fields = 1; int32 extra = 2;"),
        ("FieldMask", "repeated string paths = 1; int32 extra = 2;"),
        ("ListValue", "repeated Value values = 1; int32 extra = 2;"),
        ("Any", "string type_url = 1; bytes value = 2; int32 extra = 3;"),
        ("Timestamp", "int64 seconds = 1; int32 nanos = 2; int32 extra = 3;"),
        ("Duration", "int64 seconds = 1;"),
        ("StringValue", "Kind value = 1;"),
        ("Value", "double number_value = 2;"),
    ],
)
def test_other_definitions_of_the_well_known_types_are_refused(name: str, extra: str, tmp_path: Path) -> None:
    others = "".join(
        f"message {each} {{}} " for each in ("Value", "Struct") if each != name and each in extra
    )
    text = f'syntax = "proto3"; package google.protobuf; enum Kind {{ A = 0; }} {others}'
    (tmp_path / "own.proto").write_text(f"{text} message {name} {{ {extra} }}")
    codec = Codec.load(tmp_path / "own.proto", name)
    assert codec.decode(b"")
    with pytest.raises(SchemaError, match=f"google.protobuf.(Value|{name}) does not have the fields of a"):
        codec.to_json(b"\x10\x05")


def test_memory_is_bounded_for_messages_out_of_order_at_every_level(codec: Codec) -> None:
    message = bytes_field(1, b"x" * 1_000_000)
    for _ in range(98):
        message = bytes_field(3, message) + number_field(2, 1) + bytes_field(3, b"")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(codec.to_json(bytes_field(10, message))) > 1_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


def test_json_lines_may_be_text() -> None:
    codec = Codec.load("client_message")
    text = '{"client":"é"}\n{}\n'
    assert codec.from_json_lines(text) == codec.from_json_lines(text.encode())
    with pytest.raises(DecodeError, match="byte 0: half of a surrogate pair"):
        codec.from_json_lines("\ud800")
