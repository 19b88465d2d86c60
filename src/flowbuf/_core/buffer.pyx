"""The output buffer of decoders."""
from cpython.buffer cimport PyBuffer_FillInfo

from flowbuf._core.base cimport check
from flowbuf._core.core cimport *


cdef class Buffer:
    """A buffer of the core that Python can view.

    A memoryview shows the bytes before `content.p`. A writer moves it to the start first, and leaves a buffer
    with views to them.
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

    cdef int grow(self, size_t used, size_t more) except -1:
        """Make room for `more` bytes after the first `used` bytes."""
        self.content.p = self.content.begin + used
        check(fb_buffer_grow(&self.content, more))
        return 0
