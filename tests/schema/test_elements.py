"""Information elements of IPFIX are found by name and by id."""

from flowbuf.schema import elements


def test_an_element_is_found_by_name_and_by_id():
    element = elements.by_name("octetDeltaCount")
    assert element is not None
    assert (element.id, element.data_type, element.semantics, element.units) == (
        1,
        "unsigned64",
        "deltaCounter",
        "octets",
    )
    assert (element.status, element.pen) == ("current", 0)
    assert elements.by_id(1) is element


def test_names_are_case_sensitive_and_unknown_elements_are_none():
    assert elements.by_name("OctetDeltaCount") is None
    assert elements.by_id(65535) is None


def test_reserved_ids_are_not_elements():
    assert elements.by_name("Reserved") is None
    assert elements.by_id(0) is None
    assert elements.by_id(97) is None


def test_names_and_ids_are_unique():
    every = elements.all()
    assert len(every) > 450
    assert len({element.name for element in every}) == len({element.id for element in every}) == len(every)
    assert [element.id for element in every] == sorted(element.id for element in every)


def test_the_table_is_read_once():
    assert elements.all() is elements.all()
