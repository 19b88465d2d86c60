"""Source.parse reads the sources of a column."""

import pytest

from flowbuf.errors import SchemaError
from flowbuf.schema import Source, elements
from flowbuf.schema.source import LAST


def test_elements_are_found_by_name():
    source = Source.parse("ipfix:sourceMacAddress")
    assert (source.kind, source.pen, source.id) == ("ipfix", 0, 56)
    assert source.element is elements.by_name("sourceMacAddress")
    assert str(source) == source.text == "ipfix:sourceMacAddress"


def test_elements_are_found_by_id():
    assert Source.parse("ipfix:56").element is Source.parse("ipfix:sourceMacAddress").element


def test_enterprise_elements_need_no_registry_entry():
    source = Source.parse("ipfix:2636/137")
    assert (source.pen, source.id, source.element) == (2636, 137, None)


def test_ids_outside_the_registry_are_accepted():
    assert Source.parse("ipfix:32767").element is None


def test_netflow9_ids_use_all_16_bits():
    assert Source.parse("netflow9:40001").id == 40001
    assert Source.parse("netflow9:samplerId").id == 48


@pytest.mark.parametrize(
    ("text", "pen", "id", "occurrence"),
    [
        ("ipfix:8", 0, 8, 0),
        ("ipfix:8#2", 0, 8, 2),
        ("ipfix:sourceIPv4Address#2", 0, 8, 2),
        ("ipfix:9/12235#65534", 9, 12235, 65534),
        ("netflow9:8#last", 0, 8, LAST),
    ],
)
def test_sources_may_select_one_occurrence_of_an_element(text, pen, id, occurrence):
    source = Source.parse(text)
    assert (source.pen, source.id, source.occurrence, str(source)) == (pen, id, occurrence, text)


@pytest.mark.parametrize(
    "text", ["netflow5:dOctets", "sflow:sampled_ip.src_ip", "packet:vlan.id", "meta:x", "derived:y"]
)
def test_names_of_fixed_sources_are_not_checked(text):
    source = Source.parse(text)
    assert (source.kind, source.text, source.id) == (text.partition(":")[0], text, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ipfix:sourceMacAdress", "did you mean sourceMacAddress"),
        ("ipfix:SOURCEMACADDRESS", "did you mean sourceMacAddress"),
        ("ipfix:Reserved", "unknown element"),
        ("ipfix:zzzzzzzz", "ipfix:2636/137"),
        ("ipfx:octetDeltaCount", "did you mean ipfix?"),
        ("kafka:topic", "kinds are ipfix, netflow9"),
        ("octetDeltaCount", "KIND:NAME"),
        ("ipfix:", "KIND:NAME"),
        ("ipfix: 8", "KIND:NAME"),
        ("ipfix:0", "1 to 32767"),
        ("ipfix:32768", "1 to 32767"),
        ("ipfix:2636/32768", "0 to 32767"),
        ("ipfix:4294967296/1", "32 bits"),
        ("ipfix:2636/x", "unknown element"),
        ("ipfix:" + "9" * 5000, "unknown element"),
        ("ipfix:" + "9" * 5000 + "/1", "unknown element"),
        ("netflow9:65536", "1 to 65535"),
        ("netflow9:2636/137", "only IPFIX"),
        ("ipfix:8#", "#1 to #65534"),
        ("ipfix:8#0", "#1 to #65534"),
        ("ipfix:8#-1", "#last, or a number"),
        ("ipfix:8#65535", "#1 to #65534"),
        ("ipfix:8#first", "#last, or a number"),
        ("ipfix:8#2#3", "#last, or a number"),
        ("ipfix:#2", "KIND:NAME"),
        ("netflow5:srcaddr#2", "only elements have occurrences; write netflow5:srcaddr"),
        ("sflow:sampled_ip.src_ip#last", "write sflow:sampled_ip.src_ip"),
    ],
)
def test_invalid_sources_are_refused_with_a_hint(text, expected):
    with pytest.raises(SchemaError, match=expected):
        Source.parse(text)
