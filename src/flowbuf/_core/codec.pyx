# cython: embedsignature=False
"""Python objects of any message type.

This module owns the tables that objects/write.c and objects/read.c use.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_XDECREF, PyObject
from libc.stdint cimport INT32_MAX, SIZE_MAX, int32_t, uint8_t, uint16_t
from libc.string cimport memcpy

from flowbuf._core.base cimport check, describe_field, take_memory
from flowbuf._core.core cimport *
from flowbuf._core.json cimport JsonCodec
from flowbuf._core.objects.declared cimport *

from sys import getsizeof
from types import GenericAlias

cdef extern from "Python.h":
    bint PyGC_Disable()
    bint PyGC_Enable()

FIELD_KINDS = {fb_proto_name(i).decode(): i for i in range(FB_PROTO_COUNT)}
"""Protocol Buffers type of a field -> its code in the core."""

VALUE_ROLES = {
    "scalar": FB_VALUE_SCALAR,
    "object": FB_VALUE_OBJECT,
    "map": FB_VALUE_MAP,
    "timestamp": FB_VALUE_TIMESTAMP,
    "duration": FB_VALUE_DURATION,
}
"""Codes of the Python representations of a field's values."""

OUTPUT_KINDS = {"dict": FB_OUTPUT_DICT, "tuple": FB_OUTPUT_TUPLE, "class": FB_OUTPUT_CLASS,
                "plain": FB_OUTPUT_PLAIN}
"""Codes of the Python types that messages are decoded into."""

PLAIN_TYPES = {"": FB_PLAIN_NONE, "field": FB_PLAIN_FIELD, "value": FB_PLAIN_VALUE, "any": FB_PLAIN_ANY,
               "timestamp": FB_PLAIN_TIMESTAMP, "duration": FB_PLAIN_DURATION}
"""Codes of the message types that are plain Python values."""

cdef size_t _OUTPUT_KEPT = 8 << 20  # largest output buffer that a codec keeps, in bytes
cdef size_t _PLACES = 128  # field numbers below this are found in a table
cdef Py_ssize_t _COMMON_NAMES = 30  # largest number of attribute names that instances of a class share

fb_codec_time_import()
fb_object_plain_import()


cdef dict make_blank(list names):
    """Return a dict with None for each of the names, as a template to copy.

    Instances of a class share the names of their attributes, and copies of such a dict do too. They take half
    the memory, and are faster to create and to free.
    """
    cdef dict blank = dict.fromkeys(names), shared
    if len(names) >= _COMMON_NAMES:
        return blank
    of = type("Object", (), {"__slots__": ("__dict__",)})
    try:
        for _ in range(_COMMON_NAMES):  # each instance uses some of the space reserved for more names
            instance = of()
            for name in names:
                setattr(instance, name, None)
    except TypeError:  # for the names `__class__` and `__dict__`
        return blank
    shared = vars(instance)
    return shared if getsizeof(shared.copy()) < getsizeof(blank.copy()) else blank


@cython.no_gc  # its references form no cycle, and __dealloc__ needs them
cdef class ObjectTypes:
    """The message types of a codec. The first is the type of the objects to encode; others are nested in it.

    A type is a code of PLAIN_TYPES and a list of fields, each a dict (see `flowbuf.codec.tables`).
    """

    cdef fb_object_type *types
    cdef size_t count
    cdef list blocks
    cdef list kept

    def __cinit__(self, list types not None):
        cdef size_t i
        self.blocks = []
        self.kept = types
        self.types = <fb_object_type *> take_memory(len(types), sizeof(fb_object_type), self.blocks)
        self.count = len(types)
        for i, (plain, fields) in enumerate(types):
            self.types[i].plain = plain
            self._fill_type(self.types + i, fields)

    def __dealloc__(self):
        cdef size_t i, slot
        for i in range(self.count):
            fb_object_class_forget(&self.types[i].seen)
            if self.types[i].fields:
                for slot in range(self.types[i].core.count):
                    Py_XDECREF(self.types[i].fields[slot].alias)

    cdef int _fill_type(self, fb_object_type *type, list fields) except -1:
        cdef size_t slot, count = len(fields)
        cdef fb_codec_field *core = <fb_codec_field *> take_memory(count, sizeof(fb_codec_field), self.blocks)
        cdef uint16_t *places
        cdef dict slots = {}
        type.fields = <fb_object_field *> take_memory(count, sizeof(fb_object_field), self.blocks)
        type.pending = <uint16_t *> take_memory(count, sizeof(uint16_t), self.blocks)
        type.core.fields = core
        type.core.count = count
        for slot, field in enumerate(fields):
            describe_field(core + slot, slot, field, self.blocks)
            self._fill_field(type.fields + slot, field)
            type.fields[slot].hidden = fb_object_is_plain(type)
            slots[field["name"]] = slot
            type.declared += not field["extension"]
            if not field["repeated"] and field["role"] != FB_VALUE_SCALAR:
                type.pending_count += 1
                type.pending[slot] = <uint16_t> type.pending_count
        blank = make_blank(list(slots)[:type.declared])
        self.blocks += [slots, blank]
        type.slots = <PyObject *> slots
        type.blank = <PyObject *> blank
        places = <uint16_t *> take_memory(_PLACES, sizeof(uint16_t), self.blocks)
        check(fb_codec_message_finish(&type.core, places, _PLACES))
        type.quick = <uint8_t *> take_memory(count, 1, self.blocks)
        fb_quick_finish(type)

    cdef int _fill_field(self, fb_object_field *of, dict field) except -1:
        of.name = <PyObject *> field["name"]
        of.role = field["role"]
        of.numbers = <PyObject *> field["numbers"] if field["numbers"] is not None else NULL
        if field["type"] is not None:
            of.type = self.types + <size_t> field["type"]


cdef class ObjectOutput:
    """The Python types that messages are decoded into, per message type.

    `nodes` are tuples: see `flowbuf.codec.outputs`. Children are node indexes by slot, or -1. The first node
    is for the outermost objects.
    """

    cdef ObjectTypes types
    cdef list blocks
    cdef tuple nodes
    cdef fb_codec_output *outputs

    def __cinit__(self, ObjectTypes types not None, tuple nodes not None):
        cdef size_t i
        self.types = types
        self.nodes = nodes
        self.blocks = []
        self.outputs = <fb_codec_output *> take_memory(len(nodes), sizeof(fb_codec_output), self.blocks)
        for i, (number, kind, make, keywords, children, absent, members, wanted) in enumerate(nodes):
            output = self.outputs + i
            output.type = types.types + <size_t> number
            output.kind = kind
            output.make = <PyObject *> make
            output.keywords = <PyObject *> keywords if keywords is not None else NULL
            output.all = self.outputs
            self._fill_fields(output, children, absent, members, wanted)

    cdef int _fill_fields(self, fb_codec_output *output, list children, list absent, list members,
                          list wanted) except -1:
        cdef const fb_codec_message *core = &output.type.core
        cdef size_t slot, count = core.count
        cdef int child
        cdef uint8_t *taken = NULL
        output.fields = <fb_codec_output **> take_memory(count, sizeof(fb_codec_output *), self.blocks)
        output.absent = <PyObject **> take_memory(count, sizeof(PyObject *), self.blocks)
        output.members = <PyObject **> take_memory(count, sizeof(PyObject *), self.blocks)
        if wanted is not None:
            taken = <uint8_t *> take_memory(count, sizeof(uint8_t), self.blocks)
            output.wanted = taken
        for slot in range(count):
            child = children[slot]
            if child >= 0:
                output.fields[slot] = self.outputs + child
            output.absent[slot] = <PyObject *> absent[slot]
            if members[slot] is not None:
                output.members[slot] = <PyObject *> members[slot]
            if taken:
                taken[slot] = wanted[slot]
        for i in range(count):
            if core.fields[i].repeated:
                output.absent[core.fields[i].slot] = NULL
        return 0


@cython.auto_pickle(False)
cdef class ObjectCodec(JsonCodec):
    """Encodes and decodes objects of one message type.

    Call `_describe` and `_use` before any other method.
    """

    cdef ObjectTypes types
    cdef fb_codec_options options
    cdef fb_buffer output
    cdef bint busy
    cdef tuple kept
    cdef ObjectOutput default_output

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    def __dealloc__(self):
        fb_buffer_free(&self.output)

    def _describe(self, ObjectTypes types not None, tuple options not None):
        """Set the message types and options.

        Can be called once, because other calls may be running. For `flowbuf.codec` only.
        """
        if self.types is not None:
            raise RuntimeError("the codec is described already; create another codec")
        self.kept = options
        ignore, keep, omit, numbers, to_time, from_time, key, suggest, *errors, null, known = options
        encode_error, decode_error = errors
        self.types = types
        self.options.ignore_unknown = ignore
        self.options.keep_unknown = keep
        self.options.omit_absent = omit
        self.options.times_as_numbers = numbers
        self.options.to_time = <PyObject *> to_time
        self.options.from_time = <PyObject *> from_time if from_time is not None else NULL
        self.options.unknown_key = <PyObject *> key
        self.options.suggest = <PyObject *> suggest
        self.options.encode_error = <PyObject *> encode_error
        self.options.decode_error = <PyObject *> decode_error
        self.options.null = <PyObject *> null
        self.options.known_types = <PyObject *> known

    def _use(self, ObjectOutput output not None):
        """Set the default type that `decode` decodes into."""
        self.default_output = output

    # Writing ------------------------------------------------------------------------------------------------

    cdef int _begin(self, fb_buffer *output) except -1:
        """Take the output buffer of the codec, and return 1.

        If user code calls the codec during another call, take a buffer of its own, and return 0.
        """
        if self.types is None:
            raise RuntimeError("the codec is not described; create it with flowbuf.Codec")
        if self.busy or self.output.begin == NULL:
            output.begin = output.p = output.end = NULL
            fb_object_reserve(output, 1024)
            if self.busy:
                return 0
            self.output = output[0]
        self.busy = True
        output[0] = self.output
        return 1

    cdef void _end(self, fb_buffer *output, bint own):
        """Return the buffer. `own`: the result of `_begin`."""
        if own:
            self.busy = False
            self.output.begin = self.output.p = self.output.end = NULL
            if <size_t> (output.end - output.begin) <= _OUTPUT_KEPT:
                self.output.begin = self.output.p = output.begin
                self.output.end = output.end
                return
        fb_buffer_free(output)

    def encode(self, value):
        """Encode an object as one message, without a length.

        Args:
            value: Object to encode: a dict, a tuple of all fields in order, or an instance of a class with
                the fields as attributes.

        Returns:
            bytes: the message.

        Raises:
            EncodeError: a value does not fit its field, or a required field is missing. `path` names the
                field.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            data = codec.encode({"device_id": "a1", "temperature": 21.5})
        """
        cdef fb_buffer output
        cdef bint own = self._begin(&output)
        try:
            fb_object_write(&output, self.types.types, &self.options, <PyObject *> value, -1)
            return PyBytes_FromStringAndSize(<char *> output.begin, fb_buffer_size(&output))
        finally:
            self._end(&output, own)

    def encode_into(self, value, uint8_t[::1] buffer not None, Py_ssize_t offset=0):
        """Encode an object as one message, without a length, into a buffer.

        Args:
            value: Object to encode: see `encode`.
            buffer: Writable buffer, such as a bytearray.
            offset: Position of the first byte of the message. Default: 0.

        Returns:
            int: the position after the message.

        Raises:
            BufferError: the message does not fit. The buffer is unchanged.
            EncodeError: the object cannot be encoded: see `encode`.
            ValueError: the offset is outside the buffer.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            buffer = bytearray(100)
            end = codec.encode_into({"device_id": "a1"}, buffer)
            codec.decode(buffer[:end])["device_id"]
        """
        cdef fb_buffer output
        cdef bint own
        cdef Py_ssize_t size
        if not 0 <= offset <= buffer.shape[0]:
            raise ValueError(f"offset {offset} is outside the buffer of {buffer.shape[0]} bytes")
        own = self._begin(&output)
        try:
            fb_object_write(&output, self.types.types, &self.options, <PyObject *> value, -1)
            size = fb_buffer_size(&output)
            if size > buffer.shape[0] - offset:
                room = buffer.shape[0] - offset
                raise BufferError(
                    f"the message has {size} bytes, but the buffer has {room} from offset {offset}"
                )
            if size:
                memcpy(&buffer[offset], output.begin, size)
            return offset + size
        finally:
            self._end(&output, own)

    def encode_many(self, values):
        """Encode objects as a stream of messages, each after its length as a varint.

        Args:
            values: Iterable of objects: see `encode`.

        Returns:
            bytes: the stream.

        Raises:
            EncodeError: an object cannot be encoded. `path` begins with its index, such as `[3].time`.
            TypeError: values is not an iterable of objects.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            stream = codec.encode_many([{"device_id": "a1"}, {"device_id": "a2"}])
        """
        stream, _, problem = self._encode_part(self._iterate(values), SIZE_MAX, 0)
        if problem is not None:
            raise problem
        return stream

    def _iterate(self, objects):
        """Return an iterator over objects. Raises TypeError for a single object."""
        if hasattr(type(objects), "__iter__") and not isinstance(objects, (dict, str, bytes)):
            return iter(objects)
        problem = f"{type(objects).__name__} is not an iterable of objects"
        raise TypeError(f"{problem}; write [order] for a single order")

    def _encode_part(self, values, size_t limit, Py_ssize_t first):
        """Encode objects of an iterator as a stream of messages, until it has `limit` bytes.

        `first` is the number of objects before them. Returns the stream, the number of its messages, and
        None; or instead of None, the exception of the object after them.
        """
        cdef fb_buffer output
        cdef bint own = self._begin(&output)
        cdef size_t size = 0
        cdef Py_ssize_t count = 0
        problem = None
        try:
            try:
                for value in values:
                    self._write_next(&output, value, first + count)
                    count += 1
                    size = fb_buffer_size(&output)
                    if size >= limit:
                        break
            except BaseException as error:
                problem = error
            return PyBytes_FromStringAndSize(<char *> output.begin, size), count, problem
        finally:
            self._end(&output, own)

    cdef int _write_next(self, fb_buffer *output, value, Py_ssize_t index) except -1:
        """Append an object as a message after its length."""
        cdef size_t begin
        fb_object_reserve(output, FB_CODEC_ROOM)
        output.p = fb_codec_begin_length(output.p)
        begin = fb_buffer_size(output)
        fb_object_write(output, self.types.types, &self.options, <PyObject *> value, index)
        if fb_buffer_size(output) - begin > INT32_MAX:
            raise (<object> self.options.encode_error)("a message of 2 GiB or more", f"[{index}]")
        fb_object_reserve(output, FB_CODEC_ROOM)
        output.p = fb_codec_end_length(output.begin + begin, output.p)
        return 0

    # Reading ------------------------------------------------------------------------------------------------

    cdef ObjectOutput _output_for(self, object into):
        if into is None:
            if self.default_output is None:
                raise RuntimeError("the codec is not described; create it with flowbuf.Codec")
            return self.default_output
        output = self._output_of(into)
        if output is None:
            raise TypeError(f"{type(self).__name__}._output_of returned None for {into!r}")
        return output

    def _output_of(self, into):
        """Return the output for the type `into`."""
        raise NotImplementedError

    def decode(self, data, into=None):
        """Decode one message without a length.

        Args:
            data: The message, as bytes or another buffer.
            into: Type of the result: dict, tuple, a TypedDict, or a class that takes the fields by name.
                Default: `into` of the codec.

        Returns:
            An object of that type.

        Raises:
            DecodeError: the message is malformed. `path` names the field, `offset` its position in bytes.
            TypeError: the type `into` does not take the fields, or has keys that are not fields.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            data = codec.encode({"device_id": "a1"})
            codec.decode(data)["device_id"]
        """
        cdef ObjectOutput output = self._output_for(into)
        cdef Py_buffer view
        cdef fb_bytes message
        if isinstance(data, bytes):
            message.data = <const uint8_t *> PyBytes_AS_STRING(data)
            message.size = PyBytes_GET_SIZE(data)
            return fb_object_read(output.outputs, &self.options, message, 0, -1)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            message.data = <const uint8_t *> view.buf
            message.size = view.len
            return fb_object_read(output.outputs, &self.options, message, 0, -1)
        finally:
            PyBuffer_Release(&view)

    def decode_many(self, data, into=None):
        """Decode a stream of messages, each after its length as a varint.

        Args:
            data: The stream, as bytes or another buffer.
            into: Type of the objects: see `decode`.

        Returns:
            list: the objects.

        Raises:
            DecodeError: a message is malformed or truncated. `path` begins with its index, `offset` counts
                from the start of the stream.
            TypeError: the type `into` does not take the fields.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            stream = codec.encode_many([{"device_id": "a1"}, {"device_id": "a2"}])
            [report["device_id"] for report in codec.decode_many(stream)]
        """
        cdef ObjectOutput output = self._output_for(into)
        cdef fb_bytes rest
        cdef Py_buffer view
        cdef list objects = []
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            rest.data = <const uint8_t *> view.buf
            rest.size = view.len
            self._read_all(output, &rest, INT32_MAX, 0, 0, objects)
            if rest.size:
                raise self._fault("the message is cut short", len(objects), view.len - rest.size)
            return objects
        finally:
            PyBuffer_Release(&view)

    def _decode_part(self, data, into, size_t largest, size_t first, size_t before):
        """Decode the whole messages at the start of a part of a stream.

        `first` and `before` are the numbers of messages and bytes in front of the part. Returns the objects,
        the size of their messages, and None; or instead of None, an exception and the size of the message
        that raised it. This size is 0 if no message can follow, because its length is invalid or exceeds
        `largest`.
        """
        cdef ObjectOutput output = self._output_for(into)
        cdef fb_bytes rest, message
        cdef size_t size
        cdef Py_buffer view
        cdef list objects = []
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            rest.data = <const uint8_t *> view.buf
            rest.size = view.len
            try:
                self._read_all(output, &rest, largest, first, before, objects)
            except Exception as error:
                size = rest.size
                if fb_stream_next(&rest, &message) != FB_OK or message.size > largest:
                    return objects, view.len - size, (error, 0)
                return objects, view.len - size, (error, size - rest.size)
            return objects, view.len - rest.size, None
        finally:
            PyBuffer_Release(&view)

    cdef int _read_all(self, ObjectOutput output, fb_bytes *rest, size_t largest, size_t first,
                       size_t before, list objects) except -1:
        """Append the objects of the whole messages in *rest, and remove the messages from it."""
        # The garbage collector would traverse all objects repeatedly, and find no garbage.
        cdef bint collecting = PyGC_Disable()
        cdef const uint8_t *begin = rest.data
        cdef fb_bytes after = rest[0], message
        cdef fb_status status
        try:
            while True:
                status = fb_stream_next(&after, &message)
                if status == FB_END:
                    return 0
                if status == FB_MORE_INPUT and fb_stream_length(rest[0]) <= largest:
                    return 0
                if status == FB_BAD_MESSAGE:
                    problem = "the message has an invalid length"
                elif status == FB_MORE_INPUT or message.size > largest:
                    size = fb_stream_length(rest[0])
                    problem = f"the message has {size} bytes, more than max_size={largest}"
                else:
                    offset = before + (message.data - begin)
                    objects.append(fb_object_read(output.outputs, &self.options, message, offset,
                                                  first + len(objects)))
                    rest[0] = after
                    continue
                raise self._fault(problem, first + len(objects), before + (rest.data - begin))
        finally:
            if collecting:
                PyGC_Enable()

    cdef object _fault(self, problem, Py_ssize_t index, size_t offset):
        return (<object> self.options.decode_error)(problem, f"[{index}]", offset)
