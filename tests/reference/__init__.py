"""A decoder of NetFlow v1, v5, v7, v9, IPFIX and sFlow v5 in plain Python, for comparison with flowbuf's
core.

It follows the specifications, in the order of the wire, and shares no code with the core. For gaps of a
specification, the docstring of the module states the chosen interpretation. The number of exporters and
templates is not limited.

    octets      a byte string with a position
    values      the values of a flow, uninterpreted
    datagram    one datagram, and the state of exporters
    packet      sampled packets
    tunnel      tunnels in sampled packets
    derived     values derived from elements
    early       data sets that arrive before their template
    biflow      records of both directions
    lists       lists inside records
    structured  records inside records
    templates   sets, templates, records, sampling: common parts of NetFlow v9 and IPFIX
    netflow     NetFlow v1, v5, v7 and v9
    ipfix       IPFIX
    sflow       sFlow v5
    sflow_counters  counter and drop samples of sFlow
    options     options data: rows, names, elements without a column
    sequence    sequence numbers and losses
    columns     conversion of values to the columns of a schema
    decoder     the decoder itself
    wire        a reader of Protocol Buffers messages, for the output of the core

`codec` is a separate reference: the codec of any message type (`flowbuf.Codec`). `codec_rules`, `codec_write`
and `codec_read` are its parts.
"""

from .decoder import Decoder

__all__ = ["Decoder"]
