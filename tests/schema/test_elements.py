"""The registry of information elements."""

from flowbuf.schema import elements


def test_an_element_is_found_by_name_and_by_id():
    octets = elements.by_name("octetDeltaCount")
    assert octets is not None
    assert (octets.id, octets.data_type, octets.semantics, octets.units) == (
        1,
        "unsigned64",
        "deltaCounter",
        "octets",
    )
    assert (octets.status, octets.pen) == ("current", 0)
    assert elements.by_id(1) is octets


def test_names_count_by_case_and_unknown_ones_are_none():
    assert elements.by_name("OctetDeltaCount") is None
    assert elements.by_id(65535) is None


def test_reserved_ids_are_no_elements():
    assert elements.by_name("Reserved") is None
    assert elements.by_id(0) is None
    assert elements.by_id(97) is None


def test_every_name_and_every_id_stands_once():
    every = elements.all()
    assert len(every) > 450
    assert len({element.name for element in every}) == len({element.id for element in every}) == len(every)
    assert [element.id for element in every] == sorted(element.id for element in every)


def test_the_table_is_read_once():
    assert elements.all() is elements.all()
