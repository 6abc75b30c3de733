# SPDX-License-Identifier: Apache-2.0
"""`python3 -m simulators.helper FILE OPTIONS...`: the product's helper on a simulator, whose state is in FILE."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance.helper.__main__ import Storage, main
from appliance.helper.checks import Policy
from simulators.copies import FolderCopies
from simulators.zfs import Simulator

if __name__ == "__main__":
    file = Path(sys.argv.pop(1))

    def _storage(_options: argparse.Namespace, _policy: Policy) -> Storage:
        return Storage(Simulator(path=file), FolderCopies(file.with_suffix(".copies")), system=frozenset, allow=None)

    sys.exit(main(_storage))
