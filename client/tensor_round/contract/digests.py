"""Published digests: the SHA-256 of the correct results for all patterns of the narrow dtypes.

For a dtype of 4, 8 or 16 bits and a rounding: round the patterns 0, 1, 2, ... (2^4, 2^8 or 2^16
elements, as on the wire), and hash the results, likewise as on the wire. The digests come from an integer-only
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
    ("float8_e4m3fnuz", "ties_to_even"): "367dacc350dbc76316725e6d8c8edf4c39c0beb5fde1d3cabff896c6630c0bb8",
    ("float8_e4m3fnuz", "ties_to_away"): "d5c3f187e0ee95127a114f3e65ba303de68bd0564b317bfd7f85f07593549930",
    ("float8_e4m3fnuz", "toward_zero"): "2d0aec9d6bc4ea6ce167dbdd603020999793c6890b79e852c445efe3b7ad3ded",
    ("float8_e4m3fnuz", "toward_positive"): "b19b1c1ca2062f7c2c01aaf8b392f9f5ce9a3914f8bcc93d324c6efbfdf06852",
    ("float8_e4m3fnuz", "toward_negative"): "f22acdb98165e886cdfab3cbb191eed6b64c1f297f719846845971f7cecea52c",
    ("float8_e5m2fnuz", "ties_to_even"): "8a6e05853ae5b1b44d586c4cc825ae03db571cb9e7ebdfee389b8eb7fad8b52b",
    ("float8_e5m2fnuz", "ties_to_away"): "90fb03aeb5b2aa735e4d7f3c82e7da5f12cfa99772dc7dd66a22696fdd7565fd",
    ("float8_e5m2fnuz", "toward_zero"): "11ce859b082a94aba6122469bc92f63f4f6f98a2e748f98f06693cce47f0b77b",
    ("float8_e5m2fnuz", "toward_positive"): "889ce104d2bf94839f5b3fdd216b3e243006a3e0bc50270790e340930c1a19a2",
    ("float8_e5m2fnuz", "toward_negative"): "4fdf7ef5518f0ff675fb3713686e438819d4f38f1636d760778fda367bbb9e21",
    ("float4_e2m1fn", "ties_to_even"): "bf7d47d95b87ab1cf4a4c434bff119f595f0eb91f06f9f542219ac83905323a1",
    ("float4_e2m1fn", "ties_to_away"): "e016e2cf46418618a37e2b3d09b3fc15afb5512d11297171e7567b182910e007",
    ("float4_e2m1fn", "toward_zero"): "663fb4560e4c776ad9c6335a1f42a34f080b4435af09cb4d421f9975305c5f84",
    ("float4_e2m1fn", "toward_positive"): "ffd2596007c09f32d33f32168ed014fe8b722436f9bd051b1c6dd714a7b10501",
    ("float4_e2m1fn", "toward_negative"): "4cd21bbdacf4555f786557b00267b72389f5ef8ef8bdbf2af53e3d0443f6fde7",
    **dict.fromkeys(product(("int8", "uint8"), map(str, Rounding)), "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880"),
    **dict.fromkeys(product(("int16", "uint16"), map(str, Rounding)), "68e419472d25e0b85e9917ccf692fd58245c5e95e9a46f07d1df81d2e9da246b"),
    **dict.fromkeys(product(("int4", "uint4"), map(str, Rounding)), "aeb75d1514cbdb001af65f8826553df8fe6b2e11c67ff3a54435ea400894d7ea"),
}
# fmt: on


def differing(
    rows: Mapping[str, Any], published: Mapping[tuple[str, str], str] = DIGESTS
) -> list[str]:
    """The rows and columns of one backend's table whose digests are not the published ones.

    They are dtypes and roundings, or with other ``published`` ones theirs.
    """
    return [
        f"{row} {column}"
        for (row, column), digest in published.items()
        if rows.get(row, {}).get(column, {}).get("sha256") != digest
    ]
