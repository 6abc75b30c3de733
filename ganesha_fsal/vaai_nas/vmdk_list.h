/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The VMDK files below a directory: regular files whose name ends in ".vmdk", without descriptors, which are small text files that
 * name the files with a disk's data ("Virtual Disk Format 5.0", VMware, "The Disk Descriptor File"). It follows no symbolic link, and stays on the directory's file system. The folder of clones and
 * .zfs are left out.
 */

#define VMDK_LIST_MAX 500u          /* in one page */
#define VMDK_LIST_DEPTH 8u          /* directories below one another; ESXi makes one for each virtual machine */
#define VMDK_LIST_NAMES_MAX 200000u /* read for a page */
#define VMDK_LIST_CHECK_INTERVAL 256u

struct vmdk_file {
    char *path; /* from the directory; UTF-8 without control characters */
    uint64_t total_bytes, allocated_bytes;
};

struct vmdk_list {
    struct vmdk_file file[VMDK_LIST_MAX + 1]; /* by the bytes of their paths */
    size_t count;
    bool more;       /* more files follow */
    bool incomplete; /* some files are missing: too deep, too many, not readable, or with an undecodable name */
};

/*
 * Fills `list` with the first `limit` (VMDK_LIST_MAX at most) whose path is after `after`; `list` is zeroed before. `is_to_end` (may be NULL) is called
 * after each VMDK_LIST_CHECK_INTERVAL names. 0 or an errno value, ECANCELED if it returned true.
 */
int vmdk_list(int directory, const char *after, size_t limit, bool (*is_to_end)(void *context), void *context,
              struct vmdk_list *list);

void vmdk_list_free(struct vmdk_list *list);
