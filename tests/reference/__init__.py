"""A decoder of NetFlow v1, v5, v7, v9, IPFIX and sFlow v5 in plain Python: what flowbuf's core is compared
with.

It is written from the specifications for whoever wants to know what a datagram means, in the order of the
wire, and shares no code with the core. Where a specification says nothing, the docstring of the module says
which reading was chosen. It keeps no limits on exporters or templates.

    octets      taking octets apart
    values      what a flow says, uninterpreted
    datagram    one datagram, and what is known of exporters
    packet      sampled packets
    tunnel      the tunnels in them
    derived     what is concluded from elements
    early       data sets that come before their template
    biflow      records of both directions
    lists       lists inside records
    templates   sets, templates, records, sampling: what NetFlow v9 and IPFIX share
    netflow     NetFlow v1, v5, v7 and v9
    ipfix       IPFIX
    sflow       sFlow v5
    sflow_counters  its counter and drop samples
    sequence    sequence numbers: what was lost
    columns     from values to the columns of a schema
    decoder     the whole
    wire        Protocol Buffers messages, for reading what the core wrote

`codec` is another whole, the codec of any records (`flowbuf.Codec`): `codec_rules`, `codec_write` and
`codec_read` are its parts.
"""

from .decoder import Decoder

__all__ = ["Decoder"]
