/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "statistics.h"

#include "dataset_internal.h"
#include "space_query.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ZFS ends a transaction group each 5 s by itself (zfs_txg_timeout): one request in that time at most doubles their number. */
#define SECONDS_BETWEEN_SYNCS 5

#define NANOSECONDS (UINT64_C(1000) * 1000 * 1000)
#define WAIT_NANOSECONDS                                                                                                         \
    (10 * NANOSECONDS) /* for changes to be in the pool, which takes some tenths of a second where nothing hangs */

/* Counts of large files that have not come to their end. */
#define UNFINISHED 16
static struct unfinished {
    dev_t device;
    uint64_t inode; /* 0: none */
    struct timespec changed;
    int64_t as_of;
    struct space_figures figures; /* `done`: from the file's beginning on */
} unfinished[UNFINISHED];
static unsigned int unfinished_next;
static pthread_mutex_t unfinished_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t statistics_seconds_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec;
}

static bool statistics_is_same(const struct unfinished *count, const struct stat *status)
{
    return count->inode == status->st_ino && count->device == status->st_dev &&
           memcmp(&count->changed, &status->st_ctim, sizeof(count->changed)) == 0;
}

/* What was counted of the file before, taken out; from its beginning where nothing was. */
static struct unfinished statistics_take_unfinished(const struct stat *status)
{
    struct unfinished taken = {.device = status->st_dev, .inode = status->st_ino, .changed = status->st_ctim, .as_of = -1};

    pthread_mutex_lock(&unfinished_lock);
    for (unsigned int i = 0; i < UNFINISHED; i++)
        if (statistics_is_same(&unfinished[i], status)) {
            taken = unfinished[i];
            unfinished[i].inode = 0;
        }
    pthread_mutex_unlock(&unfinished_lock);
    return taken;
}

static void statistics_store_unfinished(const struct unfinished *count)
{
    pthread_mutex_lock(&unfinished_lock);
    unfinished[unfinished_next++ % UNFINISHED] = *count;
    pthread_mutex_unlock(&unfinished_lock);
}

static struct timespec statistics_after(uint64_t nanoseconds)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    nanoseconds += (uint64_t)time.tv_nsec;
    time.tv_sec += (time_t)(nanoseconds / NANOSECONDS);
    time.tv_nsec = (long)(nanoseconds % NANOSECONDS);
    return time;
}

/* SEEK_HOLE in a file with changes ends their transaction group (zfs_dmu_offset_next_sync). */
static void *statistics_end_group(void *argument)
{
    struct fileops_dataset *dataset = argument;

    lseek(dataset->sync_file, 0, SEEK_HOLE);
    close(dataset->sync_file);
    pthread_mutex_lock(&dataset->lock);
    dataset->syncing = false;
    pthread_cond_broadcast(&dataset->synced);
    pthread_mutex_unlock(&dataset->lock);
    fileops_dataset_put(dataset);
    return NULL;
}

/* Has a transaction group ended in the background, unless one was lately. */
static void statistics_hasten_group(struct fileops_dataset *dataset, int file)
{
    const int64_t now = statistics_seconds_of(CLOCK_MONOTONIC);

    pthread_mutex_lock(&dataset->lock);
    if (!dataset->syncing && (dataset->sync_requested == 0 || now - dataset->sync_requested >= SECONDS_BETWEEN_SYNCS)) {
        dataset->sync_requested = now;
        dataset->sync_file = fcntl(file, F_DUPFD_CLOEXEC, 0);
        dataset->syncing = dataset->sync_file >= 0 && dataset_run_in_background(dataset, statistics_end_group) == 0;
        if (!dataset->syncing && dataset->sync_file >= 0)
            close(dataset->sync_file);
    }
    pthread_mutex_unlock(&dataset->lock);
}

/* The file has changes that are not in the pool: waits for them, but not long. */
static void statistics_wait_for_changes(struct fileops_dataset *dataset, int file)
{
    const struct timespec until = statistics_after(WAIT_NANOSECONDS);

    statistics_hasten_group(dataset, file);
    pthread_mutex_lock(&dataset->lock);
    while (dataset->syncing && pthread_cond_clockwait(&dataset->synced, &dataset->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&dataset->lock);
}

/* The time of the figures: now for a file without changes, otherwise when its transaction group was seen first. */
static int64_t statistics_as_of(struct fileops_dataset *dataset, const struct space_figures *figures, int64_t now)
{
    int64_t as_of;

    pthread_mutex_lock(&dataset->lock);
    if (dataset->synced_group != figures->group) {
        dataset->synced_group = figures->group;
        dataset->synced_group_seen = now;
    }
    as_of = figures->dirty ? dataset->synced_group_seen : now;
    pthread_mutex_unlock(&dataset->lock);
    return as_of;
}

static void statistics_add(struct space_figures *sum, const struct space_figures *more)
{
    sum->done += more->done;
    sum->allocated += more->allocated;
    sum->shared += more->shared;
    sum->snapshot += more->snapshot;
    sum->deduplicated += more->deduplicated;
}

/* Continues a count for a second at most. EOPNOTSUPP: the module does not know. */
static int statistics_count_on(struct fileops_dataset *dataset, int file, const struct stat *status, struct unfinished *count)
{
    const uint64_t from = count->figures.done;
    struct space_figures figures;
    int error = space_query(file, from, from + 1, NANOSECONDS, &figures); /* one block shows whether the file has changes */

    if (error == 0 && figures.dirty)
        statistics_wait_for_changes(dataset, file);
    if (error == 0)
        error = space_query(file, from, (uint64_t)status->st_size, FILEOPS_STATISTICS_SECONDS * NANOSECONDS, &figures);
    if (error != 0)
        return error;
    if (count->as_of < 0)
        count->as_of = statistics_as_of(dataset, &figures, statistics_seconds_of(CLOCK_REALTIME));
    statistics_add(&count->figures, &figures);
    return 0;
}

/* Shared blocks of the file, as far as they are known. */
static int statistics_count_shared(struct fileops_dataset *dataset, int file, const struct stat *status,
                                   struct fileops_statistics *statistics)
{
    struct unfinished count = statistics_take_unfinished(status);
    const int error = statistics_count_on(dataset, file, status, &count);
    const struct space_figures *figures = &count.figures;

    if (error != 0)
        return error;
    statistics->unique_exact = figures->done >= statistics->total;
    if (statistics->unique_exact)
        statistics->allocated = figures->allocated;
    else
        statistics_store_unfinished(&count);
    statistics->unique = statistics->allocated > figures->shared ? statistics->allocated - figures->shared : 0;
    statistics->snapshot = figures->snapshot;
    statistics->deduplicated = figures->deduplicated;
    statistics->as_of = (uint64_t)count.as_of;
    return 0;
}

int fileops_statistics(struct fileops_dataset *dataset, int file, struct fileops_statistics *statistics)
{
    struct stat status;

    *statistics = (struct fileops_statistics){0};
    if (fstat(file, &status) != 0)
        return errno;
    if (!S_ISREG(status.st_mode))
        return EISDIR;
    statistics->total = (uint64_t)status.st_size;
    statistics->allocated = statistics->unique = (uint64_t)status.st_blocks * 512;
    statistics->reserved = fileops_dataset_is_thick(dataset) ? statistics->total : 0;
    statistics->as_of = (uint64_t)statistics_seconds_of(CLOCK_REALTIME);
    if (statistics->total == 0) { /* its blocks may still be counted */
        statistics->allocated = statistics->unique = 0;
        statistics->unique_exact = true;
        return 0;
    }
    const int error = statistics_count_shared(dataset, file, &status, statistics);
    return error == EOPNOTSUPP ? 0 : error;
}

/* All of a file, added to the dataset's. */
static int statistics_count_file(void *context, const struct walk_file *entry)
{
    struct fileops_dataset *dataset = context;
    struct space_figures sum = {0}, figures;
    int error = 0;

    if (dataset_is_unused(dataset))
        return ECANCELED;
    const int file = openat(entry->folder, entry->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? 0 : errno;
    const uint64_t size = (uint64_t)entry->status.st_size;
    while (error == 0 && sum.done < size) {
        error = space_query(file, sum.done, size, NANOSECONDS, &figures);
        if (error == 0 && figures.done == 0)
            error = EIO;
        statistics_add(&sum, &figures);
    }
    close(file);
    pthread_mutex_lock(&dataset->lock);
    dataset->shared.shared += sum.shared;
    dataset->shared.snapshot += sum.snapshot;
    dataset->shared.deduplicated += sum.deduplicated;
    pthread_mutex_unlock(&dataset->lock);
    return error;
}

/* What is shared in an open transaction group is in no table yet. A file with a change has its end waited for (zfs_dmu_offset_next_sync). On a full
 * pool no file can be made, and what was shared last may be left out. */
static void statistics_wait_for_group(const char *root)
{
    const int file = open(root, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (file < 0)
        return;
    if (pwrite(file, "", 1, 0) == 1)
        lseek(file, 0, SEEK_HOLE);
    close(file);
}

static void *statistics_count_dataset(void *argument)
{
    struct fileops_dataset *dataset = argument;

    statistics_wait_for_group(dataset->root);
    const int error = walk_files(dataset->root, statistics_count_file, dataset);
    pthread_mutex_lock(&dataset->lock);
    dataset->counting_shared = false;
    dataset->shared_error = error;
    dataset->shared.complete = error == 0;
    pthread_mutex_unlock(&dataset->lock);
    fileops_dataset_put(dataset);
    return NULL;
}

int fileops_dataset_shared(struct fileops_dataset *dataset, bool restart, struct fileops_dataset_shared *shared)
{
    pthread_mutex_lock(&dataset->lock);
    const bool begins = !dataset->counting_shared && (restart || (!dataset->shared.complete && dataset->shared_error == 0));
    int error = begins || dataset->counting_shared ? 0 : dataset->shared_error;
    if (begins) {
        dataset->shared = (struct fileops_dataset_shared){.as_of = (uint64_t)statistics_seconds_of(CLOCK_REALTIME)};
        dataset->shared_error = 0;
        dataset->counting_shared = true;
    }
    *shared = dataset->shared;
    pthread_mutex_unlock(&dataset->lock);
    if (begins)
        error = dataset_run_in_background(dataset, statistics_count_dataset);
    if (begins && error != 0) {
        pthread_mutex_lock(&dataset->lock);
        dataset->counting_shared = false;
        dataset->shared_error = error;
        pthread_mutex_unlock(&dataset->lock);
    }
    return error;
}
