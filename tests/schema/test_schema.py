"""Schemas give access to columns, return changed copies and have a stable hash."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf.errors import FlowbufError, SchemaError
from flowbuf.schema import Reserved, Schema

FLOW = Schema.load("flow")
TINY = Schema.from_toml(
    """
    [schema]
    name = "tiny"

    [[column]]
    name = "size"
    number = 7
    type = "uint32"

    [[column]]
    name = "colour"
    number = 3
    type = "enum"
    values = { none = 0, red = 1 }
    group = "looks"

    [[column]]
    name = "shade"
    number = 4
    type = "uint8"
    group = "looks"
    depends = ["colour"]
    enabled = false
    """,
    "tiny.toml",
)


def names(schema):
    return [column.name for column in schema.enabled]


def test_columns_are_in_number_order():
    assert [column.number for column in TINY.columns] == [3, 4, 7]
    assert list(TINY) == list(TINY.columns)
    assert names(TINY) == ["colour", "size"]


def test_a_column_is_found_by_name():
    assert TINY["size"].number == 7
    assert "size" in TINY
    assert "weight" not in TINY
    with pytest.raises(SchemaError, match=r"tiny\.toml: no column 'seize'; did you mean size"):
        TINY["seize"]


def test_enable_and_disable_return_another_schema():
    changed = TINY.enable("shade").disable("size")
    assert names(changed) == ["colour", "shade"]
    assert names(TINY) == ["colour", "size"]


def test_only_needed_adds_dependencies():
    schema = FLOW.add("extra", 1000, "uint8", ["ipfix:4"], depends=["bytes"], enabled=False)
    assert [column.name for column in schema.only_needed("extra", "proto").enabled] == [
        "bytes",
        "proto",
        "extra",
    ]
    assert FLOW.only_needed(*(column.name for column in FLOW.enabled)) is FLOW
    assert FLOW.only_needed().enabled == ()
    with pytest.raises(SchemaError, match="no column 'nope'"):
        FLOW.only_needed("nope")


def test_choose_returns_columns_in_the_order_of_their_numbers():
    group = [column.name for column in FLOW if column.group == "l2"]
    chosen = FLOW.choose("dst_addr", "group:l2", "src_addr", "tunnel_id")
    assert [column.name for column in chosen if column.name not in group] == [
        "src_addr",
        "dst_addr",
        "tunnel_id",
    ]
    assert set(group) <= {column.name for column in chosen}
    assert FLOW.choose() == ()
    for name in ("nope", "group:nope"):
        with pytest.raises(SchemaError, match="nope"):
            FLOW.choose(name)


def test_only_disables_the_rest():
    assert names(TINY.only("size")) == ["size"]
    assert names(TINY.only()) == []


@pytest.mark.parametrize("group", ["looks", "group:looks"])
def test_a_group_selects_its_columns(group):
    assert names(TINY.enable(group)) == ["colour", "shade", "size"]
    assert names(TINY.disable(group)) == ["size"]


def test_the_group_prefix_distinguishes_groups_from_columns():
    schema = TINY.add("looks", number=9, type="bool", enabled=False)
    assert names(schema.only("looks")) == ["looks"]
    assert names(schema.only("group:looks")) == ["colour", "shade"]


@pytest.mark.parametrize("change", [Schema.enable, Schema.disable, Schema.only])
def test_unknown_columns_and_groups_are_refused_with_a_suggestion(change):
    with pytest.raises(SchemaError, match=r"no column 'colur'; did you mean colour"):
        change(TINY, "colur")
    with pytest.raises(SchemaError, match="no group 'lokos'; did you mean looks"):
        change(TINY, "group:lokos")


def test_columns_cannot_be_enabled_without_their_dependencies():
    with pytest.raises(
        SchemaError,
        match=r"tiny\.toml: column 'shade': depends on colour, which is disabled; enable colour too",
    ):
        TINY.disable("colour").enable("shade")
    with pytest.raises(SchemaError, match="column 'shade': depends on colour"):
        TINY.enable("shade").disable("colour")
    assert names(TINY.disable("colour").switch(enable=["shade", "colour"])) == ["colour", "shade", "size"]


def test_add_takes_the_keys_of_schema_files():
    schema = FLOW.add("firewall_event", number=1001, type="uint32", sources=["ipfix:firewallEvent"])
    added = schema["firewall_event"]
    assert (added.enabled, added.sources[0][0].id) == (True, 233)
    assert "firewall_event" not in FLOW


def test_add_may_add_a_mirrored_pair():
    mirror = {"name": "dst_label", "number": 1001}
    schema = TINY.add(
        "src_label", 1000, "uint32", sources=["ipfix:tcpSourcePort"], mirror=mirror, doc="Source label"
    )
    assert schema["dst_label"].sources[0][0].text == "ipfix:tcpDestinationPort"
    assert schema["dst_label"].doc == "Destination label"
    assert (schema["src_label"].mirror, schema["dst_label"].mirror) == ("dst_label", "src_label")


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("size", 1000, "name is already used"),
        ("Si_ze", 1000, "too similar to 'size'"),
        ("weight", 7, "number 7 is already used by 'size'; choose an unused number, such as 1000"),
    ],
)
def test_duplicate_numbers_and_names_are_refused(name, number, expected):
    with pytest.raises(SchemaError, match=f"Schema.add: column {name!r}: .*{expected}"):
        TINY.add(name, number, "uint32")


def test_alter_refuses_to_change_number_type_and_name():
    assert TINY.alter("size", doc="How large", explicit=True)["size"].explicit
    for key, value in {"number": 8, "type": "uint64", "name": "length"}.items():
        with pytest.raises(SchemaError, match=f"{key} is .* in tiny.toml and cannot become"):
            TINY["size"].altered({key: value})


def test_a_retired_column_leaves_its_number_and_name_reserved():
    schema = TINY.retire("size")
    assert "size" not in schema
    assert schema.reserved == (Reserved(7, "size"),)
    with pytest.raises(SchemaError, match="number 7 is reserved for the retired 'size'"):
        schema.add("weight", 7, "uint32")
    with pytest.raises(SchemaError, match="name is reserved"):
        schema.add("size", 8, "uint32")


def test_a_column_that_another_depends_on_cannot_be_retired():
    with pytest.raises(SchemaError, match="column 'shade': depends on 'colour', which does not exist"):
        TINY.retire("colour")


def test_error_names_the_file_of_the_column():
    schema = TINY.add("weight", 9, "uint32")
    assert str(schema.error("weight", "wrong", "mend it")) == "Schema.add: column 'weight': wrong; mend it"
    assert str(schema.error("size", "wrong", "mend it")) == "tiny.toml: column 'size': wrong; mend it"
    assert str(schema.error(None, "wrong", "mend it")) == "tiny.toml: wrong; mend it"


def test_errors_are_value_errors_and_flowbuf_errors_and_can_be_pickled():
    error = SchemaError("wrong", "mend it", origin="a.toml", column="x").located("b.toml", "y")
    assert isinstance(error, ValueError)
    assert isinstance(error, FlowbufError)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.origin, copy.column) == ("a.toml: column 'x': wrong; mend it", "a.toml", "x")


def test_a_schema_can_be_pickled_and_compared():
    assert pickle.loads(pickle.dumps(FLOW)) == FLOW
    assert FLOW.enable("src_mac") != FLOW


# The hash ---------------------------------------------------------------------------------------------------


def test_the_hash_never_changes():
    assert TINY.hash == "30337446ff903cc5"


def test_the_hash_covers_only_enabled_columns():
    assert TINY.add("weight", 9, "uint32", enabled=False).hash == TINY.hash
    assert TINY.retire("shade").hash == TINY.hash
    assert TINY.enable("shade").hash != TINY.hash


@pytest.mark.parametrize(
    "keys",
    [
        {"doc": "x"},
        {"group": "g"},
        {"late": True},
        {"sources": ["ipfix:1"]},
        {"clickhouse": {"type": "UInt8"}},
    ],
)
def test_the_hash_ignores_keys_that_do_not_affect_messages(keys):
    assert TINY.alter("size", **keys).hash == TINY.hash


BASE = {"name": "x", "number": 9, "type": "timestamp", "unit": "ms"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, BASE | {"name": "y"}),
        (BASE, BASE | {"number": 10}),
        (BASE, BASE | {"unit": "s"}),
        (BASE, BASE | {"explicit": True}),
        (BASE, BASE | {"repeated": True}),
        (BASE, {"name": "x", "number": 9, "type": "uint64"}),
        ({"name": "x", "number": 9, "type": "uint8"}, {"name": "x", "number": 9, "type": "uint16"}),
        ({"name": "x", "number": 9, "type": "ip"}, {"name": "x", "number": 9, "type": "ip", "ip": "native"}),
        (
            {"name": "x", "number": 9, "type": "enum", "values": {"a": 0}},
            {"name": "x", "number": 9, "type": "enum", "values": {"a": 0, "b": 1}},
        ),
    ],
)
def test_the_hash_covers_keys_that_affect_messages(one, other):
    assert TINY.add(**one).hash != TINY.add(**other).hash


@settings(deadline=None)
@given(st.lists(st.sampled_from([column.name for column in FLOW if not column.depends])))
def test_the_order_in_which_columns_are_enabled_does_not_matter(chosen):
    one_by_one = FLOW
    for name in reversed(chosen):
        one_by_one = one_by_one.enable(name)
    assert one_by_one.hash == FLOW.enable(*chosen).hash
    assert set(names(one_by_one)) == set(names(FLOW)) | set(chosen)
    assert FLOW.only(*chosen).hash == FLOW.only(*sorted(chosen)).hash


# Scaling ----------------------------------------------------------------------------------------------------


def test_the_rate_is_the_enabled_column_with_scale_rate():
    assert FLOW.rate is FLOW["sampling_rate"]
    assert FLOW.disable("sampling_rate").rate is None
    other = FLOW.add("other_rate", 1000, "uint32", ["ipfix:34"], enabled=False, scale="rate")
    assert other.rate is FLOW["sampling_rate"]
    assert other.disable("sampling_rate").enable("other_rate").rate.name == "other_rate"
    with pytest.raises(SchemaError, match="'other_rate': both this column and 'sampling_rate' have scale"):
        other.enable("other_rate")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            FLOW.disable("sampling_rate"),
            "scaling needs a sampling rate, and none is enabled; enable sampling_rate, or do not scale",
        ),
        (
            FLOW.disable("bytes", "packets"),
            "scaling needs totals, and none are enabled; enable bytes or packets, or do not scale",
        ),
        (TINY, 'set scale = "rate" on a column'),
    ],
)
def test_scaling_without_a_rate_or_totals_is_refused(schema, expected):
    from flowbuf.schema.plan import compile_plan

    compile_plan(schema)
    with pytest.raises(SchemaError, match=expected):
        compile_plan(schema, scale=True)


def test_columns_are_delayed_only_for_scaling():
    from flowbuf.schema.plan import compile_plan

    assert compile_plan(FLOW).deferred() == []
    assert compile_plan(FLOW, scale=True).deferred() == ["sampling_rate", "bytes", "packets"]


def test_the_proto_file_documents_scaling():
    assert "// Packets of the flow (as observed: not multiplied by the sampling rate)" in FLOW.to_proto()
    assert "// Packets of the flow (multiplied by the sampling rate)" in FLOW.to_proto(scaled=True)


@pytest.mark.parametrize("method", ["only", "enable", "disable"])
def test_lists_of_names_are_refused(method: str) -> None:
    with pytest.raises(SchemaError) as raised:
        getattr(Schema.load("flow"), method)(["bytes"])
    assert f"{method} takes names, not list; pass names as arguments, {method}(*names)" in str(raised.value)


def test_sources_given_as_a_string_are_refused() -> None:
    with pytest.raises(SchemaError) as raised:
        Schema.load("flow").add("x", 1000, "string", "ipfix:82")
    expected = "Schema.add: column 'x': sources is a string, not a list; write sources=['ipfix:82']"
    assert str(raised.value) == expected
