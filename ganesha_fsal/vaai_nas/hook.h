/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nfs_proto_data.h"

/*
 * Registers an NFSv3 procedure above RFC 1813's. false with `reason`: libganesha_nfsd lacks our patch, like Debian's package, or its
 * structures differ from those that this module was compiled with.
 */
bool vaai_nas_hook_register(uint32_t procedure, const nfs_function_desc_t *description, char *reason, size_t size);
