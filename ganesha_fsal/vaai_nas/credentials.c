/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "credentials.h"

#include <pthread.h>

#include "abstract_mem.h"
#include "uid2grp.h"

/* uid2grp_unref(): the last reference frees an entry that the cache has dropped. */
static void credentials_unref(struct group_data *groups)
{
    unsigned int references;

    pthread_mutex_lock(&groups->gd_lock);
    references = --groups->refcount;
    pthread_mutex_unlock(&groups->gd_lock);
    if (references != 0)
        return;
    pthread_mutex_destroy(&groups->gd_lock);
    gsh_free(groups->groups);
    gsh_free(groups);
}

void vaai_nas_clean_credentials(struct req_op_context *context)
{
    gsh_free(context->managed_garray_copy);
    gsh_free(context->caller_garray_copy);
    context->managed_garray_copy = context->caller_garray_copy = NULL;
    if (context->caller_gdata != NULL)
        credentials_unref(context->caller_gdata);
    context->caller_gdata = NULL;
}
