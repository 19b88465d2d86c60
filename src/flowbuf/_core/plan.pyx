"""The compiled schema."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from flowbuf._core.base cimport check, parse_address
from flowbuf._core.core cimport *

from operator import index

from flowbuf.errors import EncodeError

TYPES = {
    "uint": FB_TYPE_UINT, "enum": FB_TYPE_ENUM, "int": FB_TYPE_INT, "sint": FB_TYPE_SINT,
    "bool": FB_TYPE_BOOL,
    "float": FB_TYPE_FLOAT, "double": FB_TYPE_DOUBLE, "fixed32": FB_TYPE_FIXED32, "fixed64": FB_TYPE_FIXED64,
    "string": FB_TYPE_STRING, "bytes": FB_TYPE_BYTES, "ip": FB_TYPE_IP, "timestamp": FB_TYPE_TIMESTAMP,
    "duration": FB_TYPE_DURATION,
}
FLAGS = {
    "enabled": FB_COLUMN_ENABLED, "repeated": FB_COLUMN_REPEATED, "explicit": FB_COLUMN_EXPLICIT,
    "late": FB_COLUMN_LATE, "native_ip": FB_COLUMN_NATIVE_IP, "scaled": FB_COLUMN_SCALED,
    "rate": FB_COLUMN_RATE, "one_way": FB_COLUMN_ONE_DIRECTION, "zero": FB_COLUMN_ZERO,
}
KINDS = {fb_kind_name(<fb_kind> i).decode(): i for i in range(FB_KIND_COUNT)}
SOURCES = {fb_source_name(<fb_source> i).decode(): i for i in range(FB_SOURCE_COUNT)}
"""Codes of the fixed sources, in the order in which a decoder produces them."""
NETFLOW5_FIELDS = {
    f"netflow5:{fb_netflow5_field_name(i).decode()}": (i, fb_netflow5_field_kind(i))
    for i in range(fb_netflow5_field_count())
}
COUNTER_SOURCES = frozenset(
    fb_source_name(<fb_source> i).decode()
    for i in range(FB_SOURCE_FIRST_OF_COUNTERS, FB_SOURCE_LAST_OF_COUNTERS + 1)
)
"""Sources that only rows of counters have."""
NAME_SOURCES = frozenset(
    fb_source_name(<fb_source> i).decode() for i in range(FB_SOURCE_FIRST_NAME, FB_SOURCE_LAST_NAME + 1)
)
"""Sources that are names from options data."""
SCOPES = {
    f"scope:{fb_scope_name(<fb_scope> i).decode()}": i
    for i in range(FB_SCOPE_TEMPLATE + 1) if fb_scope_name(<fb_scope> i)
}
"""Types of the scope fields of NetFlow v9."""
ROWS = {"flows": FB_ROWS_FLOWS, "counters": FB_ROWS_COUNTERS, "options": FB_ROWS_OPTIONS}
"""Kinds of rows, in their order."""
_ROWS_NAMES = {kind: name for name, kind in ROWS.items()}
MAX_COLUMNS = FB_MAX_COLUMNS
MAX_RANKS = FB_MAX_RANK + 1
PEN_NETFLOW9 = FB_PEN_NETFLOW9
PEN_NETFLOW5 = FB_PEN_NETFLOW5
PEN_SCOPE = FB_PEN_SCOPE
LAST_OCCURRENCE = FB_LAST_OCCURRENCE


def kind_fits(int kind, str type):
    """Return True if values of a kind can fill a column of a type (a key of TYPES)."""
    return fb_kind_fits(<fb_kind> kind, <fb_type> TYPES[type])


cdef class Plan:
    """A compiled schema, made by `flowbuf.schema.plan.compile_plan`.

    A sealed plan is read-only and can be shared.
    """

    def __cinit__(self):
        self.memory = fb_memory_system(0)
        self.column_names = []
        self.indices = {}
        check(fb_plan_new(&self.plan, &self.memory))

    def __dealloc__(self):
        fb_plan_free(self.plan)

    def set_rows(self, int rows):
        """Set the kind of rows: a member of ROWS."""
        check(fb_plan_set_rows(self.plan, <fb_rows> rows))

    def add_column(self, str name, uint32_t number, int type, unsigned flags, uint64_t limit, uint64_t unit,
                   dict mappings):
        """Add a column. `mappings` maps values on the wire to members of the enum."""
        cdef fb_mapping *pairs = NULL
        cdef fb_status status
        cdef fb_column_spec spec
        cdef size_t i = 0
        memset(&spec, 0, sizeof(spec))
        if mappings:
            pairs = <fb_mapping *> PyMem_Malloc(len(mappings) * sizeof(fb_mapping))
            if not pairs:
                raise MemoryError
        try:
            for wire, member in mappings.items():
                pairs[i].from_ = wire
                pairs[i].to = member
                i += 1
            spec.number = number
            spec.type = <fb_type> type
            spec.flags = flags
            spec.limit = limit
            spec.unit = unit
            spec.mappings = pairs
            spec.mappings_size = i
            status = fb_plan_add_column(self.plan, &spec)
        finally:
            PyMem_Free(pairs)
        check(status)
        self.indices[name] = len(self.column_names)
        self.column_names.append(name)

    def add_source(self, unsigned rank, int source):
        """Add a fixed source to the last column. Return False if it cannot fill a column of this type."""
        return self._added(fb_plan_add_source(self.plan, <uint16_t> (len(self.column_names) - 1), rank,
                                              <fb_source> source))

    def add_element(self, unsigned rank, uint64_t pen, uint32_t id, int kind, uint16_t occurrence=0):
        """Add an information element to the last column.

        Returns False if it cannot fill a column of this type. `occurrence` is the number of an occurrence in
        a record, or LAST_OCCURRENCE. 0 means every occurrence in a repeated column, and the first in any
        other column.
        """
        cdef uint16_t column = <uint16_t> (len(self.column_names) - 1)
        return self._added(fb_plan_add_element(self.plan, column, rank, pen, id, occurrence, <fb_kind> kind))

    def set_replacement(self):
        """Let the last element replace a zero of the other elements of its rank."""
        check(fb_plan_set_replacement(self.plan))

    cdef _added(self, fb_status status):
        if status == FB_BAD_SOURCE:
            return False
        check(status)
        return True

    def set_mirror(self, str name, str mirror):
        """Mark two columns of one type as the two directions of one value."""
        check(fb_plan_set_mirror(self.plan, <uint16_t> self.index(name), <uint16_t> self.index(mirror)))

    def set_registry(self, bytes kinds):
        """Set the kinds of registered elements: a byte per element id. len(KINDS) marks unregistered ids."""
        check(fb_plan_set_registry(self.plan, <const uint8_t *> kinds, len(kinds)))

    def seal(self):
        """Finish the plan. It is read-only afterwards."""
        check(fb_plan_seal(self.plan))
        self.sealed = True

    def deferred(self):
        """Return the names of columns written at the end of their row (see ext/core/plan/plan.h)."""
        return self._flagged(FB_COLUMN_DEFERRED)

    def unordered(self):
        """Return the names of repeated columns whose sources a decoder does not produce in rank order."""
        return self._flagged(FB_COLUMN_UNORDERED)

    cdef list _flagged(self, unsigned flag):
        return [name for i, name in enumerate(self.column_names) if self.plan.columns[i].flags & flag]

    @property
    def rows(self):
        """Kind of rows: a key of ROWS."""
        return _ROWS_NAMES[self.plan.rows]

    @property
    def names(self):
        """Names of the columns, in order."""
        return list(self.column_names)

    cdef int need_sealed(self) except -1:
        """Raise ValueError if the plan is not sealed: a change could move memory that others point to."""
        if not self.sealed:
            raise ValueError("the plan is not sealed; call seal() first")
        return 0

    cdef int index(self, str name) except -1:
        cdef object i = self.indices.get(name)
        if i is None:
            raise KeyError(f"the schema has no column {name!r}")
        return i


cdef bint is_signed(const fb_column *column) noexcept:
    return column.type == FB_TYPE_INT or column.type == FB_TYPE_SINT or column.type == FB_TYPE_DURATION


cdef bint is_late(Plan plan, str name) except -1:
    """Return True if the column exists, is enabled and can be overridden."""
    cdef object i = plan.indices.get(name)
    cdef unsigned wanted = FB_COLUMN_ENABLED | FB_COLUMN_LATE
    return i is not None and plan.plan.columns[<size_t> i].flags & wanted == wanted


cdef int override_deferred(fb_deferred_values *deferred, Plan plan, str name, object value) except -1:
    """Replace the value of a late column by text, a number or bytes."""
    cdef uint16_t column = <uint16_t> plan.index(name)
    cdef fb_column *c = &plan.plan.columns[column]
    cdef fb_status status
    cdef fb_bytes content
    cdef bytes keep
    cdef uint64_t bits
    cdef double real
    content.data = NULL
    content.size = 0
    if not c.flags & FB_COLUMN_ENABLED:
        raise ValueError(f"column {name!r} is disabled; enable it to override it")
    if not c.flags & FB_COLUMN_LATE:
        raise ValueError(
            f"column {name!r} is not late; only columns with late = true in the schema can be overridden"
        )
    try:
        if c.type == FB_TYPE_IP:
            keep = parse_address(value) if isinstance(value, str) else bytes(value)
            content.data = <const uint8_t *> PyBytes_AS_STRING(keep)
            content.size = PyBytes_GET_SIZE(keep)
            if content.size == 16 and isinstance(value, str) and keep[:12] == b"\0\0\0\0\0\0\0\0\0\0\xff\xff":
                content.data += 12
                content.size = 4
            status = fb_deferred_values_override(deferred, column, FB_DEFERRED_BYTES, 0, content)
        elif c.type == FB_TYPE_FLOAT or c.type == FB_TYPE_DOUBLE:
            real = value
            memcpy(&bits, &real, 8)
            status = fb_deferred_values_override(deferred, column, FB_DEFERRED_REAL, bits, content)
        elif is_signed(c):
            status = fb_deferred_values_override(deferred, column, FB_DEFERRED_INT,
                                                 <uint64_t> <int64_t> index(value), content)
        else:
            status = fb_deferred_values_override(deferred, column, FB_DEFERRED_UINT, <uint64_t> index(value),
                                                 content)
    except OverflowError:
        status = FB_BAD_ARGUMENT
    if status != FB_OK:
        raise EncodeError(f"column {name!r} cannot hold {value!r}")
    return 0
