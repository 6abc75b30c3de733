#include "statistics.h"

#include "clone_internal.h"
#include "space_internal.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define EXTENTS_PER_CALL 512u

/* Milliseconds. Older figures of the pool are looked up again at the next look; much older ones prove nothing. */
#define FIGURES_ARE_NEW 5000
#define FIGURES_HOLD 60000

/* Seconds. A file changed longer ago is seldom dirty; for one that is, the kernel waits. */
#define CHANGED_LATELY 10
/* Seconds, for how many at once: a look that has a new clone in it. Who comes later gets an upper bound. */
#define WAIT_FOR_A_LOOK 4
#define MOST_WAITING 8

/* ZFS counts a file's blocks when they are in the pool (dn_used_bytes): straight after a clone or a write it has none. Waits until all
 * done before the call is counted. By the holder where it can, as asking for a hole keeps writers of a dirty file away until its
 * transaction group is over; of a clean one it costs nothing. EAGAIN: that can't be waited for. */
static int settle_figures(struct fileops_space *space, int file)
{
    struct statfs file_system;
    struct timespec now;
    struct stat status;
    if (fstatfs(file, &file_system) || fstat(file, &status) || clock_gettime(CLOCK_REALTIME, &now))
        return errno;
    if (file_system.f_type != ZFS_SUPER_MAGIC)
        return 0;
    const bool lately = now.tv_sec - status.st_ctim.tv_sec < CHANGED_LATELY, holder = space && atomic_load(&space->has_holder);
    const bool by_holder = holder && lately && !space_settled_since(space, &status.st_ctim);
    if (by_holder && !space_settle(space))
        return 0;
    /* An empty file is not waited for by the kernel. */
    if (clone_kernel_settles() && (status.st_size || status.st_blocks <= 1))
        return lseek(file, 0, SEEK_HOLE) < 0 && errno != ENXIO ? errno : 0;
    return holder && !by_holder && !space_settle(space) ? 0 : EAGAIN;
}

/* File systems that tell which extents are shared (XFS, btrfs; not OpenZFS). EOPNOTSUPP: this does not. */
static int read_extents(int file, uint64_t *unique)
{
    const size_t size = sizeof(struct fiemap) + EXTENTS_PER_CALL * sizeof(struct fiemap_extent);
    struct fiemap *map = calloc(1, size);
    uint64_t at = 0;
    bool last = false;
    int error = map ? 0 : ENOMEM;
    *unique = 0;
    while (!error && !last) {
        map->fm_start = at;
        map->fm_length = FIEMAP_MAX_OFFSET - at;
        map->fm_flags = FIEMAP_FLAG_SYNC;
        map->fm_extent_count = EXTENTS_PER_CALL;
        if (ioctl(file, FS_IOC_FIEMAP, map)) {
            error = errno;
            break;
        }
        last = map->fm_mapped_extents == 0;
        for (unsigned i = 0; i < map->fm_mapped_extents; i++) {
            const struct fiemap_extent *extent = &map->fm_extents[i];
            if (!(extent->fe_flags & FIEMAP_EXTENT_SHARED))
                *unique += extent->fe_length;
            last = last || (extent->fe_flags & FIEMAP_EXTENT_LAST);
            at = extent->fe_logical + extent->fe_length;
        }
    }
    free(map);
    return error;
}

static bool is_same(const struct space_cloned *one, const struct space_cloned *other)
{
    return one->taken == other->taken && one->shared == other->shared;
}

/* Whether the books and the pool agreed on what is shared at the last look, and nothing was shared or overwritten since. */
static bool agrees(const struct fileops_space *space, int64_t age)
{
    return space->figures_time && age < FIGURES_HOLD && !space->unshared_bytes && is_same(&space->begun, &space->over) &&
           is_same(&space->over, &space->figures_over);
}

/* A file that has just become a clone, or the source of one, is worth a look. The thread of the books has it, and does not look more often
 * for that. */
static void wait_for_a_look(struct fileops_space *space, uint64_t inode, const struct timespec *changed)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    if (!space->has_thread || !atomic_load(&space->has_holder) || until.tv_sec - changed->tv_sec >= CHANGED_LATELY)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_FOR_A_LOOK;
    pthread_mutex_lock(&space->state);
    const bool wait = space->exact && space->waiting_for_a_look < MOST_WAITING && fileops_share_map_shared_of(space->map, inode) &&
                      !agrees(space, space_milliseconds() - space->figures_time);
    space->waiting_for_a_look += wait;
    if (wait) {
        space->figures_wanted = true;
        pthread_mutex_unlock(&space->state);
        space_wake(space);
        pthread_mutex_lock(&space->state);
        while (!agrees(space, space_milliseconds() - space->figures_time) &&
               !pthread_cond_clockwait(&space->calm, &space->state, CLOCK_MONOTONIC, &until))
            ;
        space->waiting_for_a_look--;
    }
    pthread_mutex_unlock(&space->state);
}

/* What the books know. Exact when they and the pool agreed on what is shared at the last look, and nothing was shared or overwritten
 * since: then nothing is shared that they do not know of. Nothing is asked here; the next look is. */
static void read_books(struct fileops_space *space, const struct fileops_ledger_file *row, struct fileops_statistics *statistics)
{
    pthread_mutex_lock(&space->state);
    const int64_t age = space_milliseconds() - space->figures_time;
    const struct fileops_held figures = space->figures;
    const bool agree = agrees(space, age);
    if (!agree || age > FIGURES_ARE_NEW)
        space->figures_wanted = true;
    const struct known_file *file = space_find(space, row->inode);
    /* One with a used inode number. */
    if (file && !space_is_same_file(row, &file->row))
        file = NULL;
    const uint64_t all = fileops_share_map_bytes(space->map), shared = fileops_share_map_shared_of(space->map, row->inode);
    statistics->reserved = file && file->row.thick ? file->row.promised : 0;
    if (agree && figures.shared == 0 && all == 0) {
        statistics->unique_exact = true;
    } else if (agree && space->exact) {
        statistics->unique_exact = figures.shared == all;
        statistics->unique = statistics->allocated > shared ? statistics->allocated - shared : 0;
        /* Compressed blocks take less than they say: not exact, and no bound either way. */
        if (!statistics->unique_exact)
            statistics->unique = statistics->allocated;
    }
    pthread_mutex_unlock(&space->state);
}

int fileops_statistics(struct fileops_space *space, int file, struct fileops_statistics *statistics)
{
    struct fileops_ledger_file row;
    struct stat status;
    uint64_t unique = 0;
    int error = 0;

    *statistics = (struct fileops_statistics){0};
    if (fstat(file, &status))
        return errno;
    if (!S_ISREG(status.st_mode))
        return EISDIR;
    error = settle_figures(space, file);
    if (!error && space)
        wait_for_a_look(space, status.st_ino, &status.st_ctim);
    if (!error && fstat(file, &status))
        error = errno;
    if (error)
        return error;
    statistics->total = (uint64_t)status.st_size;
    statistics->allocated = (uint64_t)status.st_blocks * 512;
    statistics->unique = statistics->allocated;
    if (space) {
        error = space_identify(space, file, &row, &status);
        if (!error)
            read_books(space, &row, statistics);
    }
    if (!error && !statistics->unique_exact && !read_extents(file, &unique)) {
        statistics->unique = unique;
        statistics->unique_exact = true;
    }
    return error;
}
