/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "file_systems.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../fileops/dataset.h"
#include "FSAL/fsal_localfs.h"

struct file_system {
    struct file_system *next;
    struct fsal_dev__ device;
    struct fileops_dataset *dataset;
    size_t users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_system *all; /* few: one entry for each exported dataset */

/* With `lock`. */
static struct file_system *file_systems_find(const struct fsal_filesystem *of)
{
    struct file_system *file_system = all;

    while (file_system != NULL && (file_system->device.major != of->dev.major || file_system->device.minor != of->dev.minor))
        file_system = file_system->next;
    return file_system;
}

/* NULL: not in use yet. */
static struct fileops_dataset *file_systems_use_known(const struct fsal_filesystem *of)
{
    pthread_mutex_lock(&lock);
    struct file_system *file_system = file_systems_find(of);
    if (file_system != NULL)
        file_system->users++;
    pthread_mutex_unlock(&lock);
    return file_system == NULL ? NULL : file_system->dataset;
}

/* Opens the file system without the lock, because a pool may hang. If two threads open it concurrently, the second drops its dataset. */
static int file_systems_use_new(const struct fsal_filesystem *of, struct fileops_dataset **dataset)
{
    struct file_system *added = calloc(1, sizeof(*added));
    int error = added == NULL ? ENOMEM : fileops_dataset_open(of->path, &added->dataset);

    if (error != 0) {
        LogCrit(COMPONENT_FSAL, "%s can't be exported: %s", of->path, strerror(error));
        free(added);
        return error;
    }
    added->device = of->dev;
    pthread_mutex_lock(&lock);
    struct file_system *file_system = file_systems_find(of), *unused = file_system == NULL ? NULL : added;
    if (file_system == NULL) {
        added->next = all;
        all = file_system = added;
    }
    file_system->users++;
    *dataset = file_system->dataset;
    pthread_mutex_unlock(&lock);
    if (unused != NULL)
        fileops_dataset_put(unused->dataset);
    free(unused);
    return 0;
}

int file_systems_get(const struct fsal_filesystem *file_system, struct fileops_dataset **dataset)
{
    *dataset = file_systems_use_known(file_system);
    return *dataset != NULL ? 0 : file_systems_use_new(file_system, dataset);
}

void file_systems_put(struct fileops_dataset *dataset)
{
    struct file_system **link = &all, *unused = NULL;

    pthread_mutex_lock(&lock);
    while (*link != NULL && (*link)->dataset != dataset)
        link = &(*link)->next;
    if (*link != NULL && --(*link)->users == 0) {
        unused = *link;
        *link = unused->next;
    }
    pthread_mutex_unlock(&lock);
    if (unused != NULL)
        fileops_dataset_put(unused->dataset);
    free(unused);
}
