/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Statistics of a file, with a kernel module whose figures the test sets. */
#include "dataset_internal.h"
#include "statistics.h"

#include "scratch.h"

#include <limits.h>

static struct fileops_dataset *dataset;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static int query_error;
static uint64_t counted_by_one_call; /* bytes; 0: all */
static bool dirty, slow;
static unsigned int passes, waiting; /* queries of more than a block that may continue, and that wait; guarded by `gate` */
static atomic_uint_least64_t group, table;
static atomic_uint files_begun, syncs; /* SEEK_HOLE in a file with changes makes ZFS sync */
/* Changes before a query that is not a file's first. */
static struct {
    bool group, table;
    int file; /* 0: none */
} later;

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void set_gate(unsigned int may_pass)
{
    pthread_mutex_lock(&gate);
    passes = may_pass;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate);
}

static void wait_for_queries(unsigned int number)
{
    pthread_mutex_lock(&gate);
    while (waiting < number)
        pthread_cond_wait(&gate_moved, &gate);
    pthread_mutex_unlock(&gate);
}

off_t __real_lseek64(int file, off_t offset, int whence);
off_t __wrap_lseek64(int file, off_t offset, int whence);
off_t __wrap_lseek64(int file, off_t offset, int whence)
{
    syncs += whence == SEEK_HOLE;
    return __real_lseek64(file, offset, whence);
}

uint64_t __wrap_space_changes(void);
uint64_t __wrap_space_changes(void)
{
    return atomic_load(&table);
}

int __wrap_space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures);
int __wrap_space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures)
{
    (void)file;
    assert_true(nanoseconds > 0 && nanoseconds <= UINT64_C(1000) * 1000 * 1000);
    if (end - offset > 1) { /* not the queries of one block */
        pthread_mutex_lock(&gate);
        waiting++;
        pthread_cond_broadcast(&gate_moved);
        while (passes == 0)
            pthread_cond_wait(&gate_moved, &gate);
        passes--;
        waiting--;
        pthread_mutex_unlock(&gate);
        files_begun += offset == 0;
    }
    if (slow)
        pause_briefly();
    if (offset != 0) {
        group += later.group;
        table += later.table;
        if (later.file != 0)
            change(later.file);
    }
    const uint64_t length = counted_by_one_call != 0 && end - offset > counted_by_one_call ? counted_by_one_call : end - offset;
    /* A quarter is shared. */
    *figures = (struct space_figures){
        .done = length, .allocated = length, .shared = length / 4, .snapshot = length / 8, .group = group, .dirty = dirty};
    return query_error;
}

static int begin(void **state)
{
    (void)state;
    query_error = 0;
    counted_by_one_call = 0;
    dirty = slow = false;
    group = table = 7;
    files_begun = syncs = 0;
    memset(&later, 0, sizeof(later));
    set_gate(UINT_MAX);
    scratch_begin();
    return fileops_dataset_open(scratch, &dataset);
}

static int end(void **state)
{
    (void)state;
    set_gate(UINT_MAX);
    fileops_dataset_stop(dataset);
    fileops_dataset_put(dataset);
    scratch_end();
    return 0;
}

/* After a complete count. */
static struct fileops_statistics statistics_of(int file)
{
    struct fileops_statistics statistics;
    assert_int_equal(fileops_statistics(dataset, file, &(struct timespec){.tv_sec = INT_MAX}, &statistics), 0);
    return statistics;
}

/* Begins or joins a count, and does not wait for it. */
static struct fileops_statistics statistics_so_far(int file)
{
    struct fileops_statistics statistics;
    assert_int_equal(fileops_statistics(dataset, file, &(struct timespec){0}, &statistics), 0);
    return statistics;
}

static void unique_is_what_nobody_shares(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    const int64_t before = time(NULL);
    const struct fileops_statistics statistics = statistics_of(file);
    assert_true(statistics.unique_exact);
    assert_int_equal(statistics.allocated, 8 * MIB);
    assert_int_equal(statistics.unique, 6 * MIB);
    assert_int_equal(statistics.snapshot, MIB);
    assert_int_equal(statistics.reserved, 0);
    assert_true((int64_t)statistics.as_of <= time(NULL) && (int64_t)statistics.as_of >= before);
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

/* The first query succeeds, the second waits. So the count takes more than a second, and its result is reused. */
static void begin_long_count(int file)
{
    counted_by_one_call = 4 * MIB;
    set_gate(1);
    statistics_so_far(file);
    wait_for_queries(1);
    const struct fileops_statistics statistics = statistics_so_far(file);
    assert_false(statistics.unique_exact);
    assert_int_equal(statistics.unique, 7 * MIB); /* half of it is counted */
    while (dataset->counts[0].began + 1100 * UINT64_C(1000000) > nanoseconds())
        pause_briefly();
}

static void end_long_count(void)
{
    set_gate(UINT_MAX);
    pthread_mutex_lock(&dataset->lock);
    while (count_is_any_running(dataset))
        pthread_cond_wait(&dataset->changed, &dataset->lock);
    pthread_mutex_unlock(&dataset->lock);
}

static void a_long_count_goes_on_and_all_callers_share_it(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    begin_long_count(file);
    assert_false(statistics_so_far(file).unique_exact);
    end_long_count();
    for (int call = 0; call < 3; call++) {
        const struct fileops_statistics statistics = statistics_of(file);
        assert_true(statistics.unique_exact);
        assert_int_equal(statistics.unique, 6 * MIB);
    }
    assert_int_equal(files_begun, 1);
    close(file);
}

static void an_old_count_is_not_exact_once_a_table_has_changed(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    begin_long_count(file);
    end_long_count();
    const struct fileops_statistics before = statistics_of(file);
    assert_true(before.unique_exact);
    table++;
    const struct fileops_statistics after = statistics_of(file);
    assert_false(after.unique_exact);
    assert_int_equal(after.as_of, before.as_of);
    assert_int_equal(files_begun, 1);
    dataset->counts[0].took = 1; /* it was short: a new one costs little */
    assert_true(statistics_of(file).unique_exact);
    assert_int_equal(files_begun, 2);
    close(file);
}

static void an_old_count_is_not_exact_once_the_file_has_changed(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    begin_long_count(file);
    end_long_count();
    assert_true(statistics_of(file).unique_exact);
    change(file);
    assert_false(statistics_of(file).unique_exact);
    close(file);
}

/* A transaction group ends during the count. */
static void figures_of_two_states_are_exact_only_if_nothing_changed(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    begin_long_count(file);
    group++;
    end_long_count();
    assert_true(statistics_of(file).unique_exact);
    dataset->counts[0].took = 1;
    begin_long_count(file);
    group++;
    table++;
    end_long_count();
    assert_false(statistics_of(file).unique_exact);
    assert_int_equal(files_begun, 2);
    close(file);
}

/* A caller waits for it. */
static void nor_are_those_of_a_short_count(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    counted_by_one_call = 4 * MIB;
    later.group = true;
    assert_true(statistics_of(file).unique_exact);
    later.table = true;
    assert_false(statistics_of(file).unique_exact);
    later.table = false;
    later.file = file;
    assert_false(statistics_of(file).unique_exact);
    close(file);
}

static void counts_of_a_dataset_are_bounded(void **state)
{
    int files[COUNTS_RUNNING + 1];
    struct count_result result;
    struct stat status;
    char name[16];
    (void)state;
    set_gate(0);
    for (int i = 0; i <= COUNTS_RUNNING; i++) {
        snprintf(name, sizeof(name), "disk%d", i);
        files[i] = make_file(name, MIB);
        fstat(files[i], &status);
        const int error = count_file(dataset, files[i], &status, &(struct timespec){0}, &result);
        assert_int_equal(error, i < COUNTS_RUNNING ? 0 : EAGAIN);
        assert_false(result.exact);
    }
    wait_for_queries(COUNTS_RUNNING);
    assert_int_equal(waiting, COUNTS_RUNNING);
    end_long_count();
    assert_int_equal(files_begun, COUNTS_RUNNING);
    assert_true(statistics_of(files[COUNTS_RUNNING]).unique_exact);
    for (int i = 0; i <= COUNTS_RUNNING; i++)
        close(files[i]);
}

/* The export ends: nothing of its file system stays open. */
static void a_count_ends_when_it_is_stopped(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    counted_by_one_call = 4096;
    slow = true;
    assert_false(statistics_so_far(file).unique_exact);
    while (files_begun == 0)
        pause_briefly();
    fileops_dataset_stop(dataset);
    assert_false(count_is_any_running(dataset));
    assert_true(dataset->counts[0].total.done < 8 * MIB);
    close(file);
}

static void a_deleted_file_is_not_counted_on(void **state)
{
    const int file = make_file("disk", 8 * MIB);
    (void)state;
    begin_long_count(file);
    unlink(in_scratch("disk"));
    counted_by_one_call = MIB;
    end_long_count();
    assert_int_equal(dataset->counts[0].total.done, 5 * MIB);
    close(file);
}

static void the_pool_is_waited_for_seldom(void **state)
{
    const int file = make_file("disk", MIB);
    (void)state;
    dirty = true;
    statistics_of(file);
    assert_int_equal(syncs, 1);
    dataset->groups.requested += 3600; /* the interval does not end during the test */
    for (int call = 0; call < 10; call++)
        statistics_of(file);
    assert_int_equal(syncs, 1);
    assert_false(dataset->groups.syncing);
    dataset->groups.requested -= 3605;
    dataset->counts[0].took = 1; /* not used again */
    statistics_of(file);
    assert_int_equal(syncs, 2);
    close(file);
}

static void only_files_have_statistics(void **state)
{
    struct fileops_statistics statistics;
    const int folder = open(scratch, O_RDONLY | O_DIRECTORY), file = make_file("empty", 0);
    (void)state;
    assert_int_equal(fileops_statistics(dataset, folder, &(struct timespec){0}, &statistics), EISDIR);
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
    query_error = EOPNOTSUPP;
    int error = fileops_dataset_shared(dataset, true, &shared);
    while (error == 0) {
        pause_briefly();
        error = fileops_dataset_shared(dataset, false, &shared);
    }
    assert_int_equal(error, EOPNOTSUPP);
}

/* A clone may share blocks of a file that the older count has passed. */
static void a_restart_counts_all_files_again(void **state)
{
    struct fileops_dataset_shared shared;
    (void)state;
    close(make_file("one", 4 * MIB));
    close(make_file("two", 4 * MIB));
    counted_by_one_call = MIB;
    set_gate(5); /* the older count has passed a file */
    assert_int_equal(fileops_dataset_shared(dataset, true, &shared), 0);
    wait_for_queries(1);
    assert_int_equal(fileops_dataset_shared(dataset, true, &shared), 0);
    assert_int_equal(shared.shared, 0);
    set_gate(UINT_MAX);
    while (!shared.complete) {
        pause_briefly();
        assert_int_equal(fileops_dataset_shared(dataset, false, &shared), 0);
    }
    assert_int_equal(shared.shared, 2 * MIB);
    assert_int_equal(files_begun, 4);
}

/* The export ends: nothing of its file system stays open. */
static void a_count_of_all_files_ends_when_it_is_stopped(void **state)
{
    struct fileops_dataset_shared shared;
    (void)state;
    close(make_file("disk", 8 * MIB));
    counted_by_one_call = 4096;
    slow = true;
    assert_int_equal(fileops_dataset_shared(dataset, true, &shared), 0);
    while (files_begun == 0)
        pause_briefly();
    fileops_dataset_stop(dataset);
    assert_int_equal(dataset->shared.running, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unique_is_what_nobody_shares, begin, end),
        cmocka_unit_test_setup_teardown(without_the_module_it_is_an_upper_bound, begin, end),
        cmocka_unit_test_setup_teardown(a_long_count_goes_on_and_all_callers_share_it, begin, end),
        cmocka_unit_test_setup_teardown(an_old_count_is_not_exact_once_a_table_has_changed, begin, end),
        cmocka_unit_test_setup_teardown(an_old_count_is_not_exact_once_the_file_has_changed, begin, end),
        cmocka_unit_test_setup_teardown(figures_of_two_states_are_exact_only_if_nothing_changed, begin, end),
        cmocka_unit_test_setup_teardown(nor_are_those_of_a_short_count, begin, end),
        cmocka_unit_test_setup_teardown(counts_of_a_dataset_are_bounded, begin, end),
        cmocka_unit_test_setup_teardown(a_count_ends_when_it_is_stopped, begin, end),
        cmocka_unit_test_setup_teardown(a_deleted_file_is_not_counted_on, begin, end),
        cmocka_unit_test_setup_teardown(the_pool_is_waited_for_seldom, begin, end),
        cmocka_unit_test_setup_teardown(only_files_have_statistics, begin, end),
        cmocka_unit_test_setup_teardown(what_all_files_share_is_summed_up, begin, end),
        cmocka_unit_test_setup_teardown(a_restart_counts_all_files_again, begin, end),
        cmocka_unit_test_setup_teardown(a_count_of_all_files_ends_when_it_is_stopped, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
