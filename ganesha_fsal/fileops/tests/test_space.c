/* The books of a dataset: single cases, with a pool that is simulated. */
#include "world.h"

static void refuses_what_it_cannot_promise(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    struct fileops_space_status status;
    struct fileops_change change;
    assert_non_null(space);
    const int one = open_file(world, 0), other = open_file(world, 1);
    world->others = POOL - (UINT64_C(3) << 20);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    const uint64_t held = world->held;
    /* A larger file is refused before anything is written, and a clone that could not be backed too. */
    assert_int_equal(fileops_change_begin(space, inode_of(one), FILEOPS_WRITE, POOL, 1, &change), ENOSPC);
    struct space_share share = {.source_space = space, .destination_space = space, .length = POOL};
    const struct space_segment all = {0, POOL};
    assert_int_equal(space_share_begin(&share, one, other, 0, &all, 1), ENOSPC);
    fileops_space_status(space, &status);
    assert_int_equal(status.shared_bytes, 0);
    assert_true(world->held >= status.needed_bytes);
    /* A thin file may take what is left beyond promises, and no more. */
    uint64_t taken = 0;
    while (!fileops_change_begin(space, inode_of(other), FILEOPS_WRITE, taken, 1 << 20, &change)) {
        fileops_change_end(space, &change, ENOSPC); /* nothing was written: a look finds that out */
        taken += 1 << 20;
        if (taken > POOL)
            break;
    }
    assert_true(held > 0);
    assert_int_equal(fileops_unreserve(space, one), 0);
    assert_int_equal(fileops_change_begin(space, inode_of(other), FILEOPS_WRITE, 0, UINT64_C(1) << 40, &change), 0);
    fileops_change_end(space, &change, 0);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

static void tells_of_a_change_behind_its_back(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    struct fileops_space_status status;
    assert_non_null(space);
    const int one = open_file(world, 0);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    const uint64_t held = world->held;
    world->held = 0;
    assert_int_equal(fileops_space_maintain(space), 0);
    fileops_space_status(space, &status);
    assert_int_equal(status.foreign_changes, 1);
    assert_true(world->held >= BLOCKS * BLOCK && held >= BLOCKS * BLOCK);
    close(one);
    fileops_space_close(space);
    world->held = 5;
    space = open_books(world);
    assert_non_null(space);
    fileops_space_status(space, &status);
    assert_int_equal(status.foreign_changes, 1);
    assert_true(world->held >= BLOCKS * BLOCK);
    fileops_space_close(space);
    remove_world(world);
}

static void a_removed_file_that_is_open_keeps_its_promise(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    struct fileops_space_status status;
    char path[300];
    assert_non_null(space);
    const int one = open_file(world, 0);
    const uint64_t inode = inode_of(one);
    assert_int_equal(fileops_reserve(space, one, NULL), 0);
    snprintf(path, sizeof path, "%s/f0", world->root);
    unlink(path);
    fileops_file_removed(space, inode, true);
    assert_int_equal(fileops_space_maintain(space), 0);
    fileops_space_status(space, &status);
    assert_int_equal(status.thick_files, 1);
    close(one);
    fileops_file_closed(space, inode);
    assert_int_equal(fileops_space_maintain(space), 0);
    fileops_space_status(space, &status);
    assert_int_equal(status.thick_files, 0);
    assert_int_equal(world->held, 0);
    fileops_space_close(space);
    remove_world(world);
}

struct attempt {
    struct fileops_space *space;
    uint64_t inode;
    _Atomic int begun;
};

static void *free_blocks(void *context)
{
    struct attempt *attempt = context;
    struct fileops_change change;
    assert_int_equal(fileops_change_begin(attempt->space, attempt->inode, FILEOPS_DEALLOCATE, 0, BLOCK, &change), 0);
    attempt->begun = 1;
    fileops_change_end(attempt->space, &change, 0);
    return NULL;
}

/* Neither frees blocks while the other is under way: openzfs#18853. */
static void blocks_are_not_freed_while_they_are_cloned(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    struct fileops_change change;
    pthread_t thread;
    assert_non_null(space);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCK};
    const struct space_segment segment = {0, BLOCK};
    struct attempt attempt = {.space = space, .inode = inode_of(one)};
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, free_blocks, &attempt), 0);
    for (int i = 0; i < 20; i++) { /* time for it to do wrong; when it is slow, nothing is shown */
        usleep(5000);
        assert_int_equal(attempt.begun, 0);
    }
    space_share_end(&share, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt.begun, 1);
    /* And the other way round: the clone gives up, to be copied. */
    assert_int_equal(fileops_change_begin(space, inode_of(one), FILEOPS_TRUNCATE, 0, 0, &change), 0);
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), EBUSY);
    fileops_change_end(space, &change, 0);
    /* Those of other files keep no clone away, however many there are. */
    const int third = open_file(world, 2);
    assert_int_equal(fileops_change_begin(space, inode_of(third), FILEOPS_DEALLOCATE, 0, BLOCK, &change), 0);
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    fileops_change_end(space, &change, 0);
    space_share_end(&share, true);
    close(third);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

static void a_file_much_written_at_random_is_cloned_again(void **state)
{
    (void)state;
    enum { PIECES = 6000 };
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1), third = open_file(world, 2);
    const uint64_t length = 2 * PIECES * BLOCK;
    struct space_share share = {.source_space = space, .destination_space = space, .length = length};
    const struct space_segment all = {0, length};
    assert_int_equal(space_share_begin(&share, one, other, 0, &all, 1), 0);
    space_share_end(&share, true);
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < PIECES; i++)
            assert_int_equal(change(space, other, FILEOPS_WRITE, 2 * i * BLOCK, BLOCK), 0);
        /* Before the look and after it. */
        assert_int_equal(space_share_begin(&share, other, third, 0, &all, 1), 0);
        space_share_end(&share, true);
        assert_int_equal(fileops_space_maintain(space), 0);
        assert_int_equal(space_share_begin(&share, other, third, 0, &all, 1), 0);
        space_share_end(&share, true);
        assert_true(status_of(space).shared_bytes >= length);
    }
    close(one);
    close(other);
    close(third);
    fileops_space_close(space);
    remove_world(world);
}

static void *wait_to_free(void *context)
{
    struct attempt *attempt = context;
    struct fileops_change change;
    const int error = fileops_change_begin(attempt->space, attempt->inode, FILEOPS_DEALLOCATE, 0, BLOCK, &change);
    if (!error)
        fileops_change_end(attempt->space, &change, 0);
    attempt->begun = error ? error : -1;
    return NULL;
}

/* Each keeps a thread of the server: beyond some, they are told to come again at once. */
static void few_deallocations_wait_for_a_clone(void **state)
{
    (void)state;
    enum { WAITING = 16, ALL = 40 };
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCK};
    const struct space_segment segment = {0, BLOCK};
    struct attempt attempts[ALL];
    pthread_t threads[ALL];
    int busy = 0, done = 0;
    assert_int_equal(space_share_begin(&share, one, other, 0, &segment, 1), 0);
    for (int i = 0; i < ALL; i++) {
        attempts[i] = (struct attempt){.space = space, .inode = inode_of(one)};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_to_free, &attempts[i]), 0);
    }
    for (int i = 0; i < 6000 && busy < ALL - WAITING; i++) {
        usleep(10000);
        busy = 0;
        for (int j = 0; j < ALL; j++)
            busy += attempts[j].begun == EBUSY;
    }
    assert_int_equal(busy, ALL - WAITING);
    space_share_end(&share, true);
    for (int i = 0; i < ALL; i++) {
        pthread_join(threads[i], NULL);
        done += attempts[i].begun == -1;
    }
    assert_int_equal(done, WAITING);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

/* A call that shares counts until a transaction group that began after its end is over. */
static void clones_wait_their_turn(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const uint64_t available = 100 * MIB;
    space_turn_begin(space, 40 * MIB, available);
    assert_int_equal(space_settle(space), 0);
    /* The first one is still under way. */
    uint64_t settles = world->settles;
    space_turn_begin(space, 5 * MIB, available);
    assert_int_equal(world->settles, settles);
    space_turn_begin(space, 20 * MIB, available);
    assert_true(world->settles > settles);
    space_turn_end(space, 40 * MIB);
    space_turn_end(space, 5 * MIB);
    space_turn_end(space, 20 * MIB);
    /* Waiting for it twice gives back once. */
    assert_int_equal(space_settle(space), 0);
    assert_int_equal(space_settle(space), 0);
    settles = world->settles;
    space_turn_begin(space, 45 * MIB, available);
    assert_int_equal(world->settles, settles);
    space_turn_end(space, 45 * MIB);
    space_turn_begin(space, 10 * MIB, available);
    assert_int_equal(world->settles, settles + 1);
    space_turn_end(space, 10 * MIB);
    fileops_space_close(space);
    remove_world(world);
}

/* What a look needs takes longer than many clones: it waits for their end, but for who asks. */
static void clones_alone_make_no_look_while_they_come(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int template = open_file(world, 0);
    const struct space_segment all = {0, BLOCKS * BLOCK};
    const uint64_t settles = world->settles, reads = world->reads;
    for (int file = 1; file < FILES; file++) {
        const int clone = open_file(world, file);
        struct space_share share = {.source_space = space, .destination_space = space, .length = BLOCKS * BLOCK};
        assert_int_equal(space_share_begin(&share, template, clone, 0, &all, 1), 0);
        space_share_end(&share, true);
        assert_int_equal(space_maintain(space, false), 0);
        close(clone);
    }
    assert_int_equal(world->settles, settles);
    assert_int_equal(world->reads, reads);
    assert_int_equal(space_maintain(space, false), 0);
    assert_int_equal(world->settles, settles + 1);
    assert_int_equal(world->reads, reads + 1);
    close(template);
    fileops_space_close(space);
    remove_world(world);
}

/* Across datasets, where the second books refuse: the first have counted, and nothing was shared. */
static void what_one_side_refuses_the_other_forgets(void **state)
{
    (void)state;
    struct world *from_world = make_world(), *to_world = make_world();
    struct fileops_space *from = open_books(from_world), *to = open_books(to_world);
    const int source = open_file(from_world, 0), destination = open_file(to_world, 0);
    struct space_share share = {.source_space = from, .destination_space = to, .length = 512 * MIB};
    const struct space_segment all = {0, 512 * MIB};
    assert_int_equal(fileops_reserve(from, source, NULL), 0);
    from_world->others = POOL - 64 * MIB;
    assert_int_equal(space_share_begin(&share, source, destination, 0, &all, 1), ENOSPC);
    assert_int_equal(status_of(from).shared_bytes, 0);
    assert_int_equal(status_of(to).shared_bytes, 0);
    fileops_space_close(to);
    to = open_books(to_world);
    assert_int_equal(status_of(to).shared_bytes, 0);
    share.destination_space = to;
    from_world->others = 0;
    assert_int_equal(space_share_begin(&share, source, destination, 0, &all, 1), 0);
    space_share_end(&share, true);
    assert_int_equal(status_of(to).shared_bytes, 512 * MIB);
    close(source);
    close(destination);
    fileops_space_close(from);
    fileops_space_close(to);
    remove_world(from_world);
    remove_world(to_world);
}

static off_t ledger_size(const struct world *world)
{
    struct stat status;
    char path[300];
    snprintf(path, sizeof path, "%s/" FILEOPS_FOLDER "/ledger.sqlite", world->root);
    assert_int_equal(stat(path, &status), 0);
    const off_t size = status.st_size;
    snprintf(path, sizeof path, "%s/" FILEOPS_FOLDER "/ledger.sqlite-wal", world->root);
    return size + (stat(path, &status) ? 0 : status.st_size);
}

static void the_ledger_becomes_smaller_again(void **state)
{
    (void)state;
    enum { PIECES = 1000, ROUNDS = 40 };
    struct world *world = make_world();
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct space_segment *segments = calloc(PIECES, sizeof *segments);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t from = round * PIECES * 2 * BLOCK;
        struct space_share share = {.source_space = space, .destination_space = space, .destination_offset = from, .length = PIECES * 2 * BLOCK};
        for (uint64_t i = 0; i < PIECES; i++)
            segments[i] = (struct space_segment){from + 2 * i * BLOCK, BLOCK};
        assert_int_equal(space_share_begin(&share, one, other, from, segments, PIECES), 0);
        space_share_end(&share, true);
    }
    const off_t large = ledger_size(world);
    assert_true(large > (off_t)(ROUNDS * PIECES * 2 * 16));
    for (int file = 0; file < 2; file++)
        assert_int_equal(change(space, file ? other : one, FILEOPS_WRITE, 0, UINT64_C(2) * ROUNDS * PIECES * BLOCK), 0);
    for (int look = 0; look < 4; look++)
        assert_int_equal(fileops_space_maintain(space), 0);
    assert_int_equal(status_of(space).shared_bytes, 0);
    assert_true(ledger_size(world) < large / 4);
    free(segments);
    close(one);
    close(other);
    fileops_space_close(space);
    space = open_books(world);
    assert_non_null(space);
    assert_int_equal(status_of(space).shared_bytes, 0);
    fileops_space_close(space);
    remove_world(world);
}

/* Across datasets: neither books count what a clone has shared that is no longer there, and both what is. */
static void an_undone_clone_is_forgotten_on_both_sides(void **state)
{
    (void)state;
    struct world *from_world = make_world(), *to_world = make_world();
    struct fileops_space *from = open_books(from_world), *to = open_books(to_world);
    const int source = open_file(from_world, 0), destination = open_file(to_world, 0), other = open_file(to_world, 1);
    struct space_share undone = {.source_space = from, .destination_space = to, .length = 8 * MIB}, kept = undone;
    const struct space_segment all = {0, 8 * MIB};
    assert_int_equal(space_share_begin(&undone, source, destination, 0, &all, 1), 0);
    space_share_end(&undone, false);
    assert_int_equal(space_share_begin(&kept, source, other, 0, &all, 1), 0);
    space_share_end(&kept, true);
    space_share_undo(&undone);
    space_share_undo(&undone); /* nothing is undone twice */
    const uint64_t settles = from_world->settles;
    assert_int_equal(fileops_space_maintain(from), 0);
    assert_int_equal(fileops_space_maintain(to), 0);
    assert_true(from_world->settles > settles);
    assert_int_equal(status_of(from).shared_bytes, 8 * MIB);
    assert_int_equal(status_of(to).shared_bytes, 8 * MIB);
    space_share_undo(&kept);
    fileops_space_maintain(from);
    fileops_space_maintain(to);
    fileops_space_close(from);
    from = open_books(from_world);
    assert_int_equal(status_of(from).shared_bytes, 0);
    assert_int_equal(status_of(to).shared_bytes, 0);
    close(source);
    close(destination);
    close(other);
    fileops_space_close(from);
    fileops_space_close(to);
    remove_world(from_world);
    remove_world(to_world);
}

static void one_process_has_the_books(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_books(world), *second = NULL;
    assert_non_null(space);
    assert_int_equal(fileops_space_open(world->root, NULL, &second), EBUSY);
    fileops_space_close(space);
    assert_int_equal(fileops_space_open(world->root, NULL, &second), 0);
    const int one = open_file(world, 0);
    assert_int_equal(fileops_reserve(second, one, NULL), EOPNOTSUPP);
    close(one);
    fileops_space_close(second);
    remove_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_it_cannot_promise),
        cmocka_unit_test(tells_of_a_change_behind_its_back),
        cmocka_unit_test(a_removed_file_that_is_open_keeps_its_promise),
        cmocka_unit_test(blocks_are_not_freed_while_they_are_cloned),
        cmocka_unit_test(a_file_much_written_at_random_is_cloned_again),
        cmocka_unit_test(few_deallocations_wait_for_a_clone),
        cmocka_unit_test(clones_wait_their_turn),
        cmocka_unit_test(clones_alone_make_no_look_while_they_come),
        cmocka_unit_test(what_one_side_refuses_the_other_forgets),
        cmocka_unit_test(the_ledger_becomes_smaller_again),
        cmocka_unit_test(an_undone_clone_is_forgotten_on_both_sides),
        cmocka_unit_test(one_process_has_the_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
