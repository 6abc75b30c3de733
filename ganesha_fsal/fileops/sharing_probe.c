/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Whether files of a dataset can share blocks: probed in the background, as a pool that hangs must not stop the exports of others. */
#include "dataset_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SECONDS_BETWEEN_PROBES 60

/* Clones a range of an empty file onto itself: EINVAL means that only the overlap is wrong. On a full pool no file can be made: a fast clone may
 * still work, or says that the disk is full. */
static bool probe_files(const char *root)
{
    const int file = open(root, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct file_clone_range range = {.src_fd = file, .src_length = 1 << 20};

    if (file < 0)
        return errno == ENOSPC || errno == EDQUOT;
    const bool shares = ftruncate(file, 1 << 20) == 0 && (ioctl(file, FICLONERANGE, &range) == 0 || errno == EINVAL);
    close(file);
    return shares;
}

static void *probe_run(void *argument)
{
    struct fileops_dataset *dataset = argument;
    const bool shares = probe_files(dataset->root);

    pthread_mutex_lock(&dataset->lock);
    dataset->probe.shares = shares;
    dataset->probe.running = false;
    pthread_cond_broadcast(&dataset->changed);
    pthread_mutex_unlock(&dataset->lock);
    dataset_end_background(dataset);
    return NULL;
}

static int64_t probe_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

void dataset_begin_probe(struct fileops_dataset *dataset)
{
    struct dataset_probe *probe = &dataset->probe;

    if (probe->running)
        return;
    const bool first = probe->began == 0;
    probe->began = probe_now();
    probe->running = dataset_run_in_background(dataset, probe_run, dataset) == 0;
    if (first)
        probe->shares = true; /* assumed until the probe has ended */
}

bool fileops_dataset_shares(struct fileops_dataset *dataset)
{
    struct dataset_probe *probe = &dataset->probe;
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&dataset->lock);
    while (probe->running && probe->shares && error == 0)
        error = pthread_cond_clockwait(&dataset->changed, &dataset->lock, CLOCK_MONOTONIC, &until);
    const bool shares = probe->shares;
    if (!shares && probe_now() - probe->began >= SECONDS_BETWEEN_PROBES)
        dataset_begin_probe(dataset);
    pthread_mutex_unlock(&dataset->lock);
    return shares;
}
