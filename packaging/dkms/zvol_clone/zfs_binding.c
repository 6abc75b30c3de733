// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finding a few functions of zfs.ko without linking to it.
 *
 * Their addresses come from /proc/kallsyms as module parameters. They are believed only when
 * - sprint_symbol() says that each is the very start of the function of that name in the module "zfs";
 * - they lie inside the module that serves /dev/zfs, and it is live and called "zfs";
 * - that module's build ID is that of the zfs.ko this module was built for (zfs_identity.h). The build ID is a hash of the whole
 *   linked module, version and srcversion included: equal means that every structure has the layout seen by zfs_layout.c.
 *
 * Linking any symbol of zfs.ko instead would make this module inherit its licence taint and lose GPL-only symbols
 * (inherit_taint() in kernel/module/main.c), and none of the functions is exported.
 *
 * The calls are static_call(): on x86 a direct call, so that it does not matter that the entry of a function which is
 * never called indirectly may lack its ENDBR or have it sealed (CONFIG_X86_KERNEL_IBT).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/elfnote.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/module.h>
#include <linux/static_call.h>
#include <linux/string.h>

#include "zfs_binding.h"
#include "zfs_identity.h"
#include "zfs_layout.h"

#define ZFS_MODULE "zfs"
#define ZFS_DEVICE "/dev/zfs"
#define ZFS_BUILD_ID_NOTE "/sys/module/zfs/notes/.note.gnu.build-id"

/* Never defined: they give static_call() its types. zfs_layout.c asserts that the zfs headers declare the same. */
int zvol_clone_range_type(void *, u64, void *, u64, u64);
int dmu_read_l0_bps_type(void *, u64, u64, u64, void *, size_t *);
u64 dnode_block_freed_type(void *, u64);
int dnode_is_dirty_type(void *);
int dnode_next_offset_type(void *, int, u64 *, int, u64, u64);

int dnode_hold_type(void *, u64, const void *, void **);
void dnode_rele_type(void *, const void *);
int dbuf_hold_impl_type(void *, u8, u64, int, int, const void *, void **);
int dbuf_read_type(void *, void *, u32);
void dbuf_rele_type(void *, const void *);
int zap_lookup_uint64_by_dnode_type(void *, const u64 *, int, u64, u64, void *);
u64 bp_get_dsize_type(void *, const void *);
u64 spa_last_synced_txg_type(void *);
void rrm_enter_read_type(void *, const void *);
void rrm_exit_type(void *, const void *);

#define STATIC_CALL_OF(function) DEFINE_STATIC_CALL_NULL(function##_call, function##_type);
ZFS_FUNCTIONS(STATIC_CALL_OF)

/* Who holds a dnode, a dbuf or a lock: zfs compares it when it is released. */
static const char holder[] = "zvol_clone";

/* Of zfs.ko when this module was built. In its .modinfo too, so that zvol_clone-load can compare first. */
static const u8 expected_build_id[] = { ZFS_IDENTITY_BUILD_ID };
MODULE_INFO(zfs_build_id, ZFS_IDENTITY_BUILD_ID_TEXT);

static struct module *zfs_module;

static int verify_address(unsigned long address, const char *function, const struct module *zfs)
{
	char symbol[KSYM_SYMBOL_LEN];
	char begin[64];
	static const char end[] = " [" ZFS_MODULE "]";
	size_t begin_length, symbol_length;

	if (!address) {
		pr_err("refused: no address for %s (parameter %s=; zvol_clone-load reads it from /proc/kallsyms)\n",
		       function, function);
		return -EINVAL;
	}
	sprint_symbol(symbol, address);
	begin_length = scnprintf(begin, sizeof(begin), "%s+0x0/", function);
	symbol_length = strlen(symbol);
	if (strncmp(symbol, begin, begin_length) || symbol_length < sizeof(end) - 1 ||
	    strcmp(symbol + symbol_length - (sizeof(end) - 1), end)) {
		pr_err("refused: the address given for %s of the zfs module is %s\n", function, symbol);
		return -EINVAL;
	}
	if (!within_module(address, zfs)) {
		pr_err("refused: %s lies outside of the module that serves " ZFS_DEVICE "\n", function);
		return -EINVAL;
	}
	return 0;
}

/*
 * find_module() is not exported to modules (Linux 5.12 and later). The file operations of /dev/zfs name their owner (zfsdev_fops in
 * module/os/linux/zfs/zfs_ioctl_os.c), and an open file keeps it from being unloaded until we hold it ourselves.
 */
static struct module *pin_zfs(void)
{
	struct module *zfs = ERR_PTR(-ENODEV);
	struct file *file = filp_open(ZFS_DEVICE, O_RDONLY, 0);

	if (IS_ERR(file)) {
		pr_err("refused: cannot open " ZFS_DEVICE " (error %ld): load the zfs module first\n", PTR_ERR(file));
		return ERR_PTR(-ENODEV);
	}
	if (!S_ISCHR(file_inode(file)->i_mode) || !file->f_op->owner || strcmp(file->f_op->owner->name, ZFS_MODULE))
		pr_err("refused: " ZFS_DEVICE " is not served by a module called " ZFS_MODULE "\n");
	else if (file->f_op->owner->state != MODULE_STATE_LIVE || !try_module_get(file->f_op->owner))
		pr_err("refused: the zfs module is being loaded or unloaded\n");
	else
		zfs = file->f_op->owner;
	filp_close(file, NULL);
	return zfs;
}

/* sysfs shows the note section of the ELF file unchanged: header, "GNU", the build ID. */
static bool same_build_id(void)
{
	struct {
		struct elf_note header;
		char name[4];
		u8 build_id[sizeof(expected_build_id)];
		u8 beyond;
	} __packed note = {};
	const size_t expected_size = offsetof(typeof(note), beyond);
	struct file *file = filp_open(ZFS_BUILD_ID_NOTE, O_RDONLY, 0);
	loff_t position = 0;
	ssize_t size;

	if (IS_ERR(file)) {
		pr_err("refused: cannot read the build ID of the zfs module from " ZFS_BUILD_ID_NOTE " (error %ld)\n",
		       PTR_ERR(file));
		return false;
	}
	size = kernel_read(file, &note, sizeof(note), &position);
	filp_close(file, NULL);
	if (size == expected_size && note.header.n_namesz == sizeof(note.name) && !memcmp(note.name, "GNU", 4) &&
	    note.header.n_descsz == sizeof(note.build_id) &&
	    !memcmp(note.build_id, expected_build_id, sizeof(expected_build_id)))
		return true;
	pr_err("refused: built for the zfs module of build ID " ZFS_IDENTITY_BUILD_ID_TEXT
	       ", loaded is another one: build zvol_clone again\n");
	return false;
}

int zfs_binding_acquire(const struct zfs_addresses *addresses)
{
	struct module *zfs = pin_zfs();
	int error;

	if (IS_ERR(zfs))
		return PTR_ERR(zfs);
	error = -ENOEXEC;
	if (!same_build_id())
		goto refuse;
	error = 0;
#define VERIFY_ADDRESS(function) \
	if (!error) \
		error = verify_address(addresses->function, #function, zfs);
	ZFS_FUNCTIONS(VERIFY_ADDRESS)
	if (error)
		goto refuse;

#define UPDATE_CALL(function) static_call_update(function##_call, (typeof(&function##_type))addresses->function);
	ZFS_FUNCTIONS(UPDATE_CALL)
	zfs_module = zfs;
	return 0;

refuse:
	module_put(zfs);
	return error;
}

/* Called when no ioctl can run any more: the device was removed and each open file pins this module. */
void zfs_binding_release(void)
{
	module_put(zfs_module);
	zfs_module = NULL;
}

const struct module *zfs_binding_module(void)
{
	return zfs_module;
}

int zfs_zvol_clone_range(void *source_zv, u64 source_offset, void *destination_zv, u64 destination_offset, u64 length)
{
	return static_call(zvol_clone_range_call)(source_zv, source_offset, destination_zv, destination_offset, length);
}

int zfs_dmu_read_l0_bps(void *objset, u64 object, u64 offset, u64 length, void *block_pointers, size_t *count)
{
	return static_call(dmu_read_l0_bps_call)(objset, object, offset, length, block_pointers, count);
}

bool zfs_dnode_block_freed(void *dnode, u64 block)
{
	return static_call(dnode_block_freed_call)(dnode, block);
}

bool zfs_dnode_is_dirty(void *dnode)
{
	return static_call(dnode_is_dirty_call)(dnode);
}

int zfs_dnode_next_data(void *dnode, u64 *offset)
{
	/* As dmu_offset_next() calls it: level 1, one block is enough, of any transaction group. */
	return static_call(dnode_next_offset_call)(dnode, 0, offset, 1, 1, 0);
}

int zfs_dnode_hold(void *objset, u64 object, void **dnode)
{
	return static_call(dnode_hold_call)(objset, object, holder, dnode);
}

void zfs_dnode_release(void *dnode)
{
	static_call(dnode_rele_call)(dnode, holder);
}

int zfs_dbuf_hold_indirect(void *dnode, u64 number, void **dbuf)
{
	int error = static_call(dbuf_hold_impl_call)(dnode, 1, number, 1, 0, holder, dbuf);

	if (error)
		return error;
	error = static_call(dbuf_read_call)(*dbuf, NULL, DBUF_READ_FLAGS);
	if (error)
		zfs_dbuf_release(*dbuf);
	return error;
}

void zfs_dbuf_release(void *dbuf)
{
	static_call(dbuf_rele_call)(dbuf, holder);
}

int zfs_zap_lookup(void *dnode, u64 key, u64 *value)
{
	/*
	 * As brt_entry_lookup() of module/zfs/brt.c: a value of 8 bytes, in the byte order of who wrote it. With the feature
	 * block_cloning_endian of OpenZFS 2.4 it is one integer, which is EINVAL when it is read as bytes.
	 */
	int error = static_call(zap_lookup_uint64_by_dnode_call)(dnode, &key, 1, 1, sizeof(*value), value);

	if (error == EINVAL)
		error = static_call(zap_lookup_uint64_by_dnode_call)(dnode, &key, 1, sizeof(*value), 1, value);
	return error;
}

u64 zfs_bp_get_dsize(void *spa, const void *block_pointer)
{
	return static_call(bp_get_dsize_call)(spa, block_pointer);
}

u64 zfs_spa_last_synced_txg(void *spa)
{
	return static_call(spa_last_synced_txg_call)(spa);
}

void zfs_teardown_enter(void *lock)
{
	static_call(rrm_enter_read_call)(lock, holder);
}

void zfs_teardown_exit(void *lock)
{
	static_call(rrm_exit_call)(lock, holder);
}
