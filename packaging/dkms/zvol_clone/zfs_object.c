// SPDX-License-Identifier: GPL-2.0-only
/*
 * From a file descriptor to an objset and an object in it.
 *
 * A regular file: its super block's type belongs to zfs.ko, s_fs_info is the zfsvfs_t, and the inode lies inside of a znode_t. The
 * teardown lock as reader is what zfs_enter() takes (include/os/linux/zfs/sys/zfs_znode_impl.h): z_os and z_sa_hdl change
 * under it as writer only.
 */
#include <linux/build_bug.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>

#include "zfs_binding.h"
#include "zfs_layout.h"
#include "zfs_object.h"

static_assert(INODE_SIZE == sizeof(struct inode));

static void *file_system_of(const struct zfs_object *object)
{
	return file_inode(object->file)->i_sb->s_fs_info;
}

static void *znode_of(const struct zfs_object *object)
{
	return (char *)file_inode(object->file) - ZNODE_INODE;
}

static int identify_file(struct file *file, enum zvol_clone_stopped *stopped)
{
	*stopped = ZVOL_CLONE_NOT_ZFS;
	if (file_inode(file)->i_sb->s_type->owner != zfs_binding_module())
		return -ENODEV;
	*stopped = ZVOL_CLONE_BAD_DESCRIPTOR;
	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	*stopped = ZVOL_CLONE_COMPLETE;
	return 0;
}

int zfs_object_acquire(struct zfs_object *object, int fd, enum zvol_clone_stopped *stopped)
{
	struct file *file = fget(fd);
	int error;

	if (!file) {
		*stopped = ZVOL_CLONE_BAD_DESCRIPTOR;
		return -EBADF;
	}
	object->file = NULL;
	if (!S_ISREG(file_inode(file)->i_mode)) {
		fput(file);
		return volume_acquire(&object->volume, fd, FMODE_READ, stopped);
	}
	error = identify_file(file, stopped);
	if (error)
		fput(file);
	else
		object->file = file;
	return error;
}

void zfs_object_release(struct zfs_object *object)
{
	if (object->file)
		fput(object->file);
	else
		volume_release(&object->volume);
}

void *zfs_object_hold_objset(struct zfs_object *object, u64 *number)
{
	char *file_system, *znode;
	void *objset;

	if (!object->file) {
		*number = ZVOL_OBJECT;
		return volume_hold_objset(&object->volume);
	}
	file_system = file_system_of(object);
	znode = znode_of(object);
	zfs_teardown_enter(file_system + ZFSVFS_TEARDOWN_LOCK);
	objset = FIELD(file_system, ZFSVFS_OBJSET, void *);
	/* zfs_enter() and zfs_verify_zp(): unmounted by force, or rolled back to a state without the file. */
	if (FIELD(file_system, ZFSVFS_UNMOUNTED, int) || !FIELD(znode, ZNODE_SA_HANDLE, void *) || !objset) {
		zfs_object_release_objset(object);
		return NULL;
	}
	*number = FIELD(znode, ZNODE_ID, u64);
	return objset;
}

void zfs_object_release_objset(struct zfs_object *object)
{
	if (object->file)
		zfs_teardown_exit((char *)file_system_of(object) + ZFSVFS_TEARDOWN_LOCK);
	else
		volume_release_objset(&object->volume);
}
