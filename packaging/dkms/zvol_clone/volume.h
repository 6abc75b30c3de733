/* SPDX-License-Identifier: GPL-2.0-only */
/* One end of a clone: an open file of user space that is proven to be a whole zvol. */
#ifndef VOLUME_H
#define VOLUME_H

#include <linux/types.h>

#include "zvol_clone.h"

struct block_device;
struct file;
struct rw_semaphore;

struct volume {
	struct file *file;		/* pinned: the zvol's open count stays above 0, so its zvol_state_t stays */
	struct block_device *bdev;
	void *zv;			/* zvol_state_t */
	u32 block_size;			/* volblocksize */
};

/*
 * Pins the file and proves what it is. @mode: FMODE_READ or FMODE_WRITE, what it must be open for.
 * Returns 0 or a negative errno, and the reason in *stopped. Release it after success only.
 */
int volume_acquire(struct volume *volume, int fd, fmode_t mode, enum zvol_clone_stopped *stopped);
void volume_release(struct volume *volume);

/*
 * Under the suspend lock the dataset stays: zvol_suspend() (rollback, receive, rename) waits. NULL: no dataset now, or zvol_resume()
 * could not read it (zv_dn is NULL then).
 */
void *volume_hold_objset(struct volume *volume);
void volume_release_objset(struct volume *volume);

/*
 * Whether any of the blocks was freed by a discard that is not on disk yet. Its block pointer still is the old one, which
 * dmu_read_l0_bps() of 2.3.9 gives: the block that is freed would be cloned, with its old data, and be freed twice (openzfs#18853).
 * The objset is held.
 */
bool volume_has_pending_free(struct volume *volume, u64 offset, u64 length);

/*
 * Length of the hole on disk at the offset, up to @limit; 0 if the zvol has dirty data. For any length it takes
 * a few steps down the tree of block pointers. The objset is held.
 */
u64 volume_clean_hole(struct volume *volume, u64 offset, u64 limit);

/* The pool (spa_t) of a held objset: for comparison only. */
const void *objset_pool(const void *objset);

/* The present values: both can change while the file is open. */
u64 volume_current_size(const struct volume *volume);
/* Whether a range lies inside, as the size is now. */
bool volume_contains(const struct volume *volume, u64 offset, u64 length);
bool volume_is_read_only(const struct volume *volume);

#endif
