"""Bind the columns of Arrow data to those of a plan, and take Arrow data out of capsules."""
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint16_t
from libc.string cimport memset

from flowbuf._core.arrow cimport *
from flowbuf._core.core cimport *
from flowbuf._core.plan cimport Plan
from flowbuf._core.tables cimport set_members

from flowbuf.errors import EncodeError


cdef class Bindings:
    """A binding for each column of an Arrow schema.

    The members of enums are needed only until the source is created.
    """

    def __dealloc__(self):
        if self.items:
            for i in range(len(self.names)):
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
