/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal_api.h"

/*
 * Releases what nfs4_export_check_access() allocated for the caller's credentials: group lists, and with Manage_Gids a reference to
 * the cached ones. ganesha's clean_credentials() does that, but its library does not export it.
 */
void vaai_nas_clean_credentials(struct req_op_context *context);
