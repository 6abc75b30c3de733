/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_CREDENTIALS_H
#define VAAI_NAS_CREDENTIALS_H

#include "fsal_api.h"

/*
 * Gives back what nfs4_export_check_access() has taken for the caller's credentials: lists of groups, and with Manage_Gids a reference to
 * the cached ones. What ganesha's clean_credentials() does, which its library does not export.
 */
void vaai_nas_clean_credentials(struct req_op_context *context);

#endif
