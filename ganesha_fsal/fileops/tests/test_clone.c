/* Clones where the kernel does what is hard to make it do: copy_file_range(2) that shares, but does less than asked, while the source
 * changes. Two file systems stand for two datasets of a pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "clone.h"
#include "ledger.h"
#include "sharing_proof.h"
#include "space.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (UINT64_C(1) << 20)
#define HALF (SIZE / 2)

/* What the calls below do. */
static struct {
    uint64_t most;     /* bytes of a call */
    unsigned calls;    /* so far */
    unsigned sharing;  /* so many calls share, the later ones copy */
    bool changes;      /* the source, after each call */
    bool fills;        /* the source, before */
    unsigned char stamp;
} kernel;

static void fill(int file, unsigned char stamp)
{
    char *data = malloc(SIZE);
    memset(data, stamp, SIZE);
    if (pwrite(file, data, SIZE, 0) != (ssize_t)SIZE)
        abort();
    free(data);
}

ssize_t __wrap_copy_file_range(int source, off_t *source_offset, int destination, off_t *destination_offset, size_t length, unsigned flags);
bool __wrap_sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes);

static void change_source(int source)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", source);
    const int writer = open(path, O_WRONLY);
    fill(writer, ++kernel.stamp);
    close(writer);
}

ssize_t __wrap_copy_file_range(int source, off_t *source_offset, int destination, off_t *destination_offset, size_t length, unsigned flags)
{
    char *data = malloc(length);
    assert_int_equal(flags, 0);
    if (kernel.fills)
        change_source(source);
    length = length > kernel.most ? kernel.most : length;
    const ssize_t got = pread(source, data, length, *source_offset);
    assert_true(got > 0);
    assert_int_equal(pwrite(destination, data, (size_t)got, *destination_offset), got);
    free(data);
    *source_offset += got;
    *destination_offset += got;
    kernel.calls++;
    if (kernel.changes)
        change_source(source);
    return got;
}

bool __wrap_sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes)
{
    (void)proof;
    (void)bytes;
    return kernel.calls <= kernel.sharing;
}

static bool truncations_fail;
int __real_ftruncate64(int file, off_t size);
int __wrap_ftruncate64(int file, off_t size);

int __wrap_ftruncate64(int file, off_t size)
{
    if (!truncations_fail)
        return __real_ftruncate64(file, size);
    errno = EIO;
    return -1;
}

static int failing_commit = -1; /* so many succeed before one fails; -1: none does */
int __real_fileops_ledger_commit(struct fileops_ledger *ledger);
int __wrap_fileops_ledger_commit(struct fileops_ledger *ledger);

int __wrap_fileops_ledger_commit(struct fileops_ledger *ledger)
{
    const int error = __real_fileops_ledger_commit(ledger);
    return failing_commit >= 0 && failing_commit-- == 0 ? ENOSPC : error;
}

struct files {
    char source_path[32], root[32];
    int source, directory;
    struct fileops_space *space;
};

static struct files make_files(void)
{
    struct files files = {.source_path = "/tmp/clone.XXXXXX", .root = "/dev/shm/clone.XXXXXX"};
    files.source = mkstemp(files.source_path);
    assert_true(files.source >= 0);
    fill(files.source, 0);
    assert_non_null(mkdtemp(files.root));
    files.directory = open(files.root, O_RDONLY | O_DIRECTORY);
    assert_int_equal(fileops_space_open(files.root, &(struct fileops_space_options){.no_thread = true}, &files.space), 0);
    return files;
}

static void remove_files(struct files *files)
{
    char command[64];
    fileops_space_close(files->space);
    close(files->directory);
    close(files->source);
    unlink(files->source_path);
    snprintf(command, sizeof command, "rm -r %s", files->root);
    assert_int_equal(system(command), 0);
}

static int clone_by_name(const struct files *files, enum fileops_clone_mode mode, struct fileops_clone_result *result)
{
    return fileops_clone(&(struct fileops_clone_request){.mode = mode, .source = files->source, .whole = true, .destination = -1,
                                                         .directory = files->directory, .name = "clone", .mode_bits = (mode_t)-1,
                                                         .destination_space = files->space},
                         result);
}

static void read_clone(const struct files *files, unsigned char *data)
{
    const int file = openat(files->directory, "clone", O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(read(file, data, SIZE), SIZE);
    close(file);
}

static void two_moments_are_never_mixed(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;
    unsigned char *data = malloc(SIZE);

    kernel = (typeof(kernel)){.most = HALF, .sharing = 1000, .changes = true};
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), EBUSY);
    assert_int_equal(faccessat(files.directory, "clone", F_OK, 0), -1);

    /* In one call it is one moment, though the source changes. */
    kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000, .changes = true, .stamp = 100};
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), 0);
    assert_int_equal(result.cloned, SIZE);
    read_clone(&files, data);
    for (uint64_t at = 1; at < SIZE; at++)
        assert_int_equal(data[at], data[0]);
    free(data);
    remove_files(&files);
}

static void each_call_is_proven_by_itself(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;

    kernel = (typeof(kernel)){.most = HALF, .sharing = 1000};
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), 0);
    assert_int_equal(kernel.calls, 2);
    assert_int_equal(result.cloned, SIZE);

    kernel = (typeof(kernel)){.most = HALF, .sharing = 1};
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), 0);
    assert_int_equal(result.cloned, HALF);
    assert_int_equal(result.fallback[FILEOPS_FALLBACK_UNPROVEN], HALF);

    kernel = (typeof(kernel)){.most = HALF, .sharing = 1};
    assert_int_equal(unlinkat(files.directory, "clone", 0), 0);
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FAST, &result), EXDEV);
    assert_int_equal(faccessat(files.directory, "clone", F_OK, 0), -1);
    remove_files(&files);
}

static void what_a_range_shares_is_counted_whole(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;
    struct fileops_space_status status;
    struct fileops_clone_request request = {.source = files.source, .length = SIZE, .destination_space = files.space,
                                            .destination = openat(files.directory, "range", O_RDWR | O_CREAT, 0600)};
    /* Half of it a hole. */
    assert_int_equal(__real_ftruncate64(files.source, HALF), 0);
    assert_int_equal(__real_ftruncate64(files.source, SIZE), 0);

    /* That is written between the look for data and the sharing. */
    kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000, .fills = true};
    assert_int_equal(fileops_clone(&request, &result), EBUSY);
    fileops_space_maintain(files.space);
    fileops_space_status(files.space, &status);
    assert_int_equal(status.shared_bytes, SIZE);

    /* Holes that stay holes are not counted in the end. */
    assert_int_equal(__real_ftruncate64(files.source, HALF), 0);
    assert_int_equal(__real_ftruncate64(files.source, SIZE), 0);
    kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000};
    assert_int_equal(fileops_clone(&request, &result), 0);
    fileops_space_maintain(files.space);
    fileops_space_status(files.space, &status);
    assert_int_equal(status.shared_bytes, HALF);
    close(request.destination);
    remove_files(&files);
}

/* A clone into a file, and what others try meanwhile. */
struct meanwhile {
    struct files *files;
    int file;
    bool tried, cancel;
    int from, into, range, write;
};

static bool try_meanwhile(void *context, uint64_t done, uint64_t total)
{
    struct meanwhile *meanwhile = context;
    struct fileops_clone_result result;
    struct fileops_space *space = meanwhile->files->space;
    (void)done;
    (void)total;
    if (meanwhile->tried)
        return !meanwhile->cancel;
    meanwhile->tried = true;
    truncations_fail = meanwhile->cancel;
    struct fileops_clone_request request = {.source = meanwhile->file, .whole = true, .destination = -1, .directory = meanwhile->files->directory,
                                            .name = "from", .mode_bits = (mode_t)-1, .source_space = space, .destination_space = space};
    meanwhile->from = fileops_clone(&request, &result);
    request = (struct fileops_clone_request){.source = meanwhile->files->source, .whole = true, .destination = meanwhile->file,
                                             .destination_space = space};
    meanwhile->into = fileops_clone(&request, &result);
    request.whole = false;
    request.length = 10;
    meanwhile->range = fileops_clone(&request, &result);
    struct fileops_change change;
    struct stat status;
    fstat(meanwhile->file, &status);
    meanwhile->write = fileops_change_begin(space, status.st_ino, FILEOPS_WRITE, 0, 10, &change);
    if (!meanwhile->write)
        fileops_change_end(space, &change, 0);
    return !meanwhile->cancel;
}

static int clone_into(struct files *files, struct meanwhile *meanwhile)
{
    struct fileops_clone_result result;
    *meanwhile = (struct meanwhile){.files = files, .file = meanwhile->file, .cancel = meanwhile->cancel};
    kernel = (typeof(kernel)){.most = SIZE};
    return fileops_clone(&(struct fileops_clone_request){.source = files->source, .whole = true, .destination = meanwhile->file,
                                                         .destination_space = files->space, .progress = try_meanwhile,
                                                         .progress_context = meanwhile},
                         &result);
}

static void an_unfinished_file_is_nobody_elses(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;
    struct meanwhile meanwhile = {.file = openat(files.directory, "into", O_RDWR | O_CREAT, 0600)};

    assert_int_equal(clone_into(&files, &meanwhile), 0);
    assert_true(meanwhile.tried);
    assert_int_equal(meanwhile.from, EBUSY);
    assert_int_equal(meanwhile.into, EBUSY);
    assert_int_equal(meanwhile.range, EBUSY);
    assert_int_equal(meanwhile.write, EBUSY);
    assert_int_equal(faccessat(files.directory, "from", F_OK, 0), -1);

    /* Whole, it is a file as any other. */
    assert_int_equal(fileops_clone(&(struct fileops_clone_request){.source = meanwhile.file, .whole = true, .destination = -1,
                                                                   .directory = files.directory, .name = "from", .mode_bits = (mode_t)-1,
                                                                   .source_space = files.space, .destination_space = files.space},
                                   &result), 0);
    close(meanwhile.file);
    remove_files(&files);
}

static void what_could_not_be_emptied_is_tried_again(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_change change;
    struct stat status;
    struct meanwhile meanwhile = {.file = openat(files.directory, "into", O_RDWR | O_CREAT, 0600), .cancel = true};
    fstat(meanwhile.file, &status);

    assert_int_equal(clone_into(&files, &meanwhile), ECANCELED);
    fileops_space_maintain(files.space);
    assert_int_equal(fstat(meanwhile.file, &status), 0);
    assert_int_not_equal(status.st_size, 0);
    /* What a client wrote now would be lost. */
    assert_int_equal(fileops_change_begin(files.space, status.st_ino, FILEOPS_WRITE, 0, 10, &change), EBUSY);

    truncations_fail = false;
    assert_int_equal(fileops_space_maintain(files.space), 0);
    assert_int_equal(fstat(meanwhile.file, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(fileops_change_begin(files.space, status.st_ino, FILEOPS_WRITE, 0, 10, &change), 0);
    fileops_change_end(files.space, &change, 0);
    close(meanwhile.file);
    remove_files(&files);
}

static void what_nothing_was_done_to_is_not_emptied(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_change change;
    struct stat status;
    struct meanwhile meanwhile = {.file = openat(files.directory, "into", O_RDWR | O_CREAT, 0600)};
    fill(meanwhile.file, 1);
    fstat(meanwhile.file, &status);

    /* The mark can't be written. */
    failing_commit = 0;
    assert_int_equal(clone_into(&files, &meanwhile), ENOSPC);
    fileops_space_maintain(files.space);
    fstat(meanwhile.file, &status);
    assert_int_equal(status.st_size, SIZE);

    /* It can, but the file can't be emptied. */
    truncations_fail = true;
    assert_int_equal(clone_into(&files, &meanwhile), EIO);
    truncations_fail = false;
    fileops_space_maintain(files.space);
    fstat(meanwhile.file, &status);
    assert_int_equal(status.st_size, SIZE);
    assert_int_equal(fileops_change_begin(files.space, status.st_ino, FILEOPS_WRITE, 0, 10, &change), 0);
    fileops_change_end(files.space, &change, 0);

    /* The file is whole, but the mark can't be taken away: clients may not write what the next start would empty. */
    failing_commit = 2; /* those before it: the mark, what would be shared */
    assert_int_equal(clone_into(&files, &meanwhile), ENOSPC);
    assert_int_equal(fileops_change_begin(files.space, status.st_ino, FILEOPS_WRITE, 0, 10, &change), EBUSY);
    fileops_space_maintain(files.space);
    fstat(meanwhile.file, &status);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(fileops_change_begin(files.space, status.st_ino, FILEOPS_WRITE, 0, 10, &change), 0);
    fileops_change_end(files.space, &change, 0);
    close(meanwhile.file);
    remove_files(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfinished_file_is_nobody_elses),
        cmocka_unit_test(what_nothing_was_done_to_is_not_emptied),
        cmocka_unit_test(what_could_not_be_emptied_is_tried_again),
        cmocka_unit_test(two_moments_are_never_mixed),
        cmocka_unit_test(what_a_range_shares_is_counted_whole),
        cmocka_unit_test(each_call_is_proven_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
