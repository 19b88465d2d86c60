from flowbuf._core.core cimport fb_column, fb_deferred_values, fb_memory, fb_plan, fb_status

cdef class Plan:
    cdef fb_memory memory
    cdef fb_plan *plan
    cdef list column_names
    cdef readonly bint sealed
    cdef dict indices
    cdef _added(self, fb_status status)
    cdef list _flagged(self, unsigned flag)
    cdef int need_sealed(self) except -1
    cdef int index(self, str name) except -1

cdef bint is_signed(const fb_column *column) noexcept
cdef bint is_late(Plan plan, str name) except -1
cdef int override_deferred(fb_deferred_values *deferred, Plan plan, str name, object value) except -1
