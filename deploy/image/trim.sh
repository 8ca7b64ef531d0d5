#!/bin/sh
# Removes from an environment what a service never reads: tests, type stubs, C sources and static
# libraries, debug symbols. Then compiles what a start imports, and only that.
# usage: trim.sh ENVIRONMENT
set -eu
cd "$1"/lib/python3*/site-packages

find . -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.a' -o -name '*.lib' \) -delete
# CuPy sorts with it, and takes its absence.
rm -f cupy/cuda/thrust.*.so
# CuPy's and CUDA's headers stay: kernels are compiled at start.
find numpy -type f \( -name '*.c' -o -name '*.h' -o -name '*.f90' \) -delete
# Without what NumPy's wheel has rewritten (its libraries' paths), and CUDA, which has no symbols.
find . -name '*.so' ! -path './numpy*' ! -path './nvidia/*' -exec strip --strip-unneeded {} +

find . -type d -name __pycache__ -prune -exec rm -rf {} +
"$1/bin/python" - <<'PYTHON'
import importlib
import importlib.util

for name in """
    anyio._backends._asyncio fastapi.openapi.docs fastapi.staticfiles fastapi.telemetry
    fastapi_swagger httptools ml_dtypes numpy.typing prometheus_client.openmetrics.exposition
    pydantic.v1 pydantic_settings uvicorn.lifespan.on
    uvicorn.loops.auto uvicorn.loops.uvloop uvicorn.protocols.utils
""".split():
    importlib.import_module(name)
for name in ("cupyx", "cupy.testing", "llvmlite.binding", "opentelemetry.sdk.trace"):  # of images with extras
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        pass
PYTHON
