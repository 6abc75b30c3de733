/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "count.h"

#include "dataset_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SECOND (UINT64_C(1000) * 1000 * 1000)
#define STEP (SECOND / 10) /* a cancelled count ends within this time */
#define REUSE 10           /* a result is used again for this many times the duration of its count */

/* ZFS ends a transaction group each 5 s by itself (zfs_txg_timeout): one request in that time at most doubles their number. */
#define SECONDS_BETWEEN_SYNCS 5
#define SECONDS_FOR_SYNC 10

static uint64_t count_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void count_add(struct space_figures *sum, const struct space_figures *more)
{
    sum->done += more->done;
    sum->allocated += more->allocated;
    sum->shared += more->shared;
    sum->snapshot += more->snapshot;
    sum->deduplicated += more->deduplicated;
}

/* The file has changes that are not in the pool: ends their transaction group, at most once in the interval above. SEEK_HOLE in a file with changes waits for that
 * (zfs_dmu_offset_next_sync). */
static void count_wait_for_changes(struct count *count)
{
    struct fileops_dataset *dataset = count->dataset;
    struct dataset_groups *groups = &dataset->groups;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t now = until.tv_sec;
    until.tv_sec += SECONDS_FOR_SYNC;
    pthread_mutex_lock(&dataset->lock);
    if (!groups->syncing && (groups->requested == 0 || now - groups->requested >= SECONDS_BETWEEN_SYNCS)) {
        groups->requested = now;
        groups->syncing = true;
        pthread_mutex_unlock(&dataset->lock);
        lseek(count->file, 0, SEEK_HOLE);
        pthread_mutex_lock(&dataset->lock);
        groups->syncing = false;
        pthread_cond_broadcast(&dataset->changed);
    }
    while (groups->syncing && !count->cancelled &&
           pthread_cond_clockwait(&dataset->changed, &dataset->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&dataset->lock);
}

/* The time of the figures: now for a file without changes, otherwise when its transaction group was seen first. With the lock. */
static int64_t count_as_of(struct dataset_groups *groups, const struct space_figures *figures)
{
    const int64_t now = time(NULL);

    if (groups->seen != figures->group) {
        groups->seen = figures->group;
        groups->seen_at = now;
    }
    return figures->dirty ? groups->seen_at : now;
}

static bool count_is_same(const struct count *count, const struct stat *status)
{
    return memcmp(&count->changed, &status->st_ctim, sizeof(count->changed)) == 0;
}

/* Whether the file is unchanged. Stops for a file without a name: its blocks are freed when its last user closes it. */
static int count_check_file(const struct count *count, bool *same)
{
    struct stat status;

    if (fstat(count->file, &status) != 0)
        return errno;
    *same = count_is_same(count, &status);
    return status.st_nlink == 0 ? ECANCELED : 0;
}

/* One query. After the first second the count pauses as long as it works, so that it uses at most half of a processor. */
static int count_step(struct count *count)
{
    struct fileops_dataset *dataset = count->dataset;
    struct space_figures figures;
    const uint64_t began = count_now();
    int error = space_query(count->file, count->total.done, count->size, STEP, &figures);

    if (error == 0 && figures.done == 0)
        error = EIO;
    pthread_mutex_lock(&dataset->lock);
    if (error == 0 && count->as_of == 0) {
        count->as_of = count_as_of(&dataset->groups, &figures);
        count->total.group = figures.group;
    }
    if (error == 0)
        count_add(&count->total, &figures);
    if (count->cancelled)
        error = ECANCELED;
    pthread_mutex_unlock(&dataset->lock);
    const uint64_t now = count_now();
    if (error == 0 && count->total.done < count->size && now - count->began > SECOND)
        nanosleep(&(struct timespec){.tv_nsec = (long)(now - began < STEP ? now - began : STEP)}, NULL);
    return error;
}

/* Counts the whole file. *exact: no transaction group ended meanwhile, or neither the file nor a reference table changed. */
static int count_all(struct count *count, bool *exact)
{
    struct space_figures figures; /* of one block: whether the file has changes, and which group is the last */
    bool same = true;
    int error = space_query(count->file, 0, 1, STEP, &figures);

    if (error == 0 && figures.dirty)
        count_wait_for_changes(count);
    while (error == 0 && count->total.done < count->size) {
        error = count_step(count);
        if (error == 0)
            error = count_check_file(count, &same);
    }
    if (error == 0)
        error = space_query(count->file, 0, 1, STEP, &figures);
    *exact = error == 0 && (figures.group == count->total.group || (same && count->table != 0 && space_changes() == count->table));
    return error;
}

static void *count_run(void *argument)
{
    struct count *count = argument;
    struct fileops_dataset *dataset = count->dataset;
    bool exact;
    const int error = count_all(count, &exact);

    close(count->file);
    pthread_mutex_lock(&dataset->lock);
    count->running = false;
    count->error = error == ECANCELED ? EAGAIN : error;
    count->exact = exact;
    count->took = count_now() - count->began;
    pthread_cond_broadcast(&dataset->changed);
    pthread_mutex_unlock(&dataset->lock);
    dataset_end_background(dataset);
    return NULL;
}

static bool count_is_reusable(const struct count *count)
{
    return count->error == 0 && count->took > SECOND && count_now() - count->began < (REUSE + 1) * count->took;
}

/* A new count, which replaces the oldest ended one. NULL: too many run, or no thread. With the lock. */
static struct count *count_begin(struct fileops_dataset *dataset, int file, const struct stat *status)
{
    struct count *count = NULL, *all = dataset->counts;
    unsigned int running = 0;

    for (unsigned int i = 0; i < COUNTS_KNOWN; i++) {
        running += all[i].running;
        if (!all[i].running && all[i].waiting == 0 &&
            (count == NULL || all[i].inode == status->st_ino || (count->inode != status->st_ino && all[i].began < count->began)))
            count = &all[i];
    }
    if (count == NULL || running >= COUNTS_RUNNING)
        return NULL;
    *count = (struct count){.dataset = dataset,
                            .inode = status->st_ino,
                            .running = true,
                            .file = fcntl(file, F_DUPFD_CLOEXEC, 0),
                            .changed = status->st_ctim,
                            .size = (uint64_t)status->st_size,
                            .table = space_changes(),
                            .began = count_now()};
    if (count->file >= 0 && dataset_run_in_background(dataset, count_run, count) == 0)
        return count;
    if (count->file >= 0)
        close(count->file);
    *count = (struct count){0};
    return NULL;
}

static struct count *count_find(struct fileops_dataset *dataset, ino_t inode)
{
    for (unsigned int i = 0; i < COUNTS_KNOWN; i++)
        if (dataset->counts[i].inode == inode && (dataset->counts[i].running || count_is_reusable(&dataset->counts[i])))
            return &dataset->counts[i];
    return NULL;
}

/* With the lock. False: it has not ended in time. */
static bool count_wait(struct count *count, const struct timespec *until)
{
    int error = 0;

    count->waiting++;
    while (count->running && error == 0)
        error = pthread_cond_clockwait(&count->dataset->changed, &count->dataset->lock, CLOCK_MONOTONIC, until);
    count->waiting--;
    return !count->running;
}

int count_file(struct fileops_dataset *dataset, int file, const struct stat *status, const struct timespec *until,
               struct count_result *result)
{
    int error = EAGAIN;

    *result = (struct count_result){0};
    pthread_mutex_lock(&dataset->lock);
    struct count *count = count_find(dataset, status->st_ino);
    if (count != NULL && count->running && !count_is_same(count, status) && count_wait(count, until))
        count = count_find(dataset, status->st_ino); /* its figures are older than the caller's request: used only if the count took long */
    const bool ended = count != NULL && !count->running, same = count == NULL || count_is_same(count, status);
    if (count == NULL)
        count = count_begin(dataset, file, status);
    if (count != NULL) {
        const bool complete = count_wait(count, until);
        error = complete ? count->error : 0;
        result->exact = complete && count->exact && same && (!ended || space_changes() == count->table);
        result->figures = count->total;
        result->as_of = count->as_of;
    }
    pthread_mutex_unlock(&dataset->lock);
    return error;
}

void count_cancel_all(struct fileops_dataset *dataset)
{
    for (unsigned int i = 0; i < COUNTS_KNOWN; i++)
        dataset->counts[i].cancelled = true;
}

bool count_is_any_running(const struct fileops_dataset *dataset)
{
    for (unsigned int i = 0; i < COUNTS_KNOWN; i++)
        if (dataset->counts[i].running)
            return true;
    return false;
}
