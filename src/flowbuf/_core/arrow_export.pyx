"""Tables as an Arrow C stream."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from flowbuf._core.base cimport check
from flowbuf._core.core cimport *
from flowbuf._core.tables cimport Table, TableType

cdef enum:
    ERROR_MAX = 256


cdef class ExportedStream:
    """State of a C stream.

    Each call holds a reference to it, because a consumer may release the stream during the call.
    """

    cdef TableType type
    cdef object tables  # an iterator
    cdef int failed  # code of the first error, which all later calls return
    cdef char error[ERROR_MAX]  # its text; the last byte is always 0

    cdef int fail(self, int code, bytes text) noexcept:
        """Store an error and its text for get_last_error. Return the code."""
        cdef size_t size = PyBytes_GET_SIZE(text)
        if size >= ERROR_MAX:
            size = ERROR_MAX - 1
            while size and (PyBytes_AS_STRING(text)[size] & 0xc0) == 0x80:  # do not split a UTF-8 character
                size -= 1
        memcpy(self.error, PyBytes_AS_STRING(text), size)
        self.error[size] = 0
        self.failed = code
        return code


cdef bytes describe_error(object error):
    """Return the class and text of an exception as UTF-8 without NUL. Text that is not Unicode is escaped."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}"
    except BaseException:  # raised by its own __str__
        text = name
    return text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")


cdef int get_stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef ExportedStream state
    out.release = NULL
    if not stream.private_data:
        return EINVAL
    state = <ExportedStream> stream.private_data
    if fb_schema_export(state.type.types, state.type.count, fb_memory_system(0), out) == FB_OK:
        return 0
    out.release = NULL
    return state.fail(ENOMEM, b"MemoryError: the schema cannot be exported")


cdef int get_next_table(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    """Turn every exception into a code and a text.

    An exception that leaves this function would look like the end of the stream.
    """
    cdef ExportedStream state
    cdef Table table
    cdef int code
    out.release = NULL
    if not stream.private_data:
        return EINVAL
    state = <ExportedStream> stream.private_data
    if state.failed:
        return state.failed
    try:
        table = next(state.tables, None)
        if table is not None:
            check(fb_table_export(table.table, out))
        return 0
    except BaseException as error:
        out.release = NULL
        code = ENOMEM if isinstance(error, MemoryError) else EIO
        try:
            return state.fail(code, describe_error(error))
        except BaseException:
            return state.fail(code, b"the error has no readable text")


cdef const char *get_stream_error(ArrowArrayStream *stream) noexcept with gil:
    cdef ExportedStream state
    if not stream.private_data:
        return "the stream was released"
    state = <ExportedStream> stream.private_data
    return state.error


cdef void release_stream(ArrowArrayStream *stream) noexcept with gil:
    cdef PyObject *state = <PyObject *> stream.private_data
    stream.release = NULL
    stream.private_data = NULL
    Py_XDECREF(state)


cdef void free_stream(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release:
        stream.release(stream)
    free(stream)


def export_stream(TableType type not None, tables):
    """Return tables of one type as an Arrow C stream in a capsule.

    The tables are requested one at a time. An exception of the iterator ends the stream, and becomes its
    error text.
    """
    cdef ExportedStream state = ExportedStream.__new__(ExportedStream)
    cdef ArrowArrayStream *stream
    state.type = type
    state.tables = iter(tables)
    stream = <ArrowArrayStream *> malloc(sizeof(ArrowArrayStream))
    if not stream:
        raise MemoryError
    Py_INCREF(state)
    stream.private_data = <void *> state
    stream.get_schema = get_stream_schema
    stream.get_next = get_next_table
    stream.get_last_error = get_stream_error
    stream.release = release_stream
    return PyCapsule_New(stream, "arrow_array_stream", free_stream)
