/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../procedure22_codec.h"

static struct procedure22_request a_clone(void)
{
    struct procedure22_request request = {.destination = {.length = 29},
                                          .kind = PROCEDURE22_NEED_SOURCE,
                                          .source = {.length = 64},
                                          .version = 1,
                                          .command = PROCEDURE22_CLONE_FILE,
                                          .clone_flags = 5,
                                          .name_length = 9,
                                          .name = "dir/clone"};

    request.name_length = 10;
    memset(request.destination.bytes, 0xd5, request.destination.length);
    memset(request.source.bytes, 0x5a, request.source.length);
    return request;
}

static void what_is_encoded_is_decoded(void **state)
{
    uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX];
    struct procedure22_request sent = a_clone(), received;

    (void)state;
    size_t length = procedure22_encode_request(&sent, bytes);
    assert_int_equal(length, 4 + 32 + 4 + 4 + 64 + 4 + 296);
    assert_int_equal(procedure22_decode_request(bytes, length, &received), PROCEDURE22_GOOD);
    assert_int_equal(received.destination.length, 29);
    assert_memory_equal(received.destination.bytes, sent.destination.bytes, 29);
    assert_memory_equal(received.source.bytes, sent.source.bytes, 64);
    assert_int_equal(received.command, PROCEDURE22_CLONE_FILE);
    assert_int_equal(received.clone_flags, 5);
    assert_string_equal(received.name, "dir/clone");
}

/* The bytes of the description, by hand: little-endian inside, big-endian around. */
static void a_call_has_these_bytes(void **state)
{
    uint8_t bytes[4 + 4 + 4 + 4 + 296] = {0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 1, 0, 0, 1, 40, 1};
    struct procedure22_request request;

    (void)state;
    bytes[16 + 8] = 3;
    assert_int_equal(procedure22_decode_request(bytes, sizeof(bytes), &request), PROCEDURE22_GOOD);
    assert_int_equal(request.version, 1);
    assert_int_equal(request.command, PROCEDURE22_EXTENDED_STATISTICS);
    assert_int_equal(request.kind, PROCEDURE22_OTHER);
    assert_int_equal(request.destination.length, 3);
    assert_int_equal(request.name_length, 0);
}

static void a_call_cut_short_or_too_long_is_no_xdr(void **state)
{
    uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX + 4] = {0};
    struct procedure22_request sent = a_clone(), received;
    size_t length = procedure22_encode_request(&sent, bytes);

    (void)state;
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(procedure22_decode_request(bytes, cut, &received), PROCEDURE22_NO_XDR);
    assert_int_equal(procedure22_decode_request(bytes, length + 4, &received), PROCEDURE22_NO_XDR);
}

static void a_name_counts_only_if_it_ends_where_its_length_says(void **state)
{
    static const struct {
        uint32_t length;
        const char *name;
        uint32_t decoded;
    } cases[] = {{0, "ignored", 0}, {1, "", 1},        {5, "clone", 0},    {6, "clone", 6},
                 {7, "clone", 0},   {257, "clone", 0}, {UINT32_MAX, "", 0}};
    uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX];
    struct procedure22_request received;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct procedure22_request sent = a_clone();
        memset(sent.name, 0, sizeof(sent.name));
        strcpy(sent.name, cases[i].name);
        sent.name_length = cases[i].length;
        const size_t length = procedure22_encode_request(&sent, bytes);
        assert_int_equal(procedure22_decode_request(bytes, length, &received), PROCEDURE22_GOOD);
        assert_int_equal(received.name_length, cases[i].decoded);
        assert_string_equal(received.name, cases[i].decoded > 0 ? cases[i].name : "");
    }
    struct procedure22_request sent = a_clone();
    memset(sent.name, 'n', sizeof(sent.name));
    sent.name_length = 256;
    const size_t length = procedure22_encode_request(&sent, bytes);
    assert_int_equal(procedure22_decode_request(bytes, length, &received), PROCEDURE22_GOOD);
    assert_string_equal(received.name, "");
}

static void results_have_their_shape(void **state)
{
    static const struct procedure22_result sent = {.status = 28,
                                                   .version = 1,
                                                   .command = 2,
                                                   .result = -1,
                                                   .total = 1,
                                                   .allocated = 2,
                                                   .unique = 3,
                                                   .reserved = 4,
                                                   .clone_flag = 5,
                                                   .clone_offset = UINT64_MAX,
                                                   .as_of = 6,
                                                   .unique_exact = true};
    uint8_t bytes[PROCEDURE22_ENCODED_RESULT_SIZE];
    struct procedure22_result received;

    (void)state;
    procedure22_encode_result(&sent, bytes);
    assert_true(procedure22_decode_result(bytes, sizeof(bytes), &received));
    assert_memory_equal(&sent, &received, sizeof(sent));
    assert_int_equal(bytes[3], 28);
    assert_int_equal(bytes[7], 80);
    assert_int_equal(bytes[8], 1);
    bytes[7] = 76;
    assert_false(procedure22_decode_result(bytes, sizeof(bytes) - 4, &received));
}

/* Seeded: decoding any bytes stays within them, and an accepted call can be encoded again. */
static void any_bytes_are_decoded_safely(void **state)
{
    const char *mutations_text = getenv("ZVAAI_FUZZ_MUTATIONS");
    unsigned long mutations = mutations_text != NULL ? strtoul(mutations_text, NULL, 10) : 200000;
    uint64_t random = 88172645463325252u;
    size_t good = 0;

    (void)state;
    for (unsigned long mutation = 0; mutation < mutations; mutation++) {
        uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX], again[PROCEDURE22_ENCODED_ARGUMENTS_MAX];
        struct procedure22_request sent = a_clone(), received, repeated;
        sent.kind = mutation % 2 == 0 ? PROCEDURE22_NEED_SOURCE : PROCEDURE22_OTHER;
        size_t length = procedure22_encode_request(&sent, bytes);
        for (unsigned int change = 0; change < mutation % 7; change++) {
            random ^= random << 13; /* xorshift64 */
            random ^= random >> 7;
            random ^= random << 17;
            bytes[random % length] = (uint8_t)(random >> 32);
        }
        if (mutation % 5 == 0)
            length = random % (length + 1);
        uint8_t *exact = malloc(length == 0 ? 1 : length); /* so that valgrind or ASan sees a byte too many */
        memcpy(exact, bytes, length);
        if (procedure22_decode_request(exact, length, &received) == PROCEDURE22_GOOD) {
            good++;
            assert_true(received.destination.length <= PROCEDURE22_HANDLE_SIZE &&
                        received.source.length <= PROCEDURE22_HANDLE_SIZE);
            assert_true(memchr(received.name, 0, sizeof(received.name)) != NULL);
            size_t encoded = procedure22_encode_request(&received, again);
            assert_int_equal(procedure22_decode_request(again, encoded, &repeated), PROCEDURE22_GOOD);
            assert_memory_equal(&received, &repeated, sizeof(received));
        }
        free(exact);
    }
    assert_true(good > mutations / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_encoded_is_decoded),
        cmocka_unit_test(a_call_has_these_bytes),
        cmocka_unit_test(a_call_cut_short_or_too_long_is_no_xdr),
        cmocka_unit_test(a_name_counts_only_if_it_ends_where_its_length_says),
        cmocka_unit_test(results_have_their_shape),
        cmocka_unit_test(any_bytes_are_decoded_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
