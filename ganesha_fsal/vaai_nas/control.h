/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_CONTROL_H
#define VAAI_NAS_CONTROL_H

#include "service.h"

struct json_object;

/*
 * What the control socket answers to one message, as docs/vaai_nas.md describes: JSON-RPC 2.0, for who rules this machine. `line` is any
 * bytes. May wait for statistics, and for the end of a job that is cancelled.
 */
struct json_object *vaai_nas_control_answer(struct vaai_nas_service *service, const char *line, size_t length);

#endif
