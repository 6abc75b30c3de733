/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Admission of growth in a thick dataset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORD (UINT64_C(128) << 10)
#define MIB (UINT64_C(1) << 20)

static int begin(void **state)
{
    struct admission *admission = malloc(sizeof(*admission));
    assert_int_equal(admission_init(admission, RECORD), 0);
    *state = admission;
    return 0;
}

static int end(void **state)
{
    admission_destroy(*state);
    free(*state);
    return 0;
}

/* Growth of a file to `size`, which succeeds or is refused. */
static int grow(struct admission *admission, uint64_t inode, uint64_t size)
{
    struct admission_change change;
    const int error = admission_begin(admission, inode, size, &change);
    admission_end(admission, &change, UINT64_MAX);
    return error;
}

static void a_file_counts_whole_records_and_a_constant(void **state)
{
    struct admission *admission = *state;
    admission_set_limit(admission, 100 * MIB);
    assert_int_equal(admission_count(admission, 1, 1), 0);
    assert_int_equal(admission->admitted, RECORD + ADMISSION_FILE_BYTES);
    assert_int_equal(admission_count(admission, 2, 0), 0);
    assert_int_equal(admission->admitted, RECORD + 2 * ADMISSION_FILE_BYTES);
    assert_int_equal(admission_count(admission, 1, 50 * MIB), 0); /* it is known */
    assert_int_equal(admission->admitted, RECORD + 2 * ADMISSION_FILE_BYTES);
}

static void growth_is_admitted_up_to_the_limit(void **state)
{
    struct admission *admission = *state;
    admission_set_limit(admission, 10 * MIB + ADMISSION_FILE_BYTES);
    admission_counted(admission);
    admission_count(admission, 1, 0);
    assert_int_equal(grow(admission, 1, 10 * MIB), 0);
    assert_int_equal(admission->admitted, admission->limit);
    assert_int_equal(grow(admission, 1, 10 * MIB + 1), ENOSPC);
    assert_int_equal(admission->admitted, admission->limit);
    assert_int_equal(grow(admission, 1, 5 * MIB), 0); /* an overwrite */
    admission_forget(admission, 1);
    assert_int_equal(admission->admitted, 0);
}

static void the_caller_counts_a_file_that_is_not_known(void **state)
{
    struct admission *admission = *state;
    struct admission_change change;
    assert_int_equal(grow(admission, 7, MIB), 0); /* thin: nothing is counted */
    admission_set_limit(admission, 100 * MIB);
    assert_int_equal(admission_begin(admission, 7, MIB, &change), ENODATA);
    assert_false(change.entered);
}

static void while_files_are_counted_only_small_growth_goes_on(void **state)
{
    struct admission *admission = *state;
    admission_set_limit(admission, 100 * MIB);
    admission_count(admission, 1, 0);
    assert_int_equal(grow(admission, 1, MIB), 0);
    assert_int_equal(grow(admission, 1, 3 * MIB), EAGAIN);
    admission_counted(admission);
    assert_int_equal(grow(admission, 1, 3 * MIB), 0);
}

static void a_shrunken_file_counts_less_once_it_shrank(void **state)
{
    struct admission *admission = *state;
    struct admission_change change;
    admission_set_limit(admission, 100 * MIB);
    admission_count(admission, 1, 50 * MIB);
    admission_begin(admission, 1, 0, &change);
    assert_int_equal(admission->admitted, 50 * MIB + ADMISSION_FILE_BYTES);
    admission_end(admission, &change, 0);
    assert_int_equal(admission->admitted, ADMISSION_FILE_BYTES);
}

/* A write between the truncation's reading of the size and its end makes the file large again. */
static void a_write_concurrent_with_a_truncation_stays_admitted(void **state)
{
    struct admission *admission = *state;
    struct admission_change truncation, write;
    admission_set_limit(admission, 100 * MIB);
    admission_counted(admission);
    admission_count(admission, 1, 50 * MIB);
    admission_begin(admission, 1, 0, &truncation);
    admission_begin(admission, 1, 20 * MIB, &write);
    admission_end(admission, &write, UINT64_MAX);
    admission_end(admission, &truncation, 0);
    assert_true(admission->admitted >= 20 * MIB);
    admission_begin(admission, 1, 30 * MIB, &write);
    admission_begin(admission, 1, 0, &truncation);
    admission_end(admission, &truncation, 0);
    assert_true(admission->admitted >= 30 * MIB); /* the write still runs */
    admission_end(admission, &write, UINT64_MAX);
    assert_true(admission->admitted >= 30 * MIB);
}

static void growth_that_failed_is_given_back(void **state)
{
    struct admission *admission = *state;
    struct admission_change change;
    admission_set_limit(admission, 100 * MIB);
    admission_counted(admission);
    admission_count(admission, 1, MIB);
    assert_int_equal(admission_begin(admission, 1, 80 * MIB, &change), 0);
    assert_int_equal(admission->admitted, 80 * MIB + ADMISSION_FILE_BYTES);
    admission_end(admission, &change, MIB);
    assert_int_equal(admission->admitted, MIB + ADMISSION_FILE_BYTES);
}

static void thin_again_it_forgets_and_a_larger_limit_does_not(void **state)
{
    struct admission *admission = *state;
    admission_set_limit(admission, 100 * MIB);
    admission_count(admission, 1, 50 * MIB);
    admission_counted(admission);
    admission_set_limit(admission, 10 * MIB); /* smaller than the files: nothing grows */
    assert_false(admission->counting);
    assert_int_equal(grow(admission, 1, 51 * MIB), ENOSPC);
    assert_int_equal(grow(admission, 1, 50 * MIB), 0);
    admission_set_limit(admission, 0);
    assert_int_equal(admission->admitted, 0);
    admission_set_limit(admission, 100 * MIB);
    assert_true(admission->counting);
}

/* Compared with the sum of all sizes: the admitted size is never less than files can take, and equal when no change is running. */
static void a_random_history_agrees_with_a_sum(void **state)
{
    enum { FILES = 3000, STEPS = 60000 };
    struct admission *admission = *state;
    static uint64_t sizes[FILES];
    static bool known[FILES];
    uint64_t sum = 0;
    memset(sizes, 0, sizeof(sizes));
    memset(known, 0, sizeof(known));
    admission_set_limit(admission, 4000 * MIB);
    admission_counted(admission);
    srand(1);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t inode = (uint64_t)(rand() % FILES), size = (uint64_t)(rand() % 8000) * 1024;
        const uint64_t before = known[inode] ? (sizes[inode] + RECORD - 1) / RECORD * RECORD + ADMISSION_FILE_BYTES : 0;
        struct admission_change change;
        if (rand() % 10 == 0) {
            admission_forget(admission, inode);
            known[inode] = false;
            sizes[inode] = 0;
            sum -= before;
            continue;
        }
        if (!known[inode]) {
            assert_int_equal(admission_begin(admission, inode, size, &change), ENODATA);
            admission_count(admission, inode, 0);
            known[inode] = true;
            sum += ADMISSION_FILE_BYTES;
            continue;
        }
        const int error = admission_begin(admission, inode, size, &change);
        const uint64_t after = (size + RECORD - 1) / RECORD * RECORD + ADMISSION_FILE_BYTES;
        assert_int_equal(error, size > sizes[inode] && after > before && sum - before + after > admission->limit ? ENOSPC : 0);
        if (error == 0) {
            admission_end(admission, &change, size);
            sizes[inode] = size;
            sum += after - before;
        }
        assert_int_equal(admission->admitted, sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_counts_whole_records_and_a_constant, begin, end),
        cmocka_unit_test_setup_teardown(growth_is_admitted_up_to_the_limit, begin, end),
        cmocka_unit_test_setup_teardown(the_caller_counts_a_file_that_is_not_known, begin, end),
        cmocka_unit_test_setup_teardown(while_files_are_counted_only_small_growth_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(a_shrunken_file_counts_less_once_it_shrank, begin, end),
        cmocka_unit_test_setup_teardown(a_write_concurrent_with_a_truncation_stays_admitted, begin, end),
        cmocka_unit_test_setup_teardown(growth_that_failed_is_given_back, begin, end),
        cmocka_unit_test_setup_teardown(thin_again_it_forgets_and_a_larger_limit_does_not, begin, end),
        cmocka_unit_test_setup_teardown(a_random_history_agrees_with_a_sum, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
