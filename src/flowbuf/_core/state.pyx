"""The state of exporters as plain data: read from the core, and restored to it."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from flowbuf._core.base cimport format_address, parse_address, read_statuses
from flowbuf._core.core cimport *

from flowbuf._core.plan import ROWS

OTHERS = "others"
"""Key of the counters of exporters that were evicted or had no room."""

EARLY_DATA_VERSION = FB_PENDING_FORM_VERSION
"""Version of the form of waiting data sets: see Decoder.read_early_data."""

_NAME_KINDS = {fb_name_kind_name(<fb_name_kind> i).decode(): i for i in range(FB_NAME_KINDS)}
_UNITS = (None, "flows", "packets", "records", "datagrams", "samples")  # fb_sequence_unit


cdef dict read_rows(const fb_counters *counters):
    """Return the rows by their kind. Kinds without rows are left out."""
    return {name: counters.rows[kind] for name, kind in ROWS.items() if counters.rows[kind]}


cdef object sum_rows(const fb_counters *counters):
    cdef uint64_t total = 0
    cdef int i
    for i in range(FB_ROWS_COUNT):
        total += counters.rows[i]
    return total


cdef dict read_counters(const fb_counters *counters):
    return {
        "datagrams": counters.datagrams,
        "bytes": counters.bytes,
        "flows": sum_rows(counters),
        "rows": read_rows(counters),
        "options_records": counters.options_records,
        "templates": counters.templates,
        "counters": read_statuses(counters.status),
    }


cdef void _add_counters(fb_counters *total, const fb_counters *more) noexcept nogil:
    cdef int i
    total.datagrams += more.datagrams
    total.bytes += more.bytes
    for i in range(FB_ROWS_COUNT):
        total.rows[i] += more.rows[i]
    total.options_records += more.options_records
    total.templates += more.templates
    for i in range(FB_STATUS_COUNT):
        total.status[i] += more.status[i]


cdef dict sum_counters(const fb_exporters *exporters, const fb_counters *other):
    """Return the sums of the counters of all exporters and of datagrams without one."""
    cdef fb_counters total
    cdef size_t i
    memset(&total, 0, sizeof(total))
    _add_counters(&total, other)
    _add_counters(&total, &exporters.overflow.counters)
    for i in range(exporters.capacity):
        if fb_exporters_at(exporters, i):
            _add_counters(&total, &fb_exporters_at(exporters, i).counters)
    return read_counters(&total)


cdef uint32_t sub_agent_of(const fb_exporter *exporter) noexcept:
    return 0 if exporter.agent & FB_AGENT_SESSION else <uint32_t> exporter.agent


cdef list list_exporters(const fb_exporters *exporters):
    """Return the totals of each exporter: see Decoder.list_exporters."""
    cdef list found = []
    cdef fb_exporter *exporter
    cdef fb_lost lost
    cdef size_t i
    for i in range(exporters.capacity):
        exporter = fb_exporters_at(exporters, i)
        if exporter:
            memset(&lost, 0, sizeof(lost))
            fb_exporter_sum_lost(exporter, &lost)
            found.append(list_totals(format_address(exporter.address), exporter, &lost))
    if exporters.overflow.counters.datagrams:
        found.append(list_totals(OTHERS, &exporters.overflow, &exporters.lost))
    return found


cdef tuple list_totals(str address, const fb_exporter *exporter, const fb_lost *lost):
    cdef const fb_counters *counters = &exporter.counters
    return (address, sub_agent_of(exporter), counters.datagrams, counters.bytes, sum_rows(counters),
            exporter.latest.version if exporter.latest else None, _read_lost(lost), read_rows(counters),
            counters.status[<int> FB_RATE_LIMITED])


cdef dict _read_lost(const fb_lost *lost):
    return {_UNITS[unit]: lost.units[unit] for unit in range(FB_SEQUENCE_UNITS) if lost.counted[unit]}


cdef dict read_key(const fb_exporter *exporter):
    return {
        "address": format_address(exporter.address),
        "sub_agent": sub_agent_of(exporter),
        **({"session": <uint32_t> exporter.agent} if exporter.agent & FB_AGENT_SESSION else {}),
    }


cdef dict read_exporter(fb_exporter *exporter):
    cdef fb_lost lost
    memset(&lost, 0, sizeof(lost))
    fb_exporter_sum_lost(exporter, &lost)
    return {
        **read_key(exporter),
        **read_counters(&exporter.counters),
        "waiting": {"sets": exporter.pending.sets, "bytes": exporter.pending.bytes},
        "lost": _read_lost(&lost),
        "domains": [
            read_domain(<fb_domain *> exporter.domains.entries[exporter.domains.order[i]].pointer)
            for i in range(exporter.domains.count)
        ],
    }


cdef int add_exporter(dict exporters, fb_exporter *exporter) except -1:
    """Add an exporter under its address, sub-agent and Transport Session.

    The counters of a NetFlow or IPFIX exporter and an sFlow agent with the same key are added.
    """
    cdef dict more = read_exporter(exporter)
    cdef dict known = exporters.setdefault((more["address"], more["sub_agent"], more.get("session")), more)
    if known is not more:
        _add_up(known, more)
    return 0


cdef int _add_up(dict known, dict more) except -1:
    for key, value in more.items():
        if isinstance(value, dict):
            _add_up(known.setdefault(key, {}), value)
        elif key not in ("address", "sub_agent", "session"):
            known[key] = known[key] + value if key in known else value
    return 0


cdef dict read_others(fb_exporters *exporters):
    """Return the counters of exporters that were evicted or had no room."""
    return {**read_exporter(&exporters.overflow), "address": OTHERS, "lost": _read_lost(&exporters.lost)}


cdef list read_exporters(fb_exporters *exporters):
    """Return the state of all exporters, and the counters of others if there are any."""
    cdef dict found = {}
    cdef size_t i
    for i in range(exporters.capacity):
        if fb_exporters_at(exporters, i):
            add_exporter(found, fb_exporters_at(exporters, i))
    others = read_others(exporters)
    known = [*found.values()]
    lost = any(others["lost"].values())  # of Transport Sessions that have ended, and of replaced exporters
    return [*known, others] if others["datagrams"] or others["counters"] or lost else known


cdef list read_early_data(fb_exporters *exporters):
    """Return the data sets that wait for their templates: see Decoder.read_early_data."""
    cdef list found = []
    cdef fb_exporter *exporter
    cdef bytes form
    cdef size_t i
    for i in range(exporters.capacity):
        exporter = fb_exporters_at(exporters, i)
        if exporter and exporter.pending.sets:
            form = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> fb_pending_form_size(exporter))
            fb_pending_write(exporter, <uint8_t *> PyBytes_AS_STRING(form))
            found.append({**read_key(exporter), "early_data": form})
    return found


cdef dict read_totals(const fb_sequence_totals *totals):
    return {
        "expected": totals.expected,
        "lost": totals.lost,
        "late": totals.late,
        "restarts": totals.restarts,
    }


cdef dict read_sequence(const fb_domain *domain):
    """Return the counters of a domain's sequence numbers; for an sFlow agent also those of its samples.

    `unit` is None if nothing was numbered.
    """
    cdef dict sequence = {"unit": _UNITS[domain.sequences.unit], **read_totals(&domain.sequences.totals)}
    if domain.version == FB_DOMAIN_SFLOW:
        sequence["samples"] = read_totals(&domain.samples.totals)
    return sequence


cdef dict read_domain(fb_domain *domain):
    return {
        "version": domain.version,
        "id": domain.id,
        "port": domain.port if domain.common else None,
        "sequence": read_sequence(domain),
        "system_init": domain.system_init,
        "samplers": {
            domain.samplers.entries[place].key: domain.samplers.entries[place].number
            for place in [domain.samplers.order[i] for i in range(domain.samplers.count)]
        },
        "selection_sequences": read_selections(domain),
        "templates": {
            domain.templates[place].id: read_template(&domain.templates[place])
            for place in [domain.template_order[i] for i in range(domain.template_count)]
            if domain.templates[place].compiled
        },
        "names": read_names(domain),
    }


cdef dict read_selections(const fb_domain *domain):
    """Return the ids of the selectors of each selection sequence."""
    cdef dict sequences = {}
    cdef const fb_selection *selection
    for place in [domain.selections.order[i] for i in range(domain.selections.count)]:
        selection = <const fb_selection *> domain.selections.entries[place].pointer
        sequences[domain.selections.entries[place].key] = [selection.ids[i] for i in range(selection.count)]
    return sequences


cdef dict read_names(const fb_domain *domain):
    """Return the names by kind and id, the latest last. An id is a hexadecimal number."""
    cdef dict names = {}
    cdef const fb_name *name = domain.names.oldest
    while name:
        kind = fb_name_kind_name(<fb_name_kind> name.kind).decode()
        value = name.text[:name.size].decode() if name.size else name.speed
        id = <object> name.id.high << 64 | <object> name.id.low
        names.setdefault(kind, {})[f"{id:x}"] = value
        name = name.newer
    return names


cdef dict read_template(const fb_template *template):
    cdef const fb_compiled_template *compiled = template.compiled
    return {
        "options": bool(compiled.options),
        "scope_count": compiled.scope_count,
        "fields": [(compiled.fields[i].pen, compiled.fields[i].id, compiled.fields[i].size)
                   for i in range(compiled.field_count)],
        "port": template.port,
        "time": template.time,
        "contested": bool(template.contested),
    }


# Restored state comes from a file or another process, so each value is checked before any is used.

cdef object as_list(object value, str where):
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{where} is {type(value).__name__}, not a list")
    return value


cdef object as_dict(object value, str where):
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {type(value).__name__}, not a dict")
    return value


cdef object as_number(object value, object highest, str where, object lowest=0):
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ValueError(f"{where} is {value!r:.40}, not an integer from {lowest} to {highest}")
    return value


cdef object as_key(object key, object highest, str where, object lowest=0):
    if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 20:
        key = int(key)
    return as_number(key, highest, where, lowest)


cdef object as_bool(object value, str where):
    if not isinstance(value, bool):
        raise ValueError(f"{where} is {value!r:.40}, not True or False")
    return value


cdef tuple check_exporter(object exporter, str where):
    """Return (16 bytes of the address or None for the others, agent of the core, domains, waiting sets)."""
    exporter = as_dict(exporter, where)
    address = exporter.get("address")
    if not isinstance(address, str):
        raise ValueError(f"{where}: address is {address!r:.40}, not text")
    where = f"{where} ({address:.40})"
    try:
        content = None if address == OTHERS else parse_address(address)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    sub_agent = as_number(exporter.get("sub_agent", 0), 0xFFFFFFFF, f"{where}: sub_agent")
    session = as_number(exporter.get("session", 0), 0xFFFFFFFF, f"{where}: session")
    agent = FB_AGENT_SESSION | <uint64_t> session if session else sub_agent
    domains = as_list(exporter.get("domains", []), f"{where}: domains")
    checked = [check_domain(domain, f"{where}, domain {i}") for i, domain in enumerate(domains)]
    early_data = check_early_data(exporter.get("early_data"), f"{where}: early_data")
    return content, agent, [domain for domain in checked if domain], early_data


cdef bytes check_early_data(object form, str where):
    """Return the form of the waiting sets of an exporter, or None if it has none."""
    cdef fb_bytes content
    if form is None:
        return None
    if not isinstance(form, bytes):
        raise ValueError(f"{where} is {type(form).__name__}, not bytes")
    content.data = <const uint8_t *> PyBytes_AS_STRING(form)
    content.size = PyBytes_GET_SIZE(form)
    if fb_pending_check(content) != FB_OK:
        raise ValueError(f"{where} is damaged, or not of version {EARLY_DATA_VERSION}")
    return form


cdef object check_domain(object domain, str where):
    """Return (version, id, port or None, system_init, samplers, selections, templates, names) for
    `restore_domain`.

    Return None for NetFlow v5 and v7, whose domains hold only counters.
    """
    domain = as_dict(domain, where)
    version = as_number(domain.get("version"), 10, f"{where}: version")
    if version in (5, 7):
        return None
    if version:
        as_number(version, 10, f"{where}: version", 9)
    number = as_number(domain.get("id"), 0xFFFFFFFF, f"{where}: id")
    port = domain.get("port")
    if port is not None:
        as_number(port, 0xFFFF, f"{where}: port")
    system_init = as_number(domain.get("system_init", 0), 0xFFFFFFFFFFFFFFFF, f"{where}: system_init")
    samplers = [
        (as_key(key, 0xFFFFFFFFFFFFFFFF, f"{where}: sampler"),
         as_number(rate, 0xFFFFFFFFFFFFFFFF, f"{where}: sampling rate"))
        for key, rate in as_dict(domain.get("samplers", {}), f"{where}: samplers").items()
    ]
    sequences = as_dict(domain.get("selection_sequences", {}), f"{where}: selection_sequences")
    selections = [
        (as_key(key, 0xFFFFFFFFFFFFFFFF, f"{where}: selection sequence"),
         check_selectors(ids, f"{where}, selection sequence {key}"))
        for key, ids in sequences.items()
    ]
    templates = [
        check_template(as_key(key, 0xFFFF, f"{where}: template", 256), template, f"{where}, template {key}")
        for key, template in as_dict(domain.get("templates", {}), f"{where}: templates").items()
    ]
    names = check_names(domain.get("names", {}), f"{where}: names")
    if version == FB_DOMAIN_SFLOW and not names:
        return None
    return version, number, port, system_init, samplers, selections, templates, names


cdef list check_selectors(object ids, str where):
    ids = [as_number(id, 0xFFFFFFFFFFFFFFFF, f"{where}: selector") for id in as_list(ids, where)]
    as_number(len(ids), FB_MAX_SELECTORS, f"{where}: the number of selectors")
    return ids


cdef list check_names(object names, str where):
    """Return (kind, high and low half of the id, text, speed) of each name. Skip unknown kinds."""
    cdef list checked = []
    for kind, values in as_dict(names, where).items():
        for key, value in as_dict(values, f"{where} of {kind}").items():
            try:
                id = int(key, 16) if isinstance(key, str) and len(key) <= 32 else -1
            except ValueError:
                id = -1
            if id < 0:
                raise ValueError(f"{where} of {kind}: {key!r:.40} is not a hexadecimal number of 128 bits")
            is_text = isinstance(value, str)
            if not is_text:
                as_number(value, 0xFFFFFFFFFFFFFFFF, f"{where} of {kind}: {key}")
            if is_text == (kind == "interface_speed") and kind in _NAME_KINDS:
                wanted = "a number" if is_text else "text"
                raise ValueError(f"{where} of {kind}: {value!r:.40} is not {wanted}")
            if kind in _NAME_KINDS:
                checked.append((_NAME_KINDS[kind], id >> 64, id & 0xFFFFFFFFFFFFFFFF,
                                value.encode(errors="replace") if is_text else b"",
                                0 if is_text else value))
    return checked


cdef tuple check_template(object number, object template, str where):
    """Return (id, options, scope_count, fields, port, time, contested)."""
    template = as_dict(template, where)
    options = as_bool(template.get("options", False), f"{where}: options")
    fields = [check_field(field, where) for field in as_list(template.get("fields"), f"{where}: fields")]
    as_number(len(fields), 0xFFFF, f"{where}: the number of fields")
    scope_count = as_number(template.get("scope_count", 0), len(fields) if options else 0,
                            f"{where}: scope_count")
    port = as_number(template.get("port", 0), 0xFFFF, f"{where}: port")
    time = as_number(template.get("time", 0), 0xFFFFFFFFFFFFFFFF, f"{where}: time")
    contested = as_bool(template.get("contested", False), f"{where}: contested")
    return number, options, scope_count, fields, port, time, contested


cdef tuple check_field(object field, str where):
    if not isinstance(field, (list, tuple)) or len(field) != 3:
        raise ValueError(f"{where}: field {field!r:.40} is not (enterprise, id, size)")
    enterprise = as_number(field[0], 0xFFFFFFFF, f"{where}: enterprise")
    element = as_number(field[1], 0xFFFF, f"{where}: element")
    return enterprise, element, as_number(field[2], 0xFFFF, f"{where}: size")


cdef int restore_exporter(fb_exporters *exporters, bytes address, uint64_t agent, list domains,
                          bytes early_data) except -1:
    if address is None:
        return 0
    cdef const uint8_t *key = <const uint8_t *> PyBytes_AS_STRING(address)
    cdef fb_exporter *exporter
    cdef fb_bytes form
    for version, number, port, system_init, samplers, selections, templates, names in domains:
        # An sFlow agent and an exporter of the same address are one entry of the state. The templates of a
        # domain may evict other exporters, so the exporter is looked up for each domain.
        kind = FB_AGENT_SFLOW if version == FB_DOMAIN_SFLOW else 0
        exporter = fb_exporters_restore(exporters, key, kind | agent)
        restore_domain(exporters, exporter, version, number, port, system_init, samplers, selections,
                       templates, names)
    if early_data is not None:
        form.data = <const uint8_t *> PyBytes_AS_STRING(early_data)
        form.size = PyBytes_GET_SIZE(early_data)
        fb_pending_restore(exporters, key, agent, form)
    return 0


cdef int restore_domain(fb_exporters *exporters, fb_exporter *exporter, uint16_t version, uint32_t number,
                        object port, uint64_t system_init, list samplers, list selections, list templates,
                        list names) except -1:
    cdef fb_domain *domain
    cdef fb_status status = fb_exporter_get_domain(exporters, exporter, version, number, &domain)
    if status == FB_OK and port is not None:
        domain.split = True
        domain = fb_domain_of_port(exporters, exporter, domain, port)
    # Without room for the port, `domain` is the domain of all ports. It must not get the state of one port.
    if status != FB_OK or (port is not None and not domain.common):
        exporter.counters.status[<int> (status if status != FB_OK else FB_TEMPLATE_LIMIT)] += 1
        return 0
    if 0 < system_init <= FB_SYSTEM_INIT_MAX:
        domain.system_init = system_init
    for sampler, rate in samplers:
        status = fb_domain_set_sampler(exporter, domain, sampler, rate)
        if status != FB_OK:
            exporter.counters.status[<int> status] += 1
    for sequence, ids in selections:
        restore_selection(exporter, domain, sequence, ids)
    for template in templates:
        restore_template(exporters, exporter, domain, template)
    for name in names:
        restore_name(exporters, exporter, domain, name)
    return 0


cdef int restore_selection(fb_exporter *exporter, fb_domain *domain, uint64_t sequence, list ids) except -1:
    cdef fb_selection selection
    cdef fb_status status
    selection.count = <uint16_t> len(ids)
    for i, id in enumerate(ids):
        selection.ids[<int> i] = id
    status = fb_domain_set_selection(exporter, domain, sequence, &selection)
    if status != FB_OK:
        exporter.counters.status[<int> status] += 1
    return 0


cdef int restore_name(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                      tuple name) except -1:
    cdef fb_name_id id
    cdef fb_bytes text
    kind, id.high, id.low, content, speed = name
    text.data = <const uint8_t *> PyBytes_AS_STRING(content)
    text.size = PyBytes_GET_SIZE(content)
    fb_domain_set_name(exporters, exporter, domain, <fb_name_kind> <int> kind, id, text, speed)
    return 0


cdef int restore_template(fb_exporters *exporters, fb_exporter *exporter, fb_domain *domain,
                          tuple template) except -1:
    cdef fb_definition definition
    cdef fb_status status
    cdef size_t i
    number, options, scope_count, fields, port, time, contested = template
    cdef fb_field *items = <fb_field *> PyMem_Malloc(max(len(fields), 1) * sizeof(fb_field))
    if not items:
        raise MemoryError
    try:
        for i, (enterprise, element, size) in enumerate(fields):
            items[i].pen = enterprise
            items[i].id = element
            items[i].size = size
        definition.fields = items
        definition.field_count = len(fields)
        definition.scope_count = scope_count
        definition.id = number
        definition.options = options
        definition.port = port
        definition.time = time
        status = fb_domain_set_template(exporters, exporter, domain, &definition)
    finally:
        PyMem_Free(items)
    if status == FB_OK and contested:
        fb_domain_find_template(domain, number).contested = True
    if status != FB_OK:
        exporter.counters.status[<int> status] += 1
    return 0
