// SPDX-License-Identifier: GPL-2.0-only
/* The module: /dev/zvol_clone and its ioctls. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/build_bug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "clone.h"
#include "space.h"
#include "volume.h"
#include "zfs_binding.h"
#include "zvol_clone.h"

/* Not shown in sysfs: kernel addresses are nobody's business. */
static struct zfs_addresses addresses;
#define ADDRESS_PARAMETER(function) \
	module_param_named(function, addresses.function, ulong, 0); \
	MODULE_PARM_DESC(function, "address of that function in the zfs module, from /proc/kallsyms");
ZFS_FUNCTIONS(ADDRESS_PARAMETER)

/* The interface has no holes. */
static_assert(sizeof(struct zvol_clone_range) == 72);
static_assert(sizeof(struct zvol_clone_map) == 56);
static_assert(sizeof(struct zvol_clone_extent) == 16);
static_assert(sizeof(struct zvol_clone_space) == 96);

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

static int space_checked(struct zvol_clone_space *request, enum zvol_clone_stopped *stopped)
{
	struct zfs_object object;
	int error;

	*stopped = ZVOL_CLONE_OTHER_VERSION;
	if (request->version != ZVOL_CLONE_VERSION) {
		request->version = ZVOL_CLONE_VERSION;
		return -ENOTTY;
	}
	*stopped = ZVOL_CLONE_BAD_REQUEST;
	if (request->flags || request->reserved)
		return -EINVAL;
	error = zfs_object_acquire(&object, request->fd, stopped);
	if (error)
		return error;
	error = space_of_range(&object, request);
	*stopped = request->stopped;
	zfs_object_release(&object);
	return error;
}

static long space_ioctl(struct zvol_clone_space __user *user)
{
	struct zvol_clone_space request;
	enum zvol_clone_stopped stopped;
	int error;

	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	request.bytes_done = 0;
	request.allocated = 0;
	request.shared = 0;
	request.snapshot = 0;
	request.deduplicated = 0;
	request.txg = 0;
	request.dirty = 0;
	error = space_checked(&request, &stopped);
	request.stopped = stopped;
	if (copy_to_user(user, &request, sizeof(request)))
		return -EFAULT;
	return error;
}

/*
 * Permission: the caller must be able to open the device, and must hold open descriptors of both zvols. A clone changes nothing
 * that the caller could not have written, and gives nothing that the caller could not have read. README.md says more.
 */
static long zvol_clone_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	switch (command) {
	case ZVOL_CLONE_RANGE:
		return clone_ioctl((void __user *)argument);
	case ZVOL_CLONE_MAP:
		return map_ioctl((void __user *)argument);
	case ZVOL_CLONE_SPACE:
		return space_ioctl((void __user *)argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations zvol_clone_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = zvol_clone_ioctl,
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
MODULE_VERSION("2.1");
