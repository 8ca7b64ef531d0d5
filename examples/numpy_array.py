"""Round a NumPy array by the rules of three specifications, cast it, and to the last bit."""

import os

import numpy as np

import tensor_round as tr

x = np.array([-2.5, -0.3, 0.5, 1.5, 2.5], np.float32)

with tr.Client(os.environ.get("TENSOR_ROUND_URL", "http://127.0.0.1:8000")) as client:
    for operator in (
        tr.OnnxRound(opset_version=22),
        tr.OpenVINORound(mode="half_away_from_zero"),
        tr.DirectMLRound(rounding_mode="TOWARD_ZERO"),
    ):
        print(type(operator).__name__, client.round(x, operator))

    # To 8 bits: ONNX saturates; IEEE 754 overflows, to NaN in this format.
    wide = np.array([0.3, 500], np.float32)
    print(client.cast(wide, "float8_e4m3fn", "onnx:24"), client.cast(wide, "float8_e4m3fn"))

    # Layout, byte order and NaN payloads survive: nothing is converted on the way.
    signalling = np.array([[0x7FA00001, 0xFFC12345]], ">u4").view(">f4")
    print(client.round(signalling).view(">u4") == signalling.view(">u4"))

    # In place: no second array, here or in the service.
    client.round(x, "toward_negative", out=x)
    print(x)
