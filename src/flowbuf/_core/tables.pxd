from flowbuf._core.core cimport (
    ArrowArray,
    ArrowSchema,
    fb_batch,
    fb_field_type,
    fb_member,
    fb_status,
    fb_table,
    fb_table_field,
)
from flowbuf._core.plan cimport Plan

cdef enum:
    FIRST_ROWS = 256  # initial capacity of a batch

cdef class ExportedType:
    cdef fb_status export_schema(self, ArrowSchema *out) noexcept

cdef class ExportedRows:
    cdef fb_status export_rows(self, ArrowArray *out) noexcept
    cdef object export_with(self, ExportedType type)

cdef class TableType(ExportedType):
    cdef readonly Plan plan
    cdef readonly tuple names
    cdef readonly bint text  # some addresses are text
    cdef fb_table_field *fields
    cdef fb_field_type *types
    cdef size_t count
    cdef list texts  # own the memory of the C structures' texts
    cdef int add(self, str name, str format, str extension, bint nullable, bint required, bint text,
                 dict members) except -1
    cdef const char *keep(self, str text) except NULL

cdef class Table(ExportedRows):
    cdef readonly TableType type
    cdef fb_table *table

cdef class TableBuilder:
    cdef readonly TableType type
    cdef size_t rows
    cdef fb_batch *batch
    cdef bint busy
    cdef int claim(self) except -1
    cdef int need_batch(self, size_t capacity) except -1
    cdef int make_room(self, list tables, double share) except -1
    cdef Table make_table(self)

cdef int set_members(const fb_member **to, size_t *count, list members, list keep) except -1
