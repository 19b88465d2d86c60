"""Arrow columns in, messages or lines of text out."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE, _PyBytes_Resize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset

from flowbuf._core.base cimport Buffer, check
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan
from flowbuf._core.tables cimport set_members

from flowbuf.errors import EncodeError

cdef enum:
    OUTPUT_KEPT = 32 << 20  # largest output that is kept for reuse

TEXT_FORMS = {"json": FB_TEXT_JSON, "csv": FB_TEXT_CSV, "key": FB_TEXT_KEY}

# Spare output buffer for the next encoder. New pages from the kernel cost as much time as filling them.
cdef fb_buffer spare_output


# Columns ----------------------------------------------------------------------------------------------------

cdef class Bindings:
    """A binding for each column of an Arrow schema.

    The members of enums are needed only until the source is created.
    """

    cdef list names, keep
    cdef fb_arrow_binding *items
    cdef Py_ssize_t count  # of items; the garbage collector may have cleared `names`

    def __dealloc__(self):
        for i in range(self.count):
            PyMem_Free(<void *> self.items[i].members)
        PyMem_Free(self.items)

    cdef str describe_fault(self, const fb_arrow_source *source, row):
        """Return the reason of a refusal with its column, and with its row if it is not None."""
        reason = fb_arrow_reason_text(source.fault.reason).decode()
        if source.fault.child == FB_NO_CHILD:
            return reason
        where = f"column {self.names[source.fault.child]!r}"
        return f"{where}: {reason}" if row is None else f"{where}, row {row}: {reason}"


cdef Bindings bind_columns(Plan plan, const ArrowSchema *schema, bind):
    """Bind the columns of an Arrow schema to a plan.

    `bind` takes the column names. It returns three items per column. The first is the column of the plan or
    None. The second has the members of an enum (number -> name). The third is True if each row must have a
    value.
    """
    cdef Bindings bindings = Bindings.__new__(Bindings)
    cdef list keep = []
    if not fb_arrow_schema_is_sound(schema):
        raise EncodeError(fb_arrow_reason_text(FB_ARROW_BAD_SCHEMA).decode())
    bindings.names = [schema.children[i].name.decode("utf-8", "replace") if schema.children[i].name else ""
                      for i in range(schema.n_children)]
    size = max(len(bindings.names), 1) * sizeof(fb_arrow_binding)
    bindings.items = <fb_arrow_binding *> PyMem_Malloc(size)
    if not bindings.items:
        raise MemoryError
    memset(bindings.items, 0, size)
    bindings.count = len(bindings.names)
    bound = list(bind(list(bindings.names)))
    if len(bound) != len(bindings.names):
        raise ValueError(f"{len(bound)} bindings for {len(bindings.names)} columns; give one for each")
    for i, (name, members, required) in enumerate(bound):
        bindings.items[i].column = <uint16_t> (FB_NO_COLUMN if name is None else plan.index(name))
        bindings.items[i].required = required
        if members:
            set_members(&bindings.items[i].members, &bindings.items[i].member_count, list(members.items()),
                        keep)
    bindings.keep = keep
    return bindings


cdef int take_schema(object capsule, ArrowSchema *to) except -1:
    """Move a schema out of its capsule, so that no other thread can release it. The caller releases it."""
    cdef ArrowSchema *given = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    if not given.release:
        raise ValueError("the Arrow data was used already; export it again")
    to[0] = given[0]
    given.release = NULL
    return 0


cdef int take_array(object capsule, ArrowArray *to) except -1:
    """Move an array out of its capsule, like `take_schema`."""
    cdef ArrowArray *given = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if not given.release:
        raise ValueError("the Arrow data was used already; export it again")
    to[0] = given[0]
    given.release = NULL
    return 0


cdef int take_stream(object capsule, ArrowArrayStream *to) except -1:
    """Move a stream out of its capsule, like `take_schema`."""
    cdef ArrowArrayStream *given = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if not given.release:
        raise ValueError("the Arrow stream was used already; export it again")
    to[0] = given[0]
    given.release = NULL
    return 0


# Messages ---------------------------------------------------------------------------------------------------

cdef class ColumnEncoder:
    """Encodes columns of one Arrow type as length-delimited messages. Use it once, in one thread."""

    def __cinit__(self):
        global spare_output
        self.kept = spare_output
        spare_output.begin = spare_output.p = spare_output.end = NULL
        self.output = self.kept.begin
        self.capacity = self.kept.end - self.kept.begin

    def __dealloc__(self):
        global spare_output
        Py_XDECREF(self.given)
        if spare_output.begin:
            fb_buffer_free(&self.kept)
        else:
            spare_output = self.kept

    cdef int grow_output(self, size_t used, size_t more) except -1:
        """Make room for `more` bytes behind the used ones, which are kept."""
        cdef size_t capacity = fb_grown_capacity(self.capacity, used, more)
        if not capacity:
            raise MemoryError
        if capacity <= OUTPUT_KEPT:
            if used:  # no buffer has no position, not even the first
                self.kept.p = self.kept.begin + used
            else:
                self.kept.p = self.kept.begin
            check(fb_buffer_grow(&self.kept, more))
            self.output = self.kept.begin
            self.capacity = self.kept.end - self.kept.begin
            return 0
        if self.given:
            _PyBytes_Resize(&self.given, capacity)
        else:
            given = PyBytes_FromStringAndSize(NULL, capacity)
            if used:
                memcpy(PyBytes_AS_STRING(given), self.output, used)
            Py_INCREF(given)
            self.given = <PyObject *> given
        self.output = <uint8_t *> PyBytes_AS_STRING(<object> self.given)
        self.capacity = capacity
        return 0

    cdef bytes take_output(self, size_t used):
        if not self.given:
            return PyBytes_FromStringAndSize(<char *> self.output, used)
        _PyBytes_Resize(&self.given, used)
        given = <object> self.given
        Py_DECREF(given)
        self.given = NULL
        return given

    cdef int begin(self, const ArrowSchema *schema) except -1:
        """Bind the columns of an Arrow schema."""
        raise NotImplementedError

    cdef int encode(self, const ArrowArray *array) except -1:
        """Encode the rows of a record batch."""
        raise NotImplementedError

    cdef bytes take(self):
        """Return all messages. The encoder cannot be used afterwards."""
        raise NotImplementedError

    cdef bytes encode_array(self, schema, array):
        """Encode a record batch, given by its capsules."""
        cdef ArrowSchema own_schema
        cdef ArrowArray own
        take_schema(schema, &own_schema)
        try:
            take_array(array, &own)
        except BaseException:
            own_schema.release(&own_schema)
            raise
        try:
            self.begin(&own_schema)
            self.encode(&own)
        finally:
            own_schema.release(&own_schema)
            own.release(&own)
        return self.take()

    cdef bytes encode_stream(self, stream):
        """Encode a stream of record batches, given by its capsule. Raises OSError if the stream fails."""
        cdef ArrowArrayStream own
        take_stream(stream, &own)
        try:
            return self.encode_batches(&own)
        finally:
            own.release(&own)

    cdef bytes encode_batches(self, ArrowArrayStream *source):
        cdef ArrowSchema schema
        cdef ArrowArray array
        cdef int failed
        with nogil:
            failed = source.get_schema(source, &schema)
        check_stream(source, failed)
        try:
            self.begin(&schema)
        finally:
            schema.release(&schema)
        while True:
            with nogil:
                failed = source.get_next(source, &array)
            check_stream(source, failed)
            if not array.release:
                return self.take()
            try:
                self.encode(&array)
            finally:
                array.release(&array)


@cython.no_gc_clear  # __dealloc__ needs the plan to free the objects made by it
cdef class ArrowEncoder(ColumnEncoder):
    """Encodes columns as messages of a plan. `bind` is that of `bind_columns`."""

    cdef Plan plan
    cdef object bind
    cdef Bindings bindings
    cdef fb_memory memory
    cdef fb_arrow_encoder encoder
    cdef bint made
    cdef uint64_t rows  # rows of the arrays encoded before

    def __cinit__(self, Plan plan not None, bind):
        plan.need_sealed()
        self.plan = plan
        self.bind = bind
        self.memory = fb_memory_system(0)

    def __dealloc__(self):
        if self.made:
            fb_arrow_encoder_free(&self.encoder)

    cdef int grow(self, size_t more) except -1:
        cdef size_t used = fb_row_size(&self.encoder.row)
        self.grow_output(used, more)
        fb_row_set_output(&self.encoder.row, self.output, self.capacity, used)
        return 0

    cdef int begin(self, const ArrowSchema *schema) except -1:
        cdef fb_status status
        self.bindings = bind_columns(self.plan, schema, self.bind)
        status = fb_arrow_encoder_new(&self.encoder, self.plan.plan, schema, self.bindings.items,
                                      <fb_processor> 0, &self.memory)
        if status != FB_OK and self.encoder.source.fault.reason:
            raise EncodeError(self.bindings.describe_fault(&self.encoder.source, None))
        check(status)
        self.made = True
        if self.capacity < OUTPUT_MIN:
            self.grow_output(0, OUTPUT_MIN)
        fb_row_set_output(&self.encoder.row, self.output, self.capacity, 0)
        return 0

    cdef int encode(self, const ArrowArray *array) except -1:
        cdef size_t position = 0
        cdef fb_status status
        while True:
            with nogil:
                status = fb_arrow_encode(&self.encoder, array, &position)
            if status == FB_OK:
                break
            if status != FB_NO_SPACE:
                if self.encoder.source.fault.reason:
                    row = self.rows + self.encoder.source.fault.row
                    raise EncodeError(self.bindings.describe_fault(&self.encoder.source, row))
                check(status)
            self.grow(self.encoder.row.needed)
        self.rows += array.length
        return 0

    cdef bytes take(self):
        return self.take_output(fb_row_size(&self.encoder.row))


def encode_arrow_array(Plan plan not None, schema, array, bind):
    """Encode a record batch, given by its capsules, as length-delimited messages, one per row.

    Raises EncodeError with the column and the row of a value that cannot be encoded.
    """
    return ArrowEncoder(plan, bind).encode_array(schema, array)


def encode_arrow_stream(Plan plan not None, stream, bind):
    """Encode a stream of record batches, given by its capsule, as length-delimited messages.

    Raises EncodeError like `encode_arrow_array`, and OSError with the text of the stream if the stream fails.
    """
    return ArrowEncoder(plan, bind).encode_stream(stream)


cdef int check_stream(ArrowArrayStream *stream, int failed) except -1:
    cdef const char *text
    if failed:
        text = stream.get_last_error(stream)
        raise OSError(failed, text.decode("utf-8", "replace") if text else "the Arrow stream failed")
    return 0


# Text -------------------------------------------------------------------------------------------------------

@cython.no_gc_clear  # __dealloc__ needs the plan to free the objects made by it
cdef class TextWriter:
    """Writes record batches of one Arrow type as text, a line per row. Use it in one thread at a time.

    `schema` is the capsule of the Arrow type, and `bind` binds its columns as in `encode_arrow_array`. `form`
    is a key of TEXT_FORMS. `start` are the members that each object of JSON starts with. With `neutral`,
    formulas in CSV are neutralized.
    """

    cdef Plan plan
    cdef Bindings bindings
    cdef fb_memory memory
    cdef fb_arrow_text text
    cdef bint made
    cdef bint busy
    cdef Buffer output

    def __cinit__(self, Plan plan not None, schema, bind, str form not None, bytes start not None,
                  bint neutral):
        cdef ArrowSchema own
        cdef fb_text_options options
        cdef fb_status status
        plan.need_sealed()
        self.plan = plan
        self.memory = fb_memory_system(0)
        options.form = <fb_text_form> <int> TEXT_FORMS[form]
        options.neutral = neutral
        options.start.data = <const uint8_t *> PyBytes_AS_STRING(start)
        options.start.size = PyBytes_GET_SIZE(start)
        take_schema(schema, &own)
        try:
            self.bindings = bind_columns(plan, &own, bind)
            status = fb_arrow_text_new(
                &self.text, plan.plan, &own, self.bindings.items, options, &self.memory
            )
        finally:
            own.release(&own)
        if status != FB_OK and self.text.source.fault.reason:
            raise EncodeError(self.bindings.describe_fault(&self.text.source, None))
        check(status)
        self.made = True

    def __dealloc__(self):
        if self.made:
            fb_arrow_text_free(&self.text)

    cdef int run(self, const ArrowArray *array, size_t *ends) except -1:
        """Write the rows of an array to the output. A buffer that has views is replaced."""
        cdef size_t position = 0
        cdef fb_status status
        if self.output is None or self.output.views:
            self.output = Buffer(OUTPUT_MIN)
        self.output.content.p = self.output.content.begin
        self.output.writing = True
        with nogil:
            status = fb_arrow_text_write(&self.text, array, &position, &self.output.content, ends)
        self.output.writing = False
        if status != FB_OK and self.text.source.fault.reason:
            raise EncodeError(self.bindings.describe_fault(&self.text.source, self.text.source.fault.row))
        check(status)
        return 0

    cdef int claim(self) except -1:
        if self.busy:
            raise RuntimeError("this writer is in use by another thread; give each thread its own writer")
        self.busy = True
        return 0

    def write(self, array):
        """Return the lines of a record batch, given by its capsule, as a memoryview.

        Raises EncodeError with the column and the row of a value that does not fit.
        """
        cdef ArrowArray own
        self.claim()
        try:
            take_array(array, &own)
            try:
                self.run(&own, NULL)
            finally:
                own.release(&own)
            return memoryview(self.output).toreadonly()
        finally:
            self.busy = False

    def split(self, array):
        """Return the line of each row, without its end, as a list of bytes. Raises as `write` does."""
        cdef ArrowArray own
        cdef size_t *ends = NULL
        cdef size_t i, begin = 0
        cdef list lines = []
        self.claim()
        try:
            take_array(array, &own)
            try:
                ends = <size_t *> PyMem_Malloc(max(own.length, 1) * sizeof(size_t))
                if not ends:
                    raise MemoryError
                self.run(&own, ends)
                for i in range(<size_t> own.length):
                    lines.append(PyBytes_FromStringAndSize(
                        <char *> self.output.content.begin + begin, ends[i] - begin))
                    begin = ends[i] + 1
            finally:
                PyMem_Free(ends)
                own.release(&own)
            return lines
        finally:
            self.busy = False
