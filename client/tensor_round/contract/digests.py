"""Published digests: the SHA-256 of the correct results for all patterns of the small dtypes.

For a dtype of 8 or 16 bits and a rounding: round the patterns 0, 1, 2, ... (2^8 or 2^16 elements,
little-endian), and hash the results, likewise little-endian. The digests come from an integer-only
implementation of IEEE 754 that shares no code with the product
(``tensor_round_verify.reference``); ``tests/client/contract/test_tables.py`` recomputes them. A
result that differs from them is a fault of the product, so a published digest never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from .rounding import Rounding

# One line per row.
# ruff: noqa: E501
# fmt: off
#: (dtype, rounding) -> SHA-256, hexadecimal. Integers are returned unchanged, so all integer
#: dtypes of one width have the same digests.
DIGESTS: dict[tuple[str, str], str] = {
    ("float16", "ties_to_even"): "18c2daf072ecc9e89d5bc9f831e523302384954c40e7ca5447a919dd3c2cbc55",
    ("float16", "ties_to_away"): "38db5bbfa6077e30e44eb0b6ae014ad9a86ae326e13b2e3157544f88366ea72e",
    ("float16", "toward_zero"): "eb9be6d3bf1e47ec054e4a8ba20b6948f349f3cfbedea0cb074f250aa88627f6",
    ("float16", "toward_positive"): "a5393287deedf58479fc0352694c63fa2d3ecd263bf1c84828e2223056d8e295",
    ("float16", "toward_negative"): "39f2673e9cacad2f5636eb8afd87f9ab9820652414895c1d8891cad3caa624cc",
    ("bfloat16", "ties_to_even"): "40966197104e10f774fe44674144c5391716e0805c442745049ba3fcd3e6bc55",
    ("bfloat16", "ties_to_away"): "a55c35c8b6fb0155a486c13019d8625f67b40a6697f0b9e3dddf64fdf6ec5138",
    ("bfloat16", "toward_zero"): "476d175163d53a3161d0146fa302428ac7cbc0001130663d5046da0f5010a11c",
    ("bfloat16", "toward_positive"): "8cba05678d96e6d181d2925f92612da543476579aa89a516408f388ccafeb439",
    ("bfloat16", "toward_negative"): "e0102c11e3ee46d57684dbb60c978ca609c7aaf135e59275fe14c829810266a8",
    ("float8_e4m3fn", "ties_to_even"): "be14602987b5186c6ea4c3493d13e0e20e9e7c0a5e8622e16ad6b49d671fdeed",
    ("float8_e4m3fn", "ties_to_away"): "5308085755d4d8852767fff84f13d001aa8ab744e3a85a5d36808f52eef7e934",
    ("float8_e4m3fn", "toward_zero"): "a5b10e75ca5090428a68ce4c0ad56c13f7f3a1b2e99cb8066dd755d8346db214",
    ("float8_e4m3fn", "toward_positive"): "f490ac13aa7d54a71ca601a79f3dd840bc86ef2c93b06a4fd56c7ba6e2a3a09b",
    ("float8_e4m3fn", "toward_negative"): "26352480f6a9612672a4ff861c1e17267ea7d827ca098dc62a908bd74f22729f",
    ("float8_e5m2", "ties_to_even"): "b685ab1a6c0aa6851c26a5a0ad297cdef659471e5b49f0f17768f6071a06e75e",
    ("float8_e5m2", "ties_to_away"): "20a6678c5ee3ee1fc133f013dbec6a637776fc7dc680c3f3119eb7c75ae7bdff",
    ("float8_e5m2", "toward_zero"): "0897706213c322a1dc8db839eec0da9fd393081d8edc6dbbe32cd9c9acf3705e",
    ("float8_e5m2", "toward_positive"): "45a36d0cfacfbfeafc469ef47a2e0ea42f12c247c470a08c4f50e5bc94901bc4",
    ("float8_e5m2", "toward_negative"): "6fb374cbfce263f9dd576b97547f81319bd92d3910a1bd9b7534e9dcb4407ff2",
    **dict.fromkeys(product(("int8", "uint8"), map(str, Rounding)), "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880"),
    **dict.fromkeys(product(("int16", "uint16"), map(str, Rounding)), "68e419472d25e0b85e9917ccf692fd58245c5e95e9a46f07d1df81d2e9da246b"),
}
# fmt: on


def differing(rows: Mapping[str, Any]) -> list[str]:
    """The dtypes and roundings of one backend whose digests are not the published ones."""
    return [
        f"{dtype} {rounding}"
        for (dtype, rounding), published in DIGESTS.items()
        if rows.get(dtype, {}).get(rounding, {}).get("sha256") != published
    ]
