/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "adapter.h"
#include "fsal_api.h"

/* nfs-ganesha as the service's NFS server; `caller.request` is a struct svc_req. */
extern const struct vaai_nas_adapter vaai_nas_adapter_ganesha;

enum vaai_nas_status vaai_nas_status_of_fsal(fsal_status_t status);

/* Whether clients may still reclaim opens from before the server's restart. ganesha's SETATTR checks the same before it changes a file. */
bool vaai_nas_in_grace(void);

/* Releases what nfs4_export_check_access() allocated for the credentials of op_ctx. */
void vaai_nas_clean_credentials(void);
