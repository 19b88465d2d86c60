"""`flowbuf.Decoder`: options, output, overrides, limits and misuse."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf import Decoder, Schema, SchemaError, _core, wire
from flowbuf.io.capture import CaptureReader
from flowbuf.io.encode import decode_batches
from flowbuf.io.input_stream import Content
from flowbuf.options import DecodeOptions
from tests.reference.wire import decode_message
from tests.support.datagrams import (
    data_set,
    ipfix,
    netflow5,
    netflow9,
    record5,
    template,
    template_set,
    template_set9,
    u8,
    u32,
    uint,
)

FLOW = Schema.load("flow")
RECORD = record5(src="10.0.0.1", dst="10.0.0.2", packets=3, octets=400, src_as=65001)
V5 = netflow5(RECORD, seconds=1_700_000_000, uptime=10_000, sampling=100)


CAPTURES = sorted((Path(__file__).parents[1] / "data").glob("*.pcap"))


def values(message: bytes, schema: Schema = FLOW) -> dict[str, Any]:
    return decode_message({column.number: column for column in schema.columns}, message)


def test_encode_prefixes_messages_with_their_lengths() -> None:
    data = Decoder().encode(netflow5(RECORD, RECORD), "192.0.2.1", 1)
    messages = Decoder().messages(netflow5(RECORD, RECORD), "192.0.2.1", 1)
    assert len(messages) == 2
    assert data == b"".join(bytes([len(message)]) + message for message in messages)


def test_foreign_payloads_are_counted_without_output() -> None:
    decoder = Decoder()
    assert decoder.encode(b"hello", "192.0.2.1") == b""
    assert decoder.messages(b"", "192.0.2.1") == []
    assert decoder.counters == {"other_packet": 2}
    assert decoder.stats == {}, "a foreign payload creates no exporter"


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        (
            "template_expiry",
            -1,
            "template_expiry is -1; it may be 1e-09 to 1,000,000,000 seconds, or None for never",
        ),
        ("template_expiry", 0, "template_expiry is 0; it may be"),
        ("template_expiry", float("nan"), "template_expiry is nan"),
        ("template_expiry", float("inf"), "template_expiry is inf"),
        ("default_sampling_rate", 0, "default_sampling_rate is 0; it may be 1 to "),
        ("default_sampling_rate", 2**64, "default_sampling_rate is 18446744073709551616"),
        *(
            (size, -1, f"{size} is -1; it may be 0 to")
            for size in ("capacity", "memory_limit", "exporter_limit")
        ),
        *(
            (size, 2**63, f"{size} is 9223372036854775808")
            for size in ("early_data_limit", "early_data_total")
        ),
        ("decapsulate", ["vxlan", "gretap"], "tunnel 'gretap' is unknown; choose from vxlan, "),
        ("time", "sent", "time is 'sent'; it may be received, export, flow-start"),
    ],
)
def test_an_invalid_option_is_an_error_with_the_valid_values(option: str, value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Decoder(**{option: value})


def test_a_decoder_cannot_be_pickled() -> None:
    for use in (pickle.dumps, copy.copy):
        with pytest.raises(
            TypeError, match="cannot be copied or pickled; pickle its schema, such as decoder"
        ):
            use(Decoder())
    assert pickle.loads(pickle.dumps(Decoder().schema)) == FLOW


@pytest.mark.parametrize("payload", [V5, bytearray(V5), memoryview(V5)])
def test_a_payload_may_be_any_bytes_like_object(payload: Any) -> None:
    assert len(Decoder().messages(payload, "192.0.2.1")) == 1


def test_the_source_is_an_address_or_a_socket_address() -> None:
    schema = FLOW.enable("source_address", "source_port")
    for source, address, port in [
        ("192.0.2.1", bytes(10) + b"\xff\xff\xc0\0\x02\x01", None),
        (("192.0.2.1", 2055), bytes(10) + b"\xff\xff\xc0\0\x02\x01", 2055),
        (("2001:db8::1", 2055, 0, 0), bytes.fromhex("20010db8" + "0" * 23 + "1"), 2055),
        (("fe80::1%eth0", 1, 0, 2), bytes.fromhex("fe80" + "0" * 27 + "1"), 1),
    ]:
        (message,) = Decoder(schema).messages(V5, source)
        assert values(message, schema)["source_address"] == address
        assert values(message, schema).get("source_port") == port
    with pytest.raises(ValueError, match="'router1' is not an IP address"):
        Decoder().encode(V5, "router1")
    with pytest.raises(TypeError, match="source is int"):
        Decoder().encode(V5, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="source is int"):
        Decoder().encode_many([V5], 5)
    for port in (70_000, -1, 2055.9, None):
        problem = f"source ('192.0.2.1', {port}) has port {port}; it may be 0 to 65,535"
        for use in (Decoder().encode, lambda payload, source: Decoder().encode_many([payload], source)):
            with pytest.raises(ValueError, match=re.escape(problem)):
                use(V5, ("192.0.2.1", port))


def test_each_datagram_has_its_own_source() -> None:
    schema = FLOW.enable("source_address")
    decoder = Decoder(schema)
    for last in (1, 1, 2, 1, 3, 3):
        with pytest.raises(ValueError, match="is not an IP address"):
            decoder.encode(V5, f"192.0.2.{last}x")
        (message,) = decoder.messages(V5, f"192.0.2.{last}")
        assert values(message, schema)["source_address"] == bytes(10) + bytes([0xFF, 0xFF, 192, 0, 2, last])
    assert len(decoder.stats) == 3


def test_the_time_of_reception_is_seconds_nanoseconds_or_now() -> None:
    before = time.time_ns() // 10**6
    received = [
        values(Decoder().messages(V5, "192.0.2.1", given)[0])["time_received"]
        for given in (1_700_000_000.123, 1_700_000_000_123_456_789, None)
    ]
    assert received[:2] == [1_700_000_000_123] * 2
    assert before <= received[2] <= time.time_ns() // 10**6


@pytest.mark.parametrize(
    ("choice", "seconds"), [("received", 5), ("export", 1_700_000_000), ("flow-start", 1_699_999_992)]
)
def test_the_time_option_selects_the_source_of_time_received(choice: str, seconds: int) -> None:
    payload = netflow5(record5(src="10.0.0.1", first=2000), seconds=1_700_000_000, uptime=10_000)
    (message,) = Decoder(time=choice).messages(payload, "192.0.2.1", 5.0)
    assert values(message)["time_received"] == seconds * 1000


@pytest.mark.parametrize(
    ("element", "encoded"),
    [
        (22, u32(2000)),
        (150, u32(1_699_999_992)),
        (152, uint(1_699_999_992_000, 8)),
        (154, u32(1_699_999_992 + 2_208_988_800) + u32(0)),
        (156, u32(1_699_999_992 + 2_208_988_800) + u32(0)),
        (158, u32(8_000_000)),
    ],
)
@pytest.mark.parametrize("version", [9, 10])
def test_the_start_of_a_flow_is_converted_from_every_element(
    element: int, encoded: bytes, version: int
) -> None:
    """Milliseconds and NTP fractions are not taken for seconds, which would be hours or decades off."""
    sets = [data_set(256, encoded)]
    if version == 9:
        payload = netflow9(
            template_set9(template(256, (element, len(encoded)))), *sets, seconds=1_700_000_000, uptime=10_000
        )
    else:
        start = uint(1_699_999_990_000, 8)
        fields = template_set(template(256, (element, len(encoded)), (160, 8)))
        payload = ipfix(fields, data_set(256, encoded + start), export_time=1_700_000_000)
    (message,) = Decoder(time="flow-start").messages(payload, "192.0.2.1", 5.0)
    assert values(message)["time_received"] == 1_699_999_992_000


def test_the_time_of_reception_replaces_a_missing_time() -> None:
    payload = ipfix(template_set(template(256, (1, 8))), data_set(256, bytes(7) + u8(9)))
    (message,) = Decoder(time="flow-start").messages(payload, "192.0.2.1", 5.0)
    assert values(message)["time_received"] == 5000
    with pytest.raises(ValueError, match="flow-start"):
        Decoder(time="noon")


def test_the_default_sampling_rate_is_used_last() -> None:
    unsampled = netflow5(RECORD)
    rates = [
        values(Decoder(default_sampling_rate=512).messages(payload, "192.0.2.1")[0])["sampling_rate"]
        for payload in (unsampled, V5)
    ]
    assert rates == [512, 100]
    assert "sampling_rate" not in values(Decoder().messages(unsampled, "192.0.2.1")[0]), (
        "unknown is absent, never 1"
    )


def test_a_batch_is_the_sum_of_its_datagrams() -> None:
    first = netflow9(template_set9(template(256, (1, 4), (8, 4))))
    second = netflow9(data_set(256, u32(77) + u32(0x0A000001)))
    one_by_one, batch = Decoder(), Decoder()
    payloads, sources = [first, second, V5, b"?"], ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]
    times = [1.0, 2.0, 3, 4]
    expected = b"".join(
        one_by_one.encode(*datagram) for datagram in zip(payloads, sources, times, strict=True)
    )
    assert batch.encode_many(payloads, sources, times) == expected
    assert batch.stats == one_by_one.stats
    assert batch.counters == one_by_one.counters
    assert (
        Decoder().encode_many([V5, V5], ("192.0.2.1", 5), 1.0)
        == Decoder().encode(V5, ("192.0.2.1", 5), 1.0) * 2
    )
    with pytest.raises(ValueError, match="2 payloads have 1 sources"):
        Decoder().encode_many([V5, V5], ["192.0.2.1"])


@pytest.mark.parametrize("capacity", [1, 7, 100, 101, 250, 1000])
def test_output_does_not_depend_on_the_initial_capacity(capacity: int) -> None:
    payloads = [netflow5(*[RECORD] * count) for count in (30, 1, 7)]
    small, large = Decoder(capacity=capacity), Decoder(capacity=1 << 20)
    assert small.encode_many(payloads, "192.0.2.1", 1.0) == large.encode_many(payloads, "192.0.2.1", 1.0)
    assert small.stats == large.stats


class TestOverride:
    """`override=` replaces late columns in every flow of one call."""

    def test_values_are_replaced_in_one_call_only(self) -> None:
        decoder = Decoder()
        (message,) = decoder.messages(
            V5, "192.0.2.1", override={"src_as": 1, "dst_addr": "2001:db8::7", "in_if": 3}
        )
        replaced = values(message)
        assert (replaced["src_as"], replaced["in_if"]) == (1, 3)
        assert replaced["dst_addr"] == bytes.fromhex("20010db8" + "0" * 23 + "7")
        (message,) = decoder.messages(V5, "192.0.2.1")
        assert values(message)["src_as"] == 65001

    def test_a_replaced_column_is_written_once(self) -> None:
        payloads = [netflow5(RECORD, RECORD)] * 2
        data = Decoder().encode_many(
            payloads, "192.0.2.1", 1.0, override={"sampling_rate": 99, "src_addr": "10.9.9.9"}
        )
        assert data.count(bytes.fromhex("0a090909")) == 4
        assert data.count(_core.tag(3, 0) + _core.varint(99)) == 4

    def test_an_invalid_override_is_an_error_and_changes_nothing(self) -> None:
        decoder = Decoder()
        expected = Decoder().encode(V5, "192.0.2.1", 1.0)
        with pytest.raises(ValueError, match="'bytes' is not late"):
            decoder.encode(V5, "192.0.2.1", override={"src_as": 5, "bytes": 5})
        with pytest.raises(KeyError, match="'src'"):
            decoder.encode(V5, "192.0.2.1", override={"src": 5})
        assert decoder.encode(V5, "192.0.2.1", 1.0) == expected


class TestLimits:
    """State is bounded. Excess state is counted."""

    def test_exporters_beyond_the_limit_replace_others(self) -> None:
        decoder = Decoder(exporter_limit=2)
        templates = ipfix(template_set(template(256, (1, 8))), data_set(256, bytes(7) + u8(9)))
        flows = [len(decoder.messages(templates, f"192.0.2.{i}")) for i in range(1, 5)]
        assert flows == [1, 1, 1, 1]
        assert len(decoder.messages(V5, "192.0.2.9")) == 1, "NetFlow v5 needs no state"
        assert decoder.stats["others"]["counters"] == {"exporter_evicted": 3}
        assert decoder.stats["others"]["flows"] == 3

    def test_memory_stays_below_the_limit(self) -> None:
        decoder = Decoder(memory_limit=100_000)
        for i in range(256, 3000):
            decoder.encode(
                ipfix(template_set(template(i, *[(e, 8) for e in range(1, 40)], (1, i)))), "192.0.2.1"
            )
        assert decoder.memory_used <= 100_000
        assert decoder.counters["template_limit"] > 0

    def test_early_data_is_bounded(self) -> None:
        decoder = Decoder(early_data_limit=10_000, early_data_total=25_000)
        payload = ipfix(data_set(256, bytes(804)))
        for i in range(100):
            decoder.encode(payload, f"192.0.2.{i % 3}")
            assert all(stats["waiting"]["bytes"] <= 10_000 for stats in decoder.stats.values())
        waiting = sum(stats["waiting"]["sets"] for stats in decoder.stats.values())
        assert waiting == 25
        assert decoder.counters == {"early_data": 100, "template_missing": 100 - waiting}
        used = decoder.memory_used
        decoder.finish()
        assert decoder.memory_used <= used - 25 * 808

    def test_identical_templates_are_compiled_once(self) -> None:
        decoder = Decoder()
        before = decoder.compiled_template_count
        for i in range(50):
            payload = ipfix(template_set(template(256 + i, (1, 8), (2, 8)), template(1000, (1, 4))))
            decoder.encode(payload, f"192.0.2.{i}")
        assert decoder.compiled_template_count == before + 2


def test_decoders_of_several_threads_are_independent() -> None:
    payloads = [netflow5(*[RECORD] * 30)] * 2000
    expected = Decoder().encode_many(payloads, "192.0.2.1", 1.0)
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(Decoder().encode_many(payloads, "192.0.2.1", 1.0)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_views_equal_copies() -> None:
    batches = [_core.pack_datagrams([netflow5(*[RECORD] * n)] * n, "192.0.2.1", 1.0) for n in (30, 1, 20)]
    decoder, other = Decoder(capacity=1), Decoder()
    for batch in batches:
        with decoder.view_datagrams(batch) as view:
            assert (view.readonly, view.format, bytes(view)) == (True, "B", other.encode_datagrams(batch))
    with decoder.view_datagrams(_core.pack_datagrams([], "192.0.2.1", 1.0)) as view:
        assert len(view) == 0


def test_a_held_view_stays_unchanged() -> None:
    decoder = Decoder()
    batches = [
        _core.pack_datagrams([netflow5(*[RECORD] * 30)] * n, "192.0.2.1", float(n)) for n in (40, 400, 4)
    ]
    expected = [Decoder().encode_datagrams(batch) for batch in batches]
    views = [decoder.view_datagrams(batch) for batch in batches]
    part = views[1][100:200]
    views[0].release()
    views[1].release()
    assert len(decoder.encode(V5, "192.0.2.1")) > 0
    assert bytes(part) == expected[1][100:200], "a slice of a view keeps it"
    del decoder
    assert bytes(views[2]) == expected[2]
    with pytest.raises(ValueError, match="released"):
        bytes(views[0])


def test_the_buffer_of_a_view_has_no_other_views_while_it_is_rewritten() -> None:
    decoder = Decoder()
    batch = _core.pack_datagrams([netflow5(*[RECORD] * 30)] * 4000, "192.0.2.1", 1.0)
    view = decoder.view_datagrams(batch)
    size, buffer = len(view), view.obj
    view.release()
    seen = {size}
    thread = threading.Thread(target=lambda: [decoder.view_datagrams(batch).release() for _ in range(50)])
    thread.start()
    while thread.is_alive():
        with contextlib.suppress(BufferError), memoryview(buffer) as again:
            seen.add(len(bytes(again)))
    thread.join()
    assert seen == {size}


def test_a_decoder_in_a_reference_cycle_is_freed_before_its_plan() -> None:
    """Only the sanitizers detect a wrong order."""
    for _ in range(3):
        decoder = Decoder()
        decoder.encode(V5, "192.0.2.1")
        decoder.itself = decoder  # type: ignore[attr-defined]
        row = wire.Row(FLOW)
        row.itself = row  # type: ignore[attr-defined]
        del decoder, row
        gc.collect()


def error_of_concurrent_use(decoder: Decoder, use: Callable[[], object]) -> str:
    """Return the error of using a decoder while another thread uses it. Retry if that thread is too fast."""
    batch = _core.pack_datagrams([netflow5(*[RECORD] * 30)] * 40_000, "192.0.2.1", 1.0)
    for _ in range(50):
        thread = threading.Thread(target=decoder.encode_datagrams, args=(batch,))
        thread.start()
        try:
            while thread.is_alive():
                use()
        except RuntimeError as error:
            return str(error)
        finally:
            thread.join()
    return ""


def test_concurrent_use_of_a_decoder_is_an_error() -> None:
    decoder = Decoder()
    assert "give each thread its own decoder" in error_of_concurrent_use(
        decoder, lambda: decoder.encode(V5, "192.0.2.1")
    )
    assert "give each thread its own decoder" in error_of_concurrent_use(decoder, lambda: decoder.stats)
    assert len(decoder.messages(V5, "192.0.2.1")) == 1, "it can be used again"


def test_a_schema_with_unsuitable_sources_is_an_error() -> None:
    for sources, complaint in [
        (["packet:ip.source"], "source 'packet:ip.source' does not exist; did you mean packet:ip"),
        (["ipfix:sourceIPv4Address"], "source ipfix:sourceIPv4Address cannot fill a column of type uint32"),
        (["meta:exporter_address"], "source meta:exporter_address cannot fill a column of type uint32"),
    ]:
        schema = FLOW.add("mine", 1001, "uint32", sources)
        with pytest.raises(SchemaError, match="column 'mine'") as error:
            Decoder(schema)
        assert complaint in str(error.value)


def test_the_ranks_of_a_list_must_be_in_the_order_of_decoding() -> None:
    sources = ["packet:mpls.labels", "derived:mpls_labels"]
    with pytest.raises(SchemaError, match="column 'labels': the ranks of a repeated column are out of order"):
        Decoder(FLOW.add("labels", 1001, "uint32", sources, repeated=True))
    assert Decoder(FLOW.add("labels", 1001, "uint32", sources[::-1], repeated=True))


def test_a_custom_column_reads_any_element() -> None:
    schema = FLOW.only("bytes").add("event", 1001, "uint32", ["ipfix:firewallEvent"])
    schema = schema.add("vendor", 1002, "string", ["ipfix:9/12242"])
    fields = [(1, 4), (233, 1), (12242, 5, 9)]
    payload = ipfix(template_set(template(256, *fields)), data_set(256, u32(7) + u8(2) + b"cisco"))
    (message,) = Decoder(schema).messages(payload, "192.0.2.1")
    assert values(message, schema) == {"bytes": 7, "event": 2, "vendor": "cisco"}


def test_only_enabled_columns_are_written() -> None:
    schema = FLOW.only("src_port")
    payload = netflow5(record5(src="10.0.0.1", src_port=5, dst_port=6))
    (message,) = Decoder(schema).messages(payload, "192.0.2.1")
    assert message == _core.tag(FLOW["src_port"].number, 0) + b"\x05"


def test_only_explicit_built_in_columns_are_written_at_the_end_of_a_row() -> None:
    everything = FLOW.enable(*(column.name for column in FLOW if column.sources))
    explicit = {column.name for column in FLOW if column.explicit}
    assert set(Decoder(everything).plan.deferred()) == explicit, (
        "ranks follow the order of ext/core/plan/source.h"
    )


def test_statuses_are_explained() -> None:
    assert flowbuf.STATUSES["template_missing"] == (
        "loss",
        "a data set that is given up: its template did not come, or not in time",
    )
    assert {status_class for status_class, _ in flowbuf.STATUSES.values()} == {
        "control",
        "fault",
        "loss",
        "note",
    }


class TestMisuse:
    """Misuse raises an exception and never crashes."""

    def test_a_sequence_may_yield_more_than_its_length(self) -> None:
        class WrongLength(list[bytes]):
            def __len__(self) -> int:
                return 0

        assert (
            Decoder().encode_many(WrongLength([V5] * 1000), "192.0.2.1", 1.0)
            == Decoder().encode(V5, "192.0.2.1", 1.0) * 1000
        )

    def test_one_payload_instead_of_a_list_is_an_error(self) -> None:
        with pytest.raises(TypeError):
            Decoder().encode_many(V5, "192.0.2.1")  # type: ignore[arg-type]

    def test_a_batch_is_invalid_after_the_next_batch(self) -> None:
        data = b"".join(_core.generate(protocol="netflow5", flows=100))
        capture = _core.Capture()
        consumed, _, first = capture.scan(data, False, 1)
        assert len(Decoder().encode_datagrams(first)) > 0
        capture.scan(data[consumed:], True)
        for use in (lambda: first[0], lambda: Decoder().encode_datagrams(first)):
            with pytest.raises(RuntimeError, match="use it before the capture's next batch"):
                use()

    def test_an_unsealed_plan_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="not sealed"):
            _core.Decoder(_core.Plan(), DecodeOptions())

    def test_a_float_instead_of_an_integer_is_an_error(self) -> None:
        with pytest.raises((TypeError, ValueError)):
            Decoder().encode(V5, "192.0.2.1", override={"src_as": 1.5})


def test_a_rejected_template_removes_its_predecessor() -> None:
    """The exporter uses the id for other fields now. The old template would decode its records wrongly."""
    too_many = template(256, *[(number, 4) for number in range(1, 1100)])
    payload = ipfix(template_set(template(256, (1, 4)), too_many), data_set(256, u32(7)))
    decoder = Decoder()
    assert decoder.messages(payload, "192.0.2.1") == []
    assert decoder.counters == {"template_limit": 1, "early_data": 1}


def test_an_omitted_rank_leaves_no_gap() -> None:
    sources = ["meta:default_sampling_rate", "ipfix:octetDeltaCount", "meta:time_exported"]
    schema = FLOW.only().add("mine", 1001, "uint64", sources)
    payload = ipfix(template_set(template(256, (1, 4))), data_set(256, u32(75)), export_time=1_700_000_000)
    (message,) = Decoder(schema).messages(payload, "192.0.2.1")
    assert values(message, schema) == {"mine": 75}


def test_the_time_option_may_repeat_the_choice_of_the_schema() -> None:
    schema = FLOW.alter("time_received", sources=["meta:time_exported"])
    (message,) = Decoder(schema, time="export").messages(V5, "192.0.2.1", 5.0)
    assert values(message)["time_received"] == 1_700_000_000_000
    with pytest.raises(ValueError, match="no column time_flow_start"):
        Decoder(FLOW.retire("time_flow_start"), time="flow-start")


def test_a_schema_with_too_many_columns_is_an_error() -> None:
    text = '[schema]\nname = "large"\n' + "".join(
        f'[[column]]\nname = "c{i}"\nnumber = {i + 1}\ntype = "uint32"\n' for i in range(1100)
    )
    with pytest.raises(SchemaError, match="1100 columns; the limit is 1024"):
        Decoder(Schema.from_toml(text))


@pytest.mark.parametrize("received", [2**63, 2**64, 9_223_372_037.0, -1, -1e-3, float("nan"), float("inf")])
def test_a_time_of_reception_before_1970_or_after_2262_is_an_error(received: float) -> None:
    message = re.escape(f"received is {received}, before 1970 or after the year 2262; give seconds as float")
    with pytest.raises(OverflowError, match=message):
        Decoder().encode(b"", "192.0.2.1", received)
    with pytest.raises(OverflowError, match=message):
        Decoder().columns_many([b""], "192.0.2.1", [received])
    assert Decoder().encode(b"", "192.0.2.1", 2**63 - 1) == b""


@pytest.mark.parametrize("received", [datetime(2026, 1, 1), 1j])
def test_a_time_of_reception_that_is_no_number_is_an_error(received: Any) -> None:
    message = re.escape(f"received is {received!r}; give seconds since 1970 as float, such as datetime")
    with pytest.raises(TypeError, match=message):
        Decoder().encode(b"", "192.0.2.1", received)
    for given in (received, [received]):
        with pytest.raises(TypeError, match=message):
            Decoder().columns_many([b""], "192.0.2.1", given)


def test_times_of_reception_may_be_numbers_of_any_type() -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")

    def times(received: Any) -> list[int]:
        return [datagram[3] for datagram in _core.pack_datagrams([b"", b""], "192.0.2.1", received)]

    second = 10**9
    for one in (numpy.float32(1.5), numpy.float16(1.5), Fraction(3, 2), Decimal("1.5")):
        assert times(one) == times([one, one]) == [1.5 * second] * 2
    assert times(numpy.int64(7)) == times(numpy.array([7, 7], "u4")) == [7, 7]
    assert times(numpy.array([1, 2], "f4")) == [second, 2 * second]
    assert times(pandas.Series([1.0, 2.0], index=[1, 0])) == [second, 2 * second], "by position"
    with pytest.raises(TypeError, match=r"received is Timestamp\('2026-01-01 .*; give seconds since 1970"):
        times(pandas.DatetimeIndex(["2026-01-01"] * 2))


# Processors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_flows_are_the_same_with_the_instructions_of_each_processor(capture: Path) -> None:
    schema = FLOW.enable(*(column.name for column in FLOW))
    flows = {}
    for processor in (None, *_core.PROCESSORS):
        decoder = Decoder(schema, processor=processor)
        with Content(capture) as content:
            batches = decode_batches(CaptureReader(content), decoder, None)
            messages = b"".join(bytes(output) for _, output in batches)
        flows[processor], _ = _core.MessageReader(decoder.plan).read_stream(messages)
    assert flows["any"]
    assert all(each == flows["any"] for each in flows.values())


def test_a_processor_that_is_not_here_is_an_error() -> None:
    assert _core.PROCESSORS[0] == "any"
    with pytest.raises(ValueError, match="processor is 'z80'; on this machine, it may be any"):
        DecodeOptions(processor="z80")
