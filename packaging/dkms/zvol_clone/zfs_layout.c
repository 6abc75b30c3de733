// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compiled to assembly only, never linked: the compiler computes from the headers of the zfs module where the few fields
 * lie that this module reads, and Kbuild turns that into zfs_layout.h, a list of numbers. So no header of zfs reaches
 * the module's own source, and no inline function of zfs its object.
 */
#include <linux/kbuild.h>
#include <sys/zfs_context.h>
#include <sys/dataset_kstats.h>
#include <sys/dbuf.h>
#include <sys/dmu_objset.h>
#include <sys/dnode.h>
#include <sys/dsl_dataset.h>
#include <sys/rrwlock.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/brt_impl.h>
#include <sys/zap.h>
#include <sys/zfs_vfsops_os.h>
#include <sys/zfs_znode.h>
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
static_assert(__builtin_types_compatible_p(typeof(dnode_hold), int(struct objset *, uint64_t, const void *, dnode_t **)));
static_assert(__builtin_types_compatible_p(typeof(dnode_rele), void(dnode_t *, const void *)));
static_assert(__builtin_types_compatible_p(typeof(dbuf_hold_impl),
    int(struct dnode *, uint8_t, uint64_t, boolean_t, boolean_t, const void *, dmu_buf_impl_t **)));
static_assert(__builtin_types_compatible_p(typeof(dbuf_read), int(dmu_buf_impl_t *, zio_t *, uint32_t)));
static_assert(__builtin_types_compatible_p(typeof(dbuf_rele), void(dmu_buf_impl_t *, const void *)));
static_assert(__builtin_types_compatible_p(typeof(zap_lookup_uint64_by_dnode),
    int(dnode_t *, const uint64_t *, int, uint64_t, uint64_t, void *)));
static_assert(__builtin_types_compatible_p(typeof(bp_get_dsize), uint64_t(spa_t *, const blkptr_t *)));
static_assert(__builtin_types_compatible_p(typeof(spa_last_synced_txg), uint64_t(spa_t *)));
static_assert(__builtin_types_compatible_p(typeof(rrm_enter_read), void(rrmlock_t *, const void *)));
static_assert(__builtin_types_compatible_p(typeof(rrm_exit), void(rrmlock_t *, const void *)));
static_assert(sizeof(boolean_t) == sizeof(int));
/* space.c finds a block by one word, its offset. */
static_assert(BRT_KEY_WORDS == 1);
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
	OFFSET(BLKPTR_LOGICAL_BIRTH, blkptr, blk_birth_word[1]);
	OFFSET(OS_DSL_DATASET, objset, os_dsl_dataset);
	OFFSET(DS_DBUF, dsl_dataset, ds_dbuf);
	OFFSET(DS_PREV_SNAP_TXG, dsl_dataset_phys, ds_prev_snap_txg);
	DEFINE(DB_DATA, offsetof(struct dmu_buf_impl, db.db_data));
	DEFINE(DB_RWLOCK, offsetof(struct dmu_buf_impl, db_rwlock.rw_rwlock));
	DEFINE(DBUF_READ_FLAGS, DB_RF_CANFAIL | DB_RF_HAVESTRUCT | DB_RF_NOPREFETCH);
	DEFINE(DN_STRUCT_RWLOCK, offsetof(struct dnode, dn_struct_rwlock.rw_rwlock));
	OFFSET(DN_DBUF, dnode, dn_dbuf);
	OFFSET(DN_PHYS, dnode, dn_phys);
	OFFSET(DN_DATABLKSZ, dnode, dn_datablksz);
	OFFSET(DNP_NLEVELS, dnode_phys, dn_nlevels);
	OFFSET(DNP_INDBLKSHIFT, dnode_phys, dn_indblkshift);
	OFFSET(DNP_NBLKPTR, dnode_phys, dn_nblkptr);
	OFFSET(DNP_MAXBLKID, dnode_phys, dn_maxblkid);
	OFFSET(DNP_BLKPTR, dnode_phys, dn_blkptr);
	DEFINE(SPA_BRT_LOCK, offsetof(struct spa, spa_brt_lock.rw_rwlock));
	OFFSET(SPA_BRT_VDEVS, spa, spa_brt_vdevs);
	OFFSET(SPA_BRT_NVDEVS, spa, spa_brt_nvdevs);
	OFFSET(SPA_BRT_RANGESIZE, spa, spa_brt_rangesize);
	DEFINE(BV_LOCK, offsetof(struct brt_vdev, bv_lock.rw_rwlock));
	OFFSET(BV_INITIATED, brt_vdev, bv_initiated);
	OFFSET(BV_SIZE, brt_vdev, bv_size);
	OFFSET(BV_ENTCOUNT, brt_vdev, bv_entcount);
	DEFINE(BV_MOS_ENTRIES_LOCK, offsetof(struct brt_vdev, bv_mos_entries_lock.rw_rwlock));
	OFFSET(BV_MOS_ENTRIES, brt_vdev, bv_mos_entries);
	OFFSET(BV_MOS_ENTRIES_DNODE, brt_vdev, bv_mos_entries_dnode);
	OFFSET(ZFSVFS_OBJSET, zfsvfs, z_os);
	OFFSET(ZFSVFS_UNMOUNTED, zfsvfs, z_unmounted);
	OFFSET(ZFSVFS_TEARDOWN_LOCK, zfsvfs, z_teardown_lock);
	OFFSET(ZNODE_INODE, znode, z_inode);
	OFFSET(ZNODE_ID, znode, z_id);
	OFFSET(ZNODE_SA_HANDLE, znode, z_sa_hdl);
	DEFINE(INODE_SIZE, sizeof (struct inode));
	DEFINE(RW_SEMAPHORE_SIZE, sizeof (((krwlock_t *)0)->rw_rwlock));
	DEFINE(ZVOL_FLAG_RDONLY, ZVOL_RDONLY);
	DEFINE(ZVOL_FLAG_REMOVING, ZVOL_REMOVING);
	DEFINE(ZVOL_OBJECT, ZVOL_OBJ);
}
