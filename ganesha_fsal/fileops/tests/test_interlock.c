/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* No block is freed while it is cloned, and a clone of many steps does not starve freeing operations. */
#include "dataset_internal.h"
#include "interlock.h"

#include "scratch.h"

#include <pthread.h>
#include <stdatomic.h>

static struct fileops_dataset dataset, other_dataset;
static const struct interlock_file first_file = {&dataset, 10}, other_file = {&dataset, 11};
static atomic_bool entered, stop;
static atomic_int freeing, stepping, wrong, freed, steps;

static void *free_once(void *argument)
{
    (void)argument;
    assert_int_equal(fileops_freeing_begin(first_file.dataset, first_file.inode), 0);
    atomic_store(&entered, true);
    fileops_freeing_end(first_file.dataset, first_file.inode);
    return NULL;
}

static void steps_go_together_and_so_do_those_who_free(void **state)
{
    (void)state;
    assert_int_equal(interlock_step_begin(&first_file, &other_file), 0);
    assert_int_equal(interlock_step_begin(&other_file, &first_file), 0);
    interlock_step_end(&first_file, &other_file);
    interlock_step_end(&other_file, &first_file);
    assert_int_equal(fileops_freeing_begin(first_file.dataset, first_file.inode), 0);
    assert_int_equal(fileops_freeing_begin(first_file.dataset, first_file.inode), 0);
    fileops_freeing_end(first_file.dataset, first_file.inode);
    fileops_freeing_end(first_file.dataset, first_file.inode);
    assert_int_equal(interlock_step_begin(&first_file, &first_file), 0); /* both ends at one place */
    interlock_step_end(&first_file, &first_file);
}

static void freeing_waits_for_a_step(void **state)
{
    pthread_t thread;
    (void)state;
    atomic_store(&entered, false);
    assert_int_equal(interlock_step_begin(&other_file, &first_file), 0);
    assert_int_equal(pthread_create(&thread, NULL, free_once, NULL), 0);
    for (int i = 0; i < 20; i++)
        pause_briefly();
    assert_false(atomic_load(&entered));
    interlock_step_end(&other_file, &first_file);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&entered));
}

static void *free_often(void *argument)
{
    const struct interlock_file *file = argument;
    while (!atomic_load(&stop)) {
        if (fileops_freeing_begin(file->dataset, file->inode) != 0)
            continue;
        atomic_fetch_add(&freeing, 1);
        if (atomic_load(&stepping) != 0)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_sub(&freeing, 1);
        atomic_fetch_add(&freed, 1);
        fileops_freeing_end(file->dataset, file->inode);
    }
    return NULL;
}

static void *step_often(void *argument)
{
    const bool back = argument != NULL;
    while (!atomic_load(&stop)) {
        if (interlock_step_begin(back ? &other_file : &first_file, back ? &first_file : &other_file) != 0)
            continue;
        atomic_fetch_add(&stepping, 1);
        if (atomic_load(&freeing) != 0)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_sub(&stepping, 1);
        atomic_fetch_add(&steps, 1);
        interlock_step_end(back ? &other_file : &first_file, back ? &first_file : &other_file);
    }
    return NULL;
}

/* Clones in both directions between two files that others truncate: all make progress, and the two kinds never run together. */
static void all_continue_and_never_together(void **state)
{
    pthread_t threads[6];
    (void)state;
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[3 * i], NULL, free_often, (void *)(uintptr_t)(i ? &other_file : &first_file));
        pthread_create(&threads[3 * i + 1], NULL, step_often, NULL);
        pthread_create(&threads[3 * i + 2], NULL, step_often, (void *)(uintptr_t)&other_file);
    }
    while (atomic_load(&freed) < 2000 || atomic_load(&steps) < 2000)
        pause_briefly();
    atomic_store(&stop, true);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* For all their inode numbers. */
static void a_step_delays_no_other_dataset(void **state)
{
    (void)state;
    for (uint64_t inode = 1; inode <= 10000; inode++) {
        const struct interlock_file file = {&dataset, inode};
        assert_int_equal(interlock_step_begin(&file, &file), 0);
    }
    for (uint64_t inode = 1; inode <= 10000; inode++) {
        assert_int_equal(fileops_freeing_begin(&other_dataset, inode), 0);
        fileops_freeing_end(&other_dataset, inode);
    }
    for (uint64_t inode = 1; inode <= 10000; inode++) {
        const struct interlock_file file = {&dataset, inode};
        interlock_step_end(&file, &file);
    }
}

int main(void)
{
    interlock_init(&dataset);
    interlock_init(&other_dataset);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_go_together_and_so_do_those_who_free),
        cmocka_unit_test(freeing_waits_for_a_step),
        cmocka_unit_test(all_continue_and_never_together),
        cmocka_unit_test(a_step_delays_no_other_dataset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
