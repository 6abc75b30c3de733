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
static struct file_system *all; /* few: one for each exported dataset */

/* With `lock`. */
static struct file_system *find(const struct fsal_filesystem *wanted)
{
    struct file_system *found = all;

    while (found != NULL && (found->device.major != wanted->dev.major || found->device.minor != wanted->dev.minor))
        found = found->next;
    return found;
}

/* NULL where it is not in use yet. */
static struct fileops_dataset *use_known(const struct fsal_filesystem *wanted)
{
    pthread_mutex_lock(&lock);
    struct file_system *found = find(wanted);
    if (found != NULL)
        found->users++;
    pthread_mutex_unlock(&lock);
    return found == NULL ? NULL : found->dataset;
}

/* Opens it without the lock: a pool that hangs stops no other. Who opened it beside another puts its own away. */
static int use_new(const struct fsal_filesystem *wanted, struct fileops_dataset **dataset)
{
    struct file_system *added = calloc(1, sizeof(*added));
    int error = added == NULL ? ENOMEM : fileops_dataset_open(wanted->path, &added->dataset);

    if (error != 0) {
        LogCrit(COMPONENT_FSAL, "%s can't be exported: %s", wanted->path, strerror(error));
        free(added);
        return error;
    }
    added->device = wanted->dev;
    pthread_mutex_lock(&lock);
    struct file_system *found = find(wanted), *unused = found == NULL ? NULL : added;
    if (found == NULL) {
        added->next = all;
        all = found = added;
    }
    found->users++;
    *dataset = found->dataset;
    pthread_mutex_unlock(&lock);
    if (unused != NULL)
        fileops_dataset_put(unused->dataset);
    free(unused);
    return 0;
}

int file_systems_use(const struct fsal_filesystem *file_system, struct fileops_dataset **dataset)
{
    *dataset = use_known(file_system);
    return *dataset != NULL ? 0 : use_new(file_system, dataset);
}

void file_systems_leave(struct fileops_dataset *dataset)
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
