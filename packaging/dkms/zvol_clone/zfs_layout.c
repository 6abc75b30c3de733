// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compiled to assembly only, never linked: the compiler computes from the headers of the zfs module where the few fields
 * lie that this module looks at, and Kbuild turns that into zfs_layout.h, a list of numbers. So no header of zfs reaches
 * the module's own source, and no inline function of zfs its object.
 */
#include <linux/kbuild.h>
#include <sys/zfs_context.h>
#include <sys/dataset_kstats.h>
#include <sys/dmu_objset.h>
#include <sys/dnode.h>
#include <sys/zfs_rlock.h>
#include <sys/zvol.h>
#include <sys/zvol_impl.h>

/* The prototypes that zfs_binding.c declares with plain types. A change of either fails the build here. */
static_assert(__builtin_types_compatible_p(typeof(zvol_clone_range),
    int(zvol_state_t *, uint64_t, zvol_state_t *, uint64_t, uint64_t)));
static_assert(__builtin_types_compatible_p(typeof(dmu_read_l0_bps),
    int(objset_t *, uint64_t, uint64_t, uint64_t, blkptr_t *, size_t *)));
static_assert(__builtin_types_compatible_p(typeof(dnode_block_freed), uint64_t(dnode_t *, uint64_t)));
static_assert(__builtin_types_compatible_p(typeof(dnode_is_dirty), boolean_t(dnode_t *)));
static_assert(__builtin_types_compatible_p(typeof(dnode_next_offset), int(dnode_t *, int, uint64_t *, int, uint64_t, uint64_t)));
static_assert(sizeof(boolean_t) == sizeof(int));
static_assert(__builtin_types_compatible_p(uint64_t, u64));

/*
 * Not called. An OpenZFS without it reads zeroes from a block that was cloned over one whose discard is not on disk yet
 * (openzfs#18421, #18724): this module is for those that have it.
 */
static_assert(__builtin_types_compatible_p(typeof(dnode_block_freed_after), uint64_t(dnode_t *, uint64_t, uint64_t)));

void zfs_layout(void);
void
zfs_layout(void)
{
	OFFSET(ZV_VOLSIZE, zvol_state, zv_volsize);
	OFFSET(ZV_VOLBLOCKSIZE, zvol_state, zv_volblocksize);
	OFFSET(ZV_OBJSET, zvol_state, zv_objset);
	OFFSET(ZV_DN, zvol_state, zv_dn);
	OFFSET(ZV_FLAGS, zvol_state, zv_flags);
	OFFSET(ZV_OPEN_COUNT, zvol_state, zv_open_count);
	OFFSET(ZV_ZSO, zvol_state, zv_zso);
	DEFINE(ZV_SUSPEND_LOCK, offsetof(struct zvol_state, zv_suspend_lock.rw_rwlock));
	OFFSET(OS_SPA, objset, os_spa);
	DEFINE(BLKPTR_SIZE, sizeof (blkptr_t));
	OFFSET(BLKPTR_DVA, blkptr, blk_dva[0]);
	OFFSET(BLKPTR_PROP, blkptr, blk_prop);
	OFFSET(BLKPTR_PHYSICAL_BIRTH, blkptr, blk_birth_word[0]);
	DEFINE(RW_SEMAPHORE_SIZE, sizeof (((krwlock_t *)0)->rw_rwlock));
	DEFINE(ZVOL_FLAG_RDONLY, ZVOL_RDONLY);
	DEFINE(ZVOL_FLAG_REMOVING, ZVOL_REMOVING);
	DEFINE(ZVOL_OBJECT, ZVOL_OBJ);
}
