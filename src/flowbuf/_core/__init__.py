"""The binding of the C core: lifetimes, buffers and exceptions. Users import `flowbuf`.

Each Cython module has one subject and links the static library of the core. A `.pxd` file declares what other
modules use. `core.pxd`, `arrow.pxd`, `capture.pxd`, `json.pxd` and `net.pxd` declare the C functions.
`__init__.pyi` has the types of all names.
"""

from flowbuf._core.arrow import TextWriter, encode_arrow_array, encode_arrow_stream
from flowbuf._core.base import COMPILER, PROCESSORS, STATUSES, AddressRows, NetworkTable, format_ip
from flowbuf._core.codec import FIELD_KINDS, OUTPUT_KINDS, VALUE_ROLES, ObjectCodec, ObjectOutput, ObjectTypes
from flowbuf._core.columns import ColumnBuilder, MessageTables
from flowbuf._core.copies import (
    UNDECODED_HEADER,
    UNFORWARDED,
    UNSAVED,
    Forwarder,
    UndecodedBuffer,
    copy_datagrams,
)
from flowbuf._core.datagrams import (
    IPFIX_KINDS,
    MAX_IPFIX_COLUMNS,
    MAX_WINDOW,
    START_SIZE,
    Capture,
    Datagrams,
    IpfixWriter,
    pack_datagrams,
    starts_with_flows,
)
from flowbuf._core.decoder import TUNNELS, Decoder
from flowbuf._core.generate import generate
from flowbuf._core.json import JSON_FORMS, JsonConverter
from flowbuf._core.messages import (
    MessageReader,
    count_messages,
    cut_messages,
    hash_conversations,
    join_messages,
    split_messages,
    whole_messages,
)
from flowbuf._core.plan import (
    COUNTER_SOURCES,
    FLAGS,
    KINDS,
    LAST_OCCURRENCE,
    MAX_COLUMNS,
    MAX_RANKS,
    NAME_SOURCES,
    NETFLOW5_FIELDS,
    PEN_NETFLOW5,
    PEN_NETFLOW9,
    PEN_SCOPE,
    ROWS,
    SCOPES,
    SOURCES,
    TYPES,
    Plan,
    kind_fits,
)
from flowbuf._core.sockets import UNSENT, AccessList, Receiver, Recording, Sender, read_drops, spread_sockets
from flowbuf._core.state import OTHERS
from flowbuf._core.tables import Table, TableBuilder, TableType, export_stream
from flowbuf._core.wire import Row, fixed32, fixed64, read_varint, tag, unzigzag, varint, zigzag

__all__ = [
    "COMPILER",
    "COUNTER_SOURCES",
    "FIELD_KINDS",
    "FLAGS",
    "IPFIX_KINDS",
    "JSON_FORMS",
    "KINDS",
    "LAST_OCCURRENCE",
    "MAX_COLUMNS",
    "MAX_IPFIX_COLUMNS",
    "MAX_RANKS",
    "MAX_WINDOW",
    "NAME_SOURCES",
    "NETFLOW5_FIELDS",
    "OTHERS",
    "OUTPUT_KINDS",
    "PEN_NETFLOW5",
    "PEN_NETFLOW9",
    "PEN_SCOPE",
    "PROCESSORS",
    "ROWS",
    "SCOPES",
    "SOURCES",
    "START_SIZE",
    "STATUSES",
    "TUNNELS",
    "TYPES",
    "UNDECODED_HEADER",
    "UNFORWARDED",
    "UNSAVED",
    "UNSENT",
    "VALUE_ROLES",
    "AccessList",
    "AddressRows",
    "Capture",
    "ColumnBuilder",
    "Datagrams",
    "Decoder",
    "Forwarder",
    "IpfixWriter",
    "JsonConverter",
    "MessageReader",
    "MessageTables",
    "NetworkTable",
    "ObjectCodec",
    "ObjectOutput",
    "ObjectTypes",
    "Plan",
    "Receiver",
    "Recording",
    "Row",
    "Sender",
    "Table",
    "TableBuilder",
    "TableType",
    "TextWriter",
    "UndecodedBuffer",
    "copy_datagrams",
    "count_messages",
    "cut_messages",
    "encode_arrow_array",
    "encode_arrow_stream",
    "export_stream",
    "fixed32",
    "fixed64",
    "format_ip",
    "generate",
    "hash_conversations",
    "join_messages",
    "kind_fits",
    "pack_datagrams",
    "read_drops",
    "read_varint",
    "split_messages",
    "spread_sockets",
    "starts_with_flows",
    "tag",
    "unzigzag",
    "varint",
    "whole_messages",
    "zigzag",
]
