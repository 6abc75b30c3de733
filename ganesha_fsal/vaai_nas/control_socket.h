/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "service.h"

struct vaai_nas_control_socket {
    const char *path;            /* in a folder where only root or the daemon's user makes names */
    uid_t user;                  /* owner of the socket */
    void (*wait_until_up)(void); /* returns when the daemon has all its exports; the first response follows */
    bool (*is_ending)(void);     /* whether the daemon ends and releases its exports: no response from then on */
};

/*
 * Serves control.h on a Unix socket, as in docs/vaai_nas.md, to root, the daemon's user and `user`. A peer that has closed its connection
 * gets no response. 0 or an errno value: EPERM if others than root and this process's user can create names in its folder.
 */
int vaai_nas_control_socket_start(struct vaai_nas_service *service, const struct vaai_nas_control_socket *socket);
