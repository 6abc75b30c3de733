/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Whether copy_file_range(2) shared blocks or copied bytes: OpenZFS does not report it, but its statistics show it.
 *
 * Reads and writes of each dataset are counted (objset kstats: nread, nwritten), block clones are not. If less was read from
 * the source's dataset, or less written to the destination's, than a copy takes, the kernel shared blocks. Concurrent reads and writes in
 * these datasets can only hide that: a proof is reliable, and without a proof the result is unknown. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sharing_proof {
    char source[300], destination[300]; /* files of /proc/spl; empty: no proof is possible */
    uint64_t read, written;
};

void sharing_proof_init(struct sharing_proof *proof, int source, int destination);
void sharing_proof_before(struct sharing_proof *proof);
bool sharing_proof_after(const struct sharing_proof *proof, uint64_t bytes);
