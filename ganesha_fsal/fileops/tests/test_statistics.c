/* Statistics on a file system that counts blocks only once they are in the pool. */
#include "world.h"

#include <sys/vfs.h>

int __real_fstatfs64(int file, struct statfs *file_system);
int __wrap_fstatfs64(int file, struct statfs *file_system);
int __real_fstat64(int file, struct stat *status);
int __wrap_fstat64(int file, struct stat *status);

static bool counts_late; /* as ZFS does: a settle later */
static uint64_t settles_before;

int __wrap_fstatfs64(int file, struct statfs *file_system)
{
    const int failed = __real_fstatfs64(file, file_system);
    if (counts_late)
        file_system->f_type = ZFS_SUPER_MAGIC;
    return failed;
}

int __wrap_fstat64(int file, struct stat *status)
{
    const int failed = __real_fstat64(file, status);
    if (counts_late && S_ISREG(status->st_mode) && the_world->settles == settles_before)
        status->st_blocks = 1;
    return failed;
}

static int write_some(const struct world *world, int number)
{
    const char data[8192] = {1};
    const int file = open_file(world, number);
    assert_int_equal(pwrite(file, data, sizeof data, 0), sizeof data);
    return file;
}

static void what_was_just_written_is_in_the_figures(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int file = write_some(world, 0);
    struct fileops_statistics statistics;
    counts_late = true;
    settles_before = world->settles;
    assert_int_equal(fileops_statistics(space, file, &statistics), 0);
    assert_true(statistics.allocated >= 8192);
    assert_int_equal(world->settles, settles_before + 1);

    /* What can't be waited for is not told. */
    world->silent = ETIMEDOUT;
    settles_before = world->settles;
    assert_int_equal(fileops_statistics(space, file, &statistics), EAGAIN);
    assert_int_equal(statistics.allocated, 0);
    assert_int_equal(fileops_statistics(NULL, file, &statistics), EAGAIN);

    /* Elsewhere nothing is waited for. */
    counts_late = false;
    settles_before = world->settles;
    assert_int_equal(fileops_statistics(space, file, &statistics), 0);
    assert_true(statistics.allocated >= 8192);
    assert_int_equal(world->settles, settles_before);
    world->silent = 0;
    close(file);
    fileops_space_close(space);
    remove_world(world);
}

static void a_new_clone_is_looked_at(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = NULL;
    struct fileops_statistics statistics;
    const struct space_segment segment = {0, BLOCKS * BLOCK};
    the_world = world;
    assert_int_equal(fileops_space_open(world->root, &(struct fileops_space_options){.find_holder = find_simulated}, &space), 0);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCKS * BLOCK};
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    model_clone(&world->now, 0, 0, 1, 0, BLOCKS);
    space_share_end(&share, true);
    const int64_t begun = space_milliseconds();
    assert_int_equal(fileops_statistics(space, other, &statistics), 0);
    assert_true(statistics.unique_exact);
    assert_int_equal(statistics.unique, 0);
    assert_in_range(space_milliseconds() - begun, 0, 4000);

    /* Not for ever. */
    world->silent = ETIMEDOUT;
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    space_share_end(&share, true);
    assert_int_equal(fileops_statistics(space, other, &statistics), 0);
    assert_false(statistics.unique_exact);
    world->silent = 0;
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_just_written_is_in_the_figures),
        cmocka_unit_test(a_new_clone_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
