// SPDX-License-Identifier: GPL-2.0-only
/* The module: /dev/zvol_clone and its two ioctls. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/build_bug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "clone.h"
#include "volume.h"
#include "zfs_binding.h"
#include "zvol_clone.h"

/* Not shown in sysfs: kernel addresses are nobody's business. */
static struct zfs_addresses addresses;
module_param_named(zvol_clone_range, addresses.zvol_clone_range, ulong, 0);
MODULE_PARM_DESC(zvol_clone_range, "address of zvol_clone_range in the zfs module, from /proc/kallsyms");
module_param_named(dmu_read_l0_bps, addresses.dmu_read_l0_bps, ulong, 0);
MODULE_PARM_DESC(dmu_read_l0_bps, "address of dmu_read_l0_bps in the zfs module, from /proc/kallsyms");
module_param_named(dnode_block_freed, addresses.dnode_block_freed, ulong, 0);
MODULE_PARM_DESC(dnode_block_freed, "address of dnode_block_freed in the zfs module, from /proc/kallsyms");
module_param_named(dnode_is_dirty, addresses.dnode_is_dirty, ulong, 0);
MODULE_PARM_DESC(dnode_is_dirty, "address of dnode_is_dirty in the zfs module, from /proc/kallsyms");
module_param_named(dnode_next_offset, addresses.dnode_next_offset, ulong, 0);
MODULE_PARM_DESC(dnode_next_offset, "address of dnode_next_offset in the zfs module, from /proc/kallsyms");

/* The interface has no holes and one size on every architecture, so that 32-bit programs need no translation. */
static_assert(sizeof(struct zvol_clone_range) == 72);
static_assert(sizeof(struct zvol_clone_map) == 56);
static_assert(sizeof(struct zvol_clone_extent) == 16);

static int clone_between(struct zvol_clone_range *request, enum zvol_clone_stopped *stopped)
{
	struct volume source, destination;
	int error;

	*stopped = ZVOL_CLONE_OTHER_VERSION;
	if (request->version != ZVOL_CLONE_VERSION) {
		request->version = ZVOL_CLONE_VERSION;
		return -ENOTTY;
	}
	*stopped = ZVOL_CLONE_BAD_REQUEST;
	if (request->flags || request->reserved)
		return -EINVAL;
	error = volume_acquire(&source, request->source_fd, FMODE_READ, stopped);
	if (error)
		return error;
	error = volume_acquire(&destination, request->destination_fd, FMODE_WRITE, stopped);
	if (!error) {
		error = clone_range(&source, &destination, request);
		*stopped = request->stopped;
		volume_release(&destination);
	}
	volume_release(&source);
	return error;
}

static long clone_ioctl(struct zvol_clone_range __user *user)
{
	struct zvol_clone_range request;
	enum zvol_clone_stopped stopped;
	int error;

	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	request.bytes_done = 0;
	request.dirty_length = 0;
	request.hole_bytes = 0;
	error = clone_between(&request, &stopped);
	request.stopped = stopped;
	if (copy_to_user(user, &request, sizeof(request)))
		return -EFAULT;
	return error;
}

static int map_of(struct zvol_clone_map *request, struct zvol_clone_extent *extents, enum zvol_clone_stopped *stopped)
{
	struct volume volume;
	int error = volume_acquire(&volume, request->fd, FMODE_READ, stopped);

	if (error)
		return error;
	error = map_range(&volume, request, extents);
	*stopped = request->stopped;
	volume_release(&volume);
	return error;
}

static int map_checked(struct zvol_clone_map *request, enum zvol_clone_stopped *stopped)
{
	struct zvol_clone_extent *extents;
	int error;

	*stopped = ZVOL_CLONE_OTHER_VERSION;
	if (request->version != ZVOL_CLONE_VERSION) {
		request->version = ZVOL_CLONE_VERSION;
		return -ENOTTY;
	}
	*stopped = ZVOL_CLONE_BAD_REQUEST;
	if (request->flags || !request->most)
		return -EINVAL;
	request->most = min(request->most, ZVOL_CLONE_MAP_BLOCKS);
	*stopped = ZVOL_CLONE_NO_MEMORY;
	extents = kvmalloc_array(request->most, sizeof(*extents), GFP_KERNEL_ACCOUNT);
	if (!extents)
		return -ENOMEM;
	error = map_of(request, extents, stopped);
	if (!error && copy_to_user(u64_to_user_ptr(request->extents), extents, request->count * sizeof(*extents)))
		error = -EFAULT;
	kvfree(extents);
	return error;
}

static long map_ioctl(struct zvol_clone_map __user *user)
{
	struct zvol_clone_map request;
	enum zvol_clone_stopped stopped;
	int error;

	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	request.bytes_done = 0;
	request.count = 0;
	error = map_checked(&request, &stopped);
	request.stopped = stopped;
	if (copy_to_user(user, &request, sizeof(request)))
		return -EFAULT;
	return error;
}

/*
 * Who may call: whoever may open the device, for descriptors the caller holds. They are the permission: a clone changes nothing
 * that the caller could not have written, and gives nothing that the caller could not have read. README.md says more.
 */
static long zvol_clone_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	switch (command) {
	case ZVOL_CLONE_RANGE:
		return clone_ioctl((void __user *)argument);
	case ZVOL_CLONE_MAP:
		return map_ioctl((void __user *)argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations zvol_clone_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = zvol_clone_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice zvol_clone_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "zvol_clone",
	.mode = 0660,
	.fops = &zvol_clone_operations,
};

static int __init zvol_clone_init(void)
{
	int error = zfs_binding_acquire(&addresses);

	if (error)
		return error;
	clone_init();
	error = misc_register(&zvol_clone_device);
	if (error) {
		pr_err("cannot register the device (error %d)\n", error);
		zfs_binding_release();
	}
	return error;
}

static void __exit zvol_clone_exit(void)
{
	misc_deregister(&zvol_clone_device);
	zfs_binding_release();
}

module_init(zvol_clone_init);
module_exit(zvol_clone_exit);

MODULE_LICENSE("GPL v2");
MODULE_DESCRIPTION("Clone ranges of blocks between zvols of an unmodified OpenZFS module");
MODULE_AUTHOR("zvaai");
MODULE_VERSION("2.0");
