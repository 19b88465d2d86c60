"""The output buffer of decoders."""
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize

from flowbuf._core.base cimport check
from flowbuf._core.core cimport *


cdef class Buffer:
    """A buffer of the core that Python can view.

    A memoryview shows the bytes before `content.p`. A decoder resets `content.p` before it writes. It never
    writes to a buffer that has views, but continues in another one.
    """

    def __cinit__(self, size_t capacity):
        check(fb_buffer_reserve(&self.content, max(capacity, 1)))

    def __dealloc__(self):
        fb_buffer_free(&self.content)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.content.begin, fb_buffer_size(&self.content), 1, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1

    cdef void give(self, fb_row *row, size_t used) noexcept:
        """Make this buffer the output of `row`. Rows are written after the first `used` bytes."""
        fb_row_set_output(row, self.content.begin, self.content.end - self.content.begin, used)

    cdef int grow(self, fb_row *row, size_t more) except -1:
        """Make room for `more` bytes after the rows written so far."""
        cdef size_t used = fb_row_size(row)
        self.content.p = self.content.begin + used
        check(fb_buffer_grow(&self.content, more))
        self.give(row, used)
        return 0

    cdef bytes copy(self, const fb_row *row):
        """Return the rows written so far."""
        return PyBytes_FromStringAndSize(<char *> self.content.begin, fb_row_size(row))
