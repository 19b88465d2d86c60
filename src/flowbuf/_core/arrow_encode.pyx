"""Arrow columns in, messages out."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, _PyBytes_Resize
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from flowbuf._core.arrow_bind cimport Bindings, bind_columns, take_array, take_schema
from flowbuf._core.base cimport check
from flowbuf._core.arrow cimport *
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan

from flowbuf.errors import EncodeError

cdef enum:
    OUTPUT_MIN = 64 << 10  # initial size of the output, in bytes
    OUTPUT_KEPT = 32 << 20  # largest output that is kept for reuse

# Spare output buffer for the next encoder. New pages from the kernel cost as much time as filling them.
cdef fb_buffer spare_output


@cython.no_gc_clear  # __dealloc__ needs the plan to free the objects made by it
cdef class ArrowEncoder:
    """Encodes columns of one Arrow type as length-delimited messages. Use it in one thread at a time."""

    cdef Plan plan
    cdef Bindings bindings
    cdef fb_memory memory
    cdef fb_arrow_encoder encoder
    cdef bint made
    cdef fb_buffer output
    cdef size_t capacity  # of the current buffer, `output` or `given`
    # the buffer above OUTPUT_KEPT: the bytes object that `take` returns without a copy
    cdef PyObject *given
    cdef uint64_t rows  # rows of the arrays encoded before

    def __cinit__(self, Plan plan not None):
        global spare_output
        plan.need_sealed()
        self.plan = plan
        self.memory = fb_memory_system(0)
        self.output = spare_output
        spare_output.begin = spare_output.p = spare_output.end = NULL

    def __dealloc__(self):
        global spare_output
        Py_XDECREF(self.given)
        if spare_output.begin:
            fb_buffer_free(&self.output)
        else:
            spare_output = self.output
        if self.made:
            fb_arrow_encoder_free(&self.encoder)

    cdef int grow(self, size_t more) except -1:
        """Make room for `more` bytes in the output, and keep its contents."""
        cdef size_t used = fb_row_size(&self.encoder.row)
        cdef size_t capacity = fb_grown_capacity(self.capacity, used, more)
        self.output.p = self.output.begin + used
        if capacity <= OUTPUT_KEPT:
            check(fb_buffer_grow(&self.output, more))
            self.set_output(self.output.begin, self.output.end - self.output.begin, used)
            return 0
        if self.given:
            _PyBytes_Resize(&self.given, capacity)
        else:
            given = PyBytes_FromStringAndSize(NULL, capacity)
            memcpy(PyBytes_AS_STRING(given), self.output.begin, used)
            Py_INCREF(given)
            self.given = <PyObject *> given
        self.set_output(<uint8_t *> PyBytes_AS_STRING(<object> self.given), capacity, used)
        return 0

    cdef void set_output(self, uint8_t *output, size_t capacity, size_t used) noexcept:
        self.capacity = capacity
        fb_row_set_output(&self.encoder.row, output, capacity, used)

    cdef int begin(self, const ArrowSchema *schema, bind) except -1:
        """Bind the columns of an Arrow schema to the plan, as `bind_columns` does."""
        cdef fb_status status
        self.bindings = bind_columns(self.plan, schema, bind)
        status = fb_arrow_encoder_new(&self.encoder, self.plan.plan, schema, self.bindings.items,
                                      <fb_processor> 0, &self.memory)
        if status != FB_OK and self.encoder.source.fault.reason:
            raise EncodeError(self.bindings.describe_fault(&self.encoder.source, None))
        check(status)
        self.made = True
        self.output.p = self.output.begin
        check(fb_buffer_reserve(&self.output, OUTPUT_MIN))
        self.set_output(self.output.begin, self.output.end - self.output.begin, 0)
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
        """Return all messages. The encoder cannot be used afterwards."""
        cdef size_t size = fb_row_size(&self.encoder.row)
        if not self.given:
            return PyBytes_FromStringAndSize(<char *> self.output.begin, size)
        _PyBytes_Resize(&self.given, size)
        given = <object> self.given
        Py_DECREF(given)
        self.given = NULL
        return given


def encode_arrow_array(Plan plan not None, schema, array, bind):
    """Encode a record batch, given by its capsules, as length-delimited messages, one per row.

    Raises EncodeError with the column and the row of a value that cannot be encoded.
    """
    cdef ArrowEncoder encoder = ArrowEncoder(plan)
    cdef ArrowSchema own_schema
    cdef ArrowArray own
    take_schema(schema, &own_schema)
    try:
        take_array(array, &own)
    except BaseException:
        own_schema.release(&own_schema)
        raise
    try:
        encoder.begin(&own_schema, bind)
        encoder.encode(&own)
    finally:
        own_schema.release(&own_schema)
        own.release(&own)
    return encoder.take()


def encode_arrow_stream(Plan plan not None, stream, bind):
    """Encode a stream of record batches, given by its capsule, as length-delimited messages.

    Raises EncodeError like `encode_arrow_array`, and OSError with the text of the stream if the stream fails.
    """
    cdef ArrowArrayStream *given = <ArrowArrayStream *> PyCapsule_GetPointer(stream, "arrow_array_stream")
    cdef ArrowArrayStream own
    if not given.release:
        raise ValueError("the Arrow stream was used already; export it again")
    own = given[0]  # moved, as in take_schema
    given.release = NULL
    try:
        return encode_stream(plan, &own, bind)
    finally:
        own.release(&own)


cdef bytes encode_stream(Plan plan, ArrowArrayStream *source, bind):
    cdef ArrowEncoder encoder = ArrowEncoder(plan)
    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef int failed
    with nogil:
        failed = source.get_schema(source, &schema)
    check_stream(source, failed)
    try:
        encoder.begin(&schema, bind)
    finally:
        schema.release(&schema)
    while True:
        with nogil:
            failed = source.get_next(source, &array)
        check_stream(source, failed)
        if not array.release:
            return encoder.take()
        try:
            encoder.encode(&array)
        finally:
            array.release(&array)


cdef int check_stream(ArrowArrayStream *stream, int failed) except -1:
    cdef const char *text
    if failed:
        text = stream.get_last_error(stream)
        raise OSError(failed, text.decode("utf-8", "replace") if text else "the Arrow stream failed")
    return 0
