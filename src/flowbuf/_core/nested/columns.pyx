"""Messages of any type to Arrow columns, and back."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport strcmp

from flowbuf._core.arrow cimport (
    FB_ARROW_BAD_SCHEMA,
    FB_ARROW_NOT_JSON,
    FB_ARROW_NOT_A_BATCH,
    OUTPUT_MIN,
    ColumnEncoder,
    fb_arrow_reason,
    fb_arrow_reason_text,
    fb_arrow_schema_is_sound,
)
from flowbuf._core.base cimport check, describe_field, fault_of_stream, take_memory
from flowbuf._core.core cimport *
from flowbuf._core.json cimport JsonConverter, fb_json_type
from flowbuf._core.nested.declared cimport *
from flowbuf._core.tables cimport ExportedRows, ExportedType

from flowbuf.errors import DecodeError, EncodeError

NESTED_KINDS = {fb_nested_kind_name(i).decode(): i for i in range(FB_NESTED_KIND_COUNT)}
"""Kind of the values of a node -> its code in the core."""

cdef double _MARGIN = 1.05  # of expected output
cdef Py_ssize_t _MOST_EXPECTED = 1 << 28
cdef size_t _PLACES = 128  # a table has the field numbers below this, or below four times their count


cdef const fb_member *fill_members(list pairs, list blocks) except NULL:
    """Fill a table of (number, name) pairs."""
    cdef fb_member *members = <fb_member *> take_memory(len(pairs), sizeof(fb_member), blocks)
    cdef bytes name
    for i, (number, text) in enumerate(pairs):
        name = text.encode()
        blocks.append(name)
        members[<size_t> i].number = <uint32_t> number
        members[<size_t> i].name.data = <const uint8_t *> PyBytes_AS_STRING(name)
        members[<size_t> i].name.size = PyBytes_GET_SIZE(name)
    return members


@cython.final
cdef class _Members:
    """The members of an enum in the form of the core, for all columns of this enum."""

    cdef fb_nested_names *names
    cdef const fb_member *by_name
    cdef size_t count
    cdef list blocks

    def __cinit__(self, tuple pairs not None):
        self.blocks = []
        self.count = len(pairs)
        self.by_name = fill_members(sorted(pairs, key=lambda each: each[1].encode()), self.blocks)
        by_number = []
        check(fb_nested_names_new(&self.names, fill_members(list(pairs), by_number), self.count,
                                  fb_memory_system(0)))

    def __dealloc__(self):
        fb_nested_names_release(self.names)


cdef class NestedType(ExportedType):
    """The tree of columns of a message type. Several threads may use it at the same time.

    Args:
        nodes: List of nodes. The first is the root, and a node comes before those below it. A node is a dict:

            - `path`, `name`: of the field, with and without the names around it
            - `kind` (of NESTED_KINDS), `width`, `unit`, `nullable`, `repeated`, `map`, `tracked`: as in
              ext/core/nested/nested_types.h
            - `members`: list of (number, name) of an enum that is exported by name, by number, or None
            - `fields`: descriptions of all fields of a message, as for `ObjectTypes`, or None
            - `nodes`: for each of `fields`, the index of its node, or -1
            - `children`: indexes of the nodes of a struct, in the order of the Arrow type
            - `json`: full name of the type of a JSON text, which `converter` knows, or None
        types: List of (name, format, nullable, dictionary, number of children), one per Arrow type. A type
            comes before those of its children.
        converter: Converter of JSON texts, if a node has them.
    """

    cdef JsonConverter converter
    cdef fb_nested_type *nodes
    cdef fb_tree_type *types
    cdef size_t count
    cdef list blocks
    cdef dict enums  # the _Members of each enum
    cdef readonly list described
    cdef readonly tuple names

    def __cinit__(self, list nodes not None, list types not None, JsonConverter converter=None):
        cdef size_t i
        self.blocks = []
        self.converter = converter
        self.enums = {}
        self.described = nodes
        self.count = len(nodes)
        self.nodes = <fb_nested_type *> take_memory(self.count, sizeof(fb_nested_type), self.blocks)
        self.types = <fb_tree_type *> take_memory(len(types), sizeof(fb_tree_type), self.blocks)
        for i, node in enumerate(nodes):
            self.fill_node(self.nodes + i, node)
        for i, (name, format, nullable, dictionary, children) in enumerate(types):
            self.types[i].name = self.keep(name)
            self.types[i].format = self.keep(format)
            self.types[i].nullable = nullable
            self.types[i].dictionary = dictionary
            self.types[i].child_count = children
        self.names = tuple(nodes[child]["name"] for child in nodes[0]["children"])

    cdef const char *keep(self, str text) except NULL:
        cdef bytes content = text.encode()
        self.blocks.append(content)
        return PyBytes_AS_STRING(content)

    cdef int fill_node(self, fb_nested_type *type, dict node) except -1:
        cdef _Members members
        type.kind = node["kind"]
        type.width = node["width"]
        type.unit = node["unit"]
        type.nullable = node["nullable"]
        type.repeated = node["repeated"]
        type.map = node["map"]
        type.tracked = node["tracked"]
        if node["members"] is not None:
            pairs = tuple(node["members"])
            members = self.enums.get(pairs)
            if members is None:
                members = self.enums[pairs] = _Members(pairs)
            type.member_count = members.count
            type.names = members.names
            type.by_name = members.by_name
        if node["json"] is not None:
            type.json = self.converter._find(node["json"])
            type.json_types = &self.converter.all
        if node["fields"] is not None:
            self.fill_message(type, node)
        return 0

    cdef int fill_message(self, fb_nested_type *type, dict node) except -1:
        cdef list fields = node["fields"]
        cdef size_t i, count = len(fields), places_count = 0
        cdef fb_json_type *message = <fb_json_type *> take_memory(1, sizeof(fb_json_type), self.blocks)
        cdef fb_codec_field *core = <fb_codec_field *> take_memory(count, sizeof(fb_codec_field), self.blocks)
        cdef uint16_t *places
        cdef int32_t *nodes = <int32_t *> take_memory(count, sizeof(int32_t), self.blocks)
        cdef int32_t *children
        message.core.fields = core
        message.core.count = count
        for i in range(count):
            describe_field(core + i, i, fields[i], self.blocks)
            type.oneof_count = max(type.oneof_count, <size_t> core[i].oneof)
            places_count = max(places_count, <size_t> core[i].number + 1)
        places_count = min(places_count, max(_PLACES, 4 * count))
        places = <uint16_t *> take_memory(places_count, sizeof(uint16_t), self.blocks)
        check(fb_codec_message_finish(&message.core, places, places_count))
        type.message = &message.core
        if node["nodes"] is None:  # a wrapper
            type.value = core
            return 0
        for i in range(count):
            nodes[i] = node["nodes"][core[i].slot]
            if nodes[i] >= 0:
                self.nodes[nodes[i]].field = core + i
                self.nodes[nodes[i]].value = core + i
        type.nodes = nodes
        type.child_count = len(node["children"])
        children = <int32_t *> take_memory(type.child_count, sizeof(int32_t), self.blocks)
        for i in range(type.child_count):
            children[i] = node["children"][i]
        type.children = children
        return 0

    cdef str path_of(self, int32_t node):
        return self.described[node]["path"] if node >= 0 else ""

    cdef fb_status export_schema(self, ArrowSchema *out) noexcept:
        return fb_schema_export_tree(self.types, fb_memory_system(0), out)


# Messages to columns ----------------------------------------------------------------------------------------

cdef class NestedTable(ExportedRows):
    """A finished batch of rows. It is immutable, and safe to use from any thread."""

    cdef readonly NestedType type
    cdef fb_nested_batch *batch
    cdef NestedTable whole  # the table that this one is a slice of
    cdef bint owns  # the batch
    cdef size_t first, count

    def __init__(self):
        raise TypeError("NestedTable has no constructor; use NestedTables.finish")

    def __dealloc__(self):
        if self.owns:
            fb_nested_batch_release(self.batch)

    def __len__(self):
        return self.count

    def __reduce__(self):
        raise TypeError("a batch of messages cannot be pickled; pickle the result of its to_arrow()")

    @property
    def nbytes(self):
        """Memory of the batch, in bytes, without the names of enums, which the batches of a type share."""
        return self.batch.bytes

    def slice(self, size_t first, size_t count):
        """Return `count` rows from `first` on. The memory is shared."""
        cdef NestedTable part = NestedTable.__new__(NestedTable)
        if first > self.count or count > self.count - first:
            raise IndexError(f"rows {first} to {first + count} are not among the {self.count} of the table")
        part.type = self.type
        part.batch = self.batch
        part.whole = self if self.owns else self.whole
        part.first = self.first + first
        part.count = count
        return part

    cdef fb_status export_rows(self, ArrowArray *out) noexcept:
        return fb_nested_batch_export(self.batch, self.first, self.count, out)

    def __arrow_c_array__(self, requested_schema=None):
        return self.export_with(self.type)


# Freed blocks of batches, reused by later batches. Tables may outlive the reader that made them.
cdef fb_nested_cache block_cache


@cython.no_gc_clear  # __dealloc__ needs the type
cdef class NestedTables:
    """Reads messages into tables of at most `rows` rows. Use it in one thread at a time.

    Rows that fill no table wait for the next call.
    """

    cdef readonly NestedType type
    cdef fb_memory memory
    cdef fb_nested_reader reader
    cdef size_t rows
    cdef bint busy

    def __cinit__(self, NestedType type not None, rows):
        if not 2 <= rows <= 1 << 26:
            raise ValueError(f"rows is {rows}; it may be 2 to {1 << 26:,}")
        self.type = type
        self.rows = rows
        self.memory = fb_nested_memory(&block_cache)
        check(fb_nested_reader_new(&self.reader, type.nodes, type.count, &self.memory))

    def __dealloc__(self):
        fb_nested_reader_free(&self.reader)

    @property
    def unknown_fields(self):
        """Number of fields read so far that the definition does not have."""
        return self.reader.unknown_fields

    @property
    def invalid_texts(self):
        """Number of strings read so far that were not valid UTF-8."""
        return self.reader.invalid_texts

    cdef int claim(self) except -1:
        if self.busy:
            raise RuntimeError("this reader is in use by another thread; give each thread its own reader")
        self.busy = True
        return 0

    def read(self, data, list tables not None, bint final=True):
        """Read the complete messages at the start of length-delimited data. See `MessageTables.read`."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.claim()
            try:
                return self.read_view(&view, tables, final)
            finally:
                self.busy = False
        finally:
            PyBuffer_Release(&view)

    cdef object read_view(self, const Py_buffer *view, list tables, bint final):
        cdef fb_bytes rest
        cdef fb_nested_fault fault
        cdef fb_status status
        rest.data = <const uint8_t *> view.buf
        rest.size = view.len
        while True:
            if view.readonly:
                with nogil:
                    status = fb_nested_read(&self.reader, &rest, self.rows, &fault)
            else:
                status = fb_nested_read(&self.reader, &rest, self.rows, &fault)
            offset = rest.data - <const uint8_t *> view.buf
            if status == FB_NO_SPACE:
                tables.append(self.make_table())
            elif status == FB_BAD_MESSAGE:
                offset = fault.where - <const uint8_t *> view.buf
                path = self.type.path_of(fault.node)
                column = f"column {path!r}: " if path else ""
                raise DecodeError(f"byte {offset}: {column}{fault.problem.decode()}", status="bad_message",
                                  offset=offset, path=path)
            elif status == FB_MORE_INPUT and final:
                raise fault_of_stream(offset, status)
            elif status == FB_END or status == FB_MORE_INPUT:
                return offset
            else:
                check(status)

    def finish_each(self):
        """Return a table of the waiting rows, which may be empty, in a list."""
        self.claim()
        try:
            return [self.make_table()]
        finally:
            self.busy = False

    cdef NestedTable make_table(self):
        cdef NestedTable table = NestedTable.__new__(NestedTable)
        cdef fb_status status
        table.type = self.type
        with nogil:
            status = fb_nested_finish(&self.reader, &table.batch)
        check(status)
        table.owns = True
        table.count = table.batch.rows
        return table


# Columns to messages ----------------------------------------------------------------------------------------

@cython.no_gc_clear  # __dealloc__ needs the type
cdef class NestedEncoder(ColumnEncoder):
    """Encodes columns as messages of any type.

    `unknown` is called with the path of a column that the type does not have, and with the known names beside
    it. It raises an exception, unless the column is ignored.
    """

    cdef NestedType type
    cdef object unknown
    cdef fb_memory memory
    cdef fb_nested_writer writer
    cdef size_t used, begun  # bytes of the output for all arrays, and for those before this one
    cdef uint64_t rows  # rows of the arrays encoded before

    def __cinit__(self, NestedType type not None, unknown):
        self.type = type
        self.unknown = unknown
        self.memory = fb_memory_system(0)
        check(fb_nested_writer_new(&self.writer, type.nodes, type.count, &self.memory))

    def __dealloc__(self):
        fb_nested_writer_free(&self.writer)

    cdef int grow(self, double left) except -1:
        """Double the output, or grow it to the bytes that are expected: `left` times those of this array."""
        cdef double expected = min(left * _MARGIN * (self.used - self.begun), <double> _MOST_EXPECTED)
        return self.grow_output(self.used, max(<size_t> expected, OUTPUT_MIN))

    cdef int begin(self, const ArrowSchema *schema) except -1:
        return self.bind(schema, 0)

    cdef int bind(self, const ArrowSchema *schema, size_t of) except -1:
        """Bind the columns of a struct to the nodes below a node."""
        cdef dict node = self.type.described[of], known
        cdef const ArrowSchema *values
        cdef fb_arrow_reason reason
        cdef fb_status status
        cdef size_t i
        if not fb_arrow_schema_is_sound(schema):
            raise EncodeError(fb_arrow_reason_text(FB_ARROW_BAD_SCHEMA).decode())
        if strcmp(schema.format, "+s") != 0:
            raise EncodeError(fb_arrow_reason_text(FB_ARROW_NOT_A_BATCH).decode())
        names = [schema.children[i].name.decode("utf-8", "replace") if schema.children[i].name else ""
                 for i in range(<size_t> schema.n_children)]
        known = {self.type.described[child]["name"]: child for child in node["children"]}
        if node["map"] and len(names) == 2 and set(names) != known.keys():
            names = ["key", "value"]  # libraries give them other names
        bound = set()
        for i, name in enumerate(names):
            path = f"{node['path']}.{name}" if node["path"] else name
            if name not in known:
                self.unknown(path, list(known))
                continue
            if name in bound:
                raise EncodeError(f"column {path!r}: another column of this name is there already")
            bound.add(name)
            status = fb_nested_writer_bind(&self.writer, known[name], i, schema.children[i], &values, &reason)
            if status == FB_BAD_SOURCE:
                raise EncodeError(f"column {path!r}: {fb_arrow_reason_text(reason).decode()}")
            check(status)
            if values:
                self.bind(values, known[name])
        return 0

    cdef object as_error(self, size_t row):
        cdef size_t i
        reason = fb_arrow_reason_text(self.writer.reason).decode()
        if self.writer.reason == FB_ARROW_NOT_JSON:
            problem = self.type.converter._describe(&self.writer.fault)
            reason = f"{reason}: byte {self.writer.fault.offset}: {problem}"
        path = f"[{self.rows + row}]"
        for i in range(self.writer.level_count, 0, -1):
            node = self.type.described[self.writer.levels[i - 1].type - self.type.nodes]
            path += f".{node['name']}"
            if self.writer.levels[i - 1].index >= 0:
                path += f"[{self.writer.levels[i - 1].index}]"
        return EncodeError(reason, path)

    cdef int encode(self, const ArrowArray *array) except -1:
        cdef size_t row = 0, rows
        cdef uint8_t *begin
        cdef uint8_t *p
        cdef uint8_t *end
        cdef fb_status status = fb_nested_writer_set(&self.writer, array)
        if status != FB_OK:
            raise EncodeError(fb_arrow_reason_text(self.writer.reason).decode())
        rows = array.length
        self.begun = self.used
        status = FB_OK if self.capacity else FB_NO_SPACE
        while row < rows:
            if status == FB_NO_SPACE:
                self.grow(<double> (rows - row) / row if row else 0)
            begin = self.output
            end = begin + self.capacity
            p = begin + self.used
            with nogil:
                status = fb_nested_write(&self.writer, &row, rows, &p, end)
            self.used = p - begin
            if status == FB_BAD_MESSAGE:
                raise self.as_error(row)
            if status != FB_NO_SPACE:
                check(status)
        self.rows += rows
        return 0

    cdef bytes take(self):
        return self.take_output(self.used)


def encode_nested_array(NestedType type not None, schema, array, unknown):
    """Encode a record batch, given by its capsules, as length-delimited messages, one per row.

    `unknown` is that of `NestedEncoder`. Raises EncodeError.
    """
    return NestedEncoder(type, unknown).encode_array(schema, array)


def encode_nested_stream(NestedType type not None, stream, unknown):
    """Encode a stream of record batches, given by its capsule, as length-delimited messages.

    Raises EncodeError like `encode_nested_array`, and OSError with the text of the stream if it fails.
    """
    return NestedEncoder(type, unknown).encode_stream(stream)
