/* What is told of the books: at any time, and without a false alarm. */
#include "world.h"

static struct fileops_space *asked;           /* by the holder below, whenever it is called; NULL: not */
static struct fileops_space_status told;      /* the last that was told then */
static bool closed, called_after_closing;     /* of the holder below */
static int setting_error;

static void ask(void)
{
    called_after_closing = called_after_closing || closed;
    if (asked)
        told = status_of(asked);
}

static int asking_settle(void *context)
{
    ask();
    return simulated_settle(context);
}

static int asking_read(void *context, struct fileops_held *figures)
{
    ask();
    return simulated_read(context, figures);
}

static int asking_hold(void *context, uint64_t bytes)
{
    ask();
    return simulated_hold(context, bytes);
}

static unsigned asking_sharers(void *context)
{
    called_after_closing = called_after_closing || closed;
    return simulated_sharers(context);
}

static int failing_setting(void *context, bool *thick)
{
    return setting_error ? setting_error : simulated_setting(context, thick);
}

static void note_closing(void *context)
{
    (void)context;
    closed = true;
}

static int find_asking(const char *root, struct fileops_space_holder *holder)
{
    const int error = find_simulated(root, holder);
    holder->settle = asking_settle;
    holder->read = asking_read;
    holder->hold = asking_hold;
    holder->sharers = asking_sharers;
    holder->read_thick_default = failing_setting;
    holder->close = note_closing;
    closed = called_after_closing = false;
    return error;
}

static struct fileops_space *open_asking(struct world *world)
{
    struct fileops_space *space = NULL;
    the_world = world;
    assert_int_equal(fileops_space_open(world->root, &(struct fileops_space_options){.find_holder = find_asking, .no_thread = true}, &space), 0);
    return space;
}

/* zfs(8) may take 20 s, several times in a row. */
static void is_told_while_a_program_runs(void **state)
{
    (void)state;
    struct world *world = make_world();
    struct fileops_space *space = open_asking(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    alarm(60); /* a status that waits for the look it is asked in waits for ever */
    asked = space;
    assert_int_equal(fileops_reserve_size(space, one, 256 * MIB), 0);
    /* Not before it is promised. */
    assert_int_equal(told.thick_files, 0);
    assert_int_equal(told.held_bytes, 0);
    assert_int_equal(told.reservations, FILEOPS_RESERVATIONS_POSSIBLE);
    assert_int_equal(fileops_reserve_size(space, other, 512 * MIB), 0);
    assert_int_equal(told.thick_files, 1);
    assert_int_equal(told.thick_bytes, 256 * MIB);
    assert_in_range(told.held_bytes, told.needed_bytes, world->held - 256 * MIB);
    world->deduplicates = true;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_string_equal(told.problem, "");
    assert_int_equal(status_of(space).reservations, FILEOPS_RESERVATIONS_NEVER);
    assert_int_equal(fileops_unreserve(space, one), 0);
    assert_non_null(strstr(told.problem, "deduplication"));
    asked = NULL;
    alarm(0);
    assert_int_equal(status_of(space).thick_files, 1);
    assert_int_equal(status_of(space).held_bytes, world->held);
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

/* Indirect blocks of what is overwritten are what slack is for. */
static void a_little_of_the_slack_may_be_missing(void **state)
{
    (void)state;
    struct world *world = make_world();
    world->slack = 128 * MIB;
    struct fileops_space *space = open_books(world);
    const int one = open_file(world, 0);
    assert_int_equal(fileops_reserve_size(space, one, 256 * MIB), 0);
    const uint64_t needed = status_of(space).needed_bytes;
    assert_true(needed >= (256 + 128) * MIB);
    world->refuses = true;
    world->held = needed - MIB;
    assert_int_equal(fileops_space_maintain(space), ENOSPC);
    assert_int_equal(status_of(space).held_bytes, needed - MIB);
    assert_string_equal(status_of(space).problem, "");
    world->held = needed - 16 * MIB;
    assert_int_equal(fileops_space_maintain(space), ENOSPC);
    assert_string_equal(status_of(space).problem, "");
    world->held = needed - 17 * MIB;
    assert_int_equal(fileops_space_maintain(space), ENOSPC);
    assert_non_null(strstr(status_of(space).problem, "needed"));
    /* Other errors are told, however little is missing. */
    world->refuses = false;
    world->silent = ETIMEDOUT;
    assert_int_equal(fileops_space_maintain(space), ETIMEDOUT);
    assert_true(status_of(space).problem[0]);
    world->silent = 0;
    assert_int_equal(fileops_space_maintain(space), 0);
    assert_string_equal(status_of(space).problem, "");
    close(one);
    fileops_space_close(space);
    remove_world(world);
}

/* Writers of what is shared ask the holder how much may be overdrawn. */
static void a_holder_that_was_closed_is_not_asked(void **state)
{
    (void)state;
    struct world *world = make_world();
    world->overdraft = MIB;
    world->sharers = 1;
    struct fileops_space *space = open_asking(world);
    const int one = open_file(world, 0), other = open_file(world, 1);
    struct space_share share = {.source_space = space, .destination_space = space, .length = 64 * MIB};
    assert_int_equal(space_share_begin(&share, one, other, 0, &(struct space_segment){0, 64 * MIB}, 1), 0);
    space_share_end(&share, true);
    fileops_space_close(space);
    setting_error = ETIMEDOUT;
    space = open_asking(world);
    assert_true(closed);
    assert_int_equal(status_of(space).reservations, FILEOPS_RESERVATIONS_NOT_NOW);
    for (uint64_t at = 0; at < 4; at++)
        assert_int_equal(change(space, other, FILEOPS_WRITE, at * MIB, MIB), 0);
    assert_false(called_after_closing);
    setting_error = 0;
    close(one);
    close(other);
    fileops_space_close(space);
    remove_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_told_while_a_program_runs),
        cmocka_unit_test(a_little_of_the_slack_may_be_missing),
        cmocka_unit_test(a_holder_that_was_closed_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
