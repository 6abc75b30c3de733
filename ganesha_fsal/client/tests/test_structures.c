/* SPDX-License-Identifier: Apache-2.0 */
/* Callers of an earlier and of a later libvaainas, by structures of three lengths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../structures.h"

struct first {
    size_t size;
    uint64_t a;
};

struct now {
    size_t size;
    uint64_t a, b;
};

struct later {
    size_t size;
    uint64_t a, b, c;
};

static void an_earlier_caller_is_served(void **state)
{
    struct {
        struct first given;
        uint64_t beside;
    } memory = {{sizeof(struct first), 7}, 99};
    struct now own = {.b = 5};

    (void)state;
    assert_true(STRUCTURE_TAKE(&own, &memory.given, a));
    assert_int_equal(own.size, sizeof(own));
    assert_int_equal(own.a, 7);
    assert_int_equal(own.b, 0);
    own.a = 8;
    own.b = 9;
    STRUCTURE_GIVE(&own, &memory.given);
    assert_int_equal(memory.given.size, sizeof(struct first));
    assert_int_equal(memory.given.a, 8);
    assert_int_equal(memory.beside, 99);
}

static void a_later_caller_is_served_where_it_asks_for_nothing_new(void **state)
{
    struct later given = {sizeof(given), 1, 2, 0};
    struct now own;

    (void)state;
    assert_true(STRUCTURE_TAKE(&own, &given, a));
    assert_int_equal(own.b, 2);
    given.c = 3;
    assert_false(STRUCTURE_TAKE(&own, &given, a));
    assert_true(STRUCTURE_BEGIN(&own, &given, a)); /* what is in it is not asked, but overwritten */
    assert_int_equal(own.a, 0);
    own.a = 4;
    STRUCTURE_GIVE(&own, &given);
    assert_int_equal(given.size, sizeof(given));
    assert_int_equal(given.a, 4);
    assert_int_equal(given.c, 0);
}

static void what_has_no_size_is_refused(void **state)
{
    struct first given = {sizeof(size_t), 1};
    struct now own;

    (void)state;
    assert_false(STRUCTURE_TAKE(&own, &given, a));
    assert_false(STRUCTURE_BEGIN(&own, &given, a));
    given.size = 0;
    assert_false(STRUCTURE_TAKE(&own, &given, a));
    given.size = (size_t)-1; /* whatever was in the memory */
    assert_false(STRUCTURE_TAKE(&own, &given, a));
    assert_false(STRUCTURE_BEGIN(&own, &given, a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_earlier_caller_is_served),
        cmocka_unit_test(a_later_caller_is_served_where_it_asks_for_nothing_new),
        cmocka_unit_test(what_has_no_size_is_refused),
    };

    return cmocka_run_group_tests_name("structures", tests, NULL, NULL);
}
