/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "statistics.h"

#include "count.h"
#include "dataset_internal.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define NANOSECONDS (1000 * 1000 * 1000L)

int fileops_sizes(struct fileops_dataset *dataset, int file, struct fileops_statistics *statistics)
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
    statistics->as_of = (uint64_t)time(NULL);
    if (statistics->total == 0) { /* the blocks of its old content may still be counted */
        statistics->allocated = statistics->unique = 0;
        statistics->unique_exact = true;
    }
    return 0;
}

int fileops_statistics(struct fileops_dataset *dataset, int file, const struct timespec *until,
                       struct fileops_statistics *statistics)
{
    struct count_result counted;
    struct stat status;

    if (fstat(file, &status) != 0)
        return errno;
    int error = fileops_sizes(dataset, file, statistics);
    if (error != 0 || statistics->unique_exact)
        return error;
    error = count_file(dataset, file, &status, until, &counted);
    if (error != 0 || counted.as_of == 0) /* no block was counted */
        return error == EOPNOTSUPP || error == EAGAIN ? 0 : error;
    statistics->unique_exact = counted.exact;
    if (counted.exact)
        statistics->allocated = counted.figures.allocated;
    statistics->unique =
        statistics->allocated > counted.figures.shared ? statistics->allocated - counted.figures.shared : 0;
    statistics->snapshot = counted.figures.snapshot;
    statistics->deduplicated = counted.figures.deduplicated;
    statistics->as_of = (uint64_t)counted.as_of;
    return 0;
}

struct shared_count {
    struct fileops_dataset *dataset;
    uint64_t number;
};

static bool statistics_count_goes_on(const struct shared_count *count)
{
    pthread_mutex_lock(&count->dataset->lock);
    const bool goes_on = count->dataset->shared.number == count->number;
    pthread_mutex_unlock(&count->dataset->lock);
    return goes_on && !dataset_is_unused(count->dataset);
}

/* Adds a whole file to the dataset's figures. A count that must end closes the file within 0.1 s. */
static int statistics_count_file(void *context, const struct walk_name *name)
{
    const struct shared_count *count = context;
    struct fileops_dataset *dataset = count->dataset;
    struct space_figures sum = {0}, figures;
    struct stat status;

    if (!statistics_count_goes_on(count))
        return ECANCELED;
    int error = walk_file_status(name, &status);
    if (error != 0)
        return error == ENOENT ? 0 : error;
    const int file = openat(name->folder, name->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? 0 : errno;
    const uint64_t size = (uint64_t)status.st_size;
    while (error == 0 && sum.done < size) {
        error = space_query(file, sum.done, size, NANOSECONDS / 10, &figures);
        if (error == 0 && figures.done == 0)
            error = EIO;
        if (!statistics_count_goes_on(count))
            error = ECANCELED;
        count_add(&sum, &figures);
    }
    close(file);
    pthread_mutex_lock(&dataset->lock);
    if (dataset->shared.number == count->number) {
        dataset->shared.result.shared += sum.shared;
        dataset->shared.result.deduplicated += sum.deduplicated;
    }
    pthread_mutex_unlock(&dataset->lock);
    return error;
}

/* Clones in an open transaction group are in no table yet. A file with a change makes ZFS end it (zfs_dmu_offset_next_sync). In a full
 * pool no file can be created, and the latest clones may be missing. */
static void statistics_wait_for_group(const char *root)
{
    const int file = open(root, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (file < 0)
        return;
    if (pwrite(file, "", 1, 0) == 1)
        lseek(file, 0, SEEK_HOLE);
    close(file);
}

static void statistics_end_count(const struct shared_count *count, int error)
{
    struct fileops_dataset *dataset = count->dataset;

    pthread_mutex_lock(&dataset->lock);
    dataset->shared.running--;
    if (dataset->shared.number == count->number) {
        dataset->shared.counting = false;
        dataset->shared.error = error;
        dataset->shared.result.complete = error == 0;
    }
    pthread_cond_broadcast(&dataset->changed);
    pthread_mutex_unlock(&dataset->lock);
}

static void *statistics_count_dataset(void *argument)
{
    struct shared_count count = *(struct shared_count *)argument;

    free(argument);
    statistics_wait_for_group(count.dataset->root);
    statistics_end_count(&count, walk_files(AT_FDCWD, count.dataset->root, statistics_count_file, &count));
    dataset_end_background(count.dataset);
    return NULL;
}

static int statistics_begin_count(struct fileops_dataset *dataset, uint64_t number)
{
    const struct shared_count count = {dataset, number};
    struct shared_count *argument = malloc(sizeof(*argument));
    int error = ENOMEM;

    if (argument != NULL) {
        *argument = count;
        error = dataset_run_in_background(dataset, statistics_count_dataset, argument);
    }
    if (error != 0) {
        free(argument);
        statistics_end_count(&count, error);
    }
    return error;
}

int fileops_dataset_shared(struct fileops_dataset *dataset, bool restart, struct fileops_dataset_shared *shared)
{
    pthread_mutex_lock(&dataset->lock);
    const bool begins = restart || (!dataset->shared.counting && !dataset->shared.result.complete && dataset->shared.error == 0);
    const int error = begins ? 0 : dataset->shared.error;
    if (begins) {
        dataset->shared.result = (struct fileops_dataset_shared){0};
        dataset->shared.error = 0;
        dataset->shared.counting = true;
        dataset->shared.running++;
        dataset->shared.number++; /* ends an older count */
    }
    *shared = dataset->shared.result;
    const uint64_t number = dataset->shared.number;
    pthread_mutex_unlock(&dataset->lock);
    return begins ? statistics_begin_count(dataset, number) : error;
}
