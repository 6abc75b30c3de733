/* The map of shared blocks beside the naive model, by random clones and overwrites. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model.h"
#include "share_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INODE(file) ((uint64_t)(file) + 100)
#define ADDED 512

static int clone(struct fileops_share_map *map, int source, uint64_t from, int destination, uint64_t to, uint64_t count,
                 const struct fileops_overwritten *overwritten, size_t overwritten_count, size_t most)
{
    struct fileops_references added = {0};
    const struct fileops_clone_range range = {.source = INODE(source), .source_offset = from * BLOCK, .destination = INODE(destination),
                                              .destination_offset = to * BLOCK, .length = count * BLOCK};
    const int error = fileops_share_map_clone(map, &range, overwritten, overwritten_count, false, most, &added);
    free(added.list);
    return error;
}

static void clone_and_settle(struct fileops_share_map *map, int source, uint64_t from, int destination, uint64_t to, uint64_t count)
{
    const uint64_t before = fileops_share_map_sequence(map);
    assert_int_equal(clone(map, source, from, destination, to, count, NULL, 0, ADDED), 0);
    assert_int_equal(fileops_share_map_remove(map, INODE(destination), to * BLOCK, count * BLOCK, before, SIZE_MAX, NULL, NULL), 0);
}

static void equals_the_model_when_all_is_settled(void **state)
{
    (void)state;
    uint64_t random = seed_of_run();
    for (int run = 0; run < 20; run++) {
        struct fileops_share_map *map = fileops_share_map_new();
        struct model model = {0};
        bool promised[FILES] = {false};
        for (int file = 0; file < FILES; file++)
            model_write(&model, file, 0, BLOCKS);
        for (int step = 0; step < 120; step++) {
            const int source = (int)choose(&random, FILES), destination = (int)choose(&random, FILES);
            const uint64_t count = 1 + choose(&random, BLOCKS / 2), from = choose(&random, BLOCKS - count + 1), to = choose(&random, BLOCKS - count + 1);
            if (choose(&random, 3) && (source != destination || from + count <= to || to + count <= from)) {
                model_clone(&model, source, from, destination, to, count);
                clone_and_settle(map, source, from, destination, to, count);
            } else {
                model_write(&model, destination, to, count);
                assert_int_equal(fileops_share_map_remove(map, INODE(destination), to * BLOCK, count * BLOCK, fileops_share_map_sequence(map), SIZE_MAX, NULL, NULL), 0);
            }
            const int other = (int)choose(&random, FILES);
            promised[other] = choose(&random, 2);
            assert_int_equal(fileops_share_map_promise(map, INODE(other), promised[other]), 0);
            assert_int_equal(fileops_share_map_bytes(map), model_bytes(&model));
            assert_int_equal(fileops_share_map_needed(map), model_needed(&model, promised));
            assert_int_equal(fileops_share_map_shared_of(map, INODE(source)), model_shared_of(&model, source));
        }
        fileops_share_map_free(map);
    }
}

static void is_never_below_the_model_while_something_is_not(void **state)
{
    (void)state;
    uint64_t random = seed_of_run() ^ 0x5555;
    for (int run = 0; run < 20; run++) {
        struct fileops_share_map *map = fileops_share_map_new();
        struct model model = {0};
        struct fileops_overwritten waiting[FILES][64];
        bool promised[FILES] = {false};
        size_t counts[FILES] = {0};
        for (int file = 0; file < FILES; file++)
            model_write(&model, file, 0, BLOCKS);
        for (int step = 0; step < 100; step++) {
            const int source = (int)choose(&random, FILES), destination = (int)choose(&random, FILES);
            const uint64_t count = 1 + choose(&random, BLOCKS / 2), from = choose(&random, BLOCKS - count + 1), to = choose(&random, BLOCKS - count + 1);
            const uint64_t before = fileops_share_map_sequence(map);
            if (choose(&random, 2) && source != destination) {
                assert_int_equal(clone(map, source, from, destination, to, count, waiting[source], counts[source], ADDED), 0);
                model_clone(&model, source, from, destination, to, count);
            } else {
                model_write(&model, destination, to, count);
            }
            if (counts[destination] < 64)
                waiting[destination][counts[destination]++] = (struct fileops_overwritten){to * BLOCK, count * BLOCK, before};
            assert_true(fileops_share_map_bytes(map) >= model_bytes(&model));
            promised[source] = choose(&random, 2);
            assert_int_equal(fileops_share_map_promise(map, INODE(source), promised[source]), 0);
            assert_true(fileops_share_map_needed(map) >= model_needed(&model, promised));
            if (choose(&random, 8) == 0 || step % 60 == 59)
                for (int file = 0; file < FILES; file++) {
                    for (size_t i = 0; i < counts[file]; i++)
                        fileops_share_map_remove(map, INODE(file), waiting[file][i].offset, waiting[file][i].length, waiting[file][i].sequence, SIZE_MAX, NULL, NULL);
                    counts[file] = 0;
                }
            if (!counts[0] && !counts[1] && !counts[2] && !counts[3] && !counts[4] && !counts[5])
                assert_int_equal(fileops_share_map_bytes(map), model_bytes(&model));
        }
        fileops_share_map_free(map);
    }
}

static void keeps_whole_what_has_too_many_pieces(void **state)
{
    (void)state;
    struct fileops_share_map *map = fileops_share_map_new();
    clone_and_settle(map, 0, 0, 1, 0, 32);
    assert_int_equal(fileops_share_map_remove(map, INODE(1), 4 * BLOCK, BLOCK, 100, 2, NULL, NULL), 0);
    assert_int_equal(fileops_share_map_bytes(map), 31 * BLOCK);
    assert_int_equal(fileops_share_map_remove(map, INODE(1), 9 * BLOCK, BLOCK, 100, 2, NULL, NULL), 0);
    assert_int_equal(fileops_share_map_bytes(map), 31 * BLOCK);
    assert_int_equal(fileops_share_map_remove(map, INODE(1), 0, 32 * BLOCK, 100, 2, NULL, NULL), 0);
    assert_int_equal(fileops_share_map_bytes(map), 0);
    assert_false(fileops_share_map_has(map, INODE(0)));
    fileops_share_map_free(map);
}

static void another_dataset_never_lets_go(void **state)
{
    (void)state;
    struct fileops_share_map *map = fileops_share_map_new();
    struct fileops_references added = {0};
    for (uint64_t file = 1; file < 3; file++)
        assert_int_equal(fileops_share_map_clone(map, &(struct fileops_clone_range){.source = FILEOPS_OTHER_DATASET, .destination = INODE(file), .length = BLOCK},
                                                 NULL, 0, false, 4, &added), 0);
    free(added.list);
    assert_int_equal(fileops_share_map_bytes(map), 2 * BLOCK);
    fileops_share_map_remove(map, INODE(1), 0, BLOCK, 100, SIZE_MAX, NULL, NULL);
    assert_int_equal(fileops_share_map_bytes(map), BLOCK);
    fileops_share_map_free(map);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct fileops_share_map *map = fileops_share_map_new();
    clone_and_settle(map, 0, 0, 1, 0, 4);
    /* Half of it is known, half is new: three references. */
    assert_int_equal(clone(map, 0, 0, 2, 0, 8, NULL, 0, 2), E2BIG);
    assert_int_equal(fileops_share_map_bytes(map), 4 * BLOCK);
    assert_int_equal(clone(map, 0, 0, 2, 0, 8, NULL, 0, 3), 0);
    assert_int_equal(clone(map, 0, UINT64_MAX / BLOCK, 2, 0, 2, NULL, 0, 3), EINVAL);
    fileops_share_map_free(map);
}

/* A template with many clones, each written at random places: it takes time by what is written, not by how many have clones. */
static void many_clones_written_at_random_cost_little(void **state)
{
    (void)state;
    enum { CLONES = 200, WRITES = 2000, SIZE = 1 << 18 };
    struct fileops_share_map *map = fileops_share_map_new();
    uint64_t random = seed_of_run();
    struct timespec begin, end;
    for (int file = 1; file <= CLONES; file++)
        assert_int_equal(clone(map, 0, 0, file, 0, SIZE, NULL, 0, 2), 0);
    assert_int_equal(fileops_share_map_bytes(map), (uint64_t)CLONES * SIZE * BLOCK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin); /* what else the machine does is not its fault */
    for (int file = 1; file <= CLONES; file++)
        for (int i = 0; i < WRITES / (file == 1 ? 1 : 40); i++)
            assert_int_equal(fileops_share_map_remove(map, INODE(file), choose(&random, SIZE) * BLOCK, BLOCK, UINT64_MAX, 4096, NULL, NULL), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_true(end.tv_sec - begin.tv_sec < 20);
    /* One much written is cloned whole, by as many references as it has. */
    const uint64_t before = fileops_share_map_bytes(map);
    assert_int_equal(clone(map, 1, 0, CLONES + 1, 0, SIZE, NULL, 0, 3 * WRITES + 4), 0);
    assert_int_equal(fileops_share_map_bytes(map), before + (uint64_t)SIZE * BLOCK);
    fileops_share_map_free(map);
}

/* With too many pieces: one reference for each of the source's, and one for all that may be new. */
static void counted_coarsely_is_never_too_little(void **state)
{
    (void)state;
    struct fileops_share_map *map = fileops_share_map_new();
    struct fileops_references added = {0};
    const struct fileops_clone_range range = {.source = INODE(0), .destination = INODE(2), .length = 16 * BLOCK};
    clone_and_settle(map, 0, 0, 1, 0, 16);
    assert_int_equal(fileops_share_map_clone(map, &range, NULL, 0, true, 3, &added), 0);
    assert_int_equal(added.count, 3);
    /* Either all is as it was, or all is new: in both cases what is left when one file goes is enough. */
    assert_int_equal(fileops_share_map_bytes(map), 3 * 16 * BLOCK);
    assert_int_equal(fileops_share_map_remove(map, INODE(0), 0, UINT64_MAX, UINT64_MAX, SIZE_MAX, NULL, NULL), 0);
    assert_int_equal(fileops_share_map_bytes(map), 16 * BLOCK);
    free(added.list);
    fileops_share_map_free(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_model_when_all_is_settled),
        cmocka_unit_test(is_never_below_the_model_while_something_is_not),
        cmocka_unit_test(keeps_whole_what_has_too_many_pieces),
        cmocka_unit_test(another_dataset_never_lets_go),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(many_clones_written_at_random_cost_little),
        cmocka_unit_test(counted_coarsely_is_never_too_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
