/* Books of many promised files: what is asked of each of them, and that nothing they have is missed. */
#include "world.h"

#define MANY 520 /* beyond two measures of others */
#define AT_ONCE 256u /* as space_sums.c */

int __real_open_by_handle_at(int mount, struct file_handle *handle, int flags);
int __wrap_open_by_handle_at(int mount, struct file_handle *handle, int flags);

static unsigned opened; /* files by the books */

int __wrap_open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
    opened++;
    return __real_open_by_handle_at(mount, handle, flags);
}

static struct world *world;
static struct fileops_space *space;

/* Empty but for their size, and promised. */
static int promise_many(void **state)
{
    (void)state;
    setenv("TMPDIR", "/dev/shm", 1); /* a thousand commits, and blocks as they were written */
    world = make_world();
    space = open_books(world);
    int error = space ? 0 : EIO;
    for (int i = 0; i < MANY && !error; i++) {
        const int file = open_file(world, i);
        error = fileops_reserve(space, file, NULL);
        close(file);
    }
    return error;
}

static int end(void **state)
{
    (void)state;
    fileops_space_close(space);
    remove_world(world);
    return 0;
}

static void write_blocks(int file)
{
    static const char data[BLOCKS * BLOCK] = {1};
    assert_int_equal(pwrite(file, data, sizeof data, 0), sizeof data);
}

/* The file that a look comes to last, unless it is touched. */
static int open_last(void)
{
    const uint64_t inode = TAILQ_LAST(&space->untouched, space_files)->row.inode;
    int file;
    for (int i = 0; inode_of(file = open_file(world, i)) != inode; i++)
        close(file);
    return file;
}

static uint64_t allocated(void)
{
    assert_sums(space);
    return (uint64_t)space->sum_allocated;
}

static void a_promise_and_a_look_open_few(void **state)
{
    (void)state;
    assert_int_equal(fileops_space_maintain(space), 0); /* the last that was promised */
    const int one = open_file(world, MANY);
    opened = 0;
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    assert_in_range(opened, 1, 2 * AT_ONCE + 2);
    opened = 0;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_in_range(opened, AT_ONCE, AT_ONCE + 2);
    assert_int_equal(status_of(space).thick_files, MANY + 1);
    assert_int_equal(status_of(space).thick_bytes, (MANY + 1) * BLOCKS * BLOCK);
    /* What they cost may change for all at once. */
    world->copies = 2;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_true(status_of(space).needed_bytes >= 2 * (MANY + 1) * BLOCKS * BLOCK);
    assert_sums(space);
    world->copies = 1;
    assert_int_equal(fileops_unreserve(space, one), 0);
    close(one);
}

static void what_they_have_is_known(void **state)
{
    (void)state;
    struct fileops_change told;
    for (int i = 0; i < 2; i++)
        assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(allocated(), 0);
    const int one = open_last(), other = open_file(world, 4), removed = open_file(world, 5);
    /* While it is written, and after, until what was written is in the pool. */
    assert_int_equal(fileops_change_begin(space, inode_of(one), FILEOPS_WRITE, 0, BLOCKS * BLOCK, &told), 0);
    write_blocks(one);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(allocated(), BLOCKS * BLOCK);
    assert_int_equal(ftruncate(one, 0), 0);
    fileops_change_end(space, &told, 0);
    assert_int_equal(space_grow_promise(space, inode_of(other), BLOCKS * BLOCK + 1), 0); /* looks, and waits for no pool */
    assert_int_equal(allocated(), 0);
    write_blocks(one); /* as if the pool had it only now */
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(allocated(), BLOCKS * BLOCK);
    /* What nobody told of is found by some looks: one here, and gone there. */
    write_blocks(removed);
    for (int looks = 0; looks < 8 && allocated() < 2 * BLOCKS * BLOCK; looks++)
        assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(allocated(), 2 * BLOCKS * BLOCK);
    char path[300];
    snprintf(path, sizeof path, "%s/f5", world->root);
    assert_int_equal(unlink(path), 0);
    close(removed);
    for (int looks = 0; looks < 8 + 2 && status_of(space).thick_files == MANY; looks++)
        assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(status_of(space).thick_files, MANY - 1);
    assert_int_equal(allocated(), BLOCKS * BLOCK);
    assert_int_equal(fileops_unreserve(space, one), 0);
    assert_int_equal(allocated(), 0);
    close(one);
    close(other);
}

/* Number of the last change that was noted of a file, which is looked at next. */
static uint64_t noted(int file)
{
    pthread_mutex_lock(&space->state);
    const struct known_file *known = space_find(space, inode_of(file));
    const uint64_t touch = known->touched ? known->touch : 0;
    pthread_mutex_unlock(&space->state);
    return touch;
}

/* Both when it begins and when it ends: what it does to blocks may come to the pool before or after. */
static void what_may_change_blocks_is_noted(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(fileops_space_maintain(space), 0);
    const int one = open_last(), other = open_file(world, 7);
    const struct space_segment block = {0, BLOCK};
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCK};
    uint64_t last = noted(one), first = noted(other);
    assert_int_equal(last, 0);
    assert_int_equal(first, 0);
    assert_int_equal(space_share_begin(&share, one, other, 0, &block, 1), 0);
    assert_true(noted(one) > last && noted(other) > first);
    last = noted(one), first = noted(other);
    space_share_end(&share, true);
    assert_true(noted(one) > last && noted(other) > first);
    last = noted(one);
    fileops_file_removed(space, inode_of(one), true);
    assert_true(noted(one) > last);
    last = noted(one);
    fileops_file_closed(space, inode_of(one));
    assert_true(noted(one) > last);
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_sums(space);
    close(one);
    close(other);
}

/* Some have more than the books know, for some looks, where local programs write to many: who writes thin files is not refused for that. */
static void what_was_not_looked_at_refuses_nobody(void **state)
{
    (void)state;
    const int one = open_file(world, 0);
    assert_int_equal(fileops_reserve_size(space, one, 1536 * MIB), 0);
    world->copies = 3;
    for (int looks = 0; looks < 4; looks++)
        assert_int_equal(fileops_space_maintain(space), ENOSPC);
    assert_int_equal(space->contradicted.looks, 4);
    assert_int_equal(space->short_of.looks, 0);
    world->copies = 1;
    close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_promise_and_a_look_open_few),
        cmocka_unit_test(what_they_have_is_known),
        cmocka_unit_test(what_was_not_looked_at_refuses_nobody),
        cmocka_unit_test(what_may_change_blocks_is_noted),
    };
    return cmocka_run_group_tests(tests, promise_many, end);
}
