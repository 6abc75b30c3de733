/* Books on a file system without room, for bytes or for files: a tmpfs of our own. */
#include "world.h"

#include <sched.h>
#include <sys/mount.h>

/* Leaves no byte, or no file that could be made. */
static void fill(const struct world *world)
{
    char path[300];
    char block[4096] = {1};
    snprintf(path, sizeof path, "%s/filler", world->root);
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    while (write(file, block, sizeof block) > 0)
        continue;
    close(file);
}

static void fill_with_files(const struct world *world)
{
    char path[300];
    int number = 0, file;
    do {
        snprintf(path, sizeof path, "%s/filler%.0d", world->root, number++);
        file = open(path, O_RDWR | O_CREAT, 0600);
        if (file >= 0)
            close(file);
    } while (file >= 0);
}

static struct world *make_small_world(const char *options)
{
    struct world *world = make_world();
    assert_int_equal(mount("small", world->root, "tmpfs", 0, options), 0);
    return world;
}

static void remove_small_world(struct world *world)
{
    assert_int_equal(umount(world->root), 0);
    remove_world(world);
}

/* A thick file, and two that share. */
static void make_books(struct world *world, bool leave)
{
    const pid_t child = fork();
    if (child == 0) {
        struct fileops_space *space = open_books(world);
        const int one = open_file(world, 0), other = open_file(world, 1), third = open_file(world, 2);
        struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCKS * BLOCK};
        const struct space_segment all = {0, BLOCKS * BLOCK};
        if (fileops_reserve(space, third, NULL) || space_share_begin(&share, one, other, 0, &all, 1))
            _exit(1);
        space_share_end(&share, true);
        if (!leave)
            fileops_space_close(space);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    model_clone(&world->now, 0, 0, 1, 0, BLOCKS);
}

static void serves_and_counts(struct world *world)
{
    struct fileops_space *space = open_books(world);
    assert_non_null(space);
    struct fileops_space_status status = status_of(space);
    assert_int_equal(status.thick_files, 1);
    assert_int_equal(status.shared_bytes, BLOCKS * BLOCK);
    assert_true(world->held >= 2 * BLOCKS * BLOCK);
    assert_true(status.problem[0]);
    assert_int_equal(status.reservations, FILEOPS_RESERVATIONS_NOT_NOW);
    const int one = open_file(world, 0), other = open_file(world, 1), third = open_file(world, 2);
    assert_int_equal(change(space, third, FILEOPS_WRITE, 0, BLOCK), 0);
    assert_int_equal(fileops_reserve(space, one, NULL), ENOSPC);
    assert_int_equal(fileops_unreserve(space, third), ENOSPC);
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCK};
    const struct space_segment first = {0, BLOCK};
    assert_int_equal(space_share_begin(&share, third, other, 0, &first, 1), ENOSPC);
    /* What could not be marked is not emptied. */
    assert_int_equal(space_unfinished_begin(space, other), ENOSPC);
    space_empty_unfinished(space);
    struct stat found;
    assert_int_equal(fstat(other, &found), 0);
    assert_int_equal(found.st_size, BLOCKS * BLOCK);
    assert_int_equal(change(space, other, FILEOPS_WRITE, 0, BLOCK), 0);
    assert_int_equal(status_of(space).thick_files, 1);
    /* Room again: found by a look. */
    char path[300];
    snprintf(path, sizeof path, "%s/filler", world->root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_false(status_of(space).problem[0]);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    assert_int_equal(fileops_unreserve(space, third), 0);
    fileops_space_close(space);
    space = open_books(world);
    status = status_of(space);
    assert_int_equal(status.thick_files, 1);
    assert_int_equal(status.foreign_changes, 0);
    fileops_space_close(space);
    close(one);
    close(other);
    close(third);
}

static void opens_where_no_byte_can_be_written(void **state)
{
    (void)state;
    struct world *world = make_small_world("size=2m");
    make_books(world, false);
    fill(world);
    serves_and_counts(world);
    remove_small_world(world);
}

static void opens_after_a_crash_where_no_byte_can_be_written(void **state)
{
    (void)state;
    struct world *world = make_small_world("size=2m");
    make_books(world, true);
    fill(world);
    serves_and_counts(world);
    remove_small_world(world);
}

static void opens_where_no_file_can_be_made(void **state)
{
    (void)state;
    struct world *world = make_small_world("size=4m,nr_inodes=12");
    make_books(world, false);
    fill_with_files(world);
    serves_and_counts(world);
    remove_small_world(world);
}

static int make_namespace(void **state)
{
    (void)state;
    return unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_where_no_byte_can_be_written),
        cmocka_unit_test(opens_after_a_crash_where_no_byte_can_be_written),
        cmocka_unit_test(opens_where_no_file_can_be_made),
    };
    return cmocka_run_group_tests(tests, make_namespace, NULL);
}
