/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_ADAPTER_GANESHA_H
#define VAAI_NAS_ADAPTER_GANESHA_H

#include "adapter.h"

/* nfs-ganesha as the service's NFS server; `caller.request` is a struct svc_req. */
extern const struct vaai_nas_adapter vaai_nas_adapter_ganesha;

#endif
