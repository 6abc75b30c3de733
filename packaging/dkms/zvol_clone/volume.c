// SPDX-License-Identifier: GPL-2.0-only
/*
 * From a file descriptor to a zvol_state_t, trusting nothing that can be checked.
 *
 * What holds it: an open file keeps zv_open_count above 0 (zvol_open() and zvol_release() in module/os/linux/zfs/zvol_os.c),
 * and zvol_remove_minors_impl() and zvol_remove_minor_impl() in module/zfs/zvol.c free no zvol_state_t with a positive
 * open count. private_data of the disk is cleared only when it is freed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/build_bug.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/rwsem.h>
#include <linux/uaccess.h>

#include "volume.h"
#include "zfs_binding.h"
#include "zfs_layout.h"

/* zfs_layout.h was made for this kernel's configuration. */
static_assert(RW_SEMAPHORE_SIZE == sizeof(struct rw_semaphore));

static struct rw_semaphore *suspend_lock(const struct volume *volume)
{
	return &FIELD(volume->zv, ZV_SUSPEND_LOCK, struct rw_semaphore);
}

/*
 * Compares the state with what the block layer knows of the same volume (zvol_os_create_minor(), zvol_alloc() and
 * zvol_setup_zv() set both). struct zvol_state_os is in no header; zvo_disk is its first field. Reads that cannot fault:
 * a layout that is not the expected one must lead to a refusal, not to an oops.
 */
static bool layout_is_as_expected(struct gendisk *disk, const char *zv)
{
	const unsigned int block_size = queue_physical_block_size(disk->queue);
	const void *zso, *back_pointer;
	u64 zv_block_size, zv_size;
	u32 open_count;

	if (copy_from_kernel_nofault(&zso, zv + ZV_ZSO, sizeof(zso)) ||
	    copy_from_kernel_nofault(&back_pointer, zso, sizeof(back_pointer)) ||
	    copy_from_kernel_nofault(&zv_block_size, zv + ZV_VOLBLOCKSIZE, sizeof(zv_block_size)) ||
	    copy_from_kernel_nofault(&zv_size, zv + ZV_VOLSIZE, sizeof(zv_size)) ||
	    copy_from_kernel_nofault(&open_count, zv + ZV_OPEN_COUNT, sizeof(open_count)))
		return false;
	return back_pointer == disk && zv_block_size == block_size && is_power_of_2(block_size) &&
	       block_size >= SECTOR_SIZE && zv_size && IS_ALIGNED(zv_size, block_size) && open_count > 0;
}

static int identify(struct volume *volume, fmode_t mode, enum zvol_clone_stopped *stopped)
{
	struct inode *inode = volume->file->f_mapping->host;
	struct gendisk *disk;

	*stopped = ZVOL_CLONE_NOT_BLOCK_DEVICE;
	if (!S_ISBLK(inode->i_mode) || !S_ISBLK(file_inode(volume->file)->i_mode))
		return -ENOTBLK;
	volume->bdev = I_BDEV(inode);
	disk = volume->bdev->bd_disk;
	*stopped = ZVOL_CLONE_NOT_ZVOL;
	if (disk->fops->owner != zfs_binding_module())
		return -ENODEV;
	*stopped = ZVOL_CLONE_PARTITION;
	if (bdev_is_partition(volume->bdev))
		return -ENODEV;
	*stopped = ZVOL_CLONE_BAD_DESCRIPTOR;
	if (!(volume->file->f_mode & mode))
		return -EBADF;
	*stopped = ZVOL_CLONE_REMOVED;
	volume->zv = disk->private_data;
	if (!volume->zv)
		return -ENXIO;
	*stopped = ZVOL_CLONE_UNKNOWN_LAYOUT;
	if (!layout_is_as_expected(disk, volume->zv)) {
		pr_err_ratelimited("refused: the state of %s is not that of a zvol of this zfs module\n",
				   disk->disk_name);
		return -EIO;
	}
	*stopped = ZVOL_CLONE_REMOVED;
	if (READ_ONCE(FIELD(volume->zv, ZV_FLAGS, u32)) & ZVOL_FLAG_REMOVING)
		return -ENXIO;
	volume->block_size = queue_physical_block_size(disk->queue);
	*stopped = ZVOL_CLONE_COMPLETE;
	return 0;
}

int volume_acquire(struct volume *volume, int fd, fmode_t mode, enum zvol_clone_stopped *stopped)
{
	int error;

	volume->file = fget(fd);
	if (!volume->file) {
		*stopped = ZVOL_CLONE_BAD_DESCRIPTOR;
		return -EBADF;
	}
	error = identify(volume, mode, stopped);
	if (error)
		fput(volume->file);
	return error;
}

void volume_release(struct volume *volume)
{
	fput(volume->file);
}

void *volume_hold_objset(struct volume *volume)
{
	void *objset;

	down_read(suspend_lock(volume));
	objset = FIELD(volume->zv, ZV_OBJSET, void *);
	if (objset && FIELD(volume->zv, ZV_DN, void *))
		return objset;
	up_read(suspend_lock(volume));
	return NULL;
}

void volume_release_objset(struct volume *volume)
{
	up_read(suspend_lock(volume));
}

bool volume_has_pending_free(struct volume *volume, u64 offset, u64 length)
{
	void *dnode = FIELD(volume->zv, ZV_DN, void *);
	u64 block;

	for (block = offset / volume->block_size; block < (offset + length) / volume->block_size; block++)
		if (zfs_dnode_block_freed(dnode, block))
			return true;
	return false;
}

u64 volume_clean_hole(struct volume *volume, u64 offset, u64 limit)
{
	void *dnode = FIELD(volume->zv, ZV_DN, void *);
	u64 data = offset;
	int error;

	if (zfs_dnode_is_dirty(dnode))
		return 0;
	error = zfs_dnode_next_data(dnode, &data);
	if ((error && error != ESRCH) || zfs_dnode_is_dirty(dnode))
		return 0;
	if (error || data >= offset + limit)
		return limit;
	return data > offset ? ALIGN_DOWN(data - offset, volume->block_size) : 0;
}

const void *objset_pool(const void *objset)
{
	return FIELD(objset, OS_SPA, const void *);
}

u64 volume_current_size(const struct volume *volume)
{
	return READ_ONCE(FIELD(volume->zv, ZV_VOLSIZE, u64));
}

bool volume_contains(const struct volume *volume, u64 offset, u64 length)
{
	u64 end;

	return !check_add_overflow(offset, length, &end) && end <= volume_current_size(volume);
}

/* zvol_set_ro() in module/zfs/zvol.c sets both, for files that are open already too. */
bool volume_is_read_only(const struct volume *volume)
{
	return bdev_read_only(volume->bdev) || (READ_ONCE(FIELD(volume->zv, ZV_FLAGS, u32)) & ZVOL_FLAG_RDONLY);
}
