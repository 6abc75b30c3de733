/* The books of a dataset beside the naive model, on any file system, with a holder that simulates a pool: random operations, and a
 * crash at each step the holder sees. */
#include "world.h"

/* What is not promised grows, as far as it is let. */
static void write_thin(struct fileops_space *space, struct world *world, uint64_t length)
{
    struct fileops_change change;
    char path[300];
    snprintf(path, sizeof path, "%s/thin", world->root);
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    if (!fileops_change_begin(space, inode_of(file), FILEOPS_WRITE, 0, length, &change)) {
        world->thin += length;
        fileops_change_end(space, &change, 0);
    }
    close(file);
}

/* One random operation; what it does to blocks is done to the model at the moment it would be done. */
static void operate(struct fileops_space *space, struct world *world, uint64_t *random)
{
    const int source = (int)choose(random, FILES), destination = (int)choose(random, FILES);
    const uint64_t count = 1 + choose(random, BLOCKS / 2), from = choose(random, BLOCKS - count + 1), to = choose(random, BLOCKS - count + 1);
    const int one = open_file(world, source), other = open_file(world, destination);
    struct fileops_change change;
    switch (choose(random, 11)) {
    case 0:
    case 1:
    case 2:
        if (source != destination) {
            struct space_share share = {.source_space = space, .destination_space = space, .destination_offset = to * BLOCK, .length = count * BLOCK};
            const struct space_segment segment = {from * BLOCK, count * BLOCK};
            if (!space_share_begin(&share, one, other, from * BLOCK, &segment, 1)) {
                const bool works = choose(random, 5) != 0;
                if (choose(random, 4) == 0)
                    fileops_space_maintain(space);
                if (works)
                    model_clone(&world->now, source, from, destination, to, count);
                space_share_end(&share, works);
            }
        }
        break;
    case 3: /* a write of the source goes on while it is cloned, and comes before that or after */
        if (source != destination && !fileops_change_begin(space, inode_of(one), FILEOPS_WRITE, from * BLOCK, count * BLOCK, &change)) {
            struct space_share share = {.source_space = space, .destination_space = space, .destination_offset = to * BLOCK, .length = count * BLOCK};
            const struct space_segment segment = {from * BLOCK, count * BLOCK};
            const bool before = choose(random, 2);
            if (before)
                model_write(&world->now, source, from, count);
            if (!space_share_begin(&share, one, other, from * BLOCK, &segment, 1)) {
                model_clone(&world->now, source, from, destination, to, count);
                space_share_end(&share, true);
            }
            if (!before)
                model_write(&world->now, source, from, count);
            fileops_change_end(space, &change, 0);
        }
        break;
    case 4:
        if (!fileops_change_begin(space, inode_of(other), FILEOPS_WRITE, to * BLOCK + 100, (count - 1) * BLOCK + 200, &change)) {
            model_write(&world->now, destination, to, count);
            fileops_change_end(space, &change, 0);
        }
        break;
    case 5:
        if (!fileops_reserve(space, one, NULL))
            world->thick[source] = true;
        break;
    case 6:
        if (choose(random, 2)) {
            char path[300];
            snprintf(path, sizeof path, "%s/f%d", world->root, source);
            const uint64_t inode = inode_of(one);
            unlink(path);
            world->thick[source] = false;
            world->gone[source] = true;
            model_write(&world->now, source, 0, BLOCKS);
            /* Told by a daemon that lives; the repair finds it out by itself. */
            fileops_file_removed(space, inode, false);
        } else {
            world->thick[source] = false;
            fileops_unreserve(space, one);
        }
        break;
    case 7: /* a file grows; its promise, if it has one, comes first */
        if (!fileops_change_begin(space, inode_of(one), FILEOPS_WRITE, BLOCKS * BLOCK, 1 + choose(random, 80 * MIB), &change)) {
            if (world->thick[source])
                fileops_change_end(space, &change, 0);
            else
                fileops_change_end(space, &change, EIO);
        }
        break;
    case 8:
        write_thin(space, world, choose(random, 24) * MIB);
        break;
    default:
        if (choose(random, 6) == 0)
            world->thin = 0;
        fileops_space_maintain(space);
    }
    close(one);
    close(other);
}

static void check(struct fileops_space *space, const struct world *world)
{
    struct fileops_space_status status;
    fileops_space_status(space, &status);
    const uint64_t now = model_bytes(&world->now), stable = model_bytes(&world->stable);
    const uint64_t needed = model_needed(&world->now, world->thick), stable_needed = model_needed(&world->stable, world->thick);
    assert_sums(space);
    assert_true(status.shared_bytes >= now);
    assert_true(status.shared_bytes >= stable);
    /* What is held is enough to overwrite all that is promised, with what thin files took already. */
    if (status.thick_files && !status.problem[0])
        assert_true(world->held >= (needed > stable_needed ? needed : stable_needed) + status.thick_bytes + world->thin);
    for (int file = 0; file < FILES; file++)
        if (world->thick[file]) {
            struct fileops_statistics statistics;
            const int opened = open_file(world, file);
            assert_int_equal(fileops_statistics(space, opened, &statistics), 0);
            assert_true(statistics.reserved >= BLOCKS * BLOCK);
            close(opened);
        }
}

static void equals_the_model_once_settled(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    struct fileops_space_status status;
    uint64_t random = seed_of_run();
    assert_non_null(space);
    for (int i = 0; i < 900; i++) {
        if (i % 50 == 0) /* more room, or less */
            world->others = choose(&random, 2) ? 0 : POOL - world->held - world->thin - choose(&random, 512) * MIB;
        if (world->others > POOL)
            world->others = 0;
        operate(space, world, &random);
        check(space, world);
    }
    /* Every block is overwritten, so that nothing of failed clones stays. */
    for (int file = 0; file < FILES; file++) {
        struct fileops_change change;
        const int opened = open_file(world, file);
        assert_int_equal(fileops_change_begin(space, inode_of(opened), FILEOPS_WRITE, 0, BLOCKS * BLOCK, &change), 0);
        fileops_change_end(space, &change, 0);
        model_write(&world->now, file, 0, BLOCKS);
        assert_int_equal(fileops_unreserve(space, opened), 0);
        close(opened);
    }
    assert_int_equal(fileops_space_maintain(space), 0);
    fileops_space_status(space, &status);
    assert_int_equal(status.shared_bytes, 0);
    assert_int_equal(world->held, 0);
    fileops_space_close(space);
    remove_world(world);
}

static void a_crash_at_each_step_never_counts_too_little(void **state)
{
    (void)state;
    const uint64_t steps = getenv("ZVAAI_LONG") ? 2000 : 150;
    struct world *world = make_world();
    uint64_t crashes = 0;
    for (uint64_t crash_at = 1; crash_at <= steps; crash_at++) {
        world->steps = 0;
        world->crash_at = crash_at % 40 + 1;
        const pid_t child = fork();
        if (child == 0) {
            uint64_t random = seed_of_run() + crash_at * 7919;
            struct fileops_space *space = open_books(world);
            if (!space)
                _exit(3);
            for (int i = 0; i < 30; i++)
                operate(space, world, &random);
            _exit(0); /* as a crash: nothing is closed */
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
        crashes += WIFSIGNALED(status);
        world->crash_at = 0;
        struct fileops_space *space = open_books(world);
        assert_non_null(space);
        for (int file = 0; file < FILES; file++)
            if (world->gone[file]) {
                model_write(&world->stable, file, 0, BLOCKS);
                world->gone[file] = false;
            }
        check(space, world);
        struct fileops_space_status books;
        fileops_space_status(space, &books);
        assert_int_equal(books.foreign_changes, 0);
        /* Begin anew now and then, as what a crash left uncertain stays counted. */
        if (crash_at % 10 == 0) {
            fileops_space_close(space);
            remove_world(world);
            world = make_world();
        } else {
            fileops_space_close(space);
        }
    }
    assert_true(crashes > steps / 2);
    remove_world(world);
}

struct crowd {
    struct fileops_space *space;
    const struct world *world;
    uint64_t random;
};

static void *change_files(void *context)
{
    struct crowd *crowd = context;
    for (int i = 0; i < 400; i++) {
        const int source = (int)choose(&crowd->random, FILES), destination = (int)choose(&crowd->random, FILES);
        const int one = open_file(crowd->world, source), other = open_file(crowd->world, destination);
        struct fileops_change change;
        struct space_share share = {.source_space = crowd->space, .destination_space = crowd->space, .length = BLOCKS * BLOCK};
        const struct space_segment segment = {0, BLOCKS * BLOCK};
        const uint64_t kind = choose(&crowd->random, 16);
        if (kind == 0 && source != destination && !space_share_begin(&share, one, other, 0, &segment, 1))
            space_share_end(&share, true);
        else if (kind == 1)
            fileops_reserve(crowd->space, one, NULL);
        else if (kind == 2)
            fileops_unreserve(crowd->space, one);
        else if (!fileops_change_begin(crowd->space, inode_of(one), kind == 3 ? FILEOPS_DEALLOCATE : FILEOPS_WRITE,
                                       choose(&crowd->random, BLOCKS) * BLOCK, BLOCK, &change))
            fileops_change_end(crowd->space, &change, 0);
        close(one);
        close(other);
    }
    return NULL;
}

/* Also to be run with a thread sanitizer. */
static void many_threads_leave_right_books(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space;
    struct fileops_space_status status;
    pthread_t threads[4];
    struct crowd crowds[4];
    the_world = world;
    assert_int_equal(fileops_space_open(world->root, &(struct fileops_space_options){.find_holder = find_simulated}, &space), 0);
    for (int i = 0; i < 4; i++) {
        crowds[i] = (struct crowd){space, world, seed_of_run() + (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, change_files, &crowds[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_sums(space);
    for (int file = 0; file < FILES; file++) {
        struct fileops_change change;
        const int opened = open_file(world, file);
        assert_int_equal(fileops_change_begin(space, inode_of(opened), FILEOPS_WRITE, 0, BLOCKS * BLOCK, &change), 0);
        fileops_change_end(space, &change, 0);
        assert_int_equal(fileops_unreserve(space, opened), 0);
        close(opened);
    }
    assert_int_equal(fileops_space_maintain(space), 0);
    fileops_space_status(space, &status);
    assert_int_equal(status.thick_files + status.shared_bytes + world->held, 0);
    fileops_space_close(space);
    remove_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_model_once_settled),
        cmocka_unit_test(a_crash_at_each_step_never_counts_too_little),
        cmocka_unit_test(many_threads_leave_right_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
