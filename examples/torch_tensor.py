"""Compare torch.round with the exact result, on every bfloat16."""

# needs torch
import os

import torch

import tensor_round as tr

every_pattern = torch.arange(1 << 16).to(torch.uint16).view(torch.bfloat16)

with tr.Client(os.environ.get("TENSOR_ROUND_URL", "http://127.0.0.1:8000")) as client:
    exact = client.round(every_pattern)

ours, theirs = exact.view(torch.int16), torch.round(every_pattern).view(torch.int16)
different = ours != theirs
print("dtype", exact.dtype)
print("numbers that differ:", int((different & ~every_pattern.isnan()).sum()))
print("NaNs that differ:", int((different & every_pattern.isnan()).sum()))
print("torch's NaNs:", sorted({hex(int(bits) & 0xFFFF) for bits in theirs[different]}))
