/* A walk over a packet from the outside in: Ethernet, tags, labels, PPPoE, SNAP, IPv4 or IPv6, up
   to the transport header. Every step checks the bytes that it reads, and consumes some. */
#include "core/packet/tunnel.h"

enum {
    LOWEST_ETHERTYPE = 0x0600, /* lower values are a length (IEEE 802.3) */
    HOP_BY_HOP = 0,
    ROUTING = 43,
    FRAGMENT = 44,
    AUTHENTICATION = 51,
    DESTINATION = 60,
};

/* Position of a walk. */
typedef struct {
    const uint8_t *p, *end;
    fb_layers *layers; /* NULL: headers are not listed */
} walker;

static size_t bytes_left(const walker *w) {
    return (size_t)(w->end - w->p);
}

static void list_layer(fb_layers *layers, fb_layer kind, size_t size) {
    layers->more |= layers->count == FB_MAX_LAYERS;
    if (layers->count == FB_MAX_LAYERS) return;
    layers->kind[layers->count] = (uint8_t)kind;
    layers->size[layers->count++] = (uint32_t)size;
}

static void take_layer(walker *w, fb_layer kind, size_t size) {
    if (FB_UNLIKELY(w->layers != NULL)) list_layer(w->layers, kind, size);
    w->p += size;
}

/* End the walk. Always returns false. */
static bool end_walk(fb_packet *packet, fb_status problem, const uint8_t *at) {
    packet->problem = problem;
    packet->problem_at = at;
    return false;
}

/* Link layers -------------------------------------------------------------------------------- */

/* Each step returns false if the walk ends. Otherwise *type is that of the next header, at w->p. */

static bool step_ethernet(fb_packet *packet, walker *w, uint32_t *type) {
    if (bytes_left(w) < 14) return false;
    if (!packet->frame) packet->frame = w->p;
    *type = fb_load16(w->p + 12);
    take_layer(w, FB_LAYER_ETHERNET, 14);
    return true;
}

/* IEEE 802.1Q clause 9.6. Of the tag control information, only the 12 bits of the VLAN id are
   used. */
static bool step_tag(fb_packet *packet, walker *w, uint32_t *type) {
    if (bytes_left(w) < 2) return false;
    uint16_t id = fb_load16(w->p) & 0x0fff;
    if (packet->tags == 0) packet->vlan_id = id;
    if (packet->tags == 1) packet->inner_vlan_id = id;
    if (packet->tags < 2) packet->tags++;
    if (bytes_left(w) < 4) return false;
    *type = fb_load16(w->p + 2);
    take_layer(w, FB_LAYER_DOT1Q, 4);
    return true;
}

/* RFC 1042: an 802.3 length is followed by AA AA 03 (LLC: a SNAP header follows) and 00 00 00 (an
   ethertype follows). */
static bool step_snap(fb_packet *packet, walker *w, uint32_t *type) {
    static const uint8_t snap[] = {0xaa, 0xaa, 3, 0, 0, 0};
    if (bytes_left(w) < 8 || memcmp(w->p, snap, sizeof snap) != 0)
        return end_walk(packet, FB_UNKNOWN_HEADER, w->p);
    *type = fb_load16(w->p + 6);
    if (*type < LOWEST_ETHERTYPE) *type = FB_PACKET_UNKNOWN;
    take_layer(w, FB_LAYER_UNKNOWN, 8);
    return true;
}

/* RFC 2516 section 4, a session: version 1 and type 1, code 0, session id, length of the rest. The
   protocol field of PPP follows. It may have one byte, because only the last byte of a protocol
   number is odd (RFC 1661 section 6.5).

   +----+----+------+------------+--------+----------+
   | 1  | 1  | code | session id | length | protocol |   1 byte, 1, 2, 2, 1 or 2
   +----+----+------+------------+--------+----------+ */
static bool step_pppoe(fb_packet *packet, walker *w, uint32_t *type) {
    const uint8_t *p = w->p;
    if (bytes_left(w) < 6) return false;
    if (p[0] != 0x11 || p[1] != 0) return end_walk(packet, FB_UNKNOWN_HEADER, p);
    size_t length = fb_load16(p + 4), size = 7;
    if (bytes_left(w) - 6 > length) w->end = p + 6 + length;
    if (bytes_left(w) < 7) return false;
    uint32_t protocol = p[6];
    if (!(protocol & 1)) {
        if (bytes_left(w) < 8) return false;
        protocol = fb_load16(p + 6);
        size = 8;
    }
    switch (protocol) {
        case 0x0021: *type = FB_ETHERTYPE_IPV4; break;
        case 0x0057: *type = FB_ETHERTYPE_IPV6; break;
        case 0x0281: *type = FB_ETHERTYPE_MPLS; break;
        case 0x0283: *type = FB_ETHERTYPE_MPLS_MULTICAST; break;
        default: return end_walk(packet, FB_UNKNOWN_HEADER, p + 6);
    }
    take_layer(w, FB_LAYER_UNKNOWN, size);
    return true;
}

/* MPLS --------------------------------------------------------------------------------------- */

/* Return true if an IPv4 header is complete and its checksum is correct (RFC 791 section 3.1: the
   sum of its words is all ones). */
static bool has_valid_ipv4_header(const uint8_t *p, size_t size) {
    if (size < 20 || p[0] >> 4 != 4) return false;
    size_t header = (size_t)(p[0] & 0x0f) * 4;
    if (header < 20 || header > size) return false;
    uint32_t sum = 0;
    for (size_t i = 0; i < header; i += 2) sum += fb_load16(p + i);
    return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/* IPv6 has no checksum. The only possible checks are a non-zero hop limit and a source that is not
   a multicast address. */
static bool is_likely_ipv6(const uint8_t *p, size_t size) {
    return size >= 40 && p[0] >> 4 == 6 && p[7] != 0 && p[8] != 0xff;
}

/* Return the ethertype of the IP header if the bytes look like an Ethernet frame, else 0. The
   source must not be a group address, and an IP header that passes its checks must follow at most
   two tags. */
static uint32_t recognize_frame(const uint8_t *p, size_t size) {
    if (size < 14 || p[6] & 1) return 0;
    uint32_t type = fb_load16(p + 12);
    p += 14, size -= 14;
    for (unsigned tags = 0; tags < 2 && fb_is_tag(type) && size >= 4; tags++) {
        type = fb_load16(p + 2);
        p += 4, size -= 4;
    }
    if (type == FB_ETHERTYPE_IPV4) return has_valid_ipv4_header(p, size) ? type : 0;
    return type == FB_ETHERTYPE_IPV6 && is_likely_ipv6(p, size) ? type : 0;
}

/* The first nibble is 0: either a control word comes before a frame, or the destination of a frame
   begins so. A control word is 16 zero bits and a sequence number (RFC 4385 section 3, RFC 4448
   section 4.6). One of all zeros is accepted. One with a sequence number is accepted only before
   bytes that look like a frame, because other kinds of pseudowires have control words, too. The
   frame without a control word is tried first: four bytes further on, a tagged frame looks like a
   frame, too. */
static bool step_control_word(fb_packet *packet, walker *w, uint32_t *type) {
    const uint8_t *p = w->p;
    if (bytes_left(w) < 4) return false;
    bool word = fb_load32(p) == 0;
    if (!word && !recognize_frame(p, bytes_left(w))) {
        word = fb_load16(p) == 0 && recognize_frame(p + 4, bytes_left(w) - 4);
        if (!word) return end_walk(packet, FB_UNKNOWN_HEADER, p);
    }
    *type = FB_PACKET_FRAME;
    if (word) take_layer(w, FB_LAYER_UNKNOWN, 4);
    return true;
}

/* The payload of labels that do not name it. Its type is guessed from the first nibble, as routers
   do: 4 is IPv4, 6 is IPv6, 0 is a control word. A pseudowire without a control word (RFC 4448)
   begins with a MAC address, which may have any nibble (RFC 9790 section 2). It is accepted if a
   frame is recognized. With nibble 4 or 6, the frame must also hold an IPv4 header with a correct
   checksum, and the payload itself must not be such a header. */
static bool step_label_payload(fb_packet *packet, walker *w, uint32_t *type) {
    unsigned nibble = w->p[0] >> 4;
    if (nibble == 0) return step_control_word(packet, w, type);
    uint32_t inside = recognize_frame(w->p, bytes_left(w));
    if (nibble == 4 || nibble == 6) {
        bool frame = inside == FB_ETHERTYPE_IPV4 && !has_valid_ipv4_header(w->p, bytes_left(w));
        *type = frame ? FB_PACKET_FRAME : nibble == 4 ? FB_ETHERTYPE_IPV4 : FB_ETHERTYPE_IPV6;
        return true;
    }
    *type = FB_PACKET_FRAME;
    return inside || end_walk(packet, FB_UNKNOWN_HEADER, w->p);
}

/* RFC 3032 section 2.1: label (20 bits), traffic class (3), bottom of stack (1), time to live (8).
   An explicit null label at the bottom names its payload. */
static bool step_labels(fb_packet *packet, walker *w, uint32_t *type) {
    const uint8_t *stack = w->p;
    if (packet->label_stacks == FB_MAX_LABEL_STACKS)
        return end_walk(packet, FB_UNKNOWN_HEADER, stack);
    const uint8_t *p = stack;
    bool bottom = false;
    while (!bottom && w->end - p >= 4) {
        bottom = p[2] & 1;
        p += 4;
    }
    if (p == stack) return false;
    packet->labels[packet->label_stacks++] = (fb_bytes){stack, (size_t)(p - stack)};
    take_layer(w, FB_LAYER_MPLS, (size_t)(p - stack));
    if (!bottom) return false;
    uint32_t label = fb_load32(p - 4) >> 12;
    *type = label == 0 ? FB_ETHERTYPE_IPV4 : FB_ETHERTYPE_IPV6;
    if (label == 0 || label == 2) return true;
    return bytes_left(w) && step_label_payload(packet, w, type);
}

/* Walk Ethernet headers, tags, labels, frames below labels, and so on. True: w->p is at an IP
   header, and packet->etype is its type. */
static bool walk_link(fb_packet *packet, walker *w, uint32_t type) {
    for (;;) {
        bool on;
        switch (type) {
            case FB_ETHERTYPE_IPV4:
            case FB_ETHERTYPE_IPV6: packet->etype = (uint16_t)type; return true;
            case FB_PACKET_FRAME: on = step_ethernet(packet, w, &type); break;
            case FB_PACKET_UNKNOWN: return end_walk(packet, FB_UNKNOWN_HEADER, w->p);
            case FB_ETHERTYPE_MPLS:
            case FB_ETHERTYPE_MPLS_MULTICAST:
                packet->etype = (uint16_t)type;
                on = step_labels(packet, w, &type);
                break;
            case FB_ETHERTYPE_PPPOE:
                packet->etype = (uint16_t)type;
                on = step_pppoe(packet, w, &type);
                break;
            default:
                if (fb_is_tag(type)) {
                    on = step_tag(packet, w, &type);
                } else if (type < LOWEST_ETHERTYPE) {
                    on = step_snap(packet, w, &type);
                } else {
                    packet->etype = (uint16_t)type;
                    return end_walk(packet, FB_UNKNOWN_HEADER, w->p);
                }
        }
        if (!on) return false;
    }
}

/* Network layer ------------------------------------------------------------------------------ */

/* Link layers pad short packets. Bytes after the end of the IP packet are not its transport
   header. */
static void trim_to_length(walker *w, size_t length) {
    if (bytes_left(w) > length) w->end = w->p + length;
}

static void set_transport(fb_packet *packet, const walker *w) {
    packet->transport = w->p;
    packet->end = w->end;
}

/* RFC 791 section 3.1. A total length of 0 means unknown: hosts that leave segmentation to the
   network card send it. */
static void walk_ipv4(fb_packet *packet, walker *w) {
    const uint8_t *p = w->p;
    if (bytes_left(w) && p[0] >> 4 != 4) {
        end_walk(packet, FB_BAD_PACKET, p);
        return;
    }
    if (bytes_left(w) < 20) return;
    size_t header = (size_t)(p[0] & 0x0f) * 4, length = fb_load16(p + 2);
    if (header < 20 || (length && length < header)) {
        end_walk(packet, FB_BAD_PACKET, p);
        return;
    }
    packet->ip = p;
    packet->version = 4;
    packet->proto = p[9];
    packet->ip_length = (uint32_t)length;
    if (length) trim_to_length(w, length);
    if (FB_UNLIKELY(w->layers != NULL)) list_layer(w->layers, FB_LAYER_IPV4, header);
    if (fb_load16(p + 6) & 0x1fff || bytes_left(w) < header) return;
    w->p += header;
    set_transport(packet, w);
}

static bool is_extension(unsigned next) {
    const uint64_t below_64 = 1ull << HOP_BY_HOP | 1ull << ROUTING | 1ull << FRAGMENT |
                              1ull << AUTHENTICATION | 1ull << DESTINATION;
    if (next < 64) return below_64 >> next & 1;
    return next == 135 || next == 139 || next == 140; /* mobility, HIP, shim6 */
}

static fb_layer extension_layer(unsigned kind) {
    switch (kind) {
        case HOP_BY_HOP: return FB_LAYER_IPV6_HOP_BY_HOP;
        case ROUTING: return FB_LAYER_IPV6_ROUTING;
        case FRAGMENT: return FB_LAYER_IPV6_FRAGMENT;
        case DESTINATION: return FB_LAYER_IPV6_DESTINATION;
        default: return FB_LAYER_UNKNOWN;
    }
}

/* RFC 8200 section 4.4: next header, length, routing type, segments left. */
static void store_routing(fb_packet *packet, const walker *w, size_t size) {
    if (!packet->routing.data)
        packet->routing = (fb_bytes){w->p, bytes_left(w) < size ? bytes_left(w) : size};
    *(w->p[2] == 4 ? &packet->segment_routing : &packet->other_routing) = true;
}

/* RFC 8200 section 4: each extension header begins with the number of the next header and its own
   length. The length is in units of 8 bytes minus one. That of the authentication header (RFC 4302)
   is in words of 4 bytes minus two. Section 4.5, a fragment header: next header, reserved, offset
   (13 bits) and M flag, identification. The protocol is the number after the last extension header,
   or that of the first one that is cut off. In a later fragment, it is the one that its fragment
   header names. */
static void walk_extensions(fb_packet *packet, walker *w) {
    while (is_extension(packet->proto)) {
        const uint8_t *p = w->p;
        unsigned kind = packet->proto;
        if (bytes_left(w) < 8) return;
        size_t size = kind == FRAGMENT         ? 8
                      : kind == AUTHENTICATION ? ((size_t)p[1] + 2) * 4
                                               : ((size_t)p[1] + 1) * 8;
        packet->proto = p[0];
        if (kind == FRAGMENT && !packet->fragment) packet->fragment = p;
        if (kind == ROUTING) store_routing(packet, w, size);
        if (FB_UNLIKELY(w->layers != NULL)) list_layer(w->layers, extension_layer(kind), size);
        if (bytes_left(w) < size || (kind == FRAGMENT && fb_load16(p + 2) >> 3)) return;
        w->p += size;
    }
    set_transport(packet, w);
}

/* RFC 8200 section 3. A payload length of 0 means a jumbogram (RFC 2675), or a packet whose next
   header states that it has no payload. */
static void walk_ipv6(fb_packet *packet, walker *w) {
    const uint8_t *p = w->p;
    if (bytes_left(w) && p[0] >> 4 != 6) {
        end_walk(packet, FB_BAD_PACKET, p);
        return;
    }
    if (bytes_left(w) < 40) return;
    size_t payload = fb_load16(p + 4);
    packet->ip = p;
    packet->version = 6;
    packet->proto = p[6];
    if (payload || p[6] == 59) {
        packet->ip_length = (uint32_t)payload + 40;
        trim_to_length(w, payload + 40);
    }
    take_layer(w, FB_LAYER_IPV6, 40);
    walk_extensions(packet, w);
}

/* Whole packets ------------------------------------------------------------------------------ */

static void clear_packet(fb_packet *packet) {
    packet->frame = packet->ip = packet->fragment = packet->transport = packet->end =
        packet->outer = packet->problem_at = NULL;
    packet->routing = (fb_bytes){NULL, 0};
    packet->ip_length = 0;
    packet->etype = packet->vlan_id = packet->inner_vlan_id = 0;
    packet->label_stacks = packet->tags = packet->version = packet->proto = packet->tunnels = 0;
    packet->segment_routing = packet->other_routing = packet->too_deep = false;
    packet->tunnel_id = 0;
    packet->problem = FB_OK;
}

/* Walk one packet, without those inside its tunnels. The walker is passed by value, so that it
   stays in registers. */
static void walk_one(fb_packet *packet, walker w, uint32_t type) {
    clear_packet(packet);
    if (!walk_link(packet, &w, type)) return;
    if (packet->etype == FB_ETHERTYPE_IPV4) walk_ipv4(packet, &w);
    else walk_ipv6(packet, &w);
}

/* Return true if any header of the packet was readable. */
static bool is_readable(const fb_packet *packet) {
    return packet->frame || packet->label_stacks || packet->ip;
}

static void open_tunnels(fb_packet *packet, unsigned tunnels) {
    fb_packet inside;
    fb_inner inner;
    while (fb_tunnel_find(packet, tunnels, &inner)) {
        if (packet->tunnels == FB_MAX_TUNNELS) {
            packet->too_deep = true;
            return;
        }
        walk_one(&inside, (walker){inner.p, packet->end, NULL}, inner.type);
        if (!is_readable(&inside)) {
            end_walk(packet, inside.problem, inside.problem_at);
            return;
        }
        inside.tunnels = (uint8_t)(packet->tunnels + 1);
        inside.outer = packet->tunnels ? packet->outer : packet->ip;
        inside.tunnel_id = packet->tunnels ? packet->tunnel_id : inner.id;
        *packet = inside;
    }
}

void fb_packet_walk(fb_packet *packet, fb_bytes bytes, uint32_t type, unsigned tunnels) {
    walk_one(packet, (walker){bytes.data, bytes.data + bytes.size, NULL}, type);
    if (FB_UNLIKELY(tunnels)) open_tunnels(packet, tunnels);
}

/* List the transport header. Each protocol has a number of bytes that must be present. */
static void list_transport(fb_layers *layers, const fb_packet *packet) {
    const uint8_t *p = packet->transport;
    size_t size = p ? (size_t)(packet->end - p) : 0;
    switch (packet->proto) {
        case 1:
            if (size >= 8) list_layer(layers, FB_LAYER_ICMP, 8);
            break;
        case 58:
            if (size >= 8) list_layer(layers, FB_LAYER_ICMPV6, 8);
            break;
        case 6:
            if (size >= 20) list_layer(layers, FB_LAYER_TCP, (size_t)(p[12] >> 4) * 4);
            break;
        case 17:
            if (size >= 8) list_layer(layers, FB_LAYER_UDP, 8);
            break;
        case 33:
            if (size >= 12) list_layer(layers, FB_LAYER_UNKNOWN, (size_t)p[4] * 4);
            break;
        case 47:
            if (size >= 4) list_layer(layers, FB_LAYER_GRE, fb_gre_size(p));
            break;
        case 132:
            if (size >= 12) list_layer(layers, FB_LAYER_SCTP, 12);
            break;
        case 136:
            if (size >= 8) list_layer(layers, FB_LAYER_UNKNOWN, 8);
            break;
        default: break;
    }
}

void fb_packet_list_layers(fb_layers *layers, fb_bytes bytes, uint32_t type) {
    walker w = {bytes.data, bytes.data + bytes.size, layers};
    layers->count = 0;
    layers->more = false;
    for (;;) { /* ends: each iteration that finds a tunnel has listed an IP header */
        fb_packet packet;
        fb_inner inner;
        walk_one(&packet, w, type);
        list_transport(layers, &packet);
        if (layers->more || !fb_tunnel_find(&packet, FB_EVERY_TUNNEL, &inner)) return;
        if (inner.layer != FB_LAYER_UNKNOWN) list_layer(layers, inner.layer, inner.size);
        w = (walker){inner.p, packet.end, layers};
        type = inner.type;
    }
}

/* Type 4 (RFC 8754 section 2) lists Last Entry + 1 segments, which options may follow. Types 0 (RFC
   5095) and 2 (RFC 6275) consist of addresses up to the end. In all three, addresses begin at the
   ninth byte. */
const uint8_t *fb_packet_routing_addresses(fb_bytes routing, size_t *count) {
    const uint8_t *p = routing.data;
    size_t there = (routing.size - 8) / 16, segments = (size_t)p[4] + 1;
    *count = p[2] == 4 && segments < there ? segments : there;
    return p[2] == 0 || p[2] == 2 || p[2] == 4 ? p + 8 : NULL;
}
