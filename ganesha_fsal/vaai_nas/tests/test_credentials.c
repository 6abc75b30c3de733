/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../credentials.h"
#include "uid2grp.h"

static struct group_data *groups_of_cache(unsigned int references)
{
    struct group_data *groups = calloc(1, sizeof(*groups));

    assert_non_null(groups);
    groups->groups = calloc(4, sizeof(gid_t));
    groups->refcount = references;
    pthread_mutex_init(&groups->gd_lock, NULL);
    return groups;
}

static void a_call_gives_its_reference_back(void **state)
{
    struct group_data *groups = groups_of_cache(1);
    struct req_op_context context = {0};

    (void)state;
    for (int call = 0; call < 1000; call++) {
        groups->refcount++; /* uid2grp() */
        context.caller_gdata = groups;
        context.caller_garray_copy = calloc(4, sizeof(gid_t));
        context.managed_garray_copy = calloc(4, sizeof(gid_t));
        vaai_nas_clean_credentials(&context);
        assert_null(context.caller_gdata);
        assert_null(context.caller_garray_copy);
        assert_null(context.managed_garray_copy);
    }
    assert_int_equal(groups->refcount, 1); /* the cache's reference */
    context.caller_gdata = groups;
    vaai_nas_clean_credentials(&context); /* the last reference, which frees it */
    assert_null(context.caller_gdata);
}

static void a_caller_without_groups_has_nothing_to_give_back(void **state)
{
    struct req_op_context context = {0};

    (void)state;
    vaai_nas_clean_credentials(&context);
    assert_null(context.caller_gdata);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_gives_its_reference_back),
        cmocka_unit_test(a_caller_without_groups_has_nothing_to_give_back),
    };

    return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
