# SPDX-License-Identifier: Apache-2.0
"""Classes that several threads convert for the first time."""

import signal
import subprocess
import sys

PROGRAM = """
import dataclasses, sys, threading
import msgspec
from appliance import decoding

sys.setswitchinterval(1e-6)
convert = {convert}
values = {{f"part{{number}}": {{"text": "x", "count": number}} for number in range(20)}}
for _ in range({families}):
    parts = [dataclasses.make_dataclass(name, [("text", "str"), ("count", "int")]) for name in values]
    whole = dataclasses.make_dataclass("whole", list(zip(values, parts)))
    barrier, right = threading.Barrier(4), []

    def work():
        barrier.wait()
        right.append(dataclasses.asdict(convert(values, whole)) == values)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert right == [True] * 4
"""


def exit_code(convert: str, families: int) -> int:
    program = PROGRAM.format(convert=convert, families=families)
    return subprocess.run([sys.executable, "-c", program], check=False, timeout=300, stderr=subprocess.DEVNULL).returncode


def test_threads_may_convert_to_a_class_for_the_first_time() -> None:
    assert exit_code("decoding.convert", 50) == 0


def test_msgspec_alone_crashes_then() -> None:
    """If this fails, Debian has a msgspec without the fault, and appliance/decoding.py can go."""
    assert any(exit_code("msgspec.convert", 2000) in (-signal.SIGSEGV, -signal.SIGABRT) for _ in range(5))
