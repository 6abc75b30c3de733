/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Statistics of a file, with a kernel module whose figures the test sets. */
#include "dataset_internal.h"
#include "space_query.h"
#include "statistics.h"

#include "scratch.h"

static struct fileops_dataset *dataset;
static int query_error;
static uint64_t counted_by_one_call; /* bytes; 0: all */
static unsigned int queries;
static bool dirty;

int __wrap_space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures);
int __wrap_space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures)
{
    (void)file;
    queries++;
    assert_true(nanoseconds > 0 && nanoseconds <= UINT64_C(1000) * 1000 * 1000);
    const uint64_t length = counted_by_one_call != 0 && end - offset > counted_by_one_call ? counted_by_one_call : end - offset;
    /* A quarter is shared. */
    *figures = (struct space_figures){
        .done = length, .allocated = length, .shared = length / 4, .snapshot = length / 8, .group = 7, .dirty = dirty};
    return query_error;
}

static int begin(void **state)
{
    (void)state;
    query_error = 0;
    counted_by_one_call = 0;
    queries = 0;
    dirty = false;
    scratch_begin();
    return fileops_dataset_open(scratch, &dataset);
}

static int end(void **state)
{
    (void)state;
    fileops_dataset_put(dataset);
    scratch_end();
    return 0;
}

static struct fileops_statistics statistics_of(int file)
{
    struct fileops_statistics statistics;
    assert_int_equal(fileops_statistics(dataset, file, &statistics), 0);
    return statistics;
}

static void unique_is_what_nobody_shares(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    const struct fileops_statistics statistics = statistics_of(file);
    assert_true(statistics.unique_exact);
    assert_int_equal(statistics.allocated, 8 * MIB);
    assert_int_equal(statistics.unique, 6 * MIB);
    assert_int_equal(statistics.snapshot, MIB);
    assert_int_equal(statistics.reserved, 0);
    assert_true((int64_t)statistics.as_of <= time(NULL) && (int64_t)statistics.as_of > time(NULL) - 5);
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    assert_int_equal(statistics_of(file).reserved, 8 * MIB);
    close(file);
}

static void without_the_module_it_is_an_upper_bound(void **state)
{
    const int file = make_file("disk", MIB);
    (void)state;
    query_error = EOPNOTSUPP;
    const struct fileops_statistics statistics = statistics_of(file);
    assert_false(statistics.unique_exact);
    assert_int_equal(statistics.unique, statistics.allocated);
    assert_true(statistics.allocated >= MIB);
    close(file);
}

/* Four calls of a second each for a large file: each is an upper bound, and the last is exact. */
static void a_large_file_is_counted_on_from_call_to_call(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    counted_by_one_call = 2 * MIB;
    uint64_t before = UINT64_MAX;
    for (int call = 0; call < 3; call++) {
        const struct fileops_statistics statistics = statistics_of(file);
        assert_false(statistics.unique_exact);
        assert_true(statistics.unique >= 6 * MIB && statistics.unique < before);
        before = statistics.unique;
    }
    const struct fileops_statistics statistics = statistics_of(file);
    assert_true(statistics.unique_exact);
    assert_int_equal(statistics.unique, 6 * MIB);
    assert_int_equal(queries, 8); /* and a block each time, for changes */
    close(file);
}

static void a_changed_file_is_counted_from_its_beginning(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    counted_by_one_call = 4 * MIB;
    assert_false(statistics_of(file).unique_exact);
    struct stat before, after;
    fstat(file, &before);
    do {
        assert_int_equal(pwrite(file, "y", 1, 0), 1);
        fstat(file, &after);
    } while (memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)) == 0);
    assert_false(statistics_of(file).unique_exact);
    assert_true(statistics_of(file).unique_exact);
    close(file);
}

static void the_pool_is_waited_for_seldom(void **state)
{
    const int file = make_file("disk", MIB);
    (void)state;
    dirty = true;
    const int64_t begun = time(NULL);
    for (int call = 0; call < 5; call++)
        statistics_of(file);
    assert_true(time(NULL) - begun < 3);
    assert_false(dataset->syncing);
    assert_true(dataset->sync_requested != 0);
    close(file);
}

static void only_files_have_statistics(void **state)
{
    struct fileops_statistics statistics;
    const int folder = open(scratch, O_RDONLY | O_DIRECTORY), file = make_file("empty", 0);
    (void)state;
    assert_int_equal(fileops_statistics(dataset, folder, &statistics), EISDIR);
    assert_true(statistics_of(file).unique_exact);
    close(folder);
    close(file);
}

static void what_all_files_share_is_summed_up(void **state)
{
    struct fileops_dataset_shared shared;
    (void)state;
    mkdir(in_scratch("vm"), 0700);
    close(make_file("vm/one", 4 * MIB));
    close(make_file("two", 4 * MIB));
    counted_by_one_call = MIB;
    assert_int_equal(fileops_dataset_shared(dataset, true, &shared), 0);
    while (!shared.complete) {
        pause_briefly();
        assert_int_equal(fileops_dataset_shared(dataset, false, &shared), 0);
    }
    assert_int_equal(shared.shared, 2 * MIB);
    assert_int_equal(shared.snapshot, MIB);
    query_error = EOPNOTSUPP;
    int error = fileops_dataset_shared(dataset, true, &shared);
    while (error == 0) {
        pause_briefly();
        error = fileops_dataset_shared(dataset, false, &shared);
    }
    assert_int_equal(error, EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unique_is_what_nobody_shares, begin, end),
        cmocka_unit_test_setup_teardown(without_the_module_it_is_an_upper_bound, begin, end),
        cmocka_unit_test_setup_teardown(a_large_file_is_counted_on_from_call_to_call, begin, end),
        cmocka_unit_test_setup_teardown(a_changed_file_is_counted_from_its_beginning, begin, end),
        cmocka_unit_test_setup_teardown(the_pool_is_waited_for_seldom, begin, end),
        cmocka_unit_test_setup_teardown(only_files_have_statistics, begin, end),
        cmocka_unit_test_setup_teardown(what_all_files_share_is_summed_up, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
