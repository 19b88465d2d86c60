/* Lists inside records (RFC 6313): the values of their members, and the validation of their
   lengths. */
#include "tests/support/session.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Kinds of some registered elements, as a schema states them for all elements. */
#define REGISTRY \
    "registry 8@ip 16@uint 22@time_uptime 82@string 95@bytes 150@time_s 154@time_ntp_us " \
    "161@span_ms 276@bool " \
    "291@list 311@float 434@sint\n"

/* Decode a record with the list in one variable-length field. `line` is a column that reads element
   291. */
static void check_list(const char *line, const char *list, size_t size, const char *flow,
                       const char *counters, int at) {
    session s;
    byte_buffer d;
    session_open(&s, line, 1 << 16);
    ipfix_begin(&d, (ipfix_header){.seconds = 1000});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({291, VARIABLE}));
    set_end(&d, set);
    set = set_begin(&d, 256);
    put_variable(&d, list, size, 0);
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);
    check_session(&s, flow, counters, __FILE__, at);
}

#define CHECK_LIST(line, list, flow, counters) \
    check_list(REGISTRY line, list, sizeof list - 1, flow, counters, __LINE__)

#define UINTS "1 v uint limit=65535 repeated : ipfix:291@list"
#define TIMES "1 v timestamp unit=1000000000 repeated : ipfix:291@list"

/* A list of three lists: of egressInterface, of a CERT element, and one that is cut
   short. */
#define LISTS \
    "\3\1\x23\xff\xff" \
    "\x0d\3\0\x0e\0\4\0\0\0\7\0\0\0\x08" \
    "\x0c\3\x80\x6e\xff\xff\0\0\x1a\xd7\2ab" \
    "\3\3\0\7"

static void opens_lists_that_feed_no_column(void) {
    static const char columns[] =
        "1 out uint repeated : ipfix:14\n2 host string : ipfix:6871/110\n";
    static const char list[] = LISTS;
    check_list(columns, list, sizeof list - 1, "out=[7,8] host=\"ab\"\n", "bad_list=1", __LINE__);
    for (size_t size = 0; size < sizeof list; size++) {
        char cut[sizeof list];
        for (unsigned value = 0; value < 256; value++) {
            session s;
            byte_buffer d;
            memcpy(cut, list, sizeof list);
            cut[size ? size - 1 : 0] = (char)value;
            session_open(&s, columns, 1 << 16);
            ipfix_begin(&d, (ipfix_header){.seconds = 1000});
            size_t set = set_begin(&d, 2);
            put_template(&d, 256, FIELDS({291, VARIABLE}));
            set_end(&d, set);
            set = set_begin(&d, 256);
            put_variable(&d, cut, value & 1 ? sizeof list - 1 : size, 0);
            set_end(&d, set), ipfix_end(&d);
            session_feed(&s, &d);
            CHECK_EQUAL(s.row.count, 1);
            session_close(&s);
        }
    }
}

static void converts_members_by_the_kind_of_their_element(void) {
    CHECK_LIST(UINTS, "\4\0\x10\0\2\0\1\0\0\0\2", "v=[1,0,2]\n", "");
    CHECK_LIST(UINTS, "\4\0\x10\0\3\0\0\1\1\0\0", "v=[1]\n", "out_of_range=1");
    CHECK_LIST(UINTS, "\4\0\x5f\0\2\0\5", "v=[5]\n", "");
    CHECK_LIST("1 v sint repeated : ipfix:291@list", "\4\1\xb2\0\1\xff\0\1", "v=[-1,0,1]\n", "");
    CHECK_LIST("1 v int repeated : ipfix:291@list", "\4\0\x10\0\1\xff", "v=[255]\n", "");
    CHECK_LIST("1 v bool repeated : ipfix:291@list", "\4\1\x14\0\1\1\2\3\0", "v=[1,0]\n",
               "out_of_range=1");
    CHECK_LIST("1 v double repeated : ipfix:291@list", "\4\1\x37\0\4\x3f\x80\0\0\0\0\0\0",
               "v=[1,0]\n", "");
    CHECK_LIST("1 v ip repeated : ipfix:291@list", "\4\0\x8\0\4\1\2\3\4\0\0\0\0\5\6\7\x8",
               "v=[1.2.3.4,5.6.7.8]\n", "");
    CHECK_LIST("1 v string repeated : ipfix:291@list", "\4\0\x52\xff\xff\2ab\0\xff\0\1\xff",
               "v=[\"ab\",\"\",\"\xef\xbf\xbd\"]\n", "invalid_utf8=1");
    CHECK_LIST("1 v bytes repeated : ipfix:291@list", "\4\0\x10\0\2\0\1\0\0", "v=[x0001,x0000]\n",
               "");
    CHECK_LIST("1 v enum map=0:1,5:2 repeated : ipfix:291@list", "\4\0\x10\0\1\0\5\6", "v=[1,2]\n",
               "unmapped=1");
    CHECK_LIST(TIMES, "\4\0\x96\0\4\0\0\0\5\0\0\0\0", "v=[5]\n", "");
    CHECK_LIST(TIMES, "\4\0\x9a\0\x8\x83\xaa\x7e\x81\0\0\0\0", "v=[1]\n", "");
    CHECK_LIST("1 v duration unit=1000000000 repeated : ipfix:291@list", "\4\0\xa1\0\2\x7\xd0",
               "v=[2]\n", "");
    CHECK_LIST("1 v duration unit=1000000000 repeated : ipfix:291@list", "\4\0\x16\0\2\x7\xd0",
               "v=[2]\n", "");
    CHECK_LIST(UINTS, "\4\x80\x10\0\1\0\0\0\x9\7", "v=[7]\n", ""); /* of an enterprise */
    CHECK_LIST(UINTS, "\4\x01\xf4\0\1\7", "v=[7]\n", "");          /* not registered */
}

static void stores_the_first_member_that_is_a_value_in_single_columns(void) {
    CHECK_LIST("1 v uint : ipfix:291@list", "\4\0\x10\0\1\0\7\x8", "v=7\n", "");
    CHECK_LIST("1 v uint explicit : ipfix:291@list", "\4\0\x10\0\1\0\0", "v=0\n", "");
    /* later members are ignored */
    CHECK_LIST("1 v uint : ipfix:291@list", "\4\0\x10\0\2\0\7\x8", "v=7\n", "");
}

/* Columns with and without the rule that zero is a value. The source of the next rank is
   meta:source_port, 4000. */
static void stops_the_search_at_zeros_that_are_values(void) {
    static const struct {
        const char *list;
        size_t size;
        const char *flow, *counters;
    } cases[] = {
        {"\4\0\x10\0\1\0\0", 7, "plain=4000\n", ""},
        {"\4\0\x10\0\1\0\7", 7, "plain=7 zero=7\n", ""},
        {"\4\0\x10\0\1", 5, "plain=4000 zero=4000\n", ""},
        {"\4\0\x10\0\4\0\1\0\0\0\0\0\0", 13, "plain=4000\n", "out_of_range=2"},
        {"\4\0\x10\0\4\0\1\0\0", 9, "plain=4000 zero=4000\n", "out_of_range=2"},
        {"\4\0\x10\0\2\0\0\0", 8, "plain=4000\n", "bad_list=2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_list(REGISTRY "1 plain uint limit=65535 : ipfix:291@list meta:source_port\n"
                            "2 zero uint limit=65535 zero : ipfix:291@list meta:source_port",
                   cases[i].list, cases[i].size, cases[i].flow, cases[i].counters, __LINE__);
}

static void counts_unsupported_lists(void) {
    CHECK_LIST(UINTS, "\0\0\x10\0\1\7", "\n", "opaque_value=1"); /* noneOf */
    CHECK_LIST(UINTS, "\4\0\x52\0\1x", "\n", "bad_list=1");
    CHECK_LIST(UINTS, "\4\1\x23\0\5\4\0\x10\0\1", "\n", "bad_list=1"); /* lists of lists */
    CHECK_LIST(TIMES, "\4\0\x10\0\1\7", "\n", "bad_list=1");
    CHECK_LIST("1 v ip repeated : ipfix:291@list", "\4\0\x8\0\3\1\2\3", "\n", "bad_field_size=1");
}

static void keeps_complete_members_of_truncated_lists(void) {
    static const char list[] = "\4\x80\x10\0\2\0\0\0\x9\0\1\0\2";
    static const char *const flows[] = {"\n", "v=[1]\n", "v=[1,2]\n"};
    for (size_t size = 0; size < sizeof list; size++) {
        bool whole = size == 0 || size == 9 || size == 11 || size == 13;
        size_t members = (size >= 11) + (size >= 13);
        check_list(REGISTRY UINTS, list, size, flows[members], whole ? "" : "bad_list=1", __LINE__);
    }
    CHECK_LIST(UINTS, "\4\0\x10\0\0\1\2", "\n", "bad_list=1"); /* members of no bytes */
    CHECK_LIST(UINTS, "\4\0\x10\0\0", "\n", "");
    CHECK_LIST(UINTS, "\4\0\x10\xff\xff\1\7\2\1", "v=[7]\n", "bad_list=1");
    CHECK_LIST(UINTS, "\4\0\x10\xff\xff\xff\0", "\n", "bad_list=1");
}

/* Decode the longest list of a datagram into columns whose members take the most room. The row
   asserts its bound. */
static void stays_within_the_reserved_room_with_the_longest_lists(void) {
    static const char *const lines[] = {
        REGISTRY "536870911 v timestamp unit=1 repeated : ipfix:291@list\n",
        REGISTRY "536870911 v string repeated : ipfix:291@list\n",
        REGISTRY "536870911 v ip repeated : ipfix:291@list\n1 w bytes repeated : ipfix:291@list\n"
                 "2 x sint repeated : ipfix:291@list\n",
    };
    static const unsigned elements[] = {22, 150, 82, 8, 434};
    for (size_t i = 0; i < COUNT(lines); i++)
        for (size_t k = 0; k < COUNT(elements); k++)
            for (unsigned size = 1; size < 9; size++) {
                static byte_buffer list, d;
                session s;
                session_open(&s, lines[i], 0);
                list.size = 0;
                put8(&list, 4), put16(&list, elements[k]),
                    put16(&list, size == 1 ? VARIABLE : size);
                if (size == 1) put_repeated(&list, 0, 60000); /* empty members of variable length */
                else put_repeated(&list, 0xff, 60000);
                ipfix_begin(&d, (ipfix_header){.seconds = 0xffffffff});
                size_t set = set_begin(&d, 2);
                put_template(&d, 256, FIELDS({291, VARIABLE}));
                set_end(&d, set);
                set = set_begin(&d, 256);
                put_variable(&d, list.data, list.size, 1);
                set_end(&d, set), ipfix_end(&d);
                session_feed(&s, &d);
                CHECK_EQUAL(s.row.count, 1);
                session_close(&s);
            }
}

RUN_TESTS(TEST(opens_lists_that_feed_no_column),
          TEST(converts_members_by_the_kind_of_their_element),
          TEST(stores_the_first_member_that_is_a_value_in_single_columns),
          TEST(stops_the_search_at_zeros_that_are_values), TEST(counts_unsupported_lists),
          TEST(keeps_complete_members_of_truncated_lists),
          TEST(stays_within_the_reserved_room_with_the_longest_lists))
