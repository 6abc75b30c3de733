/* SPDX-License-Identifier: GPL-2.0-only */
/* What space is counted of: an open file of user space that is proven to be a zvol or a regular file on OpenZFS. */
#ifndef ZFS_OBJECT_H
#define ZFS_OBJECT_H

#include <linux/types.h>

#include "volume.h"

struct zfs_object {
	struct file *file;		/* pinned; NULL: it is the volume */
	struct volume volume;
};

/*
 * Pins the file, which must be open for reading, and checks its type. Returns 0 or a negative errno, and the reason in *stopped.
 * Release it after success only.
 */
int zfs_object_acquire(struct zfs_object *object, int fd, enum zvol_clone_stopped *stopped);
void zfs_object_release(struct zfs_object *object);

/*
 * Holds its objset: rollback, receive and unmount wait until it is released. *number becomes the object's number in it. NULL: no objset
 * now. Nothing that waits for another thread may be done meanwhile but reading blocks.
 */
void *zfs_object_hold_objset(struct zfs_object *object, u64 *number);
void zfs_object_release_objset(struct zfs_object *object);

#endif
