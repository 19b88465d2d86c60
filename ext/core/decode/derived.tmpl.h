/* The sources `derived:…`: values that are computed from several fields of a record. */
#ifndef FB_DECODE_DERIVED_TMPL_H
#define FB_DECODE_DERIVED_TMPL_H

#include "core/exporter/sampling.h"
#include "core/decode/field.tmpl.h"
#include "core/decode/value.tmpl.h"

/* derived:etype. The family of the first non-zero address in record order, else ipVersion (60),
   else ethernetType (256). */
static uint64_t derive_etype(const fb_compiled_template *compiled, const uint8_t *record,
                             const fb_location *locations) {
    if (compiled->version == 5) return 0x0800;
    for (size_t i = 0; i < FB_MAX_ADDRESS_FIELDS && compiled->address_field[i] != FB_NO_FIELD;
         i++) {
        fb_bytes address =
            fb_compiled_template_field(compiled, compiled->address_field[i], record, locations);
        /* IPv4 addresses have 8 and 12, IPv6 addresses 27 and 28 */
        bool ipv4 = compiled->fields[compiled->address_field[i]].id < 27;
        if ((address.size == 4 || address.size == 16) &&
            !fb_is_no_address(address.data, address.size))
            return ipv4 ? 0x0800 : 0x86dd;
    }
    switch (fb_role_uint(compiled, FB_ROLE_IP_VERSION, record, locations)) {
        case 4: return 0x0800;
        case 6: return 0x86dd;
        default: return fb_role_uint(compiled, FB_ROLE_ETHERNET_TYPE, record, locations);
    }
}

static bool has_uint(const fb_compiled_template *compiled, unsigned role, const uint8_t *record,
                     const fb_location *locations) {
    size_t size = fb_compiled_template_role(compiled, role, record, locations).size;
    return size >= 1 && size <= 8;
}

/* derived:icmp_type and derived:icmp_code, as type << 8 | code. The value comes from
   icmpTypeCodeIPv4 (32) or icmpTypeCodeIPv6 (139). Zero in these elements is valid: it is an echo
   reply.

   Without these elements, Cisco's convention applies: the destination port holds the value if the
   source port is 0. For ICMPv6 a port below 256 is ignored. It is more likely a type without a
   code, and type 0 does not exist.

   Returns false if the record has no ICMP type. */
static bool derive_icmp(const fb_compiled_template *compiled, const uint8_t *record,
                        const fb_location *locations, uint64_t *both) {
    bool ipv4_first = compiled->role[FB_ROLE_ICMP_IPV4] < compiled->role[FB_ROLE_ICMP_IPV6];
    uint64_t value = fb_role_uint(compiled, ipv4_first ? FB_ROLE_ICMP_IPV4 : FB_ROLE_ICMP_IPV6,
                                  record, locations);
    if (!value)
        value = fb_role_uint(compiled, ipv4_first ? FB_ROLE_ICMP_IPV6 : FB_ROLE_ICMP_IPV4, record,
                             locations);
    *both = value;
    if (value || has_uint(compiled, FB_ROLE_ICMP_IPV4, record, locations) ||
        has_uint(compiled, FB_ROLE_ICMP_IPV6, record, locations))
        return true;
    uint64_t proto = fb_role_uint(compiled, FB_ROLE_PROTO, record, locations);
    uint64_t port = fb_role_uint(compiled, FB_ROLE_DST_PORT, record, locations);
    bool icmp = compiled->role[FB_ROLE_DST_PORT] != FB_NO_FIELD &&
                (proto == 1 || (proto == 58 && port >= 256));
    *both = port;
    return icmp && !fb_role_uint(compiled, FB_ROLE_SRC_PORT, record, locations);
}

/* derived:forwarding_status from Juniper's commonPropertiesId (2636/137). A record may hold this
   element several times, each with another property. The forwarding property has 2 bytes, and
   its top six bits are 2. Its lower bits are the drop reason. Returns 64 ("forwarded") or 128
   ("dropped"), both with unknown reason (RFC 7270 section 4.12), or 0 if the property is
   missing. */
static uint64_t derive_forwarding_status(const fb_compiled_template *compiled,
                                         const uint8_t *record, const fb_location *locations) {
    for (uint16_t i = compiled->role[FB_ROLE_COMMON_PROPERTIES]; i < compiled->field_count; i++) {
        if (compiled->fields[i].pen != FB_PEN_JUNIPER ||
            compiled->fields[i].id != FB_ID_COMMON_PROPERTIES)
            continue;
        fb_bytes field = fb_compiled_template_field(compiled, i, record, locations);
        if (field.size == 2 && fb_load16(field.data) >> 10 == 2)
            return fb_load16(field.data) & 0x3ff ? 128 : 64;
    }
    return 0;
}

/* derived:ip_flags from fragmentFlags (197). RFC bit order starts at the top of a byte: bit 0 is
   reserved, 1 is "don't fragment", 2 is "more fragments". The column gets them in its three low
   bits, as in the packet. A number above 255 is out of range, at every field size. */
static fb_cursor put_fragment_flags(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                    fb_target target, const fb_compiled_template *compiled,
                                    const uint8_t *record, const fb_location *locations) {
    uint64_t flags = fb_role_uint(compiled, FB_ROLE_FRAGMENT_FLAGS, record, locations);
    if (!has_uint(compiled, FB_ROLE_FRAGMENT_FLAGS, record, locations)) return at;
    if (flags <= UINT8_MAX) at = put_uint(c, emitter, at, target, flags >> 5);
    else count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, record);
    return at;
}

/* derived:mpls_labels from sections 70 to 79. A section has three bytes: label (20 bits),
   experimental (3), bottom of stack (1). Labels are read up to the bottom of the stack (RFC 3032
   section 2.1). An empty section gives a label only if a non-empty section follows it. */
static fb_cursor put_mpls_labels(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                                 const fb_compiled_template *compiled, const uint8_t *record,
                                 const fb_location *locations) {
    unsigned empty = 0;
    for (unsigned role = FB_ROLE_MPLS_1; role <= FB_ROLE_MPLS_10; role++) {
        fb_bytes section = fb_compiled_template_role(compiled, role, record, locations);
        if (section.size && section.size != 3)
            count_fault(c, emitter, at, target, FB_BAD_FIELD_SIZE, section.data);
        if (section.size != 3) continue;
        uint32_t value = fb_load24(section.data);
        if (!value) {
            empty++;
            continue;
        }
        for (; empty; empty--) at = put_member(c, emitter, at, target, 0);
        at = put_member(c, emitter, at, target, value >> 4);
        if (value & 1) break;
    }
    return end_list(c, emitter, at, target);
}

#endif
