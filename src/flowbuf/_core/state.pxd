from libc.stdint cimport uint64_t

from flowbuf._core.core cimport fb_counters, fb_exporters

cdef dict read_counters(const fb_counters *counters)
cdef dict sum_counters(const fb_exporters *exporters, const fb_counters *other)
cdef list list_exporters(const fb_exporters *exporters)
cdef list read_exporters(fb_exporters *exporters)
cdef list read_early_data(fb_exporters *exporters)
cdef tuple check_exporter(object exporter, str where)
cdef object as_list(object value, str where)
cdef int restore_exporter(fb_exporters *exporters, bytes address, uint64_t agent, list domains,
                          bytes early_data) except -1
