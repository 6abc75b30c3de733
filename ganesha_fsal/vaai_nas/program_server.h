/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_PROGRAM_SERVER_H
#define VAAI_NAS_PROGRAM_SERVER_H

#include "service.h"

struct svc_req;

/*
 * Serves vaai_nas.x on TCP port *port of the addresses that NFS listens at, or any free one where that is 0 (*port is then set), and
 * registers it with rpcbind.
 * In ganesha's process, by its ntirpc, once that runs. 0 or an errno value.
 */
int vaai_nas_program_start(struct vaai_nas_service *service, uint16_t *port);

/* Who sent an RPC. */
void vaai_nas_caller_of_request(struct svc_req *request, uint32_t nfs_version, struct vaai_nas_caller *caller);

#endif
