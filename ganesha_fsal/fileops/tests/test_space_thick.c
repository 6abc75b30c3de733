/* Datasets whose files are thick by default: what is promised before a file is made larger, what is refused, and how the setting is followed. */
#include "world.h"

#include "clone.h"

#include <pthread.h>

#define LARGE (300 * MIB)

static int new_file(const struct world *world, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", world->root, name);
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0);
    return file;
}

/* Makes a file so large as the FSAL does. */
static int grow(struct fileops_space *space, int file, enum fileops_change_kind kind, uint64_t size)
{
    struct fileops_change told;
    const uint64_t inode = inode_of(file);
    int error = 0;
    if (fileops_growth_needs_promise(space, inode, size))
        error = fileops_promise_growth(space, file, size, kind == FILEOPS_WRITE);
    if (!error)
        error = fileops_change_begin(space, inode, kind, kind == FILEOPS_WRITE ? size - 1 : size, kind == FILEOPS_WRITE, &told);
    if (error)
        return error;
    struct stat status;
    error = fstat(file, &status) || ((uint64_t)status.st_size < size && ftruncate(file, (off_t)size)) ? errno : 0;
    fileops_change_end(space, &told, error);
    return error;
}

static uint64_t promised_to(struct fileops_space *space, int file)
{
    pthread_mutex_lock(&space->state);
    const struct known_file *known = space_find(space, inode_of(file));
    const uint64_t promised = known && known->row.thick ? known->row.promised : 0;
    pthread_mutex_unlock(&space->state);
    return promised;
}

static uint64_t size_of(int file)
{
    struct stat status;
    assert_int_equal(fstat(file, &status), 0);
    return (uint64_t)status.st_size;
}

struct rig {
    struct world *world;
    struct fileops_space *space;
    int file; /* empty */
};

static void begin(struct rig *rig, bool thick)
{
    rig->world = make_world();
    rig->world->thick_default = thick;
    rig->space = open_books(rig->world);
    rig->file = new_file(rig->world, "disk");
}

static void end(struct rig *rig)
{
    close(rig->file);
    fileops_space_close(rig->space);
    remove_world(rig->world);
}

static void what_grows_is_promised_first(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    const int log = new_file(rig.world, "log");
    assert_true(status_of(rig.space).thick_default);
    assert_int_equal(grow(rig.space, log, FILEOPS_WRITE, MIB), 0);
    assert_int_equal(promised_to(rig.space, log), 0);
    assert_int_equal(rig.world->held, 0);
    assert_true(fileops_growth_needs_promise(rig.space, inode_of(rig.file), LARGE));
    assert_int_equal(fileops_promise_growth(rig.space, rig.file, LARGE, false), 0);
    assert_true(rig.world->held >= LARGE);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE);
    assert_int_equal(size_of(rig.file), 0);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    assert_false(fileops_growth_needs_promise(rig.space, inode_of(rig.file), 2 * LARGE));
    /* Larger still, and a small one that becomes large. */
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, 2 * LARGE), 0);
    assert_int_equal(grow(rig.space, log, FILEOPS_WRITE, MIB + 1), 0);
    assert_true(promised_to(rig.space, rig.file) >= 2 * LARGE);
    assert_true(promised_to(rig.space, log) > MIB);
    assert_true(rig.world->held >= 2 * LARGE + MIB);
    close(log);
    end(&rig);
}

static void where_it_is_off_nothing_is_promised(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, false);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    assert_int_equal(status_of(rig.space).thick_files, 0);
    assert_int_equal(rig.world->held, 0);
    assert_false(status_of(rig.space).thick_default);
    end(&rig);
}

static void what_cannot_be_held_does_not_grow(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    rig.world->others = POOL - LARGE;
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, 2 * LARGE), ENOSPC);
    assert_int_equal(size_of(rig.file), 0);
    assert_int_equal(promised_to(rig.space, rig.file), 0);
    assert_int_equal(rig.world->held, 0);
    /* Steps are taken where there is room only. */
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_WRITE, LARGE - 10 * MIB), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE - 10 * MIB);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_WRITE, 2 * LARGE), ENOSPC);
    assert_int_equal(size_of(rig.file), LARGE - 10 * MIB);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE - 10 * MIB);
    end(&rig);
}

static void growing_goes_in_steps_that_are_given_back(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    const uint64_t before = rig.world->settles;
    for (uint64_t size = 2 * MIB; size <= 100 * MIB; size += MIB)
        assert_int_equal(grow(rig.space, rig.file, FILEOPS_WRITE, size), 0);
    assert_true(rig.world->settles - before < 4);
    assert_int_equal(promised_to(rig.space, rig.file), 128 * MIB);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(promised_to(rig.space, rig.file), 128 * MIB);
    space_find(rig.space, inode_of(rig.file))->grown -= 3600000; /* an hour later */
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(promised_to(rig.space, rig.file), 100 * MIB);
    end(&rig);
}

static void a_file_from_before_is_promised_when_it_grows(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, false);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    rig.world->thick_default = true;
    assert_int_equal(fileops_space_refresh(rig.space), 0);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_WRITE, LARGE), 0);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    assert_int_equal(promised_to(rig.space, rig.file), 0);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE + 1), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE + 1);
    end(&rig);
}

static void switched_off_it_keeps_what_was_promised(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    const int thin = new_file(rig.world, "thin");
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    rig.world->thick_default = false;
    assert_int_equal(fileops_space_refresh(rig.space), 0);
    assert_false(status_of(rig.space).thick_default);
    assert_int_equal(grow(rig.space, thin, FILEOPS_TRUNCATE, LARGE), 0);
    assert_int_equal(promised_to(rig.space, thin), 0);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE);
    assert_true(rig.world->held >= LARGE);
    close(thin);
    end(&rig);
}

static void the_setting_is_looked_at_now_and_then(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, false);
    rig.world->thick_default = true;
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_false(status_of(rig.space).thick_default);
    rig.space->setting_read -= 3600000;
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_true(status_of(rig.space).thick_default);
    end(&rig);
}

static void what_can_promise_nothing_grows_nothing(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    rig.world->deduplicates = true;
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), ENOSPC);
    assert_int_equal(size_of(rig.file), 0);
    assert_non_null(strstr(status_of(rig.space).problem, "deduplication"));
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, MIB), 0);
    rig.world->deduplicates = false;
    assert_int_equal(fileops_space_refresh(rig.space), 0);
    assert_string_equal(status_of(rig.space).problem, "");
    rig.world->deduplicates = true;
    assert_int_equal(fileops_space_refresh(rig.space), 0);
    assert_non_null(strstr(status_of(rig.space).problem, "deduplication"));
    rig.world->deduplicates = false;
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    assert_string_equal(status_of(rig.space).problem, "");
    end(&rig);
}

static int find_silent(const char *root, struct fileops_space_holder *holder)
{
    (void)root;
    (void)holder;
    return ETIMEDOUT;
}

static void a_silent_holder_makes_clients_wait(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    rig.world->silent = ETIMEDOUT;
    assert_int_equal(fileops_space_refresh(rig.space), EAGAIN);
    assert_true(status_of(rig.space).thick_default);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), EAGAIN);
    rig.world->silent = 0;
    fileops_space_close(rig.space);
    /* Opened while it does not answer: as it was when it did. */
    assert_int_equal(fileops_space_open(rig.world->root, &(struct fileops_space_options){.find_holder = find_silent, .no_thread = true}, &rig.space), 0);
    assert_true(status_of(rig.space).thick_default);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_WRITE, LARGE), EAGAIN);
    assert_int_equal(size_of(rig.file), 0);
    end(&rig);
}

static void a_crash_before_it_grew_leaves_nothing_held(void **state)
{
    (void)state;
    struct world *world = make_world();
    world->thick_default = true;
    const int file = new_file(world, "disk");
    const pid_t child = fork();
    if (child == 0) {
        struct fileops_space *space = open_books(world);
        _exit(!space || fileops_promise_growth(space, file, LARGE, false) || world->held < LARGE);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct fileops_space *space = open_books(world);
    assert_int_equal(status_of(space).thick_bytes, 0);
    assert_true(status_of(space).needed_bytes < LARGE);
    assert_int_equal(status_of(space).foreign_changes, 0);
    close(file);
    fileops_space_close(space);
    remove_world(world);
}

static void what_has_no_name_any_more_leaves_nothing(void **state)
{
    (void)state;
    struct rig rig;
    char path[300];
    begin(&rig, true);
    snprintf(path, sizeof path, "%s/disk", rig.world->root);
    assert_int_equal(unlink(path), 0);
    fileops_file_removed(rig.space, inode_of(rig.file), true); /* the books know nothing of it yet */
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE);
    fileops_file_closed(rig.space, inode_of(rig.file));
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(status_of(rig.space).thick_files, 0);
    end(&rig);
}

/* By a local program, and by who makes a file, gives it its size and fails after that. */
static void what_was_removed_behind_our_back_leaves_nothing(void **state)
{
    (void)state;
    struct rig rig;
    char path[300];
    begin(&rig, true);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    snprintf(path, sizeof path, "%s/disk", rig.world->root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE);
    close(rig.file);
    for (int i = 0; i < 3; i++) /* finds that it is missing, and still is */
        assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(status_of(rig.space).thick_files, 0);
    assert_int_equal(rig.world->held, 0);
    rig.file = new_file(rig.world, "disk");
    end(&rig);
}

/* OpenZFS comes back to a number before the books have looked at what had it. */
static void another_file_of_a_number_is_promised_itself(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE), 0);
    struct known_file *known = space_find(rig.space, inode_of(rig.file));
    known->row.handle[known->row.handle_size - 1] ^= 1; /* of another generation */
    fileops_file_removed(rig.space, inode_of(rig.file), false);
    assert_int_equal(ftruncate(rig.file, 0), 0);
    assert_int_equal(grow(rig.space, rig.file, FILEOPS_TRUNCATE, LARGE / 2), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE / 2);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(promised_to(rig.space, rig.file), LARGE / 2);
    end(&rig);
}

static int clone_to(const struct rig *rig, int source, const char *name, unsigned flags)
{
    struct fileops_clone_result result;
    const int folder = open(rig->world->root, O_RDONLY | O_DIRECTORY);
    const int error = fileops_clone(&(struct fileops_clone_request){.mode = FILEOPS_CLONE_FULL, .flags = flags, .source = source, .whole = true,
                                                                    .destination = -1, .directory = folder, .name = name, .owner = getuid(),
                                                                    .group = getgid(), .mode_bits = 0600, .source_space = rig->space,
                                                                    .destination_space = rig->space}, &result);
    close(folder);
    return error;
}

static void a_full_clone_is_promised_or_there_is_none(void **state)
{
    (void)state;
    struct rig rig;
    char path[300];
    struct stat status;
    struct fileops_clone_result result;
    begin(&rig, true);
    const uint64_t size = 256 * MIB; /* more than is held for thin files */
    assert_int_equal(ftruncate(rig.file, (off_t)size), 0); /* before the books were there */
    assert_int_equal(clone_to(&rig, rig.file, "clone", 0), 0);
    snprintf(path, sizeof path, "%s/clone", rig.world->root);
    const int made = open(path, O_RDWR);
    assert_true(made >= 0);
    assert_int_equal(promised_to(rig.space, made), size);
    assert_true(rig.world->held >= size);
    assert_int_equal(promised_to(rig.space, rig.file), 0);

    /* Into a file, by bytes and as a whole. */
    const int range = new_file(rig.world, "range"), whole = new_file(rig.world, "whole");
    struct fileops_clone_request into = {.mode = FILEOPS_CLONE_FULL, .source = rig.file, .destination = range, .directory = -1, .length = 2 * MIB,
                                         .source_space = rig.space, .destination_space = rig.space};
    assert_int_equal(fileops_clone(&into, &result), 0);
    assert_int_equal(promised_to(rig.space, range), 2 * MIB);
    into.destination = whole;
    into.whole = true;
    rig.world->others = POOL - status_of(rig.space).needed_bytes - size / 2;
    assert_int_equal(fileops_clone(&into, &result), ENOSPC);
    assert_int_equal(result.left, FILEOPS_CLONE_UNTOUCHED);
    assert_int_equal(promised_to(rig.space, whole), 0);
    assert_int_equal(clone_to(&rig, rig.file, "other", 0), ENOSPC);
    snprintf(path, sizeof path, "%s/other", rig.world->root);
    assert_int_equal(stat(path, &status), -1);
    assert_int_equal(status_of(rig.space).thick_files, 2);
    rig.world->others = 0;
    assert_int_equal(fileops_clone(&into, &result), 0);
    assert_int_equal(promised_to(rig.space, whole), size);
    rig.world->deduplicates = true;
    assert_int_equal(clone_to(&rig, rig.file, "other", 0), ENOSPC);
    assert_int_equal(clone_to(&rig, rig.file, "other", FILEOPS_CLONE_DRY_RUN), ENOSPC);
    assert_int_equal(fileops_space_maintain(rig.space), 0);
    assert_int_equal(status_of(rig.space).thick_files, 3);
    close(made);
    close(range);
    close(whole);
    end(&rig);
}

struct grower {
    const struct rig *rig;
    uint64_t most;
    int error;
};

static void *grow_on(void *context)
{
    struct grower *grower = context;
    for (uint64_t size = 2 * MIB; size <= grower->most && !grower->error; size += 2 * MIB)
        grower->error = grow(grower->rig->space, grower->rig->file, FILEOPS_WRITE, size);
    return NULL;
}

static void two_make_one_file_larger(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, true);
    struct grower growers[] = {{.rig = &rig, .most = 90 * MIB}, {.rig = &rig, .most = 200 * MIB}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, grow_on, &growers[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(growers[i].error, 0);
    }
    assert_int_equal(promised_to(rig.space, rig.file), 256 * MIB);
    assert_true(rig.world->held >= 256 * MIB);
    assert_int_equal(status_of(rig.space).thick_files, 1);
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_grows_is_promised_first),
        cmocka_unit_test(where_it_is_off_nothing_is_promised),
        cmocka_unit_test(what_cannot_be_held_does_not_grow),
        cmocka_unit_test(growing_goes_in_steps_that_are_given_back),
        cmocka_unit_test(a_file_from_before_is_promised_when_it_grows),
        cmocka_unit_test(switched_off_it_keeps_what_was_promised),
        cmocka_unit_test(the_setting_is_looked_at_now_and_then),
        cmocka_unit_test(what_can_promise_nothing_grows_nothing),
        cmocka_unit_test(a_silent_holder_makes_clients_wait),
        cmocka_unit_test(a_crash_before_it_grew_leaves_nothing_held),
        cmocka_unit_test(what_has_no_name_any_more_leaves_nothing),
        cmocka_unit_test(what_was_removed_behind_our_back_leaves_nothing),
        cmocka_unit_test(another_file_of_a_number_is_promised_itself),
        cmocka_unit_test(a_full_clone_is_promised_or_there_is_none),
        cmocka_unit_test(two_make_one_file_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
