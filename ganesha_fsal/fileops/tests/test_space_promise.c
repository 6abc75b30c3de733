/* What a promise rests on: what the pool's figures do not have yet, how the dataset is set, whether zfs answers. */
#include "world.h"

static void write_thin(struct fileops_space *space, struct world *world, int file, uint64_t bytes)
{
    assert_int_equal(change(space, file, FILEOPS_WRITE, 0, bytes), 0);
    world->thin += bytes;
}

static void a_look_keeps_what_a_clone_under_way_takes(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    /* Larger than what a look leaves as it is. */
    const uint64_t length = 512 * MIB;
    struct space_share share = {.source_space = space, .destination_space = space, .length = length};
    const struct space_segment segment = {0, length};
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    const uint64_t before = world->held;
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    assert_true(world->held >= before + 2 * length);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held >= BLOCKS * BLOCK + 2 * length);
    space_share_end(&share, false);
    /* It came to nothing, and the pool knows. */
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held < before + length);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

static void growing_counts_what_thin_files_wrote_just_now(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), thin = open_file(world, 1);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    for (int i = 0; i < 40; i++) {
        write_thin(space, world, thin, 16 * MIB);
        /* The pool's figures do not have it yet, as nothing waited for them. */
        assert_int_equal(change(space, one, FILEOPS_WRITE, (uint64_t)i * 64 * MIB, 64 * MIB), 0);
        assert_true(world->held >= status_of(space).thick_bytes + world->thin);
    }
    close(one);
    close(thin);
    fileops_space_close(space);
    remove_world(world);
}

static void follows_how_the_dataset_is_set(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    assert_int_equal(change(space, one, FILEOPS_WRITE, 0, 1), 0);
    assert_int_equal(fileops_reserve_size(space, one, 256 * MIB), 0);
    world->copies = 3;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held >= 3 * 256 * MIB);
    world->deduplicates = true;
    assert_int_equal(fileops_reserve(space, other, NULL), EOPNOTSUPP);
    assert_int_equal(status_of(space).reservations, FILEOPS_RESERVATIONS_NEVER);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held >= 3 * 256 * MIB);
    assert_true(status_of(space).problem[0]);
    world->deduplicates = false;
    assert_int_equal(fileops_reserve(space, other, NULL), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_false(status_of(space).problem[0]);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

static void overwrites_count_when_equal_blocks_may_stay(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCKS * BLOCK};
    const struct space_segment segment = {0, BLOCKS * BLOCK};
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    model_clone(&world->now, 0, 0, 1, 0, BLOCKS);
    space_share_end(&share, true);
    assert_int_equal(fileops_space_maintain(space), 0);
    /* Set between an overwrite and the look: with the same data it changed nothing. */
    assert_int_equal(change(space, other, FILEOPS_WRITE, 0, BLOCKS * BLOCK), 0);
    world->same_checksums = true;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(status_of(space).shared_bytes, BLOCKS * BLOCK);
    assert_int_equal(change(space, other, FILEOPS_WRITE, 0, BLOCKS * BLOCK), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(status_of(space).shared_bytes, BLOCKS * BLOCK);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

/* What is held is for all that was written after the snapshot, so that it is not what is left that is free for all. */
static void a_snapshot_makes_no_room(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0);
    assert_int_equal(fileops_reserve_size(space, one, 512 * MIB), 0);
    world->thin = 1024 * MIB;
    world->others = POOL - 2048 * MIB;
    assert_int_equal(fileops_space_maintain(space), 0);
    const uint64_t ahead = world->held - status_of(space).needed_bytes;
    world->pinned = 1024 * MIB;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held - status_of(space).needed_bytes < ahead);
    close(one);
    fileops_space_close(space);
    remove_world(world);
}

static void a_file_that_shrank_before_a_crash_gives_back(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0);
    assert_int_equal(ftruncate(one, 256 * MIB), 0);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    assert_true(world->held >= 256 * MIB);
    const pid_t child = fork(); /* it has the books too: neither closes them before the file is smaller */
    if (child == 0)
        _exit(ftruncate(one, BLOCKS * BLOCK) ? 1 : 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fileops_space_close(space);
    space = open_books(world);
    assert_int_equal(status_of(space).thick_bytes, BLOCKS * BLOCK);
    assert_true(status_of(space).needed_bytes < 256 * MIB);
    close(one);
    fileops_space_close(space);
    remove_world(world);
}

static int finding; /* what the finder says */

static int find_or_not(const char *root, struct fileops_space_holder *holder)
{
    return finding ? finding : find_simulated(root, holder);
}

static struct fileops_space *open_unanswered(struct world *world)
{
    struct fileops_space *space = NULL;
    the_world = world;
    assert_int_equal(fileops_space_open(world->root, &(struct fileops_space_options){.find_holder = find_or_not, .no_thread = true}, &space), 0);
    return space;
}

static void asks_again_when_nothing_answered(void **state)
{
    (void)state;
    struct world *world = make_world();
    const int one = open_file(world, 0), thin = open_file(world, 1);
    struct fileops_space *space = open_books(world);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    fileops_space_close(space);
    const uint64_t held = world->held;
    finding = ETIMEDOUT;
    space = open_unanswered(world);
    /* Refused each time, and what was promised is not given to others. */
    assert_int_equal(status_of(space).reservations, FILEOPS_RESERVATIONS_NOT_NOW);
    assert_int_equal(status_of(space).thick_files, 1);
    assert_true(status_of(space).problem[0]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fileops_reserve(space, thin, NULL), EAGAIN);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, BLOCK), EAGAIN);
    assert_int_equal(change(space, one, FILEOPS_WRITE, 0, BLOCK), 0);
    assert_int_equal(change(space, one, FILEOPS_WRITE, BLOCKS * BLOCK, BLOCK), EAGAIN);
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCK};
    const struct space_segment segment = {0, BLOCK};
    assert_int_equal(space_share_begin(&share, one, thin, 0, &segment, 1), ENOSPC);
    assert_int_equal(world->held, held);
    finding = 0;
    space->asked = 0; /* in place of waiting for the next look */
    atomic_store(&space->looked, 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(status_of(space).reservations, FILEOPS_RESERVATIONS_POSSIBLE);
    assert_false(status_of(space).problem[0]);
    assert_int_equal(status_of(space).foreign_changes, 0);
    assert_int_equal(fileops_reserve(space, thin, NULL), 0);
    assert_int_equal(change(space, one, FILEOPS_WRITE, BLOCKS * BLOCK, BLOCK), 0);
    close(one);
    close(thin);
    fileops_space_close(space);
    remove_world(world);
}

static void says_never_where_nothing_ever_holds(void **state)
{
    (void)state;
    struct world *world = make_world();
    const int one = open_file(world, 0);
    finding = EOPNOTSUPP;
    struct fileops_space *space = open_unanswered(world);
    finding = 0;
    assert_int_equal(status_of(space).reservations, FILEOPS_RESERVATIONS_NEVER);
    assert_int_equal(fileops_reserve(space, one, NULL), EOPNOTSUPP);
    assert_int_equal(world->reads, 0);
    close(one);
    fileops_space_close(space);
    remove_world(world);
}

static void a_silent_holder_refuses_and_forgets_nothing(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    const uint64_t held = world->held;
    world->silent = ETIMEDOUT;
    assert_int_equal(fileops_reserve(space, other, NULL), EAGAIN);
    assert_int_equal(fileops_space_maintain(space), ETIMEDOUT);
    assert_true(status_of(space).problem[0]);
    world->silent = 0;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(status_of(space).thick_files, 1);
    assert_int_equal(status_of(space).foreign_changes, 0);
    assert_true(world->held >= held);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

static void statistics_ask_nobody(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct fileops_statistics statistics;
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCKS * BLOCK};
    const struct space_segment segment = {0, BLOCKS * BLOCK};
    const uint64_t reads = world->reads;
    space->figures_time -= 120000; /* in place of waiting */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(fileops_statistics(space, one, &statistics), 0);
        assert_false(statistics.unique_exact);
    }
    assert_int_equal(world->reads, reads);
    /* They made the next look ask: then it is known that nothing is shared. One more look has nothing to do. */
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(world->reads, reads + 1);
    assert_int_equal(fileops_statistics(space, one, &statistics), 0);
    assert_true(statistics.unique_exact);
    /* What was shared since is in no figure. */
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    model_clone(&world->now, 0, 0, 1, 0, BLOCKS);
    space_share_end(&share, true);
    assert_int_equal(fileops_statistics(space, one, &statistics), 0);
    assert_int_equal(world->reads, reads + 1);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(fileops_statistics(space, one, &statistics), 0);
    assert_true(statistics.unique_exact);
    assert_int_equal(statistics.unique, 0);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

/* Most of what the pool bears beyond what it has is for writers between two looks. */
static void where_nothing_is_free_little_is_held_beyond_need(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    const uint64_t needed = status_of(space).needed_bytes;
    for (int i = 0; i < 2; i++) { /* thin files are let to take less only from the first one on */
        world->held = needed + 94 * MIB;
        world->others = POOL - world->held;
        assert_int_equal(fileops_space_maintain(space), 0);
        assert_in_range(world->held, needed + 32 * MIB, needed + 66 * MIB);
    }
    close(one);
    fileops_space_close(space);
    remove_world(world);
}

/* Clones of thin files: what they take is counted by the pool, and what overwriting them takes is nobody's promise. */
static void thin_clones_need_nothing_beside_a_promise(void **state)
{
    (void)state;
    enum { CLONES = 4 };
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), template = open_file(world, 1);
    const uint64_t length = 256 * MIB, one_more = BLOCKS * BLOCK + BLOCKS * BLOCK / 64; /* with slack */
    const struct space_segment all = {0, length};
    struct space_share shares[CLONES];
    int clones[CLONES];
    assert_int_equal(fileops_reserve(space, thick, NULL), 0);
    const uint64_t before = status_of(space).needed_bytes;
    for (int i = 0; i < CLONES; i++) {
        clones[i] = open_file(world, 2 + i);
        shares[i] = (struct space_share){.source_space = space, .destination_space = space, .length = length};
        assert_int_equal(space_share_begin(&shares[i], template, clones[i], 0, &all, 1), 0);
    }
    assert_int_equal(status_of(space).shared_bytes, CLONES * length);
    assert_int_equal(status_of(space).needed_bytes, before + CLONES * length);
    /* What is promised from now on is backed, whoever else is overwritten first. */
    assert_int_equal(fileops_reserve(space, template, NULL), 0);
    assert_int_equal(status_of(space).needed_bytes, before + (CLONES + 1) * length + one_more);
    assert_int_equal(fileops_reserve(space, clones[0], NULL), 0);
    assert_int_equal(status_of(space).needed_bytes, before + (CLONES + 2) * length + 2 * one_more);
    assert_int_equal(fileops_unreserve(space, template), 0);
    assert_int_equal(status_of(space).needed_bytes, before + (CLONES + 1) * length + one_more);
    for (int i = 0; i < CLONES; i++) {
        space_share_end(&shares[i], true);
        close(clones[i]);
    }
    close(thick);
    close(template);
    fileops_space_close(space);
    remove_world(world);
}

/* Thin files overwrote what they share, and ZFS counts no more for them than before, but less for the pool. */
static void what_thin_files_overwrote_comes_out_of_what_is_theirs(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    assert_int_equal(fileops_reserve(space, thick, NULL), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    const uint64_t held = world->held, needed = status_of(space).needed_bytes;
    assert_true(held > needed + 50 * MIB);
    world->overcommitted = 20 * MIB;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(world->held, held - 20 * MIB);
    /* What can't be known may be all, but not what is promised. */
    world->overcommitted = UINT64_MAX;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(world->held, needed);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 1), ENOSPC);
    world->overcommitted = 0;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held >= held);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 1), 0);
    close(thick);
    close(thin);
    fileops_space_close(space);
    remove_world(world);
}

/* How often writers of 8 MiB of shared blocks waited for a look; each has a part of what the pool may be overdrawn. */
static uint64_t looks_of_writers(unsigned sharers)
{
    struct world *world = make_world();
    world->overdraft = 32 * MIB;
    world->sharers = sharers;
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    const struct space_segment all = {0, 64 * MIB};
    struct space_share share = {.source_space = space, .destination_space = space, .length = 64 * MIB};
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    assert_int_equal(space_share_begin(&share, one, other, 0, &all, 1), 0);
    space_share_end(&share, true);
    assert_int_equal(fileops_space_maintain(space), 0);
    const uint64_t reads = world->reads;
    for (uint64_t at = 0; at < 33; at++)
        assert_int_equal(change(space, other, FILEOPS_WRITE, at * MIB, MIB), 0);
    const uint64_t looks = world->reads - reads;
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
    return looks;
}

static void datasets_share_what_may_be_overdrawn(void **state)
{
    (void)state;
    assert_int_equal(looks_of_writers(0), 0);
    assert_int_equal(looks_of_writers(1), 0);
    assert_int_equal(looks_of_writers(4), 3);
}

static void a_lift_shares_no_more_than_it_needs(void **state)
{
    const uint64_t first = 16 * MIB, wholes[] = {first, 2 * first, 3 * first, 1000 * first, 4096 * first + first};
    (void)state;
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
        uint64_t size = first;
        unsigned int steps = 0;
        while (size < wholes[i]) {
            const uint64_t step = space_lift_step(size, wholes[i]);
            assert_true(step > 0 && step <= size && step % first == 0);
            size += step;
            steps++;
        }
        assert_int_equal(size, wholes[i]);
        assert_true(steps <= 6 + wholes[i] / (1024 * MIB));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_keeps_what_a_clone_under_way_takes),
        cmocka_unit_test(growing_counts_what_thin_files_wrote_just_now),
        cmocka_unit_test(follows_how_the_dataset_is_set),
        cmocka_unit_test(overwrites_count_when_equal_blocks_may_stay),
        cmocka_unit_test(a_snapshot_makes_no_room),
        cmocka_unit_test(a_file_that_shrank_before_a_crash_gives_back),
        cmocka_unit_test(asks_again_when_nothing_answered),
        cmocka_unit_test(says_never_where_nothing_ever_holds),
        cmocka_unit_test(a_silent_holder_refuses_and_forgets_nothing),
        cmocka_unit_test(statistics_ask_nobody),
        cmocka_unit_test(where_nothing_is_free_little_is_held_beyond_need),
        cmocka_unit_test(thin_clones_need_nothing_beside_a_promise),
        cmocka_unit_test(datasets_share_what_may_be_overdrawn),
        cmocka_unit_test(what_thin_files_overwrote_comes_out_of_what_is_theirs),
        cmocka_unit_test(a_lift_shares_no_more_than_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
