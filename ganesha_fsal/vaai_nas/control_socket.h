/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_CONTROL_SOCKET_H
#define VAAI_NAS_CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "service.h"

struct vaai_nas_control_socket {
    const char *path;            /* in a folder where only root or the daemon's user makes names */
    uid_t user;                  /* whose the socket is */
    void (*wait_until_up)(void); /* returns when the daemon has all its exports: nothing is answered before */
    bool (*is_ending)(void);     /* whether the daemon ends, and lets its exports go: nothing is answered from then on */
};

/*
 * Serves what control.h answers on a Unix socket, as docs/vaai_nas.md describes, to root, the daemon's user and `user`. Who has closed his connection
 * meanwhile is not served any more. 0 or an errno value: EPERM where others than root and this process's user can make names in its folder.
 */
int vaai_nas_control_socket_start(struct vaai_nas_service *service, const struct vaai_nas_control_socket *socket);

#endif
