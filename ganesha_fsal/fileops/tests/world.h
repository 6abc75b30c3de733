/* A dataset in a pool that is simulated beside real, empty files: what tests of the books share. */
#ifndef FILEOPS_TESTS_WORLD_H
#define FILEOPS_TESTS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model.h"
#include "space_internal.h"
#include "statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define POOL (UINT64_C(4) << 30)
#define MIB (UINT64_C(1) << 20)

/* What outlives a crash, and what the child did: shared with it. */
struct world {
    struct model now;    /* as the files are */
    struct model stable; /* as they are after a power cut: what settle() has seen */
    bool thick[FILES];
    bool gone[FILES]; /* removed: the next ledger that knows of that makes it stable too, being on the same file system */
    uint64_t thin, thin_stable; /* what a thin file takes beside those of the model */
    uint64_t held;
    uint64_t steps, crash_at; /* of the holder; 0: none */
    uint64_t reads, settles;  /* how often it was asked */
    uint64_t others;          /* what other datasets took */
    uint64_t pinned;          /* by a snapshot: referred to, and not counted as held */
    uint64_t copies;          /* 0 as 1 */
    uint64_t overcommitted;
    uint64_t overdraft;       /* 0: any */
    uint64_t slack;           /* that the holder wants, at least */
    unsigned sharers;         /* of the overdraft */
    int silent;               /* with what the holder fails; 0: it answers */
    bool deduplicates, same_checksums, refuses;
    bool thick_default;       /* as the dataset is set */
    char root[256];
};

static struct world *the_world; /* of the holder that is found next */

static void step(struct world *world)
{
    if (++world->steps == world->crash_at)
        raise(SIGKILL);
}

static inline int simulated_read(void *context, struct fileops_held *figures)
{
    struct world *world = context;
    step(world);
    world->reads++;
    if (world->silent)
        return world->silent;
    const uint64_t referenced = FILES * BLOCKS * BLOCK + world->thin_stable, own = referenced - world->pinned;
    const uint64_t unused = world->held > own ? world->held - own : 0, taken = world->others + referenced;
    *figures = (struct fileops_held){.held = world->held, .cost_version = world->copies, .unused = unused, .referenced = referenced, .own = own,
                                     .available = POOL > taken && !world->overcommitted ? POOL - taken : 0, .shared = model_bytes(&world->stable), .overdraft = world->overdraft ? world->overdraft : POOL, .overcommitted = world->overcommitted,
                                     .can_promise = !world->deduplicates, .overwrites_unshare = !world->same_checksums};
    return 0;
}

static inline int simulated_hold(void *context, uint64_t bytes)
{
    struct world *world = context;
    step(world);
    if (world->silent)
        return world->silent;
    if (bytes > world->held && (world->refuses || bytes > POOL - world->others))
        return ENOSPC;
    world->held = bytes;
    step(world);
    return 0;
}

static inline int simulated_settle(void *context)
{
    struct world *world = context;
    step(world);
    world->settles++;
    if (world->silent)
        return world->silent;
    world->stable = world->now;
    world->thin_stable = world->thin;
    step(world);
    return 0;
}

static inline uint64_t simulated_cost(void *context, uint64_t size, uint32_t block_size)
{
    const struct world *world = context;
    (void)block_size;
    return size * (world->copies ? world->copies : 1);
}

static inline unsigned simulated_sharers(void *context)
{
    const struct world *world = context;
    return world->sharers;
}

static inline int simulated_setting(void *context, bool *thick)
{
    const struct world *world = context;
    *thick = world->thick_default;
    return world->silent;
}

static inline int find_simulated(const char *root, struct fileops_space_holder *holder)
{
    (void)root;
    *holder = (struct fileops_space_holder){.read = simulated_read, .hold = simulated_hold, .settle = simulated_settle,
                                            .cost = simulated_cost, .sharers = simulated_sharers, .context = the_world,
                                            .read_thick_default = simulated_setting, .slack = the_world->slack};
    return 0;
}

static inline struct fileops_space *open_books(struct world *world)
{
    struct fileops_space *space = NULL;
    the_world = world;
    const int error = fileops_space_open(world->root, &(struct fileops_space_options){.find_holder = find_simulated, .no_thread = true}, &space);
    if (error)
        fprintf(stderr, "open: %s\n", strerror(error));
    return space;
}

static inline int open_file(const struct world *world, int file)
{
    char path[300];
    snprintf(path, sizeof path, "%s/f%d", world->root, file);
    const int opened = open(path, O_RDWR | O_CREAT, 0600);
    if (opened >= 0 && ftruncate(opened, BLOCKS * BLOCK))
        abort();
    return opened;
}

static inline uint64_t inode_of(int file)
{
    struct stat status;
    fstat(file, &status);
    return status.st_ino;
}

/* A change of a file from beginning to end, of which the model is not told. */
static inline int change(struct fileops_space *space, int file, enum fileops_change_kind kind, uint64_t offset, uint64_t length)
{
    struct fileops_change told;
    const int error = fileops_change_begin(space, inode_of(file), kind, offset, length, &told);
    if (!error)
        fileops_change_end(space, &told, 0);
    return error;
}

static inline struct fileops_space_status status_of(struct fileops_space *space)
{
    struct fileops_space_status status;
    fileops_space_status(space, &status);
    return status;
}

struct sums {
    struct fileops_space *space;
    struct space_part parts;
    bool right; /* what each file that was looked at costs */
};

static inline void add_parts(void *context, struct known_file *file)
{
    struct sums *sums = context;
    struct space_part *sum = &sums->parts;
    struct world *world = sums->space->holder.context;
    if (file->counted && file->row.thick) {
        sum->promised += file->row.promised;
        sum->cost += file->part.cost;
        sum->allocated += file->part.allocated;
        sum->unseen += file->part.unseen;
        if (!file->touched && sums->space->cost_version == world->copies)
            sums->right = sums->right && file->part.cost == simulated_cost(world, file->row.promised, file->row.block_size);
    }
}

/* What is kept as it changes is what counting all would give. */
static inline void assert_sums(struct fileops_space *space)
{
    struct sums sums = {.space = space, .right = true};
    const struct space_part *sum = &sums.parts;
    pthread_mutex_lock(&space->state);
    space_each(space, add_parts, &sums);
    const bool right = sums.right && space->sum_promised == sum->promised && space->sum_cost == sum->cost &&
                       space->sum_allocated == sum->allocated && space->sum_unseen == sum->unseen &&
                       space->touched_count + space->untouched_count == space->thick_count;
    pthread_mutex_unlock(&space->state);
    assert_true(right);
}

static inline struct world *make_world(void)
{
    const char *folder = getenv("TMPDIR");
    struct world *world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(world->root, sizeof world->root, "%s/fileops-XXXXXX", folder && folder[0] ? folder : "/tmp");
    assert_non_null(mkdtemp(world->root));
    for (int file = 0; file < FILES; file++)
        model_write(&world->now, file, 0, BLOCKS);
    world->stable = world->now;
    return world;
}

static inline void remove_world(struct world *world)
{
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", world->root);
    assert_int_equal(system(command), 0);
    munmap(world, sizeof *world);
}

#endif
