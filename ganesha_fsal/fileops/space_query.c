/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "space_query.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <zvol_clone.h>

int space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures)
{
    struct zvol_clone_space space = {
        .version = ZVOL_CLONE_VERSION, .fd = file, .offset = offset, .length = end - offset, .budget = nanoseconds};
    int error = 0;
    /* On each call: the module may be loaded later, or unloaded. */
    const int device = open(ZVOL_CLONE_DEVICE, O_RDONLY | O_CLOEXEC);

    *figures = (struct space_figures){0};
    if (device < 0)
        return EOPNOTSUPP;
    if (ioctl(device, ZVOL_CLONE_SPACE, &space) != 0)
        error = errno;
    close(device);
    if (error == ENOTTY || (error != 0 && (space.stopped == ZVOL_CLONE_NOT_ZFS || space.stopped == ZVOL_CLONE_OTHER_VERSION ||
                                           space.stopped == ZVOL_CLONE_UNKNOWN_LAYOUT)))
        return EOPNOTSUPP;
    if (error != 0)
        return error;
    *figures = (struct space_figures){space.bytes_done,   space.allocated, space.shared,    space.snapshot,
                                      space.deduplicated, space.txg,       space.dirty != 0};
    return 0;
}

uint64_t space_changes(void)
{
    char line[256], name[64];
    uint64_t sum = 0, value;
    FILE *file = fopen("/proc/spl/kstat/zfs/brtstats", "re");

    if (file == NULL)
        return 0;
    /* References added and removed, after the header with the times of the kstat. */
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "%63s %*u %" SCNu64, name, &value) == 2 &&
            (strncmp(name, "addref_", 7) == 0 || strncmp(name, "decref_", 7) == 0))
            sum += value;
    fclose(file);
    return sum + 1;
}
