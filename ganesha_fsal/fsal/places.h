/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>

#include "config_parsing.h"

/* Allowed paths of exports. A user who can add exports, by DBus or by files that the daemon reads, must not be able to read all files. */

/* The block ZVAAI_EXPORTS of the configuration. 0, or -1 with `errors`. */
int places_init(config_file_t file, struct config_error_type *errors);

/* Whether `path` may be exported: any path if the block has no folder, otherwise a file system mounted by one name in that folder. Takes no lock. */
bool places_have(const char *path);
