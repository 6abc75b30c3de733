/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef FSAL_ZVAAI_PLACES_H
#define FSAL_ZVAAI_PLACES_H

#include <stdbool.h>

#include "config_parsing.h"

/* Where exports may be. Who may ask the daemon for exports, by DBus or by files that it reads, need not be who may read all files. */

/* The block ZVAAI_EXPORTS of the configuration. 0, or -1 with `errors`. */
int places_init(config_file_t file, struct config_error_type *errors);

/* Whether `path` is one: anywhere unless the block says where, else a file system that is mounted by one name below the folder. */
bool places_have(const char *path);

#endif
