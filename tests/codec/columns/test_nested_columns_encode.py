"""Messages from nested columns: libraries, types that fit, and values that do not."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flowbuf import Codec, EncodeError, _core
from tests.support.codec.messages import bytes_field, number_field
from tests.support.codec.shop import check_refused, framed, load, some_orders


def test_examples_survive_every_library() -> None:
    codec = load("Order")
    columns = codec.read_columns(some_orders(60))
    stream = codec.encode_columns(columns)  # entries of maps have another order now
    assert codec.decode_many(stream) == codec.decode_many(some_orders(60))
    table = columns.to_arrow()
    assert codec.encode_columns(table) == stream
    assert codec.encode_columns(table.to_batches()[0]) == stream
    assert codec.encode_columns(columns.to_polars()) == stream
    assert codec.encode_columns(columns.to_pandas()) == stream
    whole = _core.split_messages(stream)
    assert codec.encode_columns(table.slice(7, 20)) == b"".join(whole[7:27])
    pieces = pa.concat_tables([table.slice(0, 5), table.slice(33, 9)])
    assert codec.encode_columns(pieces) == b"".join(whole[:5] + whole[33:42])


@pytest.mark.slow
def test_output_may_exceed_the_reused_buffer() -> None:
    """Flat and nested encoders reuse one buffer of at most 32 MiB. Larger output is not written into it.

    Earlier calls leave nothing in the output, even if they failed.
    """
    codec = load("Order")
    broken = pa.table({"tags": [["a" * (1 << 20)]] * 60, "id": [1] * 59 + [-1]})
    for size in (100, 20 << 20, 20 << 20, 100):
        with pytest.raises(EncodeError):
            codec.encode_columns(broken)
        orders = [{"id": 1, "tags": [letter * size]} for letter in "abc"]
        expected = framed(*map(codec.encode, orders))
        assert codec.encode_columns(pa.Table.from_pylist(orders)) == expected


def test_encoders_that_run_at_once_have_their_own_output() -> None:
    codec = load("Order")
    table = codec.read_columns(some_orders(60)).to_arrow()
    expected = codec.encode_columns(table)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=7):
            assert codec.encode_columns(table) == expected
            yield batch

    assert codec.encode_columns(pa.RecordBatchReader.from_batches(table.schema, batches())) == expected


def test_other_arrow_types_are_accepted_if_the_values_fit() -> None:
    codec = load("Order")
    line = pa.struct(
        [("count", pa.uint8()), ("article", pa.large_string()), ("prices", pa.large_list(pa.float32()))]
    )
    table = pa.table(
        {
            "id": pa.array([7], pa.int16()),
            "first": pa.array([{"count": 3, "article": "a", "prices": [0.5]}], line),
            "tags": pa.array([["x", "y"]], pa.list_(pa.string_view())),
            "card": pa.array(["c"]).dictionary_encode(),
            "stock": pa.array(
                [[{"k": "b", "v": 2}]], pa.list_(pa.struct([("k", pa.string()), ("v", pa.int64())]))
            ),
            "state": pa.array([1], pa.int8()),
            "states": pa.array([["PAID", "NEW"]]),
            "created": pa.array([2], pa.timestamp("s")),
            "took": pa.array([5], pa.duration("ms")),
            "large": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
            "cash": pa.nulls(1),
            "lines": pa.nulls(1),
        }
    )
    (found,) = codec.decode_many(codec.encode_columns(table))
    assert found["first"] == {"article": "a", "count": 3, "prices": [0.5], "rank": None}
    expected = {"id": 7, "tags": ["x", "y"], "card": "c", "stock": {"b": 2}, "state": 1, "states": [1, 0]}
    expected |= {"large": [1, 2], "took": datetime.timedelta(milliseconds=5), "cash": None, "lines": []}
    assert {name: found[name] for name in expected} == expected
    assert found["created"] == datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.timezone.utc)


def test_times_of_a_coarser_unit_need_not_fit_that_of_the_codec() -> None:
    codec = load("Order", times="ns")
    first, last = -62135596800, 253402300799
    for unit, per_second in [("s", 1), ("ms", 1000), ("us", 10**6)]:
        type = pa.timestamp(unit, "UTC")
        values = [first * per_second, -1, last * per_second + per_second - 1]
        expected = [value * 10**9 // per_second for value in values]
        table = pa.table({"created": pa.array(values, type), "times": pa.array([[each] for each in values])})
        table = table.set_column(1, "times", table["times"].cast(pa.list_(type)))
        for columns in (table, table.set_column(0, "created", table["created"].dictionary_encode())):
            found = codec.decode_many(codec.encode_columns(columns))
            assert [order["created"] for order in found] == expected
            assert [order["times"] for order in found] == [[each] for each in expected]
        spans = pa.table({"took": pa.array([per_second * 315576000000, -1], pa.duration(unit))})
        took = [order["took"] for order in codec.decode_many(codec.encode_columns(spans))]
        assert took == [315576000000 * 10**9, -(10**9) // per_second]
    days = pa.table({"created": pa.array([first // 86400, last // 86400], pa.date32())})
    found = codec.decode_many(codec.encode_columns(days))
    assert [order["created"] for order in found] == [first * 10**9, last // 86400 * 86400 * 10**9]


@pytest.mark.parametrize("times", ["ns", "datetime"])
def test_times_of_a_coarser_unit_have_the_range_of_microseconds(times: str) -> None:
    codec = load("Order", times=times)
    most = ((1 << 63) - 1) // 10**6
    good, bad = ([[sign * (most + more)] for sign in (1, -1)] for more in (0, 2))
    type = pa.list_(pa.timestamp("s"))
    found = codec.encode_columns(pa.table({"times": pa.array(good, type)}))
    assert [order["times"] for order in load("Order", times="ns").decode_many(found)] == [
        [each[0] * 10**9] for each in good
    ]
    for value in bad:
        with pytest.raises(EncodeError, match=r"\[0\]\.times\[0\]: the value is outside the column's range"):
            codec.encode_columns(pa.table({"times": pa.array([value], type)}))


def test_missing_columns_and_null_structs_are_absent() -> None:
    codec = load("Order")
    first = pa.array([None, {"count": 1}, None], pa.struct([("count", pa.int32())]))
    found = codec.decode_many(codec.encode_columns(pa.table({"first": first})))
    assert [record["first"] and record["first"]["count"] for record in found] == [None, 1, None]
    hidden = pa.StructArray.from_arrays([pa.array([1 << 40])], ["count"], mask=pa.array([True]))
    assert codec.encode_columns(pa.table({"first": hidden})) == b"\0"
    assert codec.encode_columns(pa.table({"id": pa.array([], pa.uint64())})) == b""


LINES = pa.list_(pa.struct([("article", pa.string()), ("count", pa.int64())]))


@pytest.mark.parametrize(
    ("columns", "path", "problem"),
    [
        (
            {"lines": pa.array([[], [{"count": 1}, {"count": 1 << 31}]], LINES)},
            "[1].lines[1].count",
            "the value is outside the column's range",
        ),
        ({"lines": pa.array([[{"count": 1}], [None]], LINES)}, "[1].lines[0]", "a list has a null among"),
        ({"tags": pa.array([["a", None]])}, "[0].tags[1]", "a list has a null among its members"),
        ({"large": pa.array([[1, None]])}, "[0].large[1]", "a list has a null among its members"),
        (
            {"stock": pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32()))},
            "[0].stock[0].value",
            "null, where a value is required",
        ),
        (
            {"card": pa.array(["a"]), "cash": pa.array([0])},
            "[0].cash",
            "another member of the oneof has a value",
        ),
        (
            {"first": pa.array([{"article": b"\xff"}]).cast(pa.struct([("article", pa.binary())]))},
            "",
            "column 'first.article': values of this type cannot fill the column",
        ),
        ({"state": pa.array(["LOST"])}, "[0].state", "the text is not a member of the enum"),
        ({"first": pa.array([1])}, "", "column 'first': a message wants a struct"),
        ({"lines": pa.array([1])}, "", "column 'lines': a repeated column wants a list"),
        ({"id": pa.array([[1]])}, "", "column 'id': a list cannot fill a column that is not repeated"),
        ({"created": pa.array([1], pa.duration("s"))}, "", "column 'created': values of this type cannot"),
        ({"idd": pa.array([1])}, "", "the message has no column 'idd'; did you mean id?"),
        (
            {"first": pa.array([{"cuont": 1}])},
            "",
            "the message has no column 'first.cuont'; did you mean count?",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(
    columns: dict[str, Any], path: str, problem: str
) -> None:
    check_refused("Order", columns, path, problem)


def test_rows_of_later_batches_are_counted_in_paths() -> None:
    good, bad = (pa.table({"first": pa.array([{"count": value}] * 3)}) for value in (1, 1 << 40))
    with pytest.raises(EncodeError) as caught:
        load("Order").encode_columns(pa.concat_tables([good, good, bad]))
    assert caught.value.path == "[6].first.count"


def test_required_fields_must_have_values() -> None:
    codec = load("Whole")
    part = pa.struct([("id", pa.int32()), ("kind", pa.int32())])
    good = pa.table({"parts": pa.array([[{"id": 1}]], pa.list_(part))})
    assert codec.encode_columns(good) == framed(bytes_field(2, number_field(1, 1)))
    for columns, path in [
        ({"parts": pa.array([[{"id": 1}, {"kind": 1}]], pa.list_(part))}, "[0].parts[1].id"),
        ({"part": pa.array([None, {"kind": 1}], pa.struct([("kind", pa.int32())]))}, "[1].part.id"),
    ]:
        with pytest.raises(EncodeError) as caught:
            codec.encode_columns(pa.table(columns))
        assert str(caught.value) == f"{path}: null, where a value is required"
    closed = pa.table({"part": pa.array([{"id": 1, "kind": 9}], part)})
    with pytest.raises(EncodeError, match=r"\[0\]\.part\.kind: the text is not a member"):
        codec.encode_columns(closed)
    rows = pa.StructArray.from_arrays([pa.array([1])], ["id"], mask=pa.array([True]))
    with pytest.raises(EncodeError, match=r"\[0\]\.id: null"):
        load("Part").encode_columns(rows)


def test_types_that_contain_themselves_are_encoded_with_paths() -> None:
    codec = load("Tree")
    paths = ["name", "left.left.name", "others.name"]
    messages = [
        bytes_field(1, b"root") + bytes_field(2, bytes_field(2, bytes_field(1, b"leaf"))),
        bytes_field(2, b"") + bytes_field(3, bytes_field(1, b"a")) + bytes_field(3, b""),
    ]
    columns = codec.read_columns(framed(*messages), columns=paths)
    assert codec.encode_columns(columns, columns=paths) == framed(*messages)
    with pytest.raises(EncodeError, match="the message has no column 'others'"):
        codec.encode_columns(columns, columns=paths[:2])
    flat = load("Line")
    assert flat.encode_columns(pa.table({"count": [3]}), columns=["count"]) == framed(number_field(2, 3))
    with pytest.raises(EncodeError, match="column 'count' is disabled"):
        flat.encode_columns(pa.table({"count": [3]}), columns=["article"])


def test_addresses_may_be_empty(tmp_path: Path) -> None:
    column = '[[column]]\nname = "{0}"\nnumber = {1}\ntype = "ip"\n{2}\n'
    text = column.format("many", 1, "repeated = true") + column.format("one", 2, "explicit = true")
    text += '[[column]]\nname = "names"\nnumber = 3\ntype = "map"\nkey = "string"\nvalue = "string"\n'
    (tmp_path / "hosts.toml").write_text(f'[schema]\nname = "hosts"\nrows = "records"\n{text}')
    codec = Codec.load(tmp_path / "hosts.toml")
    stream = codec.encode_many([{"many": [b"", bytes(16)], "one": b""}])
    assert codec.encode_columns(codec.read_columns(stream)) == stream
    with pytest.raises(EncodeError, match="an address has 4 or 16 bytes"):
        codec.encode_columns(pa.table({"one": [b"12345"]}))


def test_floats_keep_every_value() -> None:
    codec = load("Order")
    values = [0.0, -0.0, 1.5, math.inf, -math.inf, 2.0**-149, math.nan]
    table = pa.table({"ratio": pa.array(values, pa.float32()), "id": [1] * len(values)})
    found = codec.read_columns(codec.encode_columns(table)).to_arrow()["ratio"].to_pylist()
    assert [repr(value) for value in found] == [repr(value) for value in values]
    with pytest.raises(EncodeError, match="outside the column's range"):
        codec.encode_columns(pa.table({"ratio": [1e300]}))


def test_what_is_not_columns_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="without the Arrow PyCapsule protocol"):
        load("Order").encode_columns([1])
    with pytest.raises(EncodeError, match="one array has no columns: give a table"):
        load("Order").encode_columns(pa.array([1]))
