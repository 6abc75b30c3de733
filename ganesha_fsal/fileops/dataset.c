/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "dataset_internal.h"

#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_FOR_STEPS 10
#define SECONDS_BETWEEN_COUNTS 60

/* Removes partial clones that a crash left. A failure is ignored, so that the export still works. */
static void dataset_remove_clones(int root)
{
    const int folder = openat(root, FILEOPS_CLONES_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = folder < 0 ? NULL : fdopendir(folder);
    const struct dirent *entry;

    if (stream == NULL) {
        if (folder >= 0)
            close(folder);
        return;
    }
    while ((entry = readdir(stream)) != NULL)
        unlinkat(folder, entry->d_name, 0); /* not "." and ".." */
    closedir(stream);
    unlinkat(root, FILEOPS_CLONES_FOLDER, AT_REMOVEDIR);
}

/* ZFS reports the record size as the block size of the file system. */
static int dataset_read_root(const char *root, dev_t *device, uint64_t *record_size)
{
    struct stat status;
    struct statvfs file_system;
    int error = 0;
    const int folder = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0)
        return errno;
    if (fstat(folder, &status) != 0 || fstatvfs(folder, &file_system) != 0)
        error = errno;
    if (error == 0) {
        *device = status.st_dev;
        *record_size = file_system.f_bsize != 0 ? file_system.f_bsize : 4096;
        dataset_remove_clones(folder);
    }
    close(folder);
    return error;
}

int fileops_dataset_open(const char *root, struct fileops_dataset **result)
{
    struct fileops_dataset *dataset = calloc(1, sizeof(*dataset));
    uint64_t record_size = 0;
    int error = ENOMEM;

    *result = NULL;
    if (dataset == NULL)
        return error;
    dataset->root = strdup(root);
    if (dataset->root != NULL)
        error = dataset_read_root(root, &dataset->device, &record_size);
    if (error == 0)
        error = admission_init(&dataset->admission, record_size);
    if (error != 0) {
        free(dataset->root);
        free(dataset);
        return error;
    }
    interlock_init(dataset);
    pthread_rwlock_init(&dataset->sharing, NULL);
    pthread_mutex_init(&dataset->lock, NULL);
    pthread_cond_init(&dataset->changed, NULL);
    atomic_store(&dataset->references, 1);
    *result = dataset;
    return 0;
}

void fileops_dataset_ref(struct fileops_dataset *dataset)
{
    atomic_fetch_add(&dataset->references, 1);
}

void fileops_dataset_put(struct fileops_dataset *dataset)
{
    if (atomic_fetch_sub(&dataset->references, 1) != 1)
        return;
    admission_destroy(&dataset->admission);
    interlock_destroy(dataset);
    pthread_rwlock_destroy(&dataset->sharing);
    pthread_mutex_destroy(&dataset->lock);
    pthread_cond_destroy(&dataset->changed);
    free(dataset->root);
    free(dataset);
}

bool dataset_is_unused(struct fileops_dataset *dataset)
{
    return atomic_load(&dataset->references) <= atomic_load(&dataset->background);
}

void dataset_end_background(struct fileops_dataset *dataset)
{
    atomic_fetch_sub(&dataset->background, 1);
    fileops_dataset_put(dataset);
}

int dataset_run_in_background(struct fileops_dataset *dataset, void *(*work)(void *argument), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    fileops_dataset_ref(dataset);
    atomic_fetch_add(&dataset->background, 1);
    const int error = pthread_create(&thread, &attributes, work, argument);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        dataset_end_background(dataset);
    return error;
}

void fileops_dataset_stop(struct fileops_dataset *dataset)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&dataset->lock);
    count_cancel_all(dataset);
    dataset->shared.number++;
    dataset->shared.counting = false;
    pthread_cond_broadcast(&dataset->changed);
    while ((count_is_any_running(dataset) || dataset->shared.running > 0) &&
           pthread_cond_clockwait(&dataset->changed, &dataset->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&dataset->lock);
}

struct file_count {
    struct fileops_dataset *dataset;
    uint64_t number;
};

static bool dataset_count_goes_on(const struct file_count *count)
{
    pthread_mutex_lock(&count->dataset->lock);
    const bool goes_on = count->dataset->count == count->number;
    pthread_mutex_unlock(&count->dataset->lock);
    return goes_on && !dataset_is_unused(count->dataset);
}

static int dataset_count_file(void *context, const struct walk_name *name)
{
    const struct file_count *count = context;
    struct stat status;

    if (!dataset_count_goes_on(count))
        return ECANCELED;
    const int error = walk_file_status(name, &status);
    if (error != 0)
        return error == ENOENT ? 0 : error;
    return admission_count(&count->dataset->admission, status.st_ino, (uint64_t)status.st_size);
}

static void *dataset_count_files(void *argument)
{
    struct fileops_dataset *dataset = argument;
    struct file_count count = {.dataset = dataset};
    int error;

    pthread_mutex_lock(&dataset->lock);
    count.number = dataset->count;
    pthread_mutex_unlock(&dataset->lock);
    do {
        error = walk_files(AT_FDCWD, dataset->root, dataset_count_file, &count);
        pthread_mutex_lock(&dataset->lock);
        if (dataset->count == count.number) {
            dataset->count_error = error;
            if (error == 0)
                admission_counted(&dataset->admission);
        }
        pthread_mutex_unlock(&dataset->lock);
    } while (error != 0 && error != ECANCELED && sleep(SECONDS_BETWEEN_COUNTS) == 0 && dataset_count_goes_on(&count));
    dataset_end_background(dataset);
    return NULL;
}

/* When the lock is taken, all sharing steps have ended. The wait is limited, because a pool may hang. */
static int dataset_wait_for_steps(struct fileops_dataset *dataset)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += SECONDS_FOR_STEPS;
    if (pthread_rwlock_clockwrlock(&dataset->sharing, CLOCK_MONOTONIC, &until) != 0)
        return EBUSY;
    pthread_rwlock_unlock(&dataset->sharing);
    return 0;
}

static int dataset_make_thick(struct fileops_dataset *dataset, uint64_t size)
{
    pthread_mutex_lock(&dataset->lock);
    dataset->count++;
    dataset->count_error = 0;
    pthread_mutex_unlock(&dataset->lock);
    admission_set_limit(&dataset->admission, size);
    atomic_store(&dataset->thick_size, size);
    const int error = dataset_wait_for_steps(dataset);
    return error != 0 ? error : dataset_run_in_background(dataset, dataset_count_files, dataset);
}

static void dataset_make_thin(struct fileops_dataset *dataset)
{
    pthread_mutex_lock(&dataset->lock);
    dataset->count++; /* ends a running count */
    pthread_mutex_unlock(&dataset->lock);
    atomic_store(&dataset->thick_size, 0);
    admission_set_limit(&dataset->admission, 0);
}

int fileops_dataset_set_thick(struct fileops_dataset *dataset, uint64_t size)
{
    const uint64_t before = atomic_load(&dataset->thick_size);
    int error = 0;

    if (size == 0) {
        dataset_make_thin(dataset);
    } else if (before == 0) {
        error = dataset_make_thick(dataset, size);
        if (error != 0)
            dataset_make_thin(dataset);
    } else {
        admission_set_limit(&dataset->admission, size);
        atomic_store(&dataset->thick_size, size);
    }
    return error;
}

bool fileops_dataset_is_thick(const struct fileops_dataset *dataset)
{
    return atomic_load_explicit(&dataset->thick_size, memory_order_acquire) != 0;
}

void fileops_dataset_status(struct fileops_dataset *dataset, struct fileops_dataset_status *status)
{
    struct admission *admission = &dataset->admission;

    *status = (struct fileops_dataset_status){0};
    pthread_mutex_lock(&admission->lock);
    status->size = admission->limit;
    status->thick = admission->limit != 0;
    status->admitted = admission->admitted;
    status->counting = admission->counting;
    pthread_mutex_unlock(&admission->lock);
    pthread_mutex_lock(&dataset->lock);
    if (dataset->count_error != 0 && dataset->count_error != ECANCELED)
        snprintf(status->problem, sizeof(status->problem),
                 "The server cannot count the files (%.60s) and tries again each minute. Until then a file can grow by 1 MiB at a time",
                 strerrordesc_np(dataset->count_error));
    else if (status->admitted > status->size)
        snprintf(status->problem, sizeof(status->problem), "its files exceed its size: no file can grow until others are deleted");
    pthread_mutex_unlock(&dataset->lock);
}
