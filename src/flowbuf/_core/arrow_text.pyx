"""Arrow columns in, lines of text out."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t

from flowbuf._core.arrow cimport *
from flowbuf._core.arrow_bind cimport Bindings, bind_columns, take_array, take_schema
from flowbuf._core.base cimport check
from flowbuf._core.buffer cimport Buffer
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan

from flowbuf.errors import EncodeError

TEXT_FORMS = {"json": FB_TEXT_JSON, "csv": FB_TEXT_CSV, "key": FB_TEXT_KEY}

cdef enum:
    START_ROOM = 64 << 10  # initial size of the output, in bytes


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
            self.output = Buffer(START_ROOM)
        self.output.content.p = self.output.content.begin
        with nogil:
            status = fb_arrow_text_write(&self.text, array, &position, &self.output.content, ends)
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
