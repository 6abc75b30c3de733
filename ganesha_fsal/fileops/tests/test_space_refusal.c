/* Whom a pool that is full, or seems so, refuses what, and for how long. */
#include "world.h"

#include <time.h>

static int opening_fails; /* with what, for the books */
int __real_open_by_handle_at(int mount, struct file_handle *handle, int flags);
int __wrap_open_by_handle_at(int mount, struct file_handle *handle, int flags);

int __wrap_open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
    if (!opening_fails)
        return __real_open_by_handle_at(mount, handle, flags);
    errno = opening_fails;
    return -1;
}

static void close_books(struct fileops_space *space, struct world *world, int one, int other)
{
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

static void a_full_pool_makes_few_looks(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), thin = open_file(world, 1);
    world->others = POOL - 4 * MIB;
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    while (!change(space, thin, FILEOPS_WRITE, 0, MIB))
        world->thin += MIB;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const uint64_t settles = world->settles;
    for (int i = 0; i < 2000; i++)
        assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, MIB), ENOSPC);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(world->settles - settles <= 1 + (uint64_t)(end.tv_sec - begin.tv_sec));
    close_books(space, world, one, thin);
}

/* Writes more than thin files may take until the next look, each write being counted as a whole block. */
static void writes_much(struct fileops_space *space, struct world *world, int thin)
{
    for (int i = 0; i < 1024; i++) {
        assert_int_equal(change(space, thin, FILEOPS_WRITE, (uint64_t)i * 4096, 4096), 0);
        world->thin += 4096;
    }
}

/* What a look found before anything was promised, or before the last promise, says nothing of what there is now. */
static void much_is_free_and_nobody_is_refused(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1), thin = open_file(world, 2);
    space->block_size = 128 << 10;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    writes_much(space, world, thin);
    /* The pool is full for a look, and no longer. */
    world->others = POOL - world->held;
    assert_int_equal(space_lower(space, true), 0);
    world->others = 0;
    assert_int_equal(fileops_reserve(space, other, NULL), 0);
    writes_much(space, world, thin);
    /* More is refused for another reason than that there was none: the client asks again. */
    world->refuses = true;
    world->held = status_of(space).needed_bytes;
    assert_int_equal(fileops_space_maintain(space), ENOSPC);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
    world->refuses = false;
    close(one);
    close(other);
    close(thin);
    fileops_space_close(space);
    remove_world(world);
}

/* ZFS says that a pool is full while it counts what clones take, and not yet what they save. */
static void a_thin_file_that_was_refused_waits_for_the_pool_once(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thin = open_file(world, 0);
    struct fileops_change told;
    assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_WRITE, 0, 4096, &told), 0);
    assert_int_equal(fileops_change_retry(space, &told, 0), 0);
    assert_int_equal(world->settles, 1);
    fileops_change_end(space, &told, 0);
    /* There is no room for that. The next one needs not look again. */
    assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_WRITE, 0, UINT64_C(1) << 62, &told), 0);
    assert_int_equal(fileops_change_retry(space, &told, 0), ENOSPC);
    fileops_change_end(space, &told, ENOSPC);
    space->found_full += 3600000; /* however slow the machine is, that was lately */
    assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_WRITE, 0, 4096, &told), 0);
    assert_int_equal(fileops_change_retry(space, &told, 0), ENOSPC);
    assert_int_equal(world->settles, 2);
    fileops_change_end(space, &told, ENOSPC);
    space->found_full = 0;
    /* What gives space back needs none. */
    assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_DEALLOCATE, 0, UINT64_C(1) << 62, &told), 0);
    assert_int_equal(fileops_change_retry(space, &told, 0), 0);
    fileops_change_end(space, &told, ENOSPC);
    /* While the pool does not answer, others may find room. */
    world->silent = ETIMEDOUT;
    assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_WRITE, 0, UINT64_C(1) << 62, &told), 0);
    assert_int_equal(fileops_change_retry(space, &told, 0), ENOSPC);
    fileops_change_end(space, &told, ENOSPC);
    assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_WRITE, 0, 4096, &told), 0);
    assert_int_equal(fileops_change_retry(space, &told, 0), 0);
    fileops_change_end(space, &told, 0);
    close(thin);
    fileops_space_close(space);
    remove_world(world);
}

/* As on a dataset whose `copies` were raised: the promise needs more than there is, and much is free that nobody can hold. */
static void what_promises_still_need_is_no_room_for_others(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    assert_int_equal(fileops_reserve_size(space, thick, 1536 * MIB), 0);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), 0);
    world->copies = 3;
    /* Said by one look after another, until it is certain. */
    assert_int_equal(fileops_space_maintain(space), ENOSPC);
    space->short_of.since += 3600000; /* however slow the machine is, that was just now */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
        assert_int_equal(fileops_space_maintain(space), ENOSPC);
    }
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
    space->short_of.since -= 3600000 + 10000; /* in place of waiting */
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), ENOSPC);
    assert_non_null(strstr(status_of(space).problem, "needed"));
    assert_int_equal(change(space, thick, FILEOPS_WRITE, 0, 1536 * MIB), 0);
    /* Given up what it can't have: there is room for others again, at once. */
    world->copies = 1;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(space->short_of.looks, 0);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), 0);
    close_books(space, world, thick, thin);
}

/* Looks that can hold no more, though the figures have room. `certain`: what promises need takes that for certain. */
static void looks_refuse(struct fileops_space *space, unsigned looks, bool certain)
{
    for (unsigned i = 0; i < looks; i++)
        assert_int_equal(fileops_space_maintain(space), ENOSPC);
    assert_true(space->contradicted.looks >= looks);
    assert_int_equal(space->short_of.looks, certain ? looks : 0);
}

/* A clone or a write of a promised file that goes on is counted, while the pool's figures may have it already. */
static void what_may_be_counted_twice_refuses_nobody(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    struct fileops_change told;
    assert_int_equal(fileops_reserve_size(space, thick, 1024 * MIB), 0);
    assert_int_equal(fileops_change_begin(space, inode_of(thick), FILEOPS_WRITE, 0, 1024 * MIB, &told), 0);
    world->thin = 1024 * MIB; /* in the dataset's figure, and not yet in the file's */
    world->others = POOL - 1700 * MIB;
    looks_refuse(space, 4, false);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
    fileops_change_end(space, &told, 0);
    looks_refuse(space, 2, true);
    close_books(space, world, thick, thin);
}

/* With copies the pool counts a write of a promised file as often. */
static void each_copy_may_be_counted_twice(void **state)
{
    (void)state;
    struct world *world = make_world();
    world->copies = 2;
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    struct fileops_change told;
    assert_int_equal(fileops_reserve_size(space, thick, 1024 * MIB), 0);
    assert_int_equal(fileops_change_begin(space, inode_of(thick), FILEOPS_WRITE, 0, 1024 * MIB, &told), 0);
    world->thin = 2048 * MIB;
    world->others = 1000 * MIB;
    looks_refuse(space, 4, false);
    fileops_change_end(space, &told, 0);
    looks_refuse(space, 1, true);
    close_books(space, world, thick, thin);
}

/* A promised file that can't be opened, or is open and has no name any more, counts as having nothing: nobody is refused for that. */
static void what_can_not_be_seen_refuses_nobody(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ESTALE};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct world *world = make_world();
        struct fileops_space *space = open_books(world);
        const int thick = open_file(world, 0), thin = open_file(world, 1);
        assert_int_equal(fileops_reserve_size(space, thick, 1024 * MIB), 0);
        if (errors[i] == ESTALE)
            fileops_file_removed(space, inode_of(thick), true);
        opening_fails = errors[i];
        world->thin = 1024 * MIB; /* what it has */
        world->others = POOL - 1700 * MIB;
        looks_refuse(space, 4, false);
        assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
        opening_fails = 0; /* seen, it has nothing: now that is certain */
        looks_refuse(space, 2, true);
        close_books(space, world, thick, thin);
    }
}

/* What was found before a look that failed, or before the last promise went, says nothing. */
static void refusals_are_counted_anew(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    assert_int_equal(fileops_reserve(space, thick, NULL), 0);
    for (int round = 0; round < 2; round++) {
        world->refuses = true;
        world->held = status_of(space).needed_bytes;
        for (int i = 0; i < 12; i++)
            assert_int_equal(fileops_space_maintain(space), 0);
        assert_int_equal(space->contradicted.looks, 12);
        space->contradicted.since -= 60000; /* in place of waiting */
        if (round == 0) {
            world->silent = ETIMEDOUT;
            assert_int_equal(fileops_space_maintain(space), ETIMEDOUT);
            world->silent = 0;
        } else {
            world->refuses = false;
            assert_int_equal(fileops_unreserve(space, thick), 0);
            assert_false(space->no_more);
            assert_int_equal(fileops_reserve(space, thick, NULL), 0);
            world->refuses = true;
            world->held = status_of(space).needed_bytes;
        }
        assert_int_equal(fileops_space_maintain(space), 0);
        assert_int_equal(space->contradicted.looks, 1);
        assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
        world->refuses = false;
        assert_int_equal(fileops_space_maintain(space), 0);
    }
    close_books(space, world, thick, thin);
}

/* What others write, and have not ended, takes nothing from who asks for room. */
static void others_who_write_starve_nobody(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    static const uint64_t lengths[] = {64 * MIB, 2 * MIB, 1 * MIB};
    struct fileops_change told[3];
    world->others = POOL - 400 * MIB;
    assert_int_equal(fileops_reserve(space, thick, NULL), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    for (int i = 0; i < 3; i++) {
        atomic_store(&space->looked, 0); /* in place of waiting until there may be another look */
        assert_int_equal(fileops_change_begin(space, inode_of(thin), FILEOPS_WRITE, 0, lengths[i], &told[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        fileops_change_end(space, &told[i], 0);
    close_books(space, world, thick, thin);
}

/* For no reason that the figures tell. */
static void nobody_is_told_to_ask_again_for_ever(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    assert_int_equal(fileops_reserve(space, thick, NULL), 0);
    world->refuses = true;
    world->held = status_of(space).needed_bytes;
    for (int i = 0; i < 12; i++)
        assert_int_equal(fileops_space_maintain(space), 0);
    space->contradicted.since += 3600000; /* however slow the machine is, the first was just now */
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
    space->contradicted.since -= 3600000 + 60000; /* in place of waiting */
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), ENOSPC);
    /* A holder that does not answer is another matter. */
    world->silent = ETIMEDOUT;
    assert_int_equal(fileops_space_maintain(space), ETIMEDOUT);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), EAGAIN);
    world->silent = 0;
    world->refuses = false;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(change(space, thin, FILEOPS_WRITE, 0, 4096), 0);
    close_books(space, world, thick, thin);
}

/* More than looks let thin files take on their own. */
static void one_change_may_take_what_is_there(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int thick = open_file(world, 0), thin = open_file(world, 1);
    assert_int_equal(fileops_reserve(space, thick, NULL), 0);
    assert_int_equal(change(space, thin, FILEOPS_ALLOCATE, 0, 2048 * MIB), 0);
    world->thin += 2048 * MIB;
    assert_true(world->held >= world->thin + BLOCKS * BLOCK);
    /* Nor then is more taken than there is. */
    assert_int_equal(change(space, thin, FILEOPS_ALLOCATE, 0, 2048 * MIB), ENOSPC);
    atomic_store(&space->looked, 0); /* in place of waiting until there may be another look */
    assert_int_equal(change(space, thin, FILEOPS_ALLOCATE, 0, 1024 * MIB), 0);
    world->thin += 1024 * MIB;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(world->held >= world->thin + BLOCKS * BLOCK);
    assert_string_equal(status_of(space).problem, "");
    close_books(space, world, thick, thin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pool_makes_few_looks),
        cmocka_unit_test(much_is_free_and_nobody_is_refused),
        cmocka_unit_test(a_thin_file_that_was_refused_waits_for_the_pool_once),
        cmocka_unit_test(what_promises_still_need_is_no_room_for_others),
        cmocka_unit_test(what_may_be_counted_twice_refuses_nobody),
        cmocka_unit_test(each_copy_may_be_counted_twice),
        cmocka_unit_test(what_can_not_be_seen_refuses_nobody),
        cmocka_unit_test(refusals_are_counted_anew),
        cmocka_unit_test(others_who_write_starve_nobody),
        cmocka_unit_test(nobody_is_told_to_ask_again_for_ever),
        cmocka_unit_test(one_change_may_take_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
