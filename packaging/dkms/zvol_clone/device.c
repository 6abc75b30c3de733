// SPDX-License-Identifier: GPL-2.0-only
/* The module: /dev/zvol_clone and its one ioctl. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/build_bug.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "clone.h"
#include "volume.h"
#include "zfs_binding.h"
#include "zvol_clone.h"

/* Not shown in sysfs: kernel addresses are nobody's business. */
static unsigned long zvol_clone_range_address;
module_param_named(zvol_clone_range, zvol_clone_range_address, ulong, 0);
MODULE_PARM_DESC(zvol_clone_range, "address of zvol_clone_range in the zfs module, from /proc/kallsyms");
static unsigned long dmu_read_l0_bps_address;
module_param_named(dmu_read_l0_bps, dmu_read_l0_bps_address, ulong, 0);
MODULE_PARM_DESC(dmu_read_l0_bps, "address of dmu_read_l0_bps in the zfs module, from /proc/kallsyms");

/* The interface has no holes and one size on every architecture, so that 32-bit programs need no translation. */
static_assert(sizeof(struct zvol_clone_range) == 64);

static int clone_between(struct zvol_clone_range *request, enum zvol_clone_stopped *stopped)
{
	struct volume source, destination;
	int error;

	*stopped = ZVOL_CLONE_NOT_PERMITTED;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
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

static long zvol_clone_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct zvol_clone_range __user *user = (void __user *)argument;
	struct zvol_clone_range request;
	enum zvol_clone_stopped stopped;
	int error;

	if (command != ZVOL_CLONE_RANGE)
		return -ENOTTY;
	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	request.bytes_done = 0;
	request.dirty_length = 0;
	error = clone_between(&request, &stopped);
	request.stopped = stopped;
	if (copy_to_user(user, &request, sizeof(request)))
		return -EFAULT;
	return error;
}

static const struct file_operations zvol_clone_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = zvol_clone_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice zvol_clone_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "zvol_clone",
	.mode = 0600,
	.fops = &zvol_clone_operations,
};

static int __init zvol_clone_init(void)
{
	int error = zfs_binding_acquire(zvol_clone_range_address, dmu_read_l0_bps_address);

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
MODULE_VERSION("1.0");
