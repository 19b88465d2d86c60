# cython: embedsignature=False
"""Messages of any type to JSON, and back."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr

from flowbuf._core.base cimport check, describe_field, take_memory
from flowbuf._core.core cimport *

from flowbuf.errors import DecodeError, EncodeError

JSON_FORMS = {fb_json_form_name(i).decode(): i for i in range(FB_JSON_FORM_COUNT)}
"""JSON form of a message type -> its code in the core."""

cdef size_t _PLACES = 128  # field numbers below this are found in a table
cdef size_t _ROOM_KEPT = 1 << 16  # largest output buffer that a converter keeps, in bytes
cdef size_t _FIRST_ROOM = 512  # bytes of output to begin with
cdef size_t _LONG = 4096  # bytes of input from which other threads may run


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object)


cdef inline bint is_same(str one, str other):
    """Compare texts. A default is the same object."""
    return one is other or one == other


cdef int read_options(str names, defaults, str enums, fb_json_options *options) except -1:
    options.original_names = not is_same(names, "json")
    options.defaults = defaults is True
    options.enum_numbers = not is_same(enums, "name")
    options.repaired = NULL
    if defaults is not False and defaults is not True:
        raise ValueError(f"defaults is {defaults!r}; it must be True or False")
    if options.original_names and names != "original":
        raise ValueError(f"names is {names!r}; it must be one of json, original")
    if options.enum_numbers and enums != "number":
        raise ValueError(f"enums is {enums!r}; it must be one of name, number")
    return 0


cdef int ignores(str unknown) except -1:
    if is_same(unknown, "error"):
        return False
    if unknown != "ignore":
        raise ValueError(f"unknown is {unknown!r}; it must be one of error, ignore")
    return True


cdef bint is_blank(fb_bytes line):
    cdef size_t i
    for i in range(line.size):
        if line.data[i] not in b" \t\r":
            return False
    return True


cdef fb_bytes view_text(str text, list blocks):
    """Return a view of the text's UTF-8. The text is added to `blocks`, which keep it."""
    cdef Py_ssize_t size
    cdef fb_bytes view
    view.data = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, &size)
    view.size = size
    blocks.append(text)
    return view


cdef int fill_names(fb_json_names *names, list pairs, list blocks) except -1:
    """Fill a table of (name, value) pairs."""
    cdef size_t i, slots = 4
    cdef fb_json_name *all = <fb_json_name *> take_memory(len(pairs), sizeof(fb_json_name), blocks)
    while slots <= 2 * <size_t> len(pairs):
        slots *= 2
    for i, (name, value) in enumerate(pairs):
        all[i].text = view_text(name, blocks)
        all[i].value = <uint32_t> (value & 0xffffffff)
    names.names = all
    names.count = len(pairs)
    names.slots = <uint32_t *> take_memory(slots, sizeof(uint32_t), blocks)
    names.slot_count = slots
    fb_json_names_finish(names)


cdef int fill_enum(fb_json_enum *of, dict members, bint null, list blocks) except -1:
    cdef size_t i
    cdef fb_json_member *all
    first = {number: name for name, number in reversed(list(members.items()))}
    all = <fb_json_member *> take_memory(len(first), sizeof(fb_json_member), blocks)
    for i, number in enumerate(sorted(first)):
        all[i].number = number
        all[i].name = view_text(first[number], blocks)
    of.members = all
    of.count = len(first)
    of.null = null
    fill_names(&of.names, list(members.items()), blocks)


cdef class JsonConverter:
    """Converts messages of one type to JSON and back. Several threads may use it at the same time.

    Args:
        enums: List of (members, is_null): dict from names to numbers, and True for google.protobuf.NullValue.
        types: List of (full name, form, fields). A field is a dict as for `ObjectTypes`, with more keys:
            `json_name`, `enum` (an index in `enums`, or None), `map`, and `key` and `json_key`, which are the
            two names in quotes and with a colon. The first type is that of the messages.
        fail: Called with (problem, path, offset, names) for input that cannot be converted. Returns the
            exception. `names` are those of the fields, if the problem is an unknown one, else None.
        inside: Called with such an exception and the place of its message among others. Returns the exception
            with the place.
    """

    def __cinit__(self, list enums not None, list types not None, object fail, object inside):
        cdef size_t i
        self.blocks = []
        self.names = types
        self.fail = fail
        self.inside = inside
        self.enums = <fb_json_enum *> take_memory(len(enums), sizeof(fb_json_enum), self.blocks)
        self.types = <fb_json_type *> take_memory(len(types), sizeof(fb_json_type), self.blocks)
        for i, (members, null) in enumerate(enums):
            fill_enum(self.enums + i, members, null, self.blocks)
        for i, (name, form, fields) in enumerate(types):
            self._fill_type(self.types + i, name, form, fields)
        for i, (name, form, fields) in enumerate(types):
            if not fb_json_type_is_sound(self.types + i):
                raise ValueError(f"{name} does not have the fields of a {name.rpartition('.')[2]}")
        self.all.types = self.types
        fill_names(&self.all.names, [(name, place) for place, (name, _, _) in enumerate(types)], self.blocks)

    def __dealloc__(self):
        fb_buffer_free(&self.spare)

    cdef fb_buffer _take_room(self):
        """Return the buffer of an earlier call, or an empty one if another call uses it."""
        cdef fb_buffer room = self.spare
        self.spare.begin = self.spare.p = self.spare.end = NULL
        return room

    cdef void _return_room(self, fb_buffer *room):
        if self.spare.begin == NULL and <size_t> (room.end - room.begin) <= _ROOM_KEPT:
            self.spare.begin = self.spare.p = room.begin
            self.spare.end = room.end
        else:
            fb_buffer_free(room)

    cdef int _fill_type(self, fb_json_type *type, str name, int form, list fields) except -1:
        cdef size_t slot, i, count = len(fields)
        cdef fb_codec_field *core = <fb_codec_field *> take_memory(count, sizeof(fb_codec_field), self.blocks)
        cdef uint16_t *places
        cdef list pairs
        type.name = view_text(name, self.blocks)
        type.form = form
        type.fields = <fb_json_field *> take_memory(count, sizeof(fb_json_field), self.blocks)
        type.core.fields = core
        type.core.count = count
        for slot, field in enumerate(fields):
            describe_field(core + slot, slot, field, self.blocks)
            if field["type"] is not None:
                core[slot].message = &self.types[<size_t> field["type"]].core
            type.fields[slot].name = view_text(field["name"], self.blocks)
            type.fields[slot].json_name = view_text(field["json_name"], self.blocks)
            type.fields[slot].key = view_text(field["key"], self.blocks)
            type.fields[slot].json_key = view_text(field["json_key"], self.blocks)
            type.fields[slot].map = field["map"]
            type.fields[slot].extension = field["extension"]
            if field["enum"] is not None:
                type.fields[slot].members = self.enums + <size_t> field["enum"]
            type.required += field["required"]
            type.oneofs = max(type.oneofs, <size_t> field["oneof"])
        places = <uint16_t *> take_memory(_PLACES, sizeof(uint16_t), self.blocks)
        check(fb_codec_message_finish(&type.core, places, _PLACES))
        # a name in JSON takes precedence over another field's own name
        pairs = [(fields[core[i].slot][key], i) for key in ("json_name", "name") for i in range(count)]
        fill_names(&type.names, pairs, self.blocks)

    cdef const fb_json_type *_find(self, str name) except NULL:
        """Return the type of a full name. REQUIRES: it is there."""
        return self.types + [known for known, _, _ in self.names].index(name)

    cdef str _describe(self, const fb_json_fault *fault):
        problem = fault.problem.decode()
        if fault.type >= 0:
            problem = f"{problem} {fb_proto_name(fault.type).decode()}"
        if fault.token_size:
            token = (<const char *> fault.token)[:fault.token_size]
            problem = f"{problem}: {token.decode('utf-8', 'replace')}"
        return problem

    cdef object _fault(self, fb_status status, const fb_json_fault *fault, size_t before):
        """Return the exception of a failed call. `before`: bytes in front of the input."""
        if status != FB_BAD_MESSAGE:
            check(status)
        problem = self._describe(fault)
        names = None
        if fault.of:
            names = [field["json_name"] for field in self.names[fault.of - self.types][2]]
        path = (<const char *> fault.path).decode("utf-8", "replace")
        return self.fail(problem, path, before + fault.offset, names)

    cpdef str write(self, data, str names, defaults, str enums):
        """Return a message as JSON text. The arguments are those of `Codec.to_json`. Raises DecodeError."""
        cdef fb_json_options options
        cdef Py_buffer view
        cdef fb_bytes message
        read_options(names, defaults, enums, &options)
        if isinstance(data, bytes):
            message.data = <const uint8_t *> PyBytes_AS_STRING(data)
            message.size = PyBytes_GET_SIZE(data)
            return self._to_text(message, options)
        if not PyObject_CheckBuffer(data):
            raise TypeError(f"data is {type(data).__name__}; it must be bytes; encode_json takes objects")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            message.data = <const uint8_t *> view.buf
            message.size = view.len
            return self._to_text(message, options)
        finally:
            PyBuffer_Release(&view)

    cdef str _to_text(self, fb_bytes message, fb_json_options options):
        cdef fb_buffer output = self._take_room()
        cdef uint64_t unknown = 0
        try:
            self._write(message, 0, options, &output, &unknown)
            return PyUnicode_DecodeUTF8(<char *> output.begin, fb_buffer_size(&output), NULL)
        finally:
            self._return_room(&output)

    cdef int _write(self, fb_bytes message, size_t before, fb_json_options options, fb_buffer *output,
                    uint64_t *unknown) except -1:
        """Append a message to the output. `before`: its position in the input."""
        cdef fb_json_fault fault
        cdef fb_status status
        check(fb_buffer_reserve(output, _FIRST_ROOM))
        if message.size < _LONG:
            status = fb_json_write(&self.all, self.types, message, options, output, unknown, &fault)
        else:
            with nogil:
                status = fb_json_write(&self.all, self.types, message, options, output, unknown, &fault)
        if status != FB_OK:
            raise self._fault(status, &fault, before)

    def write_lines(self, data, str names not None, defaults, str enums not None, size_t first=0,
                    size_t before=0):
        """Convert a length-delimited stream of messages to JSON lines.

        `first` and `before` are numbers of messages and bytes before the data, for errors. Returns the lines
        and the number of unknown fields, which are left out. Raises DecodeError.
        """
        cdef fb_buffer output
        cdef fb_json_options options
        cdef Py_buffer view
        cdef fb_bytes rest, message
        cdef fb_status status
        cdef size_t count = first, offset
        cdef uint64_t unknown = 0
        read_options(names, defaults, enums, &options)
        output.begin = output.p = output.end = NULL
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            rest.data = <const uint8_t *> view.buf
            rest.size = view.len
            while True:
                offset = rest.data - <const uint8_t *> view.buf
                status = fb_stream_next(&rest, &message)
                if status == FB_END:
                    break
                if status != FB_OK:
                    what = "is cut short" if status == FB_MORE_INPUT else "has an invalid length"
                    raise self.fail(f"the message {what}", f"[{count}]", before + offset, None)
                try:
                    offset = message.data - <const uint8_t *> view.buf
                    self._write(message, before + offset, options, &output, &unknown)
                except ValueError as error:  # a DecodeError
                    raise self.inside(error, f"[{count}]") from None
                check(fb_buffer_reserve(&output, 1))
                output.p[0] = b"\n"
                output.p += 1
                count += 1
            return PyBytes_FromStringAndSize(<char *> output.begin, fb_buffer_size(&output)), unknown
        finally:
            PyBuffer_Release(&view)
            fb_buffer_free(&output)

    def read_lines(self, data, str unknown not None, size_t first=0, size_t before=0):
        """Convert JSON lines to a length-delimited stream of messages.

        Lines of white space are skipped. The last line may lack its line feed. `first` and `before` are
        numbers of lines and bytes before the data, for errors. Returns the stream and the number of messages.
        Raises DecodeError.
        """
        cdef fb_buffer output
        cdef Py_buffer view
        cdef fb_bytes line
        cdef const uint8_t *end
        cdef const uint8_t *stop
        cdef size_t number = first, count = 0, offset
        cdef bint ignore = ignores(unknown)
        output.begin = output.p = output.end = NULL
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            line.data = <const uint8_t *> view.buf
            stop = line.data + view.len
            while line.data < stop:
                number += 1
                end = <const uint8_t *> memchr(line.data, b"\n", stop - line.data)
                end = end if end else stop
                line.size = end - line.data
                if not is_blank(line):
                    try:
                        offset = line.data - <const uint8_t *> view.buf
                        self._read(line, before + offset, ignore, True, &output)
                    except ValueError as error:  # a DecodeError
                        raise self.inside(error, f"line {number}") from None
                    count += 1
                line.data = end + 1 if end < stop else stop
            return PyBytes_FromStringAndSize(<char *> output.begin, fb_buffer_size(&output)), count
        finally:
            PyBuffer_Release(&view)
            fb_buffer_free(&output)

    cpdef bytes read(self, text, str unknown):
        """Return the message of a JSON text. Arguments and errors are those of `Codec.from_json`."""
        cdef Py_buffer view
        cdef fb_bytes input
        cdef Py_ssize_t size
        cdef bint ignore = ignores(unknown)
        if isinstance(text, str):
            if PyUnicode_IS_ASCII(text):
                input.data = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, &size)
                input.size = size
                return self._to_message(input, ignore)
            text = self._encode(text)
        if not PyObject_CheckBuffer(text):
            what = f"text is {type(text).__name__}"
            raise TypeError(f"{what}; it must be str or bytes; encode_json takes objects")
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            input.data = <const uint8_t *> view.buf
            input.size = view.len
            return self._to_message(input, ignore)
        finally:
            PyBuffer_Release(&view)

    def _encode(self, str text):
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            offset = len(text[:error.start].encode())
            raise self.fail("half of a surrogate pair", "", offset, None) from None

    cdef bytes _to_message(self, fb_bytes input, bint ignore):
        cdef fb_buffer output = self._take_room()
        try:
            self._read(input, 0, ignore, False, &output)
            return PyBytes_FromStringAndSize(<char *> output.begin, fb_buffer_size(&output))
        finally:
            self._return_room(&output)

    cdef int _read(self, fb_bytes input, size_t before, bint ignore, bint delimited,
                   fb_buffer *output) except -1:
        """Append the message of a text, after its length if `delimited`. `before`: as for `_write`."""
        cdef fb_json_fault fault
        cdef fb_status status
        cdef size_t begin = 0
        check(fb_buffer_reserve(output, _FIRST_ROOM))
        if delimited:
            output.p = fb_codec_begin_length(output.p)
            begin = fb_buffer_size(output)
        if input.size < _LONG:
            status = fb_json_read(&self.all, self.types, input, ignore, output, &fault)
        else:
            with nogil:
                status = fb_json_read(&self.all, self.types, input, ignore, output, &fault)
        if status != FB_OK:
            raise self._fault(status, &fault, before)
        if delimited:
            if fb_buffer_size(output) - begin > INT32_MAX:
                raise self.fail("a message of 2 GiB or more", "", before, None)
            check(fb_buffer_reserve(output, FB_CODEC_ROOM))
            output.p = fb_codec_end_length(output.begin + begin, output.p)


@cython.auto_pickle(False)
cdef class JsonCodec:
    """The methods of a codec for JSON."""

    cdef JsonConverter _json(self):
        if self.converter is None:
            self.converter = self._make_converter()
        return self.converter

    def _converter(self):
        """Return the JsonConverter of the message type, which is made once."""
        return self._json()

    def _make_converter(self):
        """Return the JsonConverter of the message type."""
        raise NotImplementedError

    def to_json(self, data, *, str names not None="json", defaults=False, str enums not None="name"):
        """Convert a message to JSON, by the canonical mapping of Protocol Buffers, without Python objects.

        Unknown fields are left out. The file of the message, or its imports, must define the type of an Any.

        Args:
            data: The message, as bytes or another buffer.
            names: "json" (default) for names in lowerCamelCase, or as `json_name` declares them. "original"
                for names as in the definition.
            defaults: Include fields without presence that are zero or empty. Default: False.
            enums: "name" (default) or "number".

        Returns:
            str: the JSON text, without white space. Fields are in the order of their numbers.

        Raises:
            DecodeError: the message is malformed, or a value has no JSON form, such as a Timestamp after the
                year 9999. `path` names the field, `offset` its position in bytes.
            ValueError: an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.to_json(codec.encode({"device_id": "a1"}))
        """
        return self._json().write(data, names, defaults, enums)

    def from_json(self, text, *, str unknown not None="error"):
        """Convert JSON to a message, by the canonical mapping of Protocol Buffers, without Python objects.

        Names of fields may be those of JSON or those of the definition.

        Args:
            text: The JSON text, as str, or as UTF-8 in bytes or another buffer.
            unknown: "error" (default) or "ignore": treatment of fields and enum members that the definition
                does not have.

        Returns:
            bytes: the message, with the bytes that `encode` writes for the same values.

        Raises:
            DecodeError: the text is not JSON, or a value does not fit its field. `path` names the field,
                `offset` the position in the UTF-8 text.
            ValueError: an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.decode(codec.from_json('{"deviceId": "a1"}'))
        """
        return self._json().read(text, unknown)

    def to_json_lines(self, data, *, str names not None="json", defaults=False,
                      str enums not None="name"):
        """Convert a stream of messages, each after its length as a varint, to JSON lines.

        Args:
            data: The stream, as bytes or another buffer.
            names: As in `to_json`.
            defaults: As in `to_json`.
            enums: As in `to_json`.

        Returns:
            bytes: a line of UTF-8 for each message.

        Raises:
            DecodeError: a message is malformed or truncated, or has no JSON form. `path` begins with its
                index, `offset` counts from the start of the stream.
            ValueError: an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.to_json_lines(codec.encode_many([{"device_id": "a1"}, {"device_id": "a2"}]))
        """
        return self._json().write_lines(data, names, defaults, enums)[0]

    def from_json_lines(self, lines, *, str unknown not None="error"):
        """Convert JSON lines to a stream of messages, each after its length as a varint.

        Args:
            lines: The lines, as str, or as UTF-8 in bytes or another buffer. Empty lines are skipped.
            unknown: As in `from_json`.

        Returns:
            bytes: the stream.

        Raises:
            DecodeError: a line is not JSON, or a value does not fit its field. The text begins with the
                number of the line; `offset` counts from the start of the first line.
            ValueError: an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            stream = codec.from_json_lines('{"deviceId": "a1"}\\n{"deviceId": "a2"}')
            codec.decode_many(stream)
        """
        cdef JsonConverter converter = self._json()
        return converter.read_lines(converter._encode(lines) if isinstance(lines, str) else lines, unknown)[0]

    def encode_json(self, value, *, str names not None="json", defaults=False,
                    str enums not None="name"):
        """Convert an object to JSON, by the canonical mapping of Protocol Buffers.

        Args:
            value: The object: see `encode`.
            names: As in `to_json`.
            defaults: As in `to_json`.
            enums: As in `to_json`.

        Returns:
            str: the JSON text.

        Raises:
            EncodeError: the object cannot be encoded: see `encode`. Or a value has no JSON form: see
                `to_json`.
            ValueError: an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.encode_json({"device_id": "a1"})
        """
        cdef JsonConverter converter = self._json()
        message = self.encode(value)
        try:
            return converter.write(message, names, defaults, enums)
        except DecodeError as error:  # its offset is in a message that the caller does not have
            problem = str(error).partition(f"byte {error.offset}: ")[2]
            raise EncodeError(problem, error.path) from None

    def decode_json(self, text, into=None, *, str unknown not None="error"):
        """Convert JSON to an object, by the canonical mapping of Protocol Buffers.

        Args:
            text: The JSON text: see `from_json`.
            into: Type of the result: see `decode`.
            unknown: As in `from_json`.

        Returns:
            An object of that type.

        Raises:
            DecodeError: the text is not JSON, or a value does not fit its field: see `from_json`.
            TypeError: the type `into` does not take the fields.
            ValueError: an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.decode_json('{"deviceId": "a1"}')
        """
        return self.decode(self._json().read(text, unknown), into)
