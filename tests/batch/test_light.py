"""What a process pays for this package: no numpy or Arrow in a broker, and Python if asked."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

IS_BUILT = importlib.util.find_spec("fencepost.batch._kernels") is not None
BROKER_SIDE = ["header", "produced", "records", "control", "compression", "partitioner"]


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_broker_side_imports_neither_numpy_nor_arrow(pure):
    imports = "; ".join(f"import fencepost.batch.{name}" for name in BROKER_SIDE)
    names = "{'numpy', 'pyarrow', 'lz4', 'zstandard', 'cramjam'}"
    code = f"import sys; {imports}; print(sorted({names} & set(sys.modules)))"
    assert run(code, FENCEPOST_PURE=pure) == "[]"


def test_the_environment_forces_python():
    code = "from fencepost.batch import backend; print(backend.name())"
    assert run(code, FENCEPOST_PURE="1") == "python"
    assert run(code, FENCEPOST_PURE="0") == ("c" if IS_BUILT else "python")


def test_python_alone_reads_what_it_writes():
    code = (
        "import fencepost.batch.records as r;"
        "b = r.build_batch([(b'k', b'v', [('h', None)])], timestamp_ms=5, compression='lz4');"
        "print(*r.read_records(b))"
    )
    assert run(code, FENCEPOST_PURE="1") == run(code, FENCEPOST_PURE="0")
