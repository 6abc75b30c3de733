/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_CONTROL_SOCKET_H
#define VAAI_NAS_CONTROL_SOCKET_H

#include <sys/types.h>

#include "service.h"

/*
 * Serves what control.h answers on a Unix socket, as docs/vaai_nas.md describes, to root, the daemon's user and `user`, whose the socket
 * is. 0 or an errno value.
 */
int vaai_nas_control_socket_start(struct vaai_nas_service *service, const char *path, uid_t user);

#endif
