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
#include <sys/statvfs.h>
#include <sys/vfs.h>
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
    bool keeps_holes;  /* of half the source */
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

int __real_ftruncate64(int file, off_t size);
int __wrap_ftruncate64(int file, off_t size);
ssize_t __wrap_copy_file_range(int source, off_t *source_offset, int destination, off_t *destination_offset, size_t length, unsigned flags);
bool __wrap_sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes);

static void change_source(int source)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", source);
    const int writer = open(path, O_WRONLY);
    if (kernel.keeps_holes)
        assert_int_equal(pwrite(writer, &(char){(char)++kernel.stamp}, 1, 0), 1);
    else
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
    const ssize_t written = kernel.keeps_holes && got > (ssize_t)HALF ? (ssize_t)HALF : got;
    assert_int_equal(pwrite(destination, data, (size_t)written, *destination_offset), written);
    if (kernel.keeps_holes)
        assert_int_equal(__real_ftruncate64(destination, *destination_offset + got), 0);
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

int __wrap_ftruncate64(int file, off_t size)
{
    if (!truncations_fail)
        return __real_ftruncate64(file, size);
    errno = EIO;
    return -1;
}

static bool all_is_zfs;
int __real_fstatfs64(int file, struct statfs *file_system);
int __wrap_fstatfs64(int file, struct statfs *file_system);

int __wrap_fstatfs64(int file, struct statfs *file_system)
{
    const int failed = __real_fstatfs64(file, file_system);
    if (all_is_zfs)
        file_system->f_type = 0x2fc12fc1; /* ZFS_SUPER_MAGIC */
    return failed;
}

static bool all_is_read_only;
int __real_fstatvfs64(int file, struct statvfs *file_system);
int __wrap_fstatvfs64(int file, struct statvfs *file_system);

int __wrap_fstatvfs64(int file, struct statvfs *file_system)
{
    const int failed = __real_fstatvfs64(file, file_system);
    if (all_is_read_only)
        file_system->f_flag |= ST_RDONLY;
    return failed;
}

/* A holder that can't wait for the pool once it was told so. */
static bool settling_fails;
static bool deduplicates, is_thick_default;
static uint64_t available = 1 << 30; /* what is held and not used included */
static uint64_t held, referenced, own, saved, slack;

static int read_figures(void *context, struct fileops_held *figures)
{
    (void)context;
    *figures = (struct fileops_held){.held = held, .unused = held > own ? held - own : 0, .referenced = referenced, .own = own, .shared = saved,
                                     .available = available, .overdraft = UINT64_MAX, .can_promise = !deduplicates, .overwrites_unshare = true};
    return 0;
}

static int hold(void *context, uint64_t bytes)
{
    (void)context;
    if (bytes > held && bytes > available + own)
        return ENOSPC;
    held = bytes;
    return 0;
}

static int settle(void *context)
{
    (void)context;
    return settling_fails ? ETIMEDOUT : 0;
}

static uint64_t cost(void *context, uint64_t size, uint32_t block_size)
{
    (void)context;
    (void)block_size;
    return size;
}

static int read_thick_default(void *context, bool *thick)
{
    (void)context;
    *thick = is_thick_default;
    return 0;
}

static int find_holder(const char *root, struct fileops_space_holder *holder)
{
    (void)root;
    *holder = (struct fileops_space_holder){.read = read_figures, .hold = hold, .settle = settle, .cost = cost, .read_thick_default = read_thick_default,
                                            .slack = slack};
    return 0;
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

static struct files make_files_with(int (*holder)(const char *root, struct fileops_space_holder *found))
{
    struct files files = {.source_path = "/tmp/clone.XXXXXX", .root = "/dev/shm/clone.XXXXXX"};
    files.source = mkstemp(files.source_path);
    assert_true(files.source >= 0);
    fill(files.source, 0);
    assert_non_null(mkdtemp(files.root));
    files.directory = open(files.root, O_RDONLY | O_DIRECTORY);
    assert_int_equal(fileops_space_open(files.root, &(struct fileops_space_options){.find_holder = holder, .no_thread = true}, &files.space), 0);
    return files;
}

static struct files make_files(void)
{
    return make_files_with(NULL);
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
    assert_int_equal(result.busy, FILEOPS_CLONE_SOURCE_CHANGES);
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
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

static void what_one_call_shares_gives_its_holes_back(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;
    struct fileops_space_status status;
    assert_int_equal(__real_ftruncate64(files.source, HALF), 0);
    assert_int_equal(__real_ftruncate64(files.source, SIZE), 0);

    kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000, .changes = true, .keeps_holes = true, .stamp = 1};
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), 0);
    assert_int_equal(kernel.calls, 2); /* the second one in one call */
    fileops_space_maintain(files.space);
    fileops_space_status(files.space, &status);
    assert_int_equal(status.shared_bytes, HALF);
    remove_files(&files);
}

static void what_one_dataset_refuses_is_not_counted_in_the_other(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;
    struct fileops_space_status status;
    struct fileops_space *source_space = NULL;
    char root[] = "/tmp/clone.XXXXXX", path[40], command[40];
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/source", root);
    assert_int_equal(fileops_space_open(root, &(struct fileops_space_options){.no_thread = true}, &source_space), 0);
    const int source = open(path, O_RDWR | O_CREAT, 0600);
    fill(source, 1);
    struct fileops_clone_request request = {.mode = FILEOPS_CLONE_FAST, .source = source, .length = SIZE, .source_space = source_space,
                                            .destination_space = files.space,
                                            .destination = openat(files.directory, "range", O_RDWR | O_CREAT, 0600)};
    kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000};
    failing_commit = 1; /* the one before it: the destination's */
    assert_int_equal(fileops_clone(&request, &result), ENOSPC);
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
    assert_int_equal(kernel.calls, 0);
    fileops_space_maintain(files.space);
    fileops_space_status(files.space, &status);
    assert_int_equal(status.shared_bytes, 0);
    fileops_space_status(source_space, &status);
    assert_int_equal(status.shared_bytes, 0);

    /* Counted once only when it is asked for again. */
    assert_int_equal(fileops_clone(&request, &result), 0);
    fileops_space_maintain(files.space);
    fileops_space_status(files.space, &status);
    assert_int_equal(status.shared_bytes, SIZE);
    fileops_space_close(source_space);
    close(source);
    close(request.destination);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    remove_files(&files);
}

/* A clone into a file, and what others try meanwhile. */
struct meanwhile {
    struct files *files;
    int file;
    bool tried, cancel;
    int from, into, range, write;
    struct fileops_clone_result result; /* its own */
    enum fileops_clone_busy from_busy, into_busy, range_busy;
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
    meanwhile->from_busy = result.busy;
    request = (struct fileops_clone_request){.source = meanwhile->files->source, .whole = true, .destination = meanwhile->file,
                                             .destination_space = space};
    meanwhile->into = fileops_clone(&request, &result);
    meanwhile->into_busy = result.busy;
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
    request.whole = false;
    request.length = 10;
    meanwhile->range = fileops_clone(&request, &result);
    meanwhile->range_busy = result.busy;
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
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
    *meanwhile = (struct meanwhile){.files = files, .file = meanwhile->file, .cancel = meanwhile->cancel};
    kernel = (typeof(kernel)){.most = SIZE};
    return fileops_clone(&(struct fileops_clone_request){.source = files->source, .whole = true, .destination = meanwhile->file,
                                                         .destination_space = files->space, .progress = try_meanwhile,
                                                         .progress_context = meanwhile},
                         &meanwhile->result);
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
    assert_int_equal(meanwhile.from_busy, FILEOPS_CLONE_SOURCE_FILLED);
    assert_int_equal(meanwhile.into_busy, FILEOPS_CLONE_DESTINATION_FILLED);
    assert_int_equal(meanwhile.range_busy, FILEOPS_CLONE_DESTINATION_FILLED);
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
    assert_int_equal(meanwhile.result.left, FILEOPS_CLONE_UNKNOWN);
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
    assert_int_equal(meanwhile.result.left, FILEOPS_CLONE_UNTOUCHED);
    fileops_space_maintain(files.space);
    fstat(meanwhile.file, &status);
    assert_int_equal(status.st_size, SIZE);

    /* It can, but the file can't be emptied. */
    truncations_fail = true;
    assert_int_equal(clone_into(&files, &meanwhile), EIO);
    assert_int_equal(meanwhile.result.left, FILEOPS_CLONE_UNTOUCHED);
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

static int find_none(const char *root, struct fileops_space_holder *holder)
{
    (void)root;
    (void)holder;
    return EAGAIN;
}

/* On ZFS, what emptying a file frees must be in the pool before blocks are shared into it. */
static void what_was_emptied_is_said_to_be_empty(void **state)
{
    (void)state;
    static const struct {
        int (*holder)(const char *root, struct fileops_space_holder *found);
        bool fails; /* to wait for the pool, though there is what could */
        enum fileops_clone_mode mode;
        int error;
        enum fileops_clone_left left;
        uint64_t size, cloned, copied;
    } cases[] = {
        {find_holder, false, FILEOPS_CLONE_FAST, 0, FILEOPS_CLONE_UNTOUCHED, SIZE, SIZE, 0},
        {find_holder, true, FILEOPS_CLONE_FAST, EBUSY, FILEOPS_CLONE_EMPTY, 0, 0, 0},
        {find_holder, true, FILEOPS_CLONE_FULL, 0, FILEOPS_CLONE_UNTOUCHED, SIZE, 0, SIZE},
        {find_none, false, FILEOPS_CLONE_FAST, EBUSY, FILEOPS_CLONE_UNTOUCHED, 2 * SIZE, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct files files = make_files_with(cases[i].holder);
        struct fileops_space *source_space = NULL;
        struct fileops_clone_result result;
        struct stat status;
        char root[] = "/tmp/clone.XXXXXX", path[40], command[40];
        assert_non_null(mkdtemp(root));
        snprintf(path, sizeof path, "%s/source", root);
        assert_int_equal(fileops_space_open(root, &(struct fileops_space_options){.no_thread = true}, &source_space), 0);
        struct fileops_clone_request request = {.mode = cases[i].mode, .source = open(path, O_RDWR | O_CREAT, 0600), .whole = true,
                                                .source_space = source_space, .destination_space = files.space,
                                                .destination = openat(files.directory, "into", O_RDWR | O_CREAT, 0600)};
        fill(request.source, 1);
        assert_int_equal(__real_ftruncate64(request.destination, 2 * SIZE), 0);
        kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000};
        all_is_zfs = true;
        settling_fails = cases[i].fails;
        assert_int_equal(fileops_clone(&request, &result), cases[i].error);
        all_is_zfs = settling_fails = false;
        assert_int_equal(result.left, cases[i].left);
        assert_int_equal(result.busy, cases[i].error ? FILEOPS_CLONE_NOT_SETTLED : FILEOPS_CLONE_NOT_BUSY);
        assert_int_equal(result.cloned, cases[i].cloned);
        assert_int_equal(result.copied, cases[i].copied);
        assert_int_equal(fstat(request.destination, &status), 0);
        assert_int_equal(status.st_size, cases[i].size);
        close(request.source);
        close(request.destination);
        fileops_space_close(source_space);
        snprintf(command, sizeof command, "rm -r %s", root);
        assert_int_equal(system(command), 0);
        remove_files(&files);
    }
}

/* A fast clone that is to be promised is refused before its destination is emptied, where that is known. */
static void what_can_not_be_promised_empties_nothing(void **state)
{
    (void)state;
    static const struct {
        bool deduplicates, silent, beside; /* another file's promise */
        uint64_t filled; /* of the destination */
        uint64_t available, pinned, saved, slack;
        int error;
    } cases[] = {
        {.available = 8 * SIZE},
        {.available = 8 * SIZE, .deduplicates = true, .error = ENOSPC},
        {.available = 8 * SIZE, .silent = true, .error = EAGAIN},
        /* What it has, what it shares, and a 64th. */
        {.available = 4 * SIZE + SIZE / 32},
        {.available = 4 * SIZE + SIZE / 32 - 1, .error = ENOSPC},
        /* More than that is held beside. */
        {.available = 5 * SIZE, .slack = SIZE},
        {.available = 5 * SIZE - 1, .slack = SIZE, .error = ENOSPC},
        /* What a snapshot has is no room for what is held. */
        {.available = 8 * SIZE + SIZE / 32, .pinned = 4 * SIZE},
        {.available = 8 * SIZE + SIZE / 32 - 1, .pinned = 4 * SIZE, .error = ENOSPC},
        /* Nor is what others refer to, once the file is empty. */
        {.available = 4 * SIZE + SIZE / 32, .filled = 3 * SIZE, .saved = SIZE},
        {.available = 4 * SIZE + SIZE / 32 - 1, .filled = 3 * SIZE, .saved = SIZE, .error = ENOSPC},
        /* What the file gave back stays held until a look. */
        {.available = 2 * SIZE + SIZE / 16, .filled = 3 * SIZE, .beside = true, .error = ENOSPC},
        {.available = 8 * SIZE, .filled = 3 * SIZE, .beside = true},
    };
    char *all = calloc(1, SIZE);
    is_thick_default = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fileops_clone_result result;
        struct fileops_space_status status;
        struct stat found;
        available = cases[i].available;
        deduplicates = cases[i].deduplicates;
        saved = cases[i].saved;
        slack = cases[i].slack;
        own = cases[i].filled;
        referenced = own + cases[i].pinned;
        held = 0;
        struct files files = make_files_with(find_holder);
        struct fileops_clone_request request = {.mode = FILEOPS_CLONE_FAST, .flags = FILEOPS_CLONE_PROMISED, .source = files.source, .whole = true,
                                                .destination_space = files.space, .destination = openat(files.directory, "into", O_RDWR | O_CREAT, 0600)};
        for (uint64_t at = 0; at < cases[i].filled; at += SIZE)
            assert_int_equal(pwrite(request.destination, all, SIZE, (off_t)at), SIZE);
        assert_int_equal(__real_ftruncate64(request.destination, 3 * SIZE), 0);
        assert_int_equal(pwrite(files.source, all, SIZE, SIZE), SIZE);
        const int other = openat(files.directory, "other", O_RDWR | O_CREAT, 0600);
        assert_int_equal(__real_ftruncate64(other, SIZE), 0);
        if (cases[i].beside)
            assert_int_equal(fileops_reserve(files.space, other, NULL), 0);
        close(other);
        kernel = (typeof(kernel)){.most = SIZE, .sharing = 1000};
        settling_fails = cases[i].silent;
        assert_int_equal(fileops_clone(&request, &result), cases[i].error);
        settling_fails = false;
        assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
        assert_int_equal(fstat(request.destination, &found), 0);
        assert_int_equal(found.st_size, cases[i].error ? 3 * SIZE : 2 * SIZE);
        fileops_space_status(files.space, &status);
        assert_int_equal(status.thick_bytes, (cases[i].error ? 0 : 2 * SIZE) + (cases[i].beside ? SIZE : 0));
        close(request.destination);
        remove_files(&files);
    }
    free(all);
    is_thick_default = deduplicates = false;
    available = 1 << 30;
    held = referenced = own = saved = slack = 0;
}

static void what_can_not_be_written_is_said_to_be_read_only(void **state)
{
    (void)state;
    struct files files = make_files();
    struct fileops_clone_result result;
    struct fileops_space *space = files.space;

    files.space = NULL; /* as books of such a file system are */
    all_is_read_only = true;
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), EROFS);
    all_is_read_only = false;
    assert_int_equal(clone_by_name(&files, FILEOPS_CLONE_FULL, &result), EINVAL);
    files.space = space;
    remove_files(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfinished_file_is_nobody_elses),
        cmocka_unit_test(what_can_not_be_written_is_said_to_be_read_only),
        cmocka_unit_test(what_nothing_was_done_to_is_not_emptied),
        cmocka_unit_test(what_could_not_be_emptied_is_tried_again),
        cmocka_unit_test(what_was_emptied_is_said_to_be_empty),
        cmocka_unit_test(what_can_not_be_promised_empties_nothing),
        cmocka_unit_test(two_moments_are_never_mixed),
        cmocka_unit_test(what_a_range_shares_is_counted_whole),
        cmocka_unit_test(what_one_call_shares_gives_its_holes_back),
        cmocka_unit_test(what_one_dataset_refuses_is_not_counted_in_the_other),
        cmocka_unit_test(each_call_is_proven_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
