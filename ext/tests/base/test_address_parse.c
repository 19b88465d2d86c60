/* Addresses as text: all valid forms and similar invalid ones. Every text ends at a guard page. */
#include "tests/support/check.h"

#include "core/base/address_parse.h"

#include <arpa/inet.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool read_address(const char *text, uint8_t *address) {
    size_t size = strlen(text);
    uint8_t *copy = fb_guarded_copy(text, size);
    bool good = fb_address_read((fb_bytes){copy, size}, address);
    fb_guarded_free(copy, size);
    return good;
}

static bool read_mac(const char *text, uint64_t *mac) {
    size_t size = strlen(text);
    uint8_t *copy = fb_guarded_copy(text, size);
    bool good = fb_mac_read((fb_bytes){copy, size}, mac);
    fb_guarded_free(copy, size);
    return good;
}

/* Parse the text with the system's function, if it is in its range. */
static bool expect_address(const char *text, uint8_t *address) {
    memcpy(address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
    return inet_pton(AF_INET, text, address + 12) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

static void check_address(const char *text, bool good) {
    uint8_t address[16], expected[16];
    bool known = expect_address(text, expected);
    if (read_address(text, address) != good || known != good) fprintf(stderr, "%s:\n", text);
    CHECK_EQUAL(read_address(text, address), good);
    CHECK_EQUAL(known, good);
    if (good && known) CHECK_BYTES(address, 16, expected, 16);
}

static void reads_addresses(void) {
    static const char *const good[] = {
        "0.0.0.0",
        "1.2.3.4",
        "255.255.255.255",
        "192.0.2.1",
        "10.0.0.249",
        "::",
        "::1",
        "1::",
        "1::8",
        "2001:db8::1",
        "2001:DB8:0:0:8:800:200C:417A",
        "FF01::101",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "1:2:3:4:5:6:7:8",
        "01:002:0003::",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "1::3:4:5:6:7:8",
        "1:2:3::6:7:8",
        "::1.2.3.4",
        "::ffff:1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4",
        "1::1.2.3.4",
        "1:2:3:4:5::1.2.3.4",
        "64:ff9b::192.0.2.33",
        "a::b:255.255.255.255",
    };
    for (size_t i = 0; i < COUNT(good); i++) check_address(good[i], true);
}

static void refuses_invalid_addresses(void) {
    static const char *const bad[] = {
        "",
        " ",
        "1",
        "a",
        ":",
        ".",
        "1.",
        "1.2.3",
        "1.2.3.",
        "1.2.3.4.",
        ".1.2.3.4",
        "1..2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "1.1.1.256",
        "1.2.3.1000",
        "01.2.3.4",
        "1.2.3.04",
        "00.0.0.0",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.-4",
        "+1.2.3.4",
        "0x1.2.3.4",
        "1.2.3.a",
        "1,2,3,4",
        ":::",
        "::::",
        "1:::2",
        "1::2::3",
        "::1::",
        ":1",
        "1:",
        ":1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        "12345::",
        "::12345",
        "g::",
        "::g",
        "fe80::1%eth0",
        "[::1]",
        "::1/64",
        "1.2.3.4/32",
        "::1.2.3",
        "::1.2.3.4.5",
        "::1.2.3.256",
        "::01.2.3.4",
        "1.2.3.4::",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:7:1.2.3.4",
        "1:2:3:4:5:6::1.2.3.4",
        "1:2:3:4:5:1.2.3.4",
        "::1 ",
        " ::1",
        "1:2:3:4:5:6:7:8 ",
        "localhost",
        "1.2.3.4\n",
        "::ffff:1.2.3.4:",
    };
    for (size_t i = 0; i < COUNT(bad); i++) check_address(bad[i], false);
}

/* Random texts of the characters of addresses give the same result as the system's function. */
static void gives_the_results_of_inet_pton(void) {
    static const char characters[] = "0123456789abcdefF:::::::....  g";
    uint32_t random = 1;
    char text[48];
    unsigned good = 0;
    for (unsigned round = 0; round < 200000; round++) {
        random = random * 1664525u + 1013904223u;
        size_t size = (random >> 10) % 40;
        for (size_t i = 0; i < size; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = i % 5 == 4 && size > 20
                          ? ':'
                          : characters[(random >> 8) % (size % 3 ? sizeof characters - 1 : 26)];
        }
        text[size] = 0;
        uint8_t address[16], expected[16];
        bool known = expect_address(text, expected);
        CHECK_EQUAL(fb_address_read((fb_bytes){(const uint8_t *)text, size}, address), known);
        good += known;
        if (known) CHECK_BYTES(address, 16, expected, 16);
    }
    CHECK(good > 1000);
}

static void reads_the_text_that_it_writes(void) {
    uint32_t random = 7;
    char text[INET6_ADDRSTRLEN];
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t address[16], read[16];
        for (size_t i = 0; i < 16; i++) {
            random = random * 1664525u + 1013904223u;
            address[i] = random >> 30 ? 0 : (uint8_t)(random >> 8);
        }
        CHECK(inet_ntop(AF_INET6, address, text, sizeof text) != NULL);
        CHECK(fb_address_read((fb_bytes){(const uint8_t *)text, strlen(text)}, read));
        CHECK_BYTES(read, 16, address, 16);
    }
}

static void reads_mac_addresses(void) {
    uint64_t mac;
    CHECK(read_mac("00:00:5e:00:53:01", &mac) && mac == 0x5e005301);
    CHECK(read_mac("00-00-5E-00-53-01", &mac) && mac == 0x5e005301);
    CHECK(read_mac("ff:FF:fF:Ff:ff:ff", &mac) && mac == 0xffffffffffff);
    CHECK(read_mac("00:00:00:00:00:00", &mac) && mac == 0);
    static const char *const bad[] = {
        "",
        "00:00:5e:00:53",
        "00:00:5e:00:53:0",
        "00:00:5e:00:53:01:",
        "00:00:5e:00:53:01:02",
        ":00:00:5e:00:53:1",
        "00:00-5e:00:53:01",
        "00-00-5e-00-53:01",
        "00.00.5e.00.53.01",
        "0000.5e00.5301",
        "00005e005301",
        "0:00:5e:00:53:001",
        "00:00:5e:00:53:0g",
        "00:00:5e:00:53: 1",
        "000:0:5e:00:53:01",
        " 00:00:5e:00:53:01",
        "00:00:5e:00:53:01 ",
        "00::5e:00:53:01:",
    };
    for (size_t i = 0; i < COUNT(bad); i++) CHECK(!read_mac(bad[i], &mac));
}

RUN_TESTS(TEST(reads_addresses), TEST(refuses_invalid_addresses),
          TEST(gives_the_results_of_inet_pton), TEST(reads_the_text_that_it_writes),
          TEST(reads_mac_addresses))
