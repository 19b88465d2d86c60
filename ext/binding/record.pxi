# Records of any message type: the tables that record_write.c and record_read.c work by, and who owns what they point to.

cdef extern from "binding/record.h":
    cdef enum:
        FB_VALUE_SCALAR
        FB_VALUE_RECORD
        FB_VALUE_MAP
        FB_VALUE_TIMESTAMP
        FB_VALUE_DURATION
        FB_SHAPE_DICT
        FB_SHAPE_TUPLE
        FB_SHAPE_CLASS
    ctypedef int fb_shape_kind
    ctypedef struct fb_record_class:
        pass
    ctypedef struct fb_record_field:
        PyObject *name
        PyObject *alias
        PyObject *absent
        PyObject *numbers
        PyObject *names
        fb_record_type *type
        uint8_t role
    ctypedef struct fb_record_type:
        fb_codec_message core
        fb_record_field *fields
        PyObject *slots
        PyObject *blank
        fb_record_class seen
        uint16_t *pending
        size_t pending_count
    ctypedef struct fb_record_shape:
        const fb_record_type *type
        fb_shape_kind kind
        PyObject *make
        PyObject *keywords
        fb_record_shape **fields
    ctypedef struct fb_record_output:
        uint8_t *begin
        uint8_t *p
        uint8_t *end
    ctypedef struct fb_record_options:
        bint ignore_unknown
        bint keep_unknown
        bint times_as_numbers
        PyObject *to_time
        PyObject *from_time
        PyObject *unknown_key
        PyObject *suggest
        PyObject *encode_error
        PyObject *decode_error
    int fb_record_write(fb_record_output *, fb_record_type *, const fb_record_options *, PyObject *, Py_ssize_t) except -1
    object fb_record_read(const fb_record_shape *, const fb_record_options *, fb_bytes, const uint8_t *, Py_ssize_t)
    int fb_record_output_grow(fb_record_output *, size_t) except -1
    void fb_record_class_forget(fb_record_class *)
    int fb_record_time_import() except -1

cdef extern from "Python.h":
    bint PyGC_Disable()
    bint PyGC_Enable()

RECORD_KINDS = {fb_proto_name(i).decode(): i for i in range(FB_PROTO_COUNT)}
"""What a field of a record may be on the wire: its Protocol Buffers type -> number."""

RECORD_ROLES = {
    "scalar": FB_VALUE_SCALAR,
    "record": FB_VALUE_RECORD,
    "map": FB_VALUE_MAP,
    "timestamp": FB_VALUE_TIMESTAMP,
    "duration": FB_VALUE_DURATION,
}
"""What the values of a field are to Python."""

RECORD_SHAPES = {"dict": FB_SHAPE_DICT, "tuple": FB_SHAPE_TUPLE, "class": FB_SHAPE_CLASS}
"""What a record is read into."""

cdef size_t _OUTPUT_KEPT = 8 << 20
cdef size_t _PLACES = 128  # numbers of fields below this are found by a table
cdef Py_ssize_t _COMMON_NAMES = 30  # as many may the instances of a class have in common

fb_record_time_import()


cdef void *take_memory(size_t count, size_t size, list blocks) except NULL:
    """Zeroed memory, which lives as long as the list."""
    cdef bytearray block = bytearray(count * size + 1)
    blocks.append(block)
    return PyByteArray_AS_STRING(block)


cdef dict make_blank(list names):
    """A dict from each of the names to None, to be copied. Attributes of the instances of a class have their names in
    common, and so have copies of such a dict: they are half as large, and sooner made and freed."""
    cdef dict blank = dict.fromkeys(names), shared
    if len(names) >= _COMMON_NAMES:
        return blank
    of = type("Record", (), {"__slots__": ("__dict__",)})
    try:
        for _ in range(_COMMON_NAMES):  # each instance takes away some of the room that is kept for more names
            instance = of()
            for name in names:
                setattr(instance, name, None)
    except TypeError:  # of `__class__` and `__dict__`
        return blank
    shared = vars(instance)
    return shared if getsizeof(shared.copy()) < getsizeof(blank.copy()) else blank


@cython.no_gc  # what it holds leads nowhere; and it needs that to the end
cdef class RecordTypes:
    """The message types of a codec, the first one that of whole records. A type is a list of its fields, each a
    dict (see `flowbuf.codec`)."""

    cdef fb_record_type *types
    cdef size_t count
    cdef list blocks
    cdef list kept

    def __cinit__(self, list types not None):
        cdef size_t i
        self.blocks = []
        self.kept = types
        self.types = <fb_record_type *> take_memory(len(types), sizeof(fb_record_type), self.blocks)
        self.count = len(types)
        for i, fields in enumerate(types):
            self._fill_type(self.types + i, fields)

    def __dealloc__(self):
        cdef size_t i, slot
        for i in range(self.count):
            fb_record_class_forget(&self.types[i].seen)
            if self.types[i].fields:
                for slot in range(self.types[i].core.count):
                    Py_XDECREF(self.types[i].fields[slot].alias)

    cdef int _fill_type(self, fb_record_type *type, list fields) except -1:
        cdef size_t slot, count = len(fields)
        cdef fb_codec_field *core = <fb_codec_field *> take_memory(count, sizeof(fb_codec_field), self.blocks)
        cdef uint16_t *places
        cdef dict slots = {}
        type.fields = <fb_record_field *> take_memory(count, sizeof(fb_record_field), self.blocks)
        type.pending = <uint16_t *> take_memory(count, sizeof(uint16_t), self.blocks)
        type.core.fields = core
        type.core.count = count
        for slot, field in enumerate(fields):
            self._fill_core(core + slot, slot, field)
            self._fill_field(type.fields + slot, field)
            slots[field["name"]] = slot
            if not field["repeated"] and field["role"] != FB_VALUE_SCALAR:
                type.pending_count += 1
                type.pending[slot] = <uint16_t> type.pending_count
        blank = make_blank(list(slots))
        self.blocks += [slots, blank]
        type.slots = <PyObject *> slots
        type.blank = <PyObject *> blank
        places = <uint16_t *> take_memory(_PLACES, sizeof(uint16_t), self.blocks)
        check(fb_codec_message_finish(&type.core, places, _PLACES))

    cdef int _fill_core(self, fb_codec_field *core, size_t slot, dict field) except -1:
        cdef int32_t *members
        core.number = field["number"]
        core.type = field["kind"]
        core.repeated = field["repeated"]
        core.packed = field["packed"]
        core.presence = field["presence"]
        core.required = field["required"]
        core.slot = <uint16_t> slot
        core.oneof = field["oneof"]
        core.least = field["least"]
        core.most = field["most"]
        if field["members"] is not None:
            core.member_count = len(field["members"])
            members = <int32_t *> take_memory(core.member_count, sizeof(int32_t), self.blocks)
            for i, member in enumerate(field["members"]):
                members[<size_t> i] = member
            core.members = members
        check(fb_codec_field_finish(core))

    cdef int _fill_field(self, fb_record_field *of, dict field) except -1:
        of.name = <PyObject *> field["name"]
        of.role = field["role"]
        of.absent = NULL if field["repeated"] else <PyObject *> field["absent"]
        of.numbers = <PyObject *> field["numbers"] if field["numbers"] is not None else NULL
        of.names = <PyObject *> field["names"] if field["names"] is not None else NULL
        if field["type"] is not None:
            of.type = self.types + <size_t> field["type"]


cdef class RecordShape:
    """What the records of a codec are read into, message type by message type. `nodes` are tuples (type, shape, make,
    keywords, children); children are, by slot, places of nodes or -1. The first node is that of whole records."""

    cdef RecordTypes types
    cdef list blocks
    cdef tuple nodes
    cdef fb_record_shape *shapes

    def __cinit__(self, RecordTypes types not None, tuple nodes not None):
        cdef size_t i, slot
        cdef int child
        cdef fb_record_shape *shape
        self.types = types
        self.nodes = nodes
        self.blocks = []
        self.shapes = <fb_record_shape *> take_memory(len(nodes), sizeof(fb_record_shape), self.blocks)
        for i, (number, kind, make, keywords, children) in enumerate(nodes):
            shape = self.shapes + i
            shape.type = types.types + <size_t> number
            shape.kind = kind
            shape.make = <PyObject *> make
            shape.keywords = <PyObject *> keywords if keywords is not None else NULL
            shape.fields = <fb_record_shape **> take_memory(len(children), sizeof(fb_record_shape *), self.blocks)
            for slot, child in enumerate(children):
                if child >= 0:
                    shape.fields[slot] = self.shapes + child


@cython.auto_pickle(False)
cdef class RecordCodec:
    """Writes and reads records of one message type. `_describe` and `_use` must have been called first."""

    cdef RecordTypes types
    cdef fb_record_options options
    cdef fb_record_output output
    cdef bint busy
    cdef tuple kept
    cdef RecordShape shape

    def __dealloc__(self):
        PyMem_Free(self.output.begin)

    def _describe(self, RecordTypes types not None, tuple options not None):
        """What records are, and how they are to be treated: said once, for calls may be under way. For `flowbuf.codec` alone."""
        if self.types is not None:
            raise RuntimeError("a codec that has been described")
        ignore, keep, numbers, to_time, from_time, key, suggest, encode_error, decode_error = self.kept = options
        self.types = types
        self.options.ignore_unknown = ignore
        self.options.keep_unknown = keep
        self.options.times_as_numbers = numbers
        self.options.to_time = <PyObject *> to_time
        self.options.from_time = <PyObject *> from_time if from_time is not None else NULL
        self.options.unknown_key = <PyObject *> key
        self.options.suggest = <PyObject *> suggest
        self.options.encode_error = <PyObject *> encode_error
        self.options.decode_error = <PyObject *> decode_error

    def _use(self, RecordShape shape not None):
        """What `decode` reads into unless it is told otherwise."""
        self.shape = shape

    # Writing --------------------------------------------------------------------------------------------------------

    cdef int _begin(self, fb_record_output *output) except -1:
        """Takes the codec's own memory; but for a call out of a user's code inside another call."""
        if self.types is None:
            raise RuntimeError("a codec that has not been described")
        if self.busy or self.output.begin == NULL:
            output.begin = output.p = output.end = NULL
            fb_record_output_grow(output, 1024)
            if self.busy:
                return 0
            self.output = output[0]
        self.busy = True
        output[0] = self.output
        return 1

    cdef void _end(self, fb_record_output *output, bint own):
        if own:
            self.busy = False
            self.output.begin = self.output.p = self.output.end = NULL
            if <size_t> (output.end - output.begin) <= _OUTPUT_KEPT:
                self.output.begin = self.output.p = output.begin
                self.output.end = output.end
                return
        PyMem_Free(output.begin)

    def encode(self, record):
        """One record -> its message, bare."""
        cdef fb_record_output output
        cdef bint own = self._begin(&output)
        try:
            fb_record_write(&output, self.types.types, &self.options, <PyObject *> record, -1)
            return PyBytes_FromStringAndSize(<char *> output.begin, output.p - output.begin)
        finally:
            self._end(&output, own)

    def encode_into(self, record, uint8_t[::1] buffer not None, Py_ssize_t offset=0):
        """One record -> its message, bare, in `buffer` from `offset` on. Returns where it ends. Raises BufferError where
        there is too little room; then the buffer is as it was."""
        cdef fb_record_output output
        cdef bint own
        cdef Py_ssize_t size
        if not 0 <= offset <= buffer.shape[0]:
            raise ValueError(f"offset {offset} in a buffer of {buffer.shape[0]} octets")
        own = self._begin(&output)
        try:
            fb_record_write(&output, self.types.types, &self.options, <PyObject *> record, -1)
            size = output.p - output.begin
            if size > buffer.shape[0] - offset:
                raise BufferError(f"the message has {size} octets, the buffer {buffer.shape[0] - offset} from {offset} on")
            if size:
                memcpy(&buffer[offset], output.begin, size)
            return offset + size
        finally:
            self._end(&output, own)

    def encode_many(self, records):
        """Records -> a stream of their messages, each after its length as a varint."""
        cdef fb_record_output output
        cdef bint own = self._begin(&output)
        cdef size_t begin
        cdef Py_ssize_t i = 0
        try:
            for record in records:
                if output.end - output.p < 16:
                    fb_record_output_grow(&output, 1024)
                output.p += 1
                begin = output.p - output.begin
                fb_record_write(&output, self.types.types, &self.options, <PyObject *> record, i)
                if output.end - output.p < 16:
                    fb_record_output_grow(&output, 1024)
                output.p = fb_codec_end_length(output.begin + begin, output.p)
                i += 1
            return PyBytes_FromStringAndSize(<char *> output.begin, output.p - output.begin)
        finally:
            self._end(&output, own)

    # Reading --------------------------------------------------------------------------------------------------------

    cdef RecordShape _shape(self, object into):
        if into is None:
            if self.shape is None:
                raise RuntimeError("a codec that has not been described")
            return self.shape
        shape = self._shape_of(into)
        if shape is None:
            raise TypeError(f"{type(self).__name__}._shape_of gives nothing for {into!r}")
        return shape

    def _shape_of(self, into):
        """The shape for what `into` says."""
        raise NotImplementedError

    def decode(self, data, into=None):
        """One bare message -> a record."""
        cdef RecordShape shape = self._shape(into)
        cdef Py_buffer view
        cdef fb_bytes message
        if isinstance(data, bytes):
            message.data = <const uint8_t *> PyBytes_AS_STRING(data)
            message.size = PyBytes_GET_SIZE(data)
            return fb_record_read(shape.shapes, &self.options, message, message.data, -1)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            message.data = <const uint8_t *> view.buf
            message.size = view.len
            return fb_record_read(shape.shapes, &self.options, message, message.data, -1)
        finally:
            PyBuffer_Release(&view)

    def decode_many(self, data, into=None):
        """A stream of messages, each after its length as a varint -> a list of records."""
        cdef RecordShape shape = self._shape(into)
        cdef bint collecting
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        collecting = PyGC_Disable()  # which would look at every record again and again, and there is no garbage
        try:
            return self._decode_many(shape, <const uint8_t *> view.buf, view.len)
        finally:
            if collecting:
                PyGC_Enable()
            PyBuffer_Release(&view)

    cdef list _decode_many(self, RecordShape shape, const uint8_t *begin, size_t size):
        cdef fb_bytes rest, message
        cdef fb_status status
        cdef list records = []
        rest.data = begin
        rest.size = size
        while True:
            status = fb_stream_next(&rest, &message)
            if status == FB_END:
                return records
            if status != FB_OK:
                what = "is cut short" if status == FB_MORE_INPUT else "has a length that cannot be"
                problem = f"the message {what}"
                raise (<object> self.options.decode_error)(problem, f"[{len(records)}]", rest.data - begin)
            records.append(fb_record_read(shape.shapes, &self.options, message, begin, len(records)))
