/* From Arrow columns to messages: array types of each column type, refusals, and variants of array
   layouts. */
#include "tests/builders/arrow_bench.h"

/* Return the messages as text, and in a last line the reason that ended them. */
static const char *describe(bench *b, const arrow_node *batch) {
    size_t position = 0;
    text_clear(&b->text);
    if (b->status == FB_OK) {
        resize_output(b, 1 << 16);
        fb_status status = encode(b, batch, &position);
        describe_messages(&b->text, &b->plan, b->output, fb_row_size(&b->encoder.row));
        if (status == FB_OK) return text_of(&b->text);
        CHECK(status == FB_OUT_OF_RANGE || status == FB_BAD_ARGUMENT);
        CHECK(status == FB_BAD_ARGUMENT || position == b->encoder.source.fault.row);
        text_put(&b->text, "row %zu: ", b->encoder.source.fault.row);
    }
    text_put(&b->text, "%s", fb_arrow_reason_text(b->encoder.source.fault.reason));
    return text_of(&b->text);
}

/* Check one column: its lines joined by spaces, without its name. */
static void check_column(const char *column, arrow_node *node, size_t rows, const char *expected,
                         const char *what) {
    arrow_node *batch = arrow_batch(rows, 1, (arrow_node *[]){node});
    text lines = {0}, described = {0};
    bench b;
    text_put(&lines, "1 c %s", column);
    bench_open(&b, text_of(&lines), batch);
    const char *p = describe(&b, batch);
    while (*p) {
        const char *end = strchr(p, '\n');
        int size = end ? (int)(end - p) : (int)strlen(p);
        int name = size > 2 && p[0] == 'c' && p[1] == '=' ? 2 : 0;
        text_put(&described, "%s%.*s", described.size ? " | " : "", size - name, p + name);
        if (!size) text_put(&described, "-");
        p += end ? size + 1 : size;
    }
    if (strcmp(text_of(&described), expected)) fprintf(stderr, "%s from %s:\n", column, what);
    CHECK_TEXT(text_of(&described), expected);
    text_free(&lines);
    text_free(&described);
    bench_close(&b);
    arrow_free(batch);
}

/* Types -------------------------------------------------------------------------------------- */

#define BEYOND   "the value is outside the column's range"
#define FRACTION "the number is not an integer"
#define MISFIT   "values of this type cannot fill the column"
#define MAC      "uint limit=281474976710655"
#define NO_DECIMAL \
    "of decimals, only those of 128 bits and scale 0 are supported: cast to an integer"
#define NO_MEMBER  "the text is not a member of the enum"
#define NO_ADDRESS "the text is not an IP address"
#define TIME_MS    "timestamp unit=1000000"

typedef struct {
    const char *column, *format, *values, *expected;
} pair;

static const pair pairs[] = {
    {"uint limit=255", "c", "0 1 null 127 -1", "- | 1 | - | 127 | row 4: " BEYOND},
    {"uint limit=255", "C", "0 1 null 255", "- | 1 | - | 255"},
    {"uint limit=255", "s", "255 null 256", "255 | - | row 2: " BEYOND},
    {"uint limit=255", "S", "255 256", "255 | row 1: " BEYOND},
    {"uint limit=255", "i", "255 -2147483648", "255 | row 1: " BEYOND},
    {"uint limit=255", "I", "255 4294967295", "255 | row 1: " BEYOND},
    {"uint limit=255", "l", "255 -9223372036854775808", "255 | row 1: " BEYOND},
    {"uint limit=255", "L", "255 18446744073709551615", "255 | row 1: " BEYOND},
    {"uint limit=255", "b", "0 1 null 1", "- | 1 | - | 1"},
    {"uint limit=255", "f", "0 1 nan null 255 256", "- | 1 | - | - | 255 | row 5: " BEYOND},
    {"uint limit=255", "g", "255 -0.0 1.5", "255 | - | row 2: " FRACTION},
    {"uint limit=255", "g", "-1", "row 0: " BEYOND},
    {"uint limit=255", "g", "-0.5", "row 0: " FRACTION},
    {"uint limit=255", "g", "inf", "row 0: " BEYOND},
    {"uint limit=255", "u", "1", MISFIT},
    {"uint limit=255", "z", "x01", MISFIT},
    {"uint limit=255", "tsn:", "1", MISFIT},
    {"uint limit=255", "tDs", "1", MISFIT},
    {"uint limit=255", "n", "null null", "- | -"},
    {"uint limit=65535", "S", "0 65535", "- | 65535"},
    {"uint limit=65535", "i", "65535 65536", "65535 | row 1: " BEYOND},
    {"uint limit=4294967295", "I", "4294967295", "4294967295"},
    {"uint limit=4294967295", "l", "4294967295 4294967296", "4294967295 | row 1: " BEYOND},
    {"uint", "L", "18446744073709551615 72057594037927936",
     "18446744073709551615 | 72057594037927936"},
    {"uint", "l", "9223372036854775807 null -1", "9223372036854775807 | - | row 2: " BEYOND},
    {"uint", "c", "127 -128", "127 | row 1: " BEYOND},
    {"uint", "g", "18446744073709549568 18446744073709551616",
     "18446744073709549568 | row 1: " BEYOND},
    {"uint", "f", "18446742974197923840", "18446742974197923840"},
    {"uint", "d:20,0", "18446744073709551615 null 0 18446744073709551616",
     "18446744073709551615 | - | - | row 3: " BEYOND},
    {"uint", "d:38,0,128", "10 -1", "10 | row 1: " BEYOND},
    {"uint", "d:38,0", "-18446744073709551616", "row 0: " BEYOND},
    {"uint limit=255", "d:38,0", "255 256", "255 | row 1: " BEYOND},
    {"uint limit=255", "d:38,0", "99999999999999999999999999999999999999", "row 0: " BEYOND},
    {"int limit=2147483647", "c", "-128 0 127", "-128 | - | 127"},
    {"int limit=2147483647", "C", "255", "255"},
    {"int limit=2147483647", "i", "-2147483648 2147483647", "-2147483648 | 2147483647"},
    {"int limit=2147483647", "l", "-2147483648 -2147483649", "-2147483648 | row 1: " BEYOND},
    {"int limit=2147483647", "l", "2147483648", "row 0: " BEYOND},
    {"int limit=2147483647", "I", "2147483647 2147483648", "2147483647 | row 1: " BEYOND},
    {"int limit=2147483647", "g", "-2147483648 2147483647 -2147483649",
     "-2147483648 | 2147483647 | row 2: " BEYOND},
    {"int limit=9223372036854775807", "l", "-9223372036854775808 9223372036854775807",
     "-9223372036854775808 | 9223372036854775807"},
    {"int limit=9223372036854775807", "L", "9223372036854775807 9223372036854775808",
     "9223372036854775807 | row 1: " BEYOND},
    {"int", "g", "-9223372036854775808 9223372036854775808",
     "-9223372036854775808 | row 1: " BEYOND},
    {"int", "g", "-9223372036854777856", "row 0: " BEYOND},
    {"int", "d:38,0", "-9223372036854775808 9223372036854775807 -9223372036854775809",
     "-9223372036854775808 | 9223372036854775807 | row 2: " BEYOND},
    {"int", "d:38,0", "9223372036854775808", "row 0: " BEYOND},
    {"int limit=2147483647", "d:38,0", "-2147483648 -2147483649", "-2147483648 | row 1: " BEYOND},
    {"int", "d:38,0", "-99999999999999999999999999999999999999", "row 0: " BEYOND},
    {"sint limit=2147483647", "i", "-1 1 -2147483648 2147483647",
     "-1 | 1 | -2147483648 | 2147483647"},
    {"sint limit=2147483647", "b", "0 1", "- | 1"},
    {"sint", "l", "-9223372036854775808", "-9223372036854775808"},
    {"fixed32", "i", "1 -1", "1 | row 1: " BEYOND},
    {"fixed32", "L", "4294967295 0 4294967296", "4294967295 | - | row 2: " BEYOND},
    {"fixed64", "L", "18446744073709551615", "18446744073709551615"},
    {"fixed64", "g", "1e18 nan", "1000000000000000000 | -"},
    {"bool", "b", "0 1 null", "- | 1 | -"},
    {"bool", "C", "0 1 2", "- | 1 | row 2: " BEYOND},
    {"bool", "l", "1 -1", "1 | row 1: " BEYOND},
    {"bool", "g", "1", MISFIT},
    {"bool", "d:1,0", "1 0 null 2", "1 | - | - | row 3: " BEYOND},
    {"float", "f", "1.5 -0.25 0 null inf nan", "1.5 | -0.25 | - | - | inf | nan"},
    {"float", "g", "0.5 3.4028234663852886e38 1e39", "0.5 | 3.40282347e+38 | row 2: " BEYOND},
    {"float", "g", "-1e39", "row 0: " BEYOND},
    {"float", "g", "1e-44 1e-60 4.9406564584124654e-324", "9.80908925e-45 | - | -"},
    {"float explicit", "g", "1e-60 -1e-60", "0 | -0"},
    {"float", "i", "-16777216 16777217",
     "-16777216 | row 1: the integer is not one that the column's floats can be"},
    {"double", "g", "0.1 -1e308", "0.10000000000000001 | -1e+308"},
    {"double", "f", "1.5", "1.5"},
    {"double", "L", "18446744073709549568 0", "1.844674407370955e+19 | -"},
    {"double", "l", "-9223372036854775808 9007199254740993",
     "-9.2233720368547758e+18 | row 1: the integer is not one that the column's floats can be"},
    {"double", "b", "1", MISFIT},
    {"double", "d:1,0", "1", MISFIT},
    {MAC, "L", "1 281474976710655 281474976710656", "1 | 281474976710655 | row 2: " BEYOND},
    {MAC, "w:6", "x000000000001 null xffffffffffff x000000000000", "1 | - | 281474976710655 | -"},
    {MAC, "u", "00:00:00:00:01:02 null FF-ff-FF-ff-Ff-fF", "258 | - | 281474976710655"},
    {MAC, "vu", "00:00:00:00:01:02 ''", "258 | row 1: the text is not a MAC address"},
    {MAC, "U", "00:00:00:00:01:0g", "row 0: the text is not a MAC address"},
    {MAC, "w:5", "x0000000001", MISFIT},
    {MAC, "z", "x000000000001", MISFIT},
    {"ip", "w:16", "x20010db8000000000000000000000001 null x00000000000000000000000000000000",
     "2001:db8:0:0:0:0:0:1 | - | -"},
    {"ip", "w:16", "x00000000000000000000ffff01020304 x00000000000000000000ffff00000000",
     "1.2.3.4 | -"},
    {"ip", "w:4", "x01020304 null x00000000", "1.2.3.4 | - | -"},
    {"ip", "w:8", "x0102030405060708", MISFIT},
    {"ip", "z", "x01020304 null x20010db8000000000000000000000001 x0102",
     "1.2.3.4 | - | 2001:db8:0:0:0:0:0:1 | row 3: an address has 4 or 16 bytes"},
    {"ip", "Z", "x01020304 ''", "1.2.3.4 | row 1: an address has 4 or 16 bytes"},
    {"ip", "vz", "x01020304 x20010db8000000000000000000000001 x0102030405060708090a0b0c0d",
     "1.2.3.4 | 2001:db8:0:0:0:0:0:1 | row 2: an address has 4 or 16 bytes"},
    {"ip", "u",
     "1.2.3.4 null 2001:db8::1 0.0.0.0 ::", "1.2.3.4 | - | 2001:db8:0:0:0:0:0:1 | - | -"},
    {"ip", "U", "::ffff:1.2.3.4 host", "1.2.3.4 | row 1: " NO_ADDRESS},
    {"ip", "vu", "2001:db8:ffff:ffff::1 ''", "2001:db8:ffff:ffff:0:0:0:1 | row 1: " NO_ADDRESS},
    {"ip", "I", "16909060", MISFIT},
    {"ip native_ip", "w:16",
     "x00000000000000000000ffff01020304 x00000000000000000000ffff00000000 "
     "x20010db8000000000000000000000001",
     "native:1.2.3.4 | - | 2001:db8:0:0:0:0:0:1"},
    {"ip native_ip", "u", "1.2.3.4 ::ffff:1.2.3.4 ::1.2.3.4 0.0.0.0",
     "native:1.2.3.4 | native:1.2.3.4 | 0:0:0:0:0:0:102:304 | -"},
    {TIME_MS, "tsm:", "0 1700000000000 null 9223372036854",
     "- | 1700000000000 | - | 9223372036854"},
    {TIME_MS, "d:38,0", "1700000000000 9223372036855", "1700000000000 | row 1: " BEYOND},
    {TIME_MS, "tsm:UTC", "9223372036855", "row 0: " BEYOND},
    {TIME_MS, "tss:Europe/Berlin", "1 9223372036 9223372037",
     "1000 | 9223372036000 | row 2: " BEYOND},
    {TIME_MS, "tsu:", "999 1000 1999 9223372036854999 9223372036855000",
     "- | 1 | 1 | 9223372036854 | row 4: " BEYOND},
    {TIME_MS, "tsn:", "1999999 9223372036854775807 -1", "1 | 9223372036854 | row 2: " BEYOND},
    {TIME_MS, "tss:", "-1", "row 0: " BEYOND},
    {TIME_MS, "tdD", "1 19000 null 106751 106752",
     "86400000 | 1641600000000 | - | 9223286400000 | row 4: " BEYOND},
    {TIME_MS, "tdm", "86400000", "86400000"},
    {TIME_MS, "l", "5 -5", "5 | row 1: " BEYOND},
    {TIME_MS, "L", "9223372036854 9223372036855", "9223372036854 | row 1: " BEYOND},
    {TIME_MS, "tDs", "1", MISFIT},
    {TIME_MS, "g", "1", MISFIT},
    {"timestamp unit=1", "tss:", "1 9223372036 9223372037",
     "1000000000 | 9223372036000000000 | row 2: " BEYOND},
    {"timestamp unit=1", "L", "9223372036854775807 9223372036854775808",
     "9223372036854775807 | row 1: " BEYOND},
    {"timestamp unit=1", "tsn:", "9223372036854775807", "9223372036854775807"},
    {"timestamp unit=1000000000", "tsn:", "999999999 1000000000", "- | 1"},
    {"timestamp unit=1000000000", "tdD", "106751", "9223286400"},
    {"timestamp unit=7", "tsn:", "14 13", "2 | 1"},
    {"timestamp unit=7", "tsu:", "1", MISFIT},
    {"duration unit=1000000", "tDm", "-9223372036854775808 9223372036854775807 null",
     "-9223372036854775808 | 9223372036854775807 | -"},
    {"duration unit=1000000", "tDs", "-9223372036854775 9223372036854775 9223372036854776",
     "-9223372036854775000 | 9223372036854775000 | row 2: " BEYOND},
    {"duration unit=1000000", "tDs", "-9223372036854776", "row 0: " BEYOND},
    {"duration unit=1000000", "tDu", "-1 -1000 -1001 999 1000", "-1 | -1 | -2 | - | 1"},
    {"duration unit=1000000", "tDn", "-9223372036854775808", "-9223372036855"},
    {"duration unit=1000000", "i", "-5", "-5"},
    {"duration unit=1000000", "tsn:", "-5", MISFIT},
    {"enum", "i", "0 1 77 2147483647 -1", "- | 1 | 77 | 2147483647 | row 4: " BEYOND},
    {"enum", "I", "2147483648", "row 0: " BEYOND},
    {"enum", "g", "2 nan 0.5", "2 | - | row 2: " FRACTION},
    {"enum", "d:38,0", "2 null 2147483648", "2 | - | row 2: " BEYOND},
    {"enum", "u", "ingress egress null unknown in 5 most", "1 | 2 | - | - | 3 | 55 | 2147483647"},
    {"enum", "U", "9 2147483647 0 2147483648", "9 | 2147483647 | - | row 3: " BEYOND},
    {"enum", "vu", "ingress ingres", "1 | row 1: " NO_MEMBER},
    {"enum", "u", "ingresss", "row 0: " NO_MEMBER},
    {"enum", "u", "''", "row 0: " NO_MEMBER},
    {"enum", "u", "Ingress", "row 0: " NO_MEMBER},
    {"enum", "u", "007", "row 0: " NO_MEMBER},
    {"enum", "u", "-1", "row 0: " NO_MEMBER},
    {"enum", "u", "1x", "row 0: " NO_MEMBER},
    {"enum", "u", "99999999999", "row 0: " NO_MEMBER},
    {"enum", "z", "x01", MISFIT},
    {"enum", "b", "1", MISFIT},
    {"string", "u", "a null '' b\xc3\xa4 c", "\"a\" | - | - | \"b\xc3\xa4\" | \"c\""},
    {"string", "U", "a \xff", "\"a\" | row 1: the text is not UTF-8"},
    {"string", "vu", "twelve-bytes thirteen-byte null s even-longer-than-that",
     "\"twelve-bytes\" | \"thirteen-byte\" | - | \"s\" | \"even-longer-than-that\""},
    {"string", "vu", "thirteen-byt\xc3", "row 0: the text is not UTF-8"},
    {"string", "z", "x41", MISFIT},
    {"string", "w:1", "x41", MISFIT},
    {"string", "i", "1", MISFIT},
    {"bytes", "z", "x00ff null '' x01", "x00ff | - | - | x01"},
    {"bytes", "Z", "x00ff", "x00ff"},
    {"bytes", "vz", "x00 x000102030405060708090a0b0c0d", "x00 | x000102030405060708090a0b0c0d"},
    {"bytes", "w:2", "x0000 null xff01", "x0000 | - | xff01"},
    {"bytes", "w:0", "'' null", "- | -"},
    {"bytes", "u", "ab \xff", "x6162 | xff"},
    {"bytes", "U", "ab", "x6162"},
    {"bytes", "vu", "ab", "x6162"},
    {"bytes", "l", "1", MISFIT},
};

static size_t count_words(const char *words) {
    size_t count = 0;
    for (const char *p = words; *p; p += strcspn(p, " "), p += *p == ' ') count++;
    return count;
}

static void check_pairs(void) {
    FOR_EACH_PROCESSOR()
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const pair *p = &pairs[i];
        check_column(p->column, arrow_values(p->format, p->values), count_words(p->values),
                     p->expected, p->format);
    }
    run_processor = FB_PROCESSOR_ANY;
}

static void converts_each_array_type_to_each_column_type(void) {
    check_pairs();
}

static void converts_arrays_with_validity_but_without_nulls(void) {
    arrow_always_valid = true;
    check_pairs();
    arrow_always_valid = false;
}

static void converts_arrays_with_an_offset(void) {
    static const unsigned leads[] = {1, 7, 8, 13, 64};
    for (size_t i = 0; i < COUNT(leads); i++) {
        arrow_lead = leads[i];
        check_pairs();
    }
    arrow_lead = 0;
}

/* The dictionary has each value twice, in another order, and a value that is not used. */
static void converts_dictionaries(void) {
    static const char *const indices[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const pair *p = &pairs[i];
        size_t count = count_words(p->values);
        text words = {0}, values = {0};
        text_put(&values, "%s %s %s", p->values, p->values, *p->format == 'g' ? "1e300" : "null");
        for (size_t k = 0; k < count; k++) text_put(&words, "%zu ", k % 2 ? k : k + count);
        arrow_node *node = arrow_dictionary(indices[i % COUNT(indices)], text_of(&words),
                                            arrow_values(p->format, text_of(&values)));
        check_column(p->column, node, count, p->expected, p->format);
        text_free(&words);
        text_free(&values);
    }
}

static void reads_null_indices_and_null_dictionary_values(void) {
    check_column("uint", arrow_dictionary("c", "0 null 1 2 null", arrow_values("I", "7 null 9")), 5,
                 "7 | - | - | 9 | -", "nulls");
    check_column("uint explicit",
                 arrow_dictionary("c", "0 null 1 2 0", arrow_values("I", "0 null 9")), 5,
                 "0 | - | - | 9 | 0", "nulls");
    check_column("string", arrow_dictionary("l", "1 0", arrow_values("n", "null null")), 2, "- | -",
                 "nothing");
}

static void refuses_dictionary_indices_out_of_range(void) {
    const char *expected = "7 | row 1: the dictionary has no value of this index";
    check_column("uint", arrow_dictionary("c", "0 -1", arrow_values("I", "7")), 2, expected, "-1");
    check_column("uint", arrow_dictionary("l", "0 1", arrow_values("I", "7")), 2, expected, "1");
    check_column("uint", arrow_dictionary("L", "0 18446744073709551615", arrow_values("I", "7")), 2,
                 expected, "the greatest");
    check_column("uint", arrow_dictionary("L", "0 64", arrow_values("I", "7")), 2, expected, "64");
    check_column("uint", arrow_dictionary("L", "null", arrow_values("I", "")), 1, "-",
                 "an empty one");
}

/* The dictionary has more values than the cache. */
static void reads_long_dictionaries(void) {
    text words = {0}, values = {0}, expected = {0};
    for (unsigned i = 0; i < 500; i++) text_put(&values, "10.0.%u.%u ", i / 256, i % 256);
    for (unsigned i = 0; i < 1000; i++) {
        unsigned index = i * 37 % 500;
        text_put(&words, "%u ", index);
        text_put(&expected, "%s10.0.%u.%u", i ? " | " : "", index / 256, index % 256);
    }
    check_column("ip", arrow_dictionary("s", text_of(&words), arrow_values("u", text_of(&values))),
                 1000, text_of(&expected), "many");
    text_free(&words), text_free(&values), text_free(&expected);
}

/* Explicit columns and lists ----------------------------------------------------------------- */

static void writes_zeros_of_explicit_columns(void) {
    check_column("uint explicit", arrow_values("L", "0 null 1"), 3, "0 | - | 1", "uint");
    check_column("uint explicit", arrow_values("g", "0 nan 1"), 3, "0 | - | 1", "floats");
    check_column("sint explicit", arrow_values("l", "0 null -1"), 3, "0 | - | -1", "sint");
    check_column("fixed32 explicit", arrow_values("I", "0 null 1"), 3, "0 | - | 1", "fixed32");
    check_column("double explicit", arrow_values("g", "0 null 1"), 3, "0 | - | 1", "double");
    check_column("bool explicit", arrow_values("b", "0 null 1"), 3, "0 | - | 1", "bool");
    check_column("enum explicit", arrow_values("u", "unknown null in"), 3, "0 | - | 3", "enum");
    check_column("string explicit", arrow_values("u", "'' null a"), 3, "\"\" | - | \"a\"",
                 "string");
    check_column("bytes explicit", arrow_values("z", "'' null x01"), 3, "x | - | x01", "bytes");
    check_column("ip explicit", arrow_values("u", ":: null ::1"), 3,
                 "0:0:0:0:0:0:0:0 | - | 0:0:0:0:0:0:0:1", "ip");
    check_column("timestamp explicit unit=1", arrow_values("tsn:", "0 null 1"), 3, "0 | - | 1",
                 "timestamp");
}

static void writes_lists(void) {
    check_column("uint repeated", arrow_list("+l", "2 null 0 1", arrow_values("I", "0 7 9")), 4,
                 "[0,7] | - | - | [9]", "+l");
    check_column("uint repeated", arrow_list("+L", "2 null 0 1", arrow_values("I", "0 7 9")), 4,
                 "[0,7] | - | - | [9]", "+L");
    check_column("uint repeated", arrow_list("+w:2", "2 null 2", arrow_values("I", "0 7 9 9 1 2")),
                 3, "[0,7] | - | [1,2]", "+w");
    check_column("uint repeated", arrow_list("+w:0", "0 0", arrow_values("I", "")), 2, "- | -",
                 "+w:0");
    check_column("sint repeated", arrow_list("+l", "3", arrow_values("l", "-1 0 1")), 1, "[-1,0,1]",
                 "sint");
    check_column("int repeated", arrow_list("+l", "3", arrow_values("l", "-1 0 1")), 1, "[-1,0,1]",
                 "int");
    check_column("float repeated", arrow_list("+l", "3", arrow_values("g", "0 0.5 nan")), 1,
                 "[0,0.5,nan]", "float");
    check_column("fixed64 repeated", arrow_list("+l", "2", arrow_values("L", "0 1")), 1, "[0,1]",
                 "fixed64");
    check_column("bool repeated", arrow_list("+l", "3", arrow_values("b", "0 1 0")), 1, "[0,1,0]",
                 "bool");
    check_column("string repeated", arrow_list("+l", "2 2", arrow_values("u", "a '' c d")), 2,
                 "[\"a\",\"\"] | [\"c\",\"d\"]", "string");
    check_column("bytes repeated",
                 arrow_list("+l", "2", arrow_values("vz", "x0102030405060708090a0b0c0d x")), 1,
                 "[x0102030405060708090a0b0c0d,x]", "bytes");
    check_column("ip repeated", arrow_list("+l", "2", arrow_values("u", ":: 1.2.3.4")), 1,
                 "[0:0:0:0:0:0:0:0,1.2.3.4]", "ip");
    check_column("ip repeated native_ip", arrow_list("+l", "2", arrow_values("u", "::1 1.2.3.4")),
                 1, "[0:0:0:0:0:0:0:1,native:1.2.3.4]", "ip");
    check_column("enum repeated", arrow_list("+l", "2", arrow_values("u", "unknown egress")), 1,
                 "[0,2]", "enum");
    check_column("enum repeated",
                 arrow_list("+l", "2 1",
                            arrow_dictionary("c", "1 0 1", arrow_values("u", "unknown egress"))),
                 2, "[2,0] | [2]", "enum");
    check_column("uint repeated", arrow_values("n", "null null"), 2, "- | -", "nothing");
    check_column("uint repeated", arrow_list("+l", "0 null", arrow_values("n", "")), 2, "- | -",
                 "lists of nothing");
}

static void writes_dictionaries_of_lists(void) {
    arrow_node *lists = arrow_list("+l", "2 null 1", arrow_values("I", "0 7 9"));
    check_column("uint repeated", arrow_dictionary("c", "2 0 null 1 0", lists), 5,
                 "[9] | [0,7] | - | - | [0,7]", "a dictionary");
    lists = arrow_list("+l", "2", arrow_values("I", "0 7"));
    check_column("uint repeated", arrow_dictionary("c", "0 1", lists), 2,
                 "[0,7] | row 1: the dictionary has no value of this index", "a dictionary");
    check_column("uint repeated", arrow_dictionary("c", "0", arrow_values("n", "null")), 1, "-",
                 "a dictionary of nothing");
}

static void refuses_list_members_that_are_null_or_do_not_fit(void) {
    const char *null = "[1] | row 1: a list has a null among its members";
    check_column("uint repeated", arrow_list("+l", "1 2", arrow_values("I", "1 2 null")), 2, null,
                 "+l");
    check_column("uint repeated", arrow_list("+l", "1 2", arrow_values("g", "1 2 nan")), 2, null,
                 "NaN");
    check_column("uint repeated",
                 arrow_list("+l", "1 1", arrow_dictionary("c", "0 1", arrow_values("C", "1 null"))),
                 2, null, "a dictionary");
    check_column("uint repeated limit=255", arrow_list("+l", "1 2", arrow_values("I", "1 2 256")),
                 2, "[1] | row 1: " BEYOND, "+l");
    check_column("string repeated", arrow_list("+l", "1 1", arrow_values("u", "a \xc3")), 2,
                 "[\"a\"] | row 1: the text is not UTF-8", "+l");
    check_column("ip repeated", arrow_list("+l", "1", arrow_values("u", "a")), 1,
                 "row 0: " NO_ADDRESS, "+l");
}

/* Lists longer than a block. */
static void writes_long_lists(void) {
    text words = {0}, expected = {0};
    for (unsigned i = 0; i < 300; i++) {
        text_put(&words, "%u ", i);
        const char *before = i == 0 ? "[" : ",";
        if (i == 129) before = "] | [";
        text_put(&expected, "%s%u", before, i);
    }
    text_put(&expected, "] | -");
    check_column("uint repeated", arrow_list("+l", "129 171 0", arrow_values("I", text_of(&words))),
                 3, text_of(&expected), "+l");
    text_free(&words), text_free(&expected);
}

/* Schemas ------------------------------------------------------------------------------------ */

static void check_refused(const char *column, const char *format, const char *expected) {
    arrow_node *node = arrow_values("n", "");
    node->schema.format = format;
    check_column(column, node, 0, expected, format);
}

static void names_unsupported_types(void) {
    check_refused("uint", "e", "floats of 16 bits are not supported");
    check_refused("uint", "d:10,2", NO_DECIMAL);
    check_refused("uint", "d:10,-1", NO_DECIMAL);
    check_refused("uint", "d:10,0,256", NO_DECIMAL);
    check_refused("uint", "d:10,0,64", NO_DECIMAL);
    check_refused("uint", "d:10,0,32", NO_DECIMAL);
    check_refused("uint", "d:10", NO_DECIMAL);
    check_refused("uint", "d:,0", NO_DECIMAL);
    check_refused("uint", "tts", "times of day are not supported");
    check_refused("uint", "tiD", "intervals of the calendar are not supported");
    check_refused("uint", "+s", "nested structs are not supported");
    check_refused("uint", "+m", "maps are not supported");
    check_refused("uint", "+ud:0,1", "unions are not supported");
    check_refused("uint", "+us:0,1", "unions are not supported");
    check_refused("uint repeated", "+vl", "list views are not supported");
    check_refused("uint repeated", "+vL", "list views are not supported");
    check_refused("uint", "+r", "run-end encoding is not supported");
    check_refused("uint", "?", "a type that is not known");
    check_refused("uint", "", "a type that is not known");
    check_refused("bytes", "w:", "a type that is not known");
    check_refused("bytes", "w:1x", "a type that is not known");
    check_refused("bytes", "w:99999999999", "a type that is not known");
    check_refused("timestamp unit=1", "ts", "a type that is not known");
    check_refused("uint", "+l", "a list cannot fill a column that is not repeated");
    check_refused("uint repeated", "I", "a repeated column wants a list");
    check_refused("uint repeated", "+l", "a type that is not known"); /* of members */
}

static void names_unsupported_nested_types(void) {
    arrow_node *lists = arrow_list("+l", "1", arrow_values("I", "1"));
    check_column("uint repeated", arrow_list("+l", "1", lists), 1,
                 "lists of lists are not supported", "+l");
    check_column("uint repeated", arrow_list("+l", "1", arrow_values("u", "a")), 1, MISFIT, "+l");
    arrow_node *dictionary = arrow_dictionary("c", "0", arrow_values("I", "1"));
    check_column("uint", arrow_dictionary("c", "0", dictionary), 1,
                 "dictionaries of dictionaries are not supported", "c");
    check_column("uint", arrow_dictionary("u", "0", arrow_values("I", "1")), 1, MISFIT, "u");
    check_column("uint", arrow_dictionary("tsn:", "0", arrow_values("I", "1")), 1, MISFIT, "tsn:");
    check_column("uint", arrow_dictionary("c", "0", arrow_values("u", "1")), 1, MISFIT, "c");
}

static void check_binding(uint16_t first, uint16_t second, const char *format, fb_status expected,
                          fb_arrow_reason reason, size_t child) {
    arrow_node *batch =
        arrow_batch(1, 2, (arrow_node *[]){arrow_values("I", "7"), arrow_values("u", "x")});
    fb_arrow_binding bindings[2] = {{first, NULL, 0}, {second, NULL, 0}};
    fb_memory memory = fb_memory_system(0);
    named_plan plan;
    fb_arrow_encoder encoder;
    batch->schema.format = format;
    CHECK_STATUS(plan_read(&plan, "1 a uint\n2 b string\n3 off uint disabled", &memory), FB_OK);
    CHECK_STATUS(fb_arrow_encoder_new(&encoder, plan.plan, &batch->schema, bindings, 0, &memory),
                 expected);
    CHECK_EQUAL(encoder.source.fault.reason, reason);
    CHECK_EQUAL(encoder.source.fault.child, child);
    if (expected == FB_OK) fb_arrow_encoder_free(&encoder);
    plan_free(&plan);
    arrow_free(batch);
    CHECK_EQUAL(memory.used, 0);
}

static void reports_the_child_that_cannot_be_bound(void) {
    check_binding(0, 1, "+s", FB_OK, FB_ARROW_NONE, 0);
    check_binding(FB_NO_COLUMN, FB_NO_COLUMN, "+s", FB_OK, FB_ARROW_NONE, 0);
    check_binding(0, 1, "+m", FB_BAD_ARGUMENT, FB_ARROW_NOT_A_BATCH, FB_NO_CHILD);
    check_binding(0, 0, "+s", FB_BAD_ARGUMENT, FB_ARROW_TWICE, 1);
    check_binding(0, 2, "+s", FB_BAD_ARGUMENT, FB_ARROW_DISABLED, 1);
    check_binding(3, 1, "+s", FB_BAD_ARGUMENT, FB_ARROW_NO_COLUMN, 0);
    /* columns are bound in their order */
    check_binding(1, 0, "+s", FB_BAD_SOURCE, FB_ARROW_MISFIT, 1);
    check_binding(1, FB_NO_COLUMN, "+s", FB_BAD_SOURCE, FB_ARROW_MISFIT, 0);
}

static void refuses_enum_members_out_of_range(void) {
    arrow_node *batch = arrow_batch(0, 1, (arrow_node *[]){arrow_values("u", "")});
    const fb_member member = {{(const uint8_t *)"a", 1}, (uint32_t)INT32_MAX + 1};
    fb_memory memory = fb_memory_system(0);
    named_plan plan;
    fb_arrow_encoder encoder;
    CHECK_STATUS(plan_read(&plan, "1 e enum", &memory), FB_OK);
    CHECK_STATUS(fb_arrow_encoder_new(&encoder, plan.plan, &batch->schema,
                                      &(fb_arrow_binding){0, &member, 1}, 0, &memory),
                 FB_BAD_ARGUMENT);
    CHECK_EQUAL(encoder.source.fault.reason, FB_ARROW_NONE);
    plan_free(&plan);
    arrow_free(batch);
    CHECK_EQUAL(memory.used, 0);
}

static void has_a_text_for_every_reason(void) {
    for (int i = 0; i < FB_ARROW_REASON_COUNT; i++)
        CHECK(strlen(fb_arrow_reason_text((fb_arrow_reason)i)) > 10);
    CHECK(!fb_arrow_reason_text(FB_ARROW_REASON_COUNT));
}

RUN_TESTS(TEST(converts_each_array_type_to_each_column_type),
          TEST(converts_arrays_with_validity_but_without_nulls),
          TEST(converts_arrays_with_an_offset), TEST(converts_dictionaries),
          TEST(reads_null_indices_and_null_dictionary_values),
          TEST(refuses_dictionary_indices_out_of_range), TEST(reads_long_dictionaries),
          TEST(writes_zeros_of_explicit_columns), TEST(writes_lists),
          TEST(writes_dictionaries_of_lists),
          TEST(refuses_list_members_that_are_null_or_do_not_fit), TEST(writes_long_lists),
          TEST(names_unsupported_types), TEST(names_unsupported_nested_types),
          TEST(reports_the_child_that_cannot_be_bound), TEST(refuses_enum_members_out_of_range),
          TEST(has_a_text_for_every_reason))
