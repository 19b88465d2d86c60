"""How sources are written in a schema."""

import pytest

from flowbuf.errors import SchemaError
from flowbuf.schema import Source, elements
from flowbuf.schema.source import LAST


def test_an_element_by_name():
    source = Source.parse("ipfix:sourceMacAddress")
    assert (source.kind, source.pen, source.id) == ("ipfix", 0, 56)
    assert source.element is elements.by_name("sourceMacAddress")
    assert str(source) == source.text == "ipfix:sourceMacAddress"


def test_an_element_by_id_is_the_same_element():
    assert Source.parse("ipfix:56").element is Source.parse("ipfix:sourceMacAddress").element


def test_an_enterprise_element_is_not_in_the_registry():
    source = Source.parse("ipfix:2636/137")
    assert (source.pen, source.id, source.element) == (2636, 137, None)


def test_ids_that_the_registry_does_not_know_may_be_used():
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
def test_an_element_with_one_of_its_occurrences(text, pen, id, occurrence):
    source = Source.parse(text)
    assert (source.pen, source.id, source.occurrence, str(source)) == (pen, id, occurrence, text)


@pytest.mark.parametrize(
    "text", ["netflow5:dOctets", "sflow:sampled_ip.src_ip", "packet:vlan.id", "meta:x", "derived:y"]
)
def test_names_of_fixed_sources_are_left_to_the_core(text):
    source = Source.parse(text)
    assert (source.kind, source.text, source.id) == (text.partition(":")[0], text, 0)


@pytest.mark.parametrize(
    ("text", "says"),
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
def test_what_is_no_source_is_refused_with_a_hint(text, says):
    with pytest.raises(SchemaError, match=says):
        Source.parse(text)
