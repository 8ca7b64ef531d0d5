"""Round a dataset where Ray Data has its blocks: the engine in process, no service."""

# needs ray[data]
import numpy as np
import ray

import tensor_round as tr


class Rounder:
    def __init__(self):
        self.client = tr.Client("local:")

    def __call__(self, batch):
        return {**batch, "rounded": self.client.round(batch["x"], "ties_to_away")}


halves = ray.data.range(10_000, override_num_blocks=8).map_batches(lambda b: {"x": b["id"] / 2})
rounded = halves.map_batches(Rounder, compute=ray.data.ActorPoolStrategy(size=2))
result = rounded.to_pandas()
print(len(result), bool((result["rounded"] == np.floor(result["x"] + 0.5)).all()))
