"""Round an array where dask has its blocks: the engine in process, no service."""

# needs dask
import dask.array as da
import numpy as np

import tensor_round as tr

if __name__ == "__main__":  # the processes below import this file
    client = tr.Client("local:")  # pickled by its settings
    x = da.random.default_rng(0).normal(0, 100, (4000, 1000), chunks=(1000, 1000)).astype("f4")
    rounded = x.map_blocks(client.round, tr.OnnxRound(), dtype=x.dtype)
    same = (rounded == np.rint(x)).all()
    print(rounded.numblocks, same.compute(scheduler="processes"))
