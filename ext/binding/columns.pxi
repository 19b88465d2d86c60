# Columns: batches of rows, handed on by the Arrow C Data Interface (https://arrow.apache.org/docs/format/CDataInterface.html).

cdef class TableType:
    """How the columns of a plan are handed on. `fields` are tuples of a column's name, its Arrow format, the name of an extension
    type or None, whether what is absent is null, whether addresses are text, and the members of an enum, number -> name, or None."""

    cdef readonly Plan plan
    cdef fb_table_field *fields
    cdef fb_field_type *types
    cdef size_t count
    cdef list texts  # that the structures point into

    def __cinit__(self, Plan plan not None, fields):
        self.plan = plan
        self.texts = []
        items = list(fields)
        self.fields = <fb_table_field *> PyMem_Malloc(max(len(items), 1) * sizeof(fb_table_field))
        self.types = <fb_field_type *> PyMem_Malloc(max(len(items), 1) * sizeof(fb_field_type))
        if not self.fields or not self.types:
            raise MemoryError
        for name, format, extension, nullable, text, members in items:
            self.add(name, format, extension, nullable, text, members)

    cdef int add(self, str name, str format, str extension, bint nullable, bint text, dict members) except -1:
        cdef fb_table_field *field = &self.fields[self.count]
        cdef fb_field_type *type = &self.types[self.count]
        memset(field, 0, sizeof(fb_table_field))
        memset(type, 0, sizeof(fb_field_type))
        field.column = <uint16_t> self.plan.index(name)
        if not self.plan.plan.columns[field.column].flags & FB_COLUMN_ENABLED:
            raise ValueError(f"column {name!r} is disabled")
        self.count += 1  # from here on it is freed
        field.nullable = type.nullable = nullable
        field.text = text
        type.listed = (self.plan.plan.columns[field.column].flags & FB_COLUMN_REPEATED) != 0
        type.name = self.keep(name)
        type.format = self.keep(format)
        type.extension = NULL if extension is None else self.keep(extension)
        if members is not None:
            type.dictionary = True
            self.add_members(field, sorted(members.items()))
        return 0

    cdef const char *keep(self, str text) except NULL:
        cdef bytes octets = text.encode()
        self.texts.append(octets)
        return PyBytes_AS_STRING(octets)

    cdef int add_members(self, fb_table_field *field, list members) except -1:
        cdef fb_member *items = <fb_member *> PyMem_Malloc(max(len(members), 1) * sizeof(fb_member))
        if not items:
            raise MemoryError
        field.members = items
        for number, name in members:
            items[field.member_count].number = number
            items[field.member_count].name = self.keep(name)
            field.member_count += 1
        return 0

    def __dealloc__(self):
        for i in range(self.count):
            PyMem_Free(<void *> self.fields[i].members)
        PyMem_Free(self.fields)
        PyMem_Free(self.types)

    def __arrow_c_schema__(self):
        cdef ArrowSchema *schema = <ArrowSchema *> malloc(sizeof(ArrowSchema))
        if not schema:
            raise MemoryError
        if fb_schema_export(self.types, self.count, fb_memory_system(0), schema) != FB_OK:
            free(schema)
            raise MemoryError
        return PyCapsule_New(schema, "arrow_schema", free_schema)


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


cdef class Table:
    """A finished batch of rows. It never changes, and any thread may use it."""

    cdef readonly TableType type
    cdef fb_table *table

    def __dealloc__(self):
        fb_table_release(self.table)

    def __len__(self):
        return fb_table_rows(self.table)

    @property
    def nbytes(self):
        """Octets that the rows take."""
        return fb_table_size(self.table)

    def view(self, TableType type not None):
        """The same rows, handed on in another way."""
        cdef Table other = Table.__new__(Table)
        if type.plan is not self.type.plan:
            raise ValueError("the type is of another plan")
        other.type = type
        check(fb_table_view(&other.table, type.plan.plan, self.table, type.fields, type.count))
        return other

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowArray *array = <ArrowArray *> malloc(sizeof(ArrowArray))
        if not array:
            raise MemoryError
        if fb_table_export(self.table, array) != FB_OK:
            free(array)
            raise MemoryError
        return self.type.__arrow_c_schema__(), PyCapsule_New(array, "arrow_array", free_array)


cdef Table finish_batch(TableType type, fb_batch *batch):
    """A table of a batch, which is the table's from now on, whatever comes of it."""
    cdef Table table = Table.__new__(Table)
    cdef fb_status status
    table.type = type
    with nogil:
        status = fb_table_new(&table.table, type.plan.plan, batch, type.fields, type.count)
    check(status)
    return table


cdef enum:
    FIRST_ROWS = 256  # a batch grows from here


@cython.no_gc_clear  # the decoder is needed until __dealloc__ has freed what was made by its plan
cdef class ColumnBuilder:
    """Datagrams into tables of at most `rows` rows, by a decoder, which keeps the state of exporters and the counters. Rows that
    fill no table yet wait for the next call. One thread at a time, as with the decoder."""

    cdef Decoder decoder
    cdef TableType type
    cdef size_t rows
    cdef fb_memory memory
    cdef fb_columns columns
    cdef fb_batch *batch

    def __cinit__(self, Decoder decoder not None, TableType type not None, size_t rows):
        if type.plan is not decoder.plan:
            raise ValueError("the type is of another plan than the decoder's")
        if not 2 <= rows <= 1 << 26:
            raise ValueError(f"rows is {rows}; it may be 2 to {1 << 26:,}")
        self.decoder = decoder
        self.type = type
        self.rows = rows
        self.memory = fb_memory_system(0)
        check(fb_columns_new(&self.columns, decoder.plan.plan, &self.memory))

    def __dealloc__(self):
        fb_batch_free(self.batch)
        fb_columns_free(&self.columns)

    def decode(self, Datagrams datagrams not None, *, dict override=None):
        """All datagrams of a batch -> the tables that they have filled. Raises DecodeError if the decoder is strict and something is
        wrong; rows before it, and in tables that were full, stay for `finish`."""
        datagrams.check_current()
        return self.run(datagrams.items, datagrams.count, override)

    def decode_payload(self, payload, source, received=None, *, dict override=None):
        """The same of one UDP payload."""
        cdef Datagrams datagrams = pack_datagrams([payload], source, received)
        return self.run(datagrams.items, datagrams.count, override)

    cdef list run(self, const fb_datagram *datagrams, size_t count, dict override):
        cdef fb_position position
        cdef fb_status status
        cdef uint64_t flows
        cdef list tables = []
        memset(&position, 0, sizeof(position))
        self.decoder.claim()
        try:
            self.decoder.decoder.fault.status = FB_OK
            for name, value in (override or {}).items():
                override_slots(&self.columns.slots, self.decoder.plan, name, value)
            flows = self.columns.count
            while True:
                self.need_batch()
                if count == 1:
                    status = fb_columns_decode(self.decoder.decoder, datagrams, count, &position, &self.columns)
                else:
                    with nogil:
                        status = fb_columns_decode(self.decoder.decoder, datagrams, count, &position, &self.columns)
                if status == FB_OK:
                    break
                self.make_room(tables)
            self.decoder.column_flows += self.columns.count - flows
            self.decoder.check_fault(count)
        finally:
            fb_slots_clear_overrides(&self.columns.slots)
            self.decoder.busy = False
        return tables

    cdef int need_batch(self) except -1:
        if not self.batch:
            check(fb_batch_new(&self.batch, self.decoder.plan.plan, min(self.rows, FIRST_ROWS), fb_memory_system(0)))
            fb_columns_set_batch(&self.columns, self.batch)
        return 0

    cdef int make_room(self, list tables) except -1:
        """The batch is full, or has no memory: it grows, or becomes a table."""
        cdef size_t capacity = self.batch.capacity
        if capacity - self.batch.rows >= 2 and not self.batch.rows:
            raise MemoryError(fb_status_text(FB_NO_MEMORY).decode())
        if capacity - self.batch.rows < 2 and capacity < self.rows:
            check(fb_batch_grow(&self.batch, self.decoder.plan.plan, min(self.rows, 4 * capacity)))
            fb_columns_set_batch(&self.columns, self.batch)
            return 0
        tables.append(self.finish())
        check(fb_batch_new(&self.batch, self.decoder.plan.plan, capacity, fb_memory_system(0)))
        fb_columns_set_batch(&self.columns, self.batch)
        return 0

    def finish(self):
        """A table of the rows that wait, even if there are none."""
        self.need_batch()
        cdef fb_batch *batch = self.batch
        self.batch = NULL
        fb_columns_set_batch(&self.columns, NULL)
        return finish_batch(self.type, batch)


# Streams ----------------------------------------------------------------------------------------------------------------

cdef struct stream_state:
    void *type
    void *tables  # an iterator
    char error[256]


cdef int get_stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    cdef TableType type = <TableType> state.type
    return 0 if fb_schema_export(type.types, type.count, fb_memory_system(0), out) == FB_OK else ENOMEM


cdef int get_next_table(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    cdef Table table
    cdef bytes text
    try:
        table = next(<object> state.tables, None)
        if table is None:
            out.release = NULL
            return 0
        check(fb_table_export(table.table, out))
        return 0
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".encode()[:255]
        memcpy(state.error, PyBytes_AS_STRING(text), len(text) + 1)
        return ENOMEM if isinstance(error, MemoryError) else EIO


cdef const char *get_stream_error(ArrowArrayStream *stream) noexcept nogil:
    return (<stream_state *> stream.private_data).error


cdef void release_stream(ArrowArrayStream *stream) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    Py_DECREF(<object> state.type)
    Py_DECREF(<object> state.tables)
    free(state)
    stream.release = NULL


cdef void free_stream(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release:
        stream.release(stream)
    free(stream)


def export_stream(TableType type not None, tables):
    """Tables of one type, as an Arrow C stream in a capsule. They are asked for one by one; an exception of theirs ends the stream,
    and is told as its text."""
    cdef object iterator = iter(tables)
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> malloc(sizeof(ArrowArrayStream))
    cdef stream_state *state = <stream_state *> malloc(sizeof(stream_state))
    if not stream or not state:
        free(stream)
        free(state)
        raise MemoryError
    Py_INCREF(type)
    Py_INCREF(iterator)
    state.type = <void *> type
    state.tables = <void *> iterator
    state.error[0] = 0
    stream.get_schema = get_stream_schema
    stream.get_next = get_next_table
    stream.get_last_error = get_stream_error
    stream.release = release_stream
    stream.private_data = state
    return PyCapsule_New(stream, "arrow_array_stream", free_stream)

