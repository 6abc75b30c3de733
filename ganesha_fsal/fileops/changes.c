/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "changes.h"

#include "dataset_internal.h"

#include <errno.h>
#include <sys/stat.h>

int fileops_growth_begin(struct fileops_dataset *dataset, uint64_t inode, uint64_t end, struct admission_change *change)
{
    *change = (struct admission_change){0};
    return fileops_dataset_is_thick(dataset) ? admission_begin(&dataset->admission, inode, end, change) : 0;
}

int fileops_growth_count(struct fileops_dataset *dataset, uint64_t inode, uint64_t size)
{
    return admission_count(&dataset->admission, inode, size);
}

void fileops_growth_end(struct fileops_dataset *dataset, const struct admission_change *change, uint64_t size)
{
    admission_end(&dataset->admission, change, size);
}

void fileops_growth_forget(struct fileops_dataset *dataset, uint64_t inode)
{
    if (fileops_dataset_is_thick(dataset))
        admission_forget(&dataset->admission, inode);
}

int fileops_reserve(struct fileops_dataset *dataset, int file)
{
    struct fileops_dataset_status admitted;
    struct stat status;

    if (!fileops_dataset_is_thick(dataset))
        return ENOSPC;
    if (fstat(file, &status) != 0)
        return errno;
    const int error = admission_count(&dataset->admission, status.st_ino, (uint64_t)status.st_size);
    if (error != 0)
        return error;
    fileops_dataset_status(dataset, &admitted);
    if (admitted.counting)
        return EAGAIN;
    return admitted.admitted <= admitted.size ? 0 : ENOSPC;
}
