/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "service.h"

struct json_object;

/*
 * Response of the control socket to a message, as in docs/vaai_nas.md: JSON-RPC 2.0, for administrators of this machine. `line` is any
 * bytes. May wait for statistics, and for the end of a cancelled job.
 */
struct json_object *vaai_nas_control_answer(struct vaai_nas_service *service, const char *line, size_t length);
