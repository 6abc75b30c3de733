/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A dataset becomes thick and thin, and clones left by a crash are removed. */
#include "changes.h"
#include "dataset_internal.h"
#include "retry.h"

#include "scratch.h"

#include <stdarg.h>
#include <stdatomic.h>

static struct fileops_dataset *dataset;

static bool step_hangs; /* of a clone that shares blocks */
static atomic_int folder_error; /* of opening the folder "vm" */

int __real_openat64(int folder, const char *name, int flags, ...);
int __wrap_openat64(int folder, const char *name, int flags, mode_t mode);
int __wrap_openat64(int folder, const char *name, int flags, mode_t mode)
{
    if (folder_error == 0 || strcmp(name, "vm") != 0)
        return __real_openat64(folder, name, flags, mode);
    errno = folder_error;
    return -1;
}

int __real_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until);
int __wrap_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until);
int __wrap_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until)
{
    return step_hangs ? ETIMEDOUT : __real_pthread_rwlock_clockwrlock(lock, clock, until);
}

/* A failed count waits until the folder can be read. */
unsigned int __wrap_sleep(unsigned int seconds);
unsigned int __wrap_sleep(unsigned int seconds)
{
    assert_int_equal(seconds, 60);
    while (folder_error != 0)
        pause_briefly();
    return 0;
}

static int begin(void **state)
{
    (void)state;
    scratch_begin();
    folder_error = 0;
    step_hangs = false;
    return fileops_dataset_open(scratch, &dataset);
}

static int end(void **state)
{
    (void)state;
    fileops_dataset_put(dataset);
    scratch_end();
    return 0;
}

static bool count_failed(const struct fileops_dataset_status *status)
{
    return strstr(status->problem, "cannot count the files") != NULL;
}

static struct fileops_dataset_status counted(void)
{
    struct fileops_dataset_status status;
    for (fileops_dataset_status(dataset, &status); status.counting && !count_failed(&status);
         fileops_dataset_status(dataset, &status))
        pause_briefly();
    return status;
}

static void files_are_counted_once_for_all_their_names(void **state)
{
    char name[512];
    (void)state;
    mkdir(in_scratch("vm"), 0700);
    close(make_file("vm/disk", 3 * MIB));
    close(make_file("other", 1));
    strcpy(name, in_scratch("vm/disk"));
    assert_int_equal(link(name, in_scratch("again")), 0);
    assert_int_equal(symlink(name, in_scratch("link")), 0);
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    const struct fileops_dataset_status status = counted();
    assert_true(status.thick);
    assert_int_equal(status.size, 100 * MIB);
    assert_true(status.admitted >= 3 * MIB + 1 && status.admitted < 4 * MIB);
    assert_string_equal(status.problem, "");
    assert_int_equal(fileops_dataset_set_thick(dataset, 2 * MIB), 0);
    assert_non_null(strstr(counted().problem, "exceed its size"));
    assert_int_equal(fileops_dataset_set_thick(dataset, 0), 0);
    assert_false(fileops_dataset_is_thick(dataset));
    assert_int_equal(counted().admitted, 0);
}

static void a_folder_that_is_replaced_meanwhile_ends_no_count(void **state)
{
    (void)state;
    mkdir(in_scratch("vm"), 0700);
    close(make_file("other", MIB));
    folder_error = ENOTDIR;
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    const struct fileops_dataset_status status = counted();
    assert_string_equal(status.problem, "");
    assert_true(status.admitted >= MIB);
}

static void a_failed_count_is_repeated(void **state)
{
    struct fileops_dataset_status status;
    (void)state;
    mkdir(in_scratch("vm"), 0700);
    close(make_file("vm/disk", MIB));
    folder_error = EIO;
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    status = counted();
    assert_true(status.counting && count_failed(&status));
    folder_error = 0; /* within the minute */
    for (; status.counting; fileops_dataset_status(dataset, &status))
        pause_briefly();
    assert_string_equal(status.problem, "");
    assert_true(status.admitted >= MIB);
}

/* Otherwise it would share blocks although it is thick. */
static void it_stays_thin_while_a_step_hangs(void **state)
{
    (void)state;
    step_hangs = true;
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), EBUSY);
    assert_false(fileops_dataset_is_thick(dataset));
    assert_false(counted().thick);
}

static void only_thick_storage_reserves(void **state)
{
    const int file = make_file("disk", MIB);
    (void)state;
    assert_int_equal(fileops_reserve(dataset, file), ENOSPC);
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    counted();
    assert_int_equal(fileops_reserve(dataset, file), 0);
    close(file);
}

/* The sum is partial until then: here the other file alone exceeds the size. */
static void nothing_is_reserved_while_files_are_counted(void **state)
{
    const int file = make_file("disk", MIB), other = make_file("other", 1);
    struct stat status;
    (void)state;
    assert_int_equal(ftruncate(other, 200 * MIB), 0);
    assert_int_equal(fstat(other, &status), 0);
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    counted();
    admission_set_limit(&dataset->admission, 0);
    admission_set_limit(&dataset->admission, 100 * MIB);
    assert_int_equal(fileops_reserve(dataset, file), EAGAIN);
    assert_int_equal(admission_count(&dataset->admission, status.st_ino, (uint64_t)status.st_size), 0);
    assert_int_equal(fileops_reserve(dataset, file), EAGAIN);
    admission_counted(&dataset->admission);
    assert_int_equal(fileops_reserve(dataset, file), ENOSPC);
    close(other);
    close(file);
}

static void only_thick_storage_is_worth_another_attempt(void **state)
{
    struct fileops_retry retry = {0};
    (void)state;
    assert_false(fileops_may_retry(dataset, ENOSPC, -1, &retry));
    assert_int_equal(fileops_dataset_set_thick(dataset, 100 * MIB), 0);
    assert_true(fileops_may_retry(dataset, ENOSPC, -1, &retry));
    assert_true(fileops_may_retry(dataset, EDQUOT, -1, &retry));
    assert_false(fileops_may_retry(dataset, EIO, -1, &retry));
    retry.begun -= 11000; /* it began 11 s ago */
    assert_false(fileops_may_retry(dataset, ENOSPC, -1, &retry));
    assert_true(retry.exhausted);
}

static void what_a_crash_left_of_clones_goes(void **state)
{
    struct fileops_dataset *again;
    (void)state;
    mkdir(in_scratch(FILEOPS_CLONES_FOLDER), 0700);
    close(make_file(FILEOPS_CLONES_FOLDER "/half", 4096));
    assert_int_equal(fileops_dataset_open(scratch, &again), 0);
    assert_false(exists(FILEOPS_CLONES_FOLDER));
    fileops_dataset_put(again);
}

static void what_can_not_be_removed_stops_no_export(void **state)
{
    struct fileops_dataset *again;
    (void)state;
    mkdir(in_scratch("vm"), 0700);
    close(make_file("vm/disk", 4096));
    assert_int_equal(symlink("vm", in_scratch(FILEOPS_CLONES_FOLDER)), 0);
    assert_int_equal(fileops_dataset_open(scratch, &again), 0);
    assert_true(exists("vm/disk"));
    fileops_dataset_put(again);
    assert_int_equal(fileops_dataset_open(in_scratch("absent"), &again), ENOENT);
    assert_null(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_counted_once_for_all_their_names, begin, end),
        cmocka_unit_test_setup_teardown(a_folder_that_is_replaced_meanwhile_ends_no_count, begin, end),
        cmocka_unit_test_setup_teardown(a_failed_count_is_repeated, begin, end),
        cmocka_unit_test_setup_teardown(it_stays_thin_while_a_step_hangs, begin, end),
        cmocka_unit_test_setup_teardown(only_thick_storage_reserves, begin, end),
        cmocka_unit_test_setup_teardown(nothing_is_reserved_while_files_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(only_thick_storage_is_worth_another_attempt, begin, end),
        cmocka_unit_test_setup_teardown(what_a_crash_left_of_clones_goes, begin, end),
        cmocka_unit_test_setup_teardown(what_can_not_be_removed_stops_no_export, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
