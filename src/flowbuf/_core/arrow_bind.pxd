from flowbuf._core.arrow cimport fb_arrow_binding, fb_arrow_source
from flowbuf._core.core cimport ArrowArray, ArrowSchema
from flowbuf._core.plan cimport Plan

cdef class Bindings:
    cdef list names, keep
    cdef fb_arrow_binding *items
    cdef str describe_fault(self, const fb_arrow_source *source, row)

cdef Bindings bind_columns(Plan plan, const ArrowSchema *schema, bind)
cdef int take_schema(object capsule, ArrowSchema *to) except -1
cdef int take_array(object capsule, ArrowArray *to) except -1
