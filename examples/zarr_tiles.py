"""Round a Zarr array chunk by chunk: the array may be larger than memory.

`tensor-round round source.zarr target.zarr` does the same, several chunks at once, and can be
continued.
"""

# needs zarr
import itertools
import os
import tempfile

import numpy as np
import zarr

import tensor_round as tr

folder = tempfile.mkdtemp()
source = zarr.create_array(f"{folder}/source.zarr", shape=(300, 500), chunks=(128, 256), dtype="f4")
source[:] = np.linspace(-4, 4, source.size, dtype="f4").reshape(source.shape)
target = zarr.create_array(
    f"{folder}/target.zarr", shape=source.shape, chunks=source.chunks, dtype=source.dtype
)

# One chunk is in memory at a time. No two chunks of the target are written at once.
starts = [range(0, n, c) for n, c in zip(source.shape, source.chunks, strict=True)]
with tr.Client(os.environ.get("TENSOR_ROUND_URL", "http://127.0.0.1:8000")) as client:
    for corner in itertools.product(*starts):
        chunk = tuple(slice(at, at + c) for at, c in zip(corner, source.chunks, strict=True))
        target[chunk] = client.round(source[chunk], tr.OpenVINORound(mode="half_to_even"))

print(f"{target.nchunks} chunks, {target.size:,} elements")
print(bool(np.array_equal(target[:], np.rint(source[:]))))
