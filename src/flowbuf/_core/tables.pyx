"""Batches of rows as columns, exported by the Arrow C Data Interface, alone or as a stream.

https://arrow.apache.org/docs/format/CDataInterface.html specifies the interface.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from flowbuf._core.base cimport check
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan

from array import array


cdef int set_members(const fb_member **to, size_t *count, list members, list keep) except -1:
    """Allocate the members of an enum.

    The caller frees `*to`, even after an exception. `keep` owns the names.
    """
    cdef fb_member *items = <fb_member *> PyMem_Malloc(max(len(members), 1) * sizeof(fb_member))
    if not items:
        raise MemoryError
    to[0] = items
    cdef bytes content
    for number, name in members:
        content = name.encode()
        keep.append(content)
        items[count[0]].number = number
        items[count[0]].name.data = <const uint8_t *> PyBytes_AS_STRING(content)
        items[count[0]].name.size = PyBytes_GET_SIZE(content)
        count[0] += 1
    return 0


cdef class ExportedType:
    """A type of rows that can be exported."""

    cdef fb_status export_schema(self, ArrowSchema *out) noexcept:
        return FB_BAD_ARGUMENT

    def __arrow_c_schema__(self):
        cdef ArrowSchema *schema = <ArrowSchema *> malloc(sizeof(ArrowSchema))
        if not schema:
            raise MemoryError
        if self.export_schema(schema) != FB_OK:
            free(schema)
            raise MemoryError
        return PyCapsule_New(schema, "arrow_schema", free_schema)


cdef class ExportedRows:
    """Rows that can be exported."""

    cdef fb_status export_rows(self, ArrowArray *out) noexcept:
        return FB_BAD_ARGUMENT

    cdef object export_with(self, ExportedType type):
        """Return the capsules of the type and of the rows."""
        cdef ArrowArray *array = <ArrowArray *> malloc(sizeof(ArrowArray))
        if not array:
            raise MemoryError
        if self.export_rows(array) != FB_OK:
            free(array)
            raise MemoryError
        rows = PyCapsule_New(array, "arrow_array", free_array)
        return type.__arrow_c_schema__(), rows


@cython.no_gc_clear  # builders need its plan in their __dealloc__
cdef class TableType(ExportedType):
    """The Arrow type of tables of a plan.

    `fields` are tuples of column name, Arrow format, extension name or None, nullable, required, text, and
    enum members (number -> name) or None. `text` exports addresses as text. They may leave out columns, and
    have any order.
    """

    def __cinit__(self, Plan plan not None, fields):
        plan.need_sealed()
        self.plan = plan
        self.texts = []
        items = list(fields)
        self.fields = <fb_table_field *> PyMem_Malloc(max(len(items), 1) * sizeof(fb_table_field))
        self.types = <fb_field_type *> PyMem_Malloc(max(len(items), 1) * sizeof(fb_field_type))
        if not self.fields or not self.types:
            raise MemoryError
        self.names = tuple(item[0] for item in items)
        self.text = any(item[5] for item in items)
        for name, format, extension, nullable, required, text, members in items:
            self.add(name, format, extension, nullable, required, text, members)

    cdef int add(self, str name, str format, str extension, bint nullable, bint required, bint text,
                 dict members) except -1:
        cdef fb_table_field *field = &self.fields[self.count]
        cdef fb_field_type *type = &self.types[self.count]
        memset(field, 0, sizeof(fb_table_field))
        memset(type, 0, sizeof(fb_field_type))
        field.column = <uint16_t> self.plan.index(name)
        if not self.plan.plan.columns[field.column].flags & FB_COLUMN_ENABLED:
            raise ValueError(f"column {name!r} is disabled")
        self.count += 1  # __dealloc__ frees it from here on
        type.nullable = nullable
        field.nullable = nullable and not required
        field.text = text
        type.listed = (self.plan.plan.columns[field.column].flags & FB_COLUMN_REPEATED) != 0
        type.name = self.keep(name)
        type.format = self.keep(format)
        type.extension = NULL if extension is None else self.keep(extension)
        if members is not None:
            type.dictionary = True
            set_members(&field.members, &field.member_count, sorted(members.items()), self.texts)
        return 0

    cdef const char *keep(self, str text) except NULL:
        cdef bytes content = text.encode()
        self.texts.append(content)
        return PyBytes_AS_STRING(content)

    def __dealloc__(self):
        for i in range(self.count):
            PyMem_Free(<void *> self.fields[i].members)
        PyMem_Free(self.fields)
        PyMem_Free(self.types)

    cdef fb_status export_schema(self, ArrowSchema *out) noexcept:
        return fb_schema_export(self.types, self.count, fb_memory_system(0), out)


cdef void free_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release:
        schema.release(schema)
    free(schema)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release:
        array.release(array)
    free(array)


cdef uint64_t *copy_rows(object rows, size_t limit, size_t *count) except NULL:
    """Return a copy of the numbers of rows, which the caller frees with PyMem_Free. Raise IndexError."""
    cdef Py_buffer view
    cdef uint64_t *numbers
    cdef size_t i
    PyObject_GetBuffer(rows, &view, PyBUF_SIMPLE)
    try:
        if view.len % sizeof(uint64_t):
            raise ValueError(f"the rows have {view.len} bytes; pass integers of 64 bits")
        count[0] = view.len // sizeof(uint64_t)
        numbers = <uint64_t *> PyMem_Malloc(max(view.len, 1))
        if not numbers:
            raise MemoryError
        memcpy(numbers, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    for i in range(count[0]):
        if numbers[i] >= limit:
            wrong = numbers[i]
            PyMem_Free(numbers)
            raise IndexError(f"row {wrong} is not among the {limit} rows of the table")
    return numbers


cdef class Table(ExportedRows):
    """A finished batch of rows. It is immutable, and safe to use from any thread."""

    def __init__(self):
        raise TypeError("Table has no constructor; use TableBuilder.finish or Table.view")

    def __dealloc__(self):
        fb_table_release(self.table)

    def __len__(self):
        return fb_table_rows(self.table)

    def __reduce__(self):
        raise TypeError("a batch of flows cannot be pickled; pickle the result of its to_arrow()")

    @property
    def nbytes(self):
        """Memory of the rows, in bytes."""
        return fb_table_size(self.table)

    def view(self, TableType type not None):
        """Return the same rows with another type of the same plan."""
        cdef Table other = Table.__new__(Table)
        if type.plan is not self.type.plan:
            raise ValueError("the type belongs to another plan; use a TableType of the same plan")
        other.type = type
        check(fb_table_view(&other.table, type.plan.plan, self.table, type.fields, type.count))
        return other

    def take(self, rows):
        """Return a table with copies of some rows, in the given order.

        `rows`: their numbers, a buffer of 64-bit integers in the byte order of the machine.
        """
        cdef Table other = Table.__new__(Table)
        cdef size_t count = 0
        cdef uint64_t *numbers = copy_rows(rows, fb_table_rows(self.table), &count)
        cdef fb_status status
        cdef TableType type = self.type
        other.type = type
        try:
            with nogil:
                status = fb_table_take(
                    &other.table, type.plan.plan, self.table, numbers, count, type.fields, type.count
                )
        finally:
            PyMem_Free(numbers)
        check(status)
        return other

    def slice(self, size_t first, size_t count):
        """Return a table with copies of `count` rows from `first` on."""
        return self.take(array("Q", range(first, first + count)))

    cdef fb_status export_rows(self, ArrowArray *out) noexcept:
        return fb_table_export(self.table, out)

    def __arrow_c_array__(self, requested_schema=None):
        return self.export_with(self.type)


# Freed blocks of batches, reused by later batches. Tables may outlive the builder that made them.
cdef fb_block_cache block_cache


cdef class TableBuilder:
    """Collects rows into tables of at most `rows` rows.

    Rows that fill no table wait for the next call. Use it in one thread at a time.
    """

    def __cinit__(self, *arguments):
        cdef Py_ssize_t count = len(arguments)
        if count < 2 or not isinstance(arguments[count - 2], TableType):
            raise TypeError("a builder needs a TableType and a number of rows")
        self.type = arguments[count - 2]
        rows = arguments[count - 1]
        if not 2 <= rows <= 1 << 26:
            raise ValueError(f"rows is {rows}; it may be 2 to {1 << 26:,}")
        self.rows = rows

    def __dealloc__(self):
        fb_batch_free(self.batch)

    cdef int claim(self) except -1:
        """Claim the builder for one call. Setting `busy` to False releases it."""
        if self.busy:
            raise RuntimeError("this builder is in use by another thread; give each thread its own builder")
        self.busy = True
        return 0

    cdef int need_batch(self, size_t capacity) except -1:
        if not self.batch:
            check(fb_batch_new(&self.batch, self.type.plan.plan, capacity, fb_memory_cached(&block_cache, 0)))
        return 0

    cdef int make_room(self, list tables, double share) except -1:
        """Grow a batch that is full or out of memory, or turn it into a table.

        `share`: part of the input that its rows come from.
        """
        cdef size_t capacity = self.batch.capacity
        cdef bint full = capacity - self.batch.rows < 2
        if full and capacity < self.rows:
            # Enough rows for the whole input, by the share read so far. A small share limits the estimate.
            wanted = max(2 * capacity, <size_t> (1.1 * capacity / max(share, 1 / 64)))
            check(fb_batch_grow(&self.batch, self.type.plan.plan, min(self.rows, wanted)))
        elif not self.batch.rows:
            raise MemoryError(fb_status_text(FB_NO_MEMORY).decode())
        else:
            tables.append(self.make_table())
            self.need_batch(capacity)
        return 0

    def finish(self):
        """Return a table of the waiting rows, which may be empty."""
        self.claim()
        try:
            return self.make_table()
        finally:
            self.busy = False

    def finish_each(self):
        """Return a table of the waiting rows of each kind of rows, which may be empty."""
        return [self.finish()]

    cdef Table make_table(self):
        """REQUIRES: the builder is claimed."""
        cdef Table table = Table.__new__(Table)
        cdef fb_batch *batch
        cdef fb_status status
        self.need_batch(min(self.rows, FIRST_ROWS))
        batch = self.batch
        self.batch = NULL  # the table owns it from here on, even after an error
        table.type = self.type
        with nogil:
            status = fb_table_new(&table.table, self.type.plan.plan, batch, self.type.fields, self.type.count)
        check(status)
        return table


# Streams ----------------------------------------------------------------------------------------------------

cdef enum:
    ERROR_MAX = 256


cdef class ExportedStream:
    """State of a C stream.

    Each call holds a reference to it, because a consumer may release the stream during the call.
    """

    cdef ExportedType type
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
    if state.type.export_schema(out) == FB_OK:
        return 0
    out.release = NULL
    return state.fail(ENOMEM, b"MemoryError: the schema cannot be exported")


cdef int get_next_table(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    """Turn every exception into a code and a text.

    An exception that leaves this function would look like the end of the stream.
    """
    cdef ExportedStream state
    cdef ExportedRows table
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
            check(table.export_rows(out))
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


def export_stream(ExportedType type not None, tables):
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
