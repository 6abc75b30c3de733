/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Clones with a kernel that shares, refuses and copies as the test requires. Two file systems represent two datasets of a pool. */
#include "changes.h"
#include "clone.h"
#include "dataset_internal.h"
#include "sharing_proof.h"

#include "scratch.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#define SIZE (UINT64_C(70) << 20) /* more than a step */

static struct {
    int refuses;         /* FICLONERANGE, with this error */
    unsigned int calls;  /* that shared, or copied */
    unsigned int proven; /* so many calls across file systems share, the later ones copy */
    bool changes;        /* the source, after each call */
    uint64_t available;  /* bytes of the pool; 0: as the file system says */
    uint64_t most_unsynced;
    unsigned int waits;    /* for transaction groups, after steps */
    unsigned int unstable; /* number of the call of fsync(2) that fails; 0: none */
    int ticking;           /* a file that the clock finds in the tick of its latest change, and that changes then; 0: none */
} kernel;

static struct fileops_dataset *dataset, *other;
static char other_folder[] = "/dev/shm/fileops-XXXXXX";

static void copy(int source, off_t from, int destination, off_t to, size_t length)
{
    char *data = malloc(length);
    const ssize_t got = pread(source, data, length, from);
    assert_true(got >= 0);
    assert_int_equal(pwrite(destination, data, (size_t)got, to), got);
    free(data);
}

static void after_a_call(int source)
{
    char path[64];
    kernel.calls++;
    if (!kernel.changes)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", source);
    const int writer = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(writer, "z", 1, 0), 1);
    close(writer);
}

int __wrap_ioctl(int file, unsigned long request, void *argument);
int __wrap_ioctl(int file, unsigned long request, void *argument)
{
    const struct file_clone_range *range = argument;
    struct stat status;
    assert_int_equal(request, FICLONERANGE);
    if (kernel.refuses != 0) {
        errno = kernel.refuses;
        return -1;
    }
    assert_int_equal(fstat((int)range->src_fd, &status), 0);
    assert_true(range->src_offset + range->src_length <= (uint64_t)status.st_size);
    if (kernel.available == 0) /* otherwise the source is sparse */
        copy((int)range->src_fd, (off_t)range->src_offset, file, (off_t)range->dest_offset, range->src_length);
    after_a_call((int)range->src_fd);
    return 0;
}

ssize_t __wrap_copy_file_range(int source, off_t *source_offset, int destination, off_t *destination_offset, size_t length,
                               unsigned int flags);
ssize_t __wrap_copy_file_range(int source, off_t *source_offset, int destination, off_t *destination_offset, size_t length,
                               unsigned int flags)
{
    assert_int_equal(flags, 0);
    copy(source, *source_offset, destination, *destination_offset, length);
    after_a_call(source);
    return (ssize_t)length;
}

bool __wrap_sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes);
bool __wrap_sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes)
{
    (void)proof;
    (void)bytes;
    return kernel.calls <= kernel.proven;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int file = kernel.ticking;
    struct stat status;
    if (clock != CLOCK_REALTIME_COARSE || file == 0)
        return __real_clock_gettime(clock, now);
    kernel.ticking = 0;
    assert_int_equal(fstat(file, &status), 0);
    *now = status.st_ctim;
    change(file);
    return 0;
}

int __real_fsync(int file);
int __wrap_fsync(int file);
int __wrap_fsync(int file)
{
    if (kernel.unstable == 0 || --kernel.unstable != 0)
        return __real_fsync(file);
    errno = EIO;
    return -1;
}

int __real_fstatvfs64(int file, struct statvfs *status);
int __wrap_fstatvfs64(int file, struct statvfs *status);
int __wrap_fstatvfs64(int file, struct statvfs *status)
{
    static uint64_t synced;
    const int result = __real_fstatvfs64(file, status);
    if (kernel.available == 0)
        return result;
    const uint64_t now = atomic_load(&dataset->synced_of_clones), unsynced = atomic_load(&dataset->shared_by_clones) - now;
    kernel.waits += now != synced;
    synced = now;
    if (unsynced > kernel.most_unsynced)
        kernel.most_unsynced = unsynced;
    status->f_frsize = 1;
    status->f_bavail = kernel.available;
    return result;
}

static int begin(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof(kernel));
    scratch_begin();
    strcpy(other_folder + strlen(other_folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(other_folder));
    return fileops_dataset_open(scratch, &dataset) || fileops_dataset_open(other_folder, &other);
}

static int end(void **state)
{
    char command[300];
    (void)state;
    fileops_dataset_put(dataset);
    fileops_dataset_put(other);
    snprintf(command, sizeof(command), "rm -rf '%s'", other_folder);
    assert_int_equal(system(command), 0);
    scratch_end();
    return 0;
}

static struct fileops_clone_request by_name(int source, const char *name)
{
    return (struct fileops_clone_request){.mode = FILEOPS_CLONE_FULL,
                                          .source = source,
                                          .destination = -1,
                                          .directory = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                          .name = name,
                                          .owner = geteuid(),
                                          .group = getegid(),
                                          .mode_bits = 0640,
                                          .source_dataset = dataset,
                                          .destination_dataset = dataset};
}

static struct fileops_clone_request into(int source, int destination)
{
    return (struct fileops_clone_request){.mode = FILEOPS_CLONE_FULL,
                                          .source = source,
                                          .destination = destination,
                                          .directory = -1,
                                          .source_dataset = dataset,
                                          .destination_dataset = dataset};
}

static void are_equal(int first_file, int second)
{
    static char left[1 << 20], right[1 << 20];
    struct stat first, other_status;
    fstat(first_file, &first);
    fstat(second, &other_status);
    assert_int_equal(first.st_size, other_status.st_size);
    for (off_t at = 0; at < first.st_size; at += (off_t)sizeof(left)) {
        const ssize_t got = pread(first_file, left, sizeof(left), at);
        assert_int_equal(pread(second, right, sizeof(right), at), got);
        assert_memory_equal(left, right, (size_t)got);
    }
}

static void sums_up(const struct fileops_clone_result *result)
{
    uint64_t reasons = 0;
    for (int i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        reasons += result->fallback[i];
    assert_int_equal(result->cloned + result->copied + result->holes, result->done);
    assert_int_equal(reasons, result->copied);
}

static void a_clone_by_name_is_whole_or_not_there(void **state)
{
    struct fileops_clone_result result;
    struct stat status;
    (void)state;
    const int source = make_file("disk", SIZE);
    const struct fileops_clone_request request = by_name(source, "clone");
    assert_int_equal(fileops_clone(&request, &result), 0);
    sums_up(&result);
    assert_int_equal(result.cloned, SIZE);
    assert_true(kernel.calls >= 2); /* in steps */
    const int made = open(in_scratch("clone"), O_RDONLY);
    are_equal(source, made);
    assert_int_equal(fstat(made, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_false(exists(FILEOPS_CLONES_FOLDER));
    assert_int_equal(fileops_clone(&request, &result), EEXIST);
    close(made);
    close(source);
    close(request.directory);
}

static void what_can_not_be_shared_is_copied_with_its_holes(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", 4 * MIB);
    assert_int_equal(pwrite(source, "end", 3, (off_t)(16 * MIB)), 3);
    assert_int_equal(ftruncate(source, (off_t)(20 * MIB)), 0);
    kernel.refuses = EOPNOTSUPP;
    struct fileops_clone_request request = by_name(source, "clone");
    assert_int_equal(fileops_clone(&request, &result), 0);
    sums_up(&result);
    assert_int_equal(result.done, 20 * MIB);
    assert_true(result.holes >= 10 * MIB && result.copied >= 4 * MIB);
    assert_int_equal(result.fallback[FILEOPS_FALLBACK_NOT_SUPPORTED], result.copied);
    const int made = open(in_scratch("clone"), O_RDONLY);
    are_equal(source, made);
    request.name = "fast";
    request.mode = FILEOPS_CLONE_FAST;
    assert_int_equal(fileops_clone(&request, &result), EOPNOTSUPP);
    kernel.refuses = EXDEV;
    assert_int_equal(fileops_clone(&request, &result), EOPNOTSUPP); /* one dataset: blocks of another size */
    assert_int_equal(result.refused, FILEOPS_FALLBACK_RECORD_SIZE);
    kernel.refuses = EIO;
    assert_int_equal(fileops_clone(&request, &result), EIO);
    kernel.refuses = EDQUOT;
    assert_int_equal(fileops_clone(&request, &result), ENOSPC);
    assert_false(exists("fast"));
    assert_false(exists(FILEOPS_CLONES_FOLDER));
    close(made);
    close(source);
    close(request.directory);
}

static uint64_t admitted(void)
{
    struct fileops_dataset_status status;
    for (fileops_dataset_status(dataset, &status); status.counting; fileops_dataset_status(dataset, &status))
        pause_briefly();
    return status.admitted;
}

static void thick_storage_shares_nothing_and_admits_first(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", 8 * MIB);
    assert_int_equal(fileops_dataset_set_thick(dataset, 18 * MIB), 0);
    const uint64_t before = admitted();
    struct fileops_clone_request request = by_name(source, "clone");
    request.mode = FILEOPS_CLONE_FAST;
    assert_int_equal(fileops_clone(&request, &result), EOPNOTSUPP);
    assert_int_equal(result.refused, FILEOPS_FALLBACK_THICK);
    assert_int_equal(admitted(), before);
    request.mode = FILEOPS_CLONE_FULL;
    assert_int_equal(fileops_clone(&request, &result), 0);
    assert_int_equal(result.fallback[FILEOPS_FALLBACK_THICK], 8 * MIB);
    assert_int_equal(kernel.calls, 0);
    assert_true(admitted() >= before + 8 * MIB);
    const uint64_t full = admitted();
    request.name = "again";
    assert_int_equal(fileops_clone(&request, &result), ENOSPC);
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
    assert_int_equal(admitted(), full);
    assert_false(exists("again"));
    close(source);
    close(request.directory);
}

static bool becomes_thick(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    if (!fileops_dataset_is_thick(dataset))
        assert_int_equal(fileops_dataset_set_thick(dataset, 1024 * MIB), 0);
    return true;
}

static void a_clone_ends_when_its_dataset_becomes_thick(void **state)
{
    struct fileops_clone_result result;
    struct stat status;
    (void)state;
    const int source = make_file("disk", SIZE);
    struct fileops_clone_request request = by_name(source, "clone");
    request.progress = becomes_thick;
    assert_int_equal(fileops_clone(&request, &result), EAGAIN);
    assert_false(exists("clone"));
    assert_false(exists(FILEOPS_CLONES_FOLDER));
    assert_true(admitted() < 2 * SIZE);
    assert_int_equal(fileops_dataset_set_thick(dataset, 0), 0);
    const int file = make_file("file", 0);
    struct fileops_clone_request whole = into(source, file);
    whole.progress = becomes_thick;
    assert_int_equal(fileops_clone(&whole, &result), EAGAIN);
    assert_int_equal(result.left, FILEOPS_CLONE_EMPTY);
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, 0);
    close(file);
    close(source);
    close(request.directory);
}

static void a_source_that_changes_is_refused(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", SIZE);
    kernel.changes = true;
    const struct fileops_clone_request request = by_name(source, "clone");
    assert_int_equal(fileops_clone(&request, &result), EBUSY);
    assert_false(exists("clone"));
    assert_int_equal(kernel.calls, 1); /* not all of it first */
    const int file = make_file("file", 0);
    const struct fileops_clone_request whole = into(source, file);
    assert_int_equal(fileops_clone(&whole, &result), EBUSY);
    assert_int_equal(result.left, FILEOPS_CLONE_EMPTY);
    struct stat status;
    fstat(file, &status);
    assert_int_equal(status.st_size, 0);
    close(file);
    close(source);
    close(request.directory);
}

static void a_change_during_the_only_step_is_refused(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", 4096);
    const struct fileops_clone_request request = by_name(source, "clone");
    kernel.changes = true;
    assert_int_equal(fileops_clone(&request, &result), EBUSY);
    assert_false(exists("clone"));
    kernel.changes = false;
    kernel.ticking = source; /* a change before the first step is cloned */
    assert_int_equal(fileops_clone(&request, &result), 0);
    close(source);
    close(request.directory);
}

static void what_is_not_stable_is_no_clone(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", 4096), file = make_file("file", 0);
    const struct fileops_clone_request request = by_name(source, "clone"), whole = into(source, file);
    kernel.unstable = 1; /* the file */
    assert_int_equal(fileops_clone(&request, &result), EIO);
    assert_false(exists("clone"));
    kernel.unstable = 2; /* its name */
    assert_int_equal(fileops_clone(&request, &result), EIO);
    assert_int_equal(result.left, FILEOPS_CLONE_UNKNOWN);
    kernel.unstable = 1;
    assert_int_equal(fileops_clone(&whole, &result), EIO);
    assert_int_equal(result.left, FILEOPS_CLONE_EMPTY);
    close(file);
    close(source);
    close(request.directory);
}

static void a_file_without_data_becomes_the_source(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", 4 * MIB), file = make_file("file", 0), full = make_file("full", 4096);
    assert_int_equal(ftruncate(file, (off_t)(64 * MIB)), 0); /* a plug-in sets the length first */
    struct fileops_clone_request request = into(source, file);
    assert_int_equal(fileops_clone(&request, &result), 0);
    are_equal(source, file);
    request = into(source, full);
    assert_int_equal(fileops_clone(&request, &result), EEXIST);
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
    request = into(source, source);
    assert_int_equal(fileops_clone(&request, &result), EINVAL);
    close(full);
    close(file);
    close(source);
}

static bool cancels(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)total;
    return done == 0;
}

/* When the clone is whole, but has no name yet. */
static bool cancels_at_the_end(void *context, uint64_t done, uint64_t total)
{
    unsigned int *calls = context;
    return done != total || ++*calls == 1;
}

static void nothing_remains_of_a_cancelled_clone(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", SIZE);
    struct fileops_clone_request request = by_name(source, "clone");
    request.progress = cancels;
    assert_int_equal(fileops_clone(&request, &result), ECANCELED);
    unsigned int calls = 0;
    request.progress = cancels_at_the_end;
    request.progress_context = &calls;
    assert_int_equal(fileops_clone(&request, &result), ECANCELED);
    assert_false(exists("clone"));
    assert_false(exists(FILEOPS_CLONES_FOLDER));
    close(source);
    close(request.directory);
}

static bool takes_the_name(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    if (done == total && !exists("clone"))
        close(make_file("clone", 10));
    return true;
}

static void a_file_made_meanwhile_is_not_replaced(void **state)
{
    struct fileops_clone_result result;
    struct stat status;
    (void)state;
    const int source = make_file("disk", MIB);
    struct fileops_clone_request request = by_name(source, "clone");
    request.progress = takes_the_name;
    assert_int_equal(fileops_clone(&request, &result), EEXIST);
    assert_int_equal(stat(in_scratch("clone"), &status), 0);
    assert_int_equal(status.st_size, 10);
    close(source);
    close(request.directory);
}

static void a_copy_is_never_called_a_clone(void **state)
{
    struct fileops_clone_result result;
    struct stat first, second;
    (void)state;
    assert_int_equal(stat(scratch, &first) || stat(other_folder, &second), 0);
    if (first.st_dev == second.st_dev)
        skip();
    const int source = make_file("disk", SIZE);
    struct fileops_clone_request request = by_name(source, "clone");
    close(request.directory);
    request.directory = open(other_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    request.destination_dataset = other;
    assert_int_equal(fileops_clone(&request, &result), 0);
    sums_up(&result);
    assert_int_equal(result.fallback[FILEOPS_FALLBACK_OTHER_FILE_SYSTEM], SIZE);
    request.mode = FILEOPS_CLONE_FAST;
    request.name = "fast";
    assert_int_equal(fileops_clone(&request, &result), EXDEV);
    kernel.calls = 0;
    kernel.proven = 1;
    assert_int_equal(fileops_clone(&request, &result), EXDEV); /* a partial copy is not a fast clone */
    request.mode = FILEOPS_CLONE_FULL;
    kernel.calls = 0;
    assert_int_equal(fileops_clone(&request, &result), 0);
    sums_up(&result);
    assert_true(result.cloned > 0 && result.fallback[FILEOPS_FALLBACK_UNPROVEN] > 0);
    close(source);
    close(request.directory);
}

/* A user who can create files at the root cannot redirect clones elsewhere. */
static void the_folder_of_clones_is_ours_alone(void **state)
{
    struct fileops_clone_result result;
    (void)state;
    const int source = make_file("disk", MIB);
    const struct fileops_clone_request request = by_name(source, "clone");
    assert_int_equal(symlink("/tmp", in_scratch(FILEOPS_CLONES_FOLDER)), 0);
    assert_int_not_equal(fileops_clone(&request, &result), 0);
    assert_int_equal(unlink(in_scratch(FILEOPS_CLONES_FOLDER)), 0);
    assert_int_equal(mkdir(in_scratch(FILEOPS_CLONES_FOLDER), 0777) || chmod(in_scratch(FILEOPS_CLONES_FOLDER), 0777), 0);
    assert_int_equal(fileops_clone(&request, &result), EPERM);
    if (geteuid() == 0) {
        assert_int_equal(chmod(in_scratch(FILEOPS_CLONES_FOLDER), 0700), 0);
        assert_int_equal(chown(in_scratch(FILEOPS_CLONES_FOLDER), 1234, 1234), 0);
        assert_int_equal(fileops_clone(&request, &result), EPERM);
    }
    close(source);
    close(request.directory);
}

/* A transaction group clones at most three quarters of the available space, and a step. */
static void clones_wait_for_a_group_in_time_and_seldom(void **state)
{
    struct fileops_clone_result result;
    const int source = open(in_scratch("sparse"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct fileops_clone_request request = by_name(source, "clone");

    (void)state;
    assert_int_equal(ftruncate(source, 1024 * MIB), 0);
    kernel.available = 512 * MIB;
    assert_int_equal(fileops_clone(&request, &result), 0);
    assert_int_equal(result.cloned, 1024 * MIB);
    assert_true(kernel.most_unsynced > 384 * MIB && kernel.most_unsynced <= (384 + 64) * MIB);
    assert_int_equal(kernel.waits, 2);
    close(request.directory);
    close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_clone_by_name_is_whole_or_not_there, begin, end),
        cmocka_unit_test_setup_teardown(what_can_not_be_shared_is_copied_with_its_holes, begin, end),
        cmocka_unit_test_setup_teardown(thick_storage_shares_nothing_and_admits_first, begin, end),
        cmocka_unit_test_setup_teardown(a_clone_ends_when_its_dataset_becomes_thick, begin, end),
        cmocka_unit_test_setup_teardown(a_source_that_changes_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_change_during_the_only_step_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_stable_is_no_clone, begin, end),
        cmocka_unit_test_setup_teardown(a_file_without_data_becomes_the_source, begin, end),
        cmocka_unit_test_setup_teardown(nothing_remains_of_a_cancelled_clone, begin, end),
        cmocka_unit_test_setup_teardown(a_file_made_meanwhile_is_not_replaced, begin, end),
        cmocka_unit_test_setup_teardown(clones_wait_for_a_group_in_time_and_seldom, begin, end),
        cmocka_unit_test_setup_teardown(a_copy_is_never_called_a_clone, begin, end),
        cmocka_unit_test_setup_teardown(the_folder_of_clones_is_ours_alone, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
