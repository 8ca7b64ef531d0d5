"""Published digests of quantization: the SHA-256 of the correct results for all narrow patterns.

For a source type of 4, 8 or 16 bits and a target type: take the patterns 0, 1, 2, ... (2^4, 2^8 or
2^16 elements, as on the wire) by each function of :data:`FUNCTIONS`, each scale of
:func:`scales_of`, and first without a zero point, then with that of the pattern :data:`POINT`. The
results lie one behind the other, as on the wire.

As those of casts, they come from an independent reference
(``tensor_round_verify.conversions.linear``), ``tests/verify/test_quantization_digests.py``
recomputes them, and a published digest never changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from .cast_digests import CAST_DIGESTS, TypePair
from .dtypes import BY_NAME
from .functions import Dequantize, Linear, Quantize

#: By the operator, the functions whose results are hashed, in their order.
FUNCTIONS: dict[str, tuple[Linear, ...]] = {
    "quantize": (Quantize(), Quantize(precision=BY_NAME["bfloat16"], saturates=False)),
    "dequantize": (Dequantize(),),
}
#: Types of scales, and their patterns: 0.1, -2.5, 7.6875, 2^-7, 0 and 3.
SCALES = (
    ("float32", 0x3DCCCCCD),
    ("float16", 0xC100),
    ("bfloat16", 0x40F6),
    ("float8_e8m0fnu", 0x78),
    ("float32", 0),
    ("int32", 3),
)
#: The pattern of the zero point: 3, or a small number of a float type.
POINT = 3

#: An operator, a source type, a target type, and the digest in hexadecimal.
_TABLE = """
quantize float16 int8 a044505d68224efa8730ac842aa99b4fc77a017abef412de938034a37502d7b0
quantize float16 uint8 4fbeb55fd7dd74835bbb3f6a96c14a680471e18a4741e608bb059799f0f4b23a
quantize float16 float8_e4m3fn a20d8f11f17dbf496601322d7e5dc07dce93ecf92553948fe70e01bb582677b5
quantize float16 float8_e4m3fnuz c9a7b7c061c9421b458cab39c45c1196c8aec511afa5b73327d185dae5d7d3b3
quantize float16 float8_e5m2 61067f8b26f9f49ce94b8ea8a4ca511be7c337ea45f441fbd1b8baba4b3bb06d
quantize float16 float8_e5m2fnuz eec5005b821b29fee0271bde38f2264f4bca451033c1959fc1b8649d4b706e8e
quantize float16 int16 bc78377e09c21f5501647270b7d85f68259706f67f1aa5aa67802fffb419b974
quantize float16 uint16 f722725c5020d7acdeb0df6c9ea8edd3af75d04c58fe146c05e4b8bc917746e0
quantize float16 int4 2403691e62511bc924c7aa68894b1ef0a6e1578746c0898db7612815f6f49729
quantize float16 uint4 569455b11eae301541eac0631bc8f6d0c37d07e844a65198c08162010ddd1d15
quantize float16 float4_e2m1fn 605ace5d5be9400c085b4900811653f0e2b5590b36ea433a39a19b9c882f060c
quantize bfloat16 int8 53c9c9d49c89bf3ffdd1726df4bd11fd22a4464e0ac15aa14d91a8e49f1ab636
quantize bfloat16 uint8 86f2d2e2991abaad032286b57b952109e8fd9a2b81e79eca559ad21fbde139c0
quantize bfloat16 float8_e4m3fn b8b5fd36a01d6a29db14dae11ad90df70499d740333fc1ab24982c53af048e44
quantize bfloat16 float8_e4m3fnuz 9fe5b6d16fa1b9df2f47e0b80ba38fa0962f0fbe59bbd10c50978b7869a5c07e
quantize bfloat16 float8_e5m2 c2ef11fb2d7f8bed59f628d2acf7890e767ccea863f7e6c81f9dbdee8e36078f
quantize bfloat16 float8_e5m2fnuz bf5654bcc163e0894de7d5856bff5a6388936accd201fa37d64ff04911f9578d
quantize bfloat16 int16 7d11e6f6769c5d35301b9e0d39ad6505b4fab965e4d36ef4e6789363b87f2bec
quantize bfloat16 uint16 e1e0ca994b0bd7d14719cf5bc982cb71f9cfaf56c15693d13e348bde2b3419ab
quantize bfloat16 int4 f81312e6818b014119535572714bb0516192a827fee0ad8d0e52af24f0238785
quantize bfloat16 uint4 e6d1d543fc314a7c13dd2249cbcd17c923282ea2210cb2475a23b3d8bd573cbc
quantize bfloat16 float4_e2m1fn 7ff405057c5f2143c976938e04994fa3a5e16f29c1f4777231293a5da446180c
dequantize int8 float32 8ec2467dfc5976c3d5701d17ac650d810b56ac288a1ff96256fe6b0f54770d91
dequantize int8 float16 431c855824e6b7ee5df37bc4e91ff2b9939c499160a220aaf44dbfe79925cd66
dequantize int8 bfloat16 af77d072dbb37d73792a32fe977d5cae206ba846c08fbb572b59299931d69fa1
dequantize uint8 float32 70ff990df19b10f4d7d8502249c40f43d2055961f80b49da49b4e90c650e207e
dequantize uint8 float16 e048766671630e953646c6aa8a13283b7d9990147e1cf3613b23b4029ccb0bf8
dequantize uint8 bfloat16 9832ad468decb074ece17701109c1e37e0ad4cd7b63622b21188b4782ac1c857
dequantize float8_e4m3fn float32 90c678b31fd598da14a757831b6863785d93461361a13b97cb9882999d297fcf
dequantize float8_e4m3fn float16 dcb99e7d7d84b45c889ad5b7f590ace6d4d617249bbc46cb8485bc734731317a
dequantize float8_e4m3fn bfloat16 231c09d4bc80f49ed5e3649e643fadadcf7ad3479ae48fee12a12d64586186f1
dequantize float8_e4m3fnuz float32 9799864ef2733086e40b35802dce7a8e55d3c4d9ea0cc14a34b800f117d31415
dequantize float8_e4m3fnuz float16 7d8fc45e1d3186fc3f67b7e1fcfbb5adbdea8b61bc052da00194a69c416d4842
dequantize float8_e4m3fnuz bfloat16 689ab84b44b9abebb80aa250a34748ade37deb263c1d87519ac5d0734598f83c
dequantize float8_e5m2 float32 25ae04a82468ab0227d9f677bbb1971b82f1327deb798e5d7a914bab93575fa1
dequantize float8_e5m2 float16 8ca6a689edc66832335c88af560f2e16dc45935eb7cd421b832b3abddf1a9b9e
dequantize float8_e5m2 bfloat16 87f55c3a5df828f97bd028f90a521e233814240c8cb8da28d0383114e8800d38
dequantize float8_e5m2fnuz float32 3249774e8c754d174d85dd3cc087a9b2c010dd73171a048bf5786a98dde2551a
dequantize float8_e5m2fnuz float16 e4f94bb76d04aaddab1d84d76243fced566f3895649573bbbd4b98a8dbdc7cfe
dequantize float8_e5m2fnuz bfloat16 cddfce463beeef7d3fd7b093345893173abf26e7def8d5799efe893b50ef03ff
dequantize int16 float32 ce332dda822a72812c0f54b635fccd6f1e2b96a3cfe0321547277da66d0ce5d5
dequantize int16 float16 85f67c1a8b409b318c055f29ef7d8d0014cb33badfcd89f279694ee68d53be81
dequantize int16 bfloat16 ab5b5239e6c15023708b65e00b227976f212354e4727035ba06dec627a03dd14
dequantize uint16 float32 fc7d51142d2eb0d0d06646b46eb8dad15424675649bd794a4cfa659f5bb74f93
dequantize uint16 float16 6bd31b037b2961bbe28a8e660f039321da6cc62b053ed7409578d2050f943c4b
dequantize uint16 bfloat16 5a8fd6b797f0e348c3e8104bb8527b61dc4f4773e580135f8c1abad17b5345fc
dequantize int4 float32 3d1304b47c6b27c5348ba39134e74ebb1fb7d3ba28dad1a23d14139cf671ce36
dequantize int4 float16 5fb37a61399343647293402f321bd24b95f4e50991c971d046cc05b47790e7b2
dequantize int4 bfloat16 8b2b76687228d900943185abe2fb49f4aa31483b46d43e7d4c3ffbc83e223547
dequantize uint4 float32 694fe53d1a9b05ca6baf265bbca46d3aa2f36c8eddca25b030cf4f4e77d34395
dequantize uint4 float16 e434b846baf2939dab2f27f31c0667fb0bb6586538b6bf7ad75d11dbeac9e3d7
dequantize uint4 bfloat16 b865eb95be273a5d973eb28560c16569f9da96d91ccb59aa67a3655e7918f88b
dequantize float4_e2m1fn float32 e9d7be945b7a1eb09b2c01d61f4f89bf8e705cdf6c702279b34aa8e81ca3f34c
dequantize float4_e2m1fn float16 9e1830e4303b43d1222e0dca2f37117260bc0c35bf63099a85f2083893eba330
dequantize float4_e2m1fn bfloat16 9151b4738449c2254b63070fe34b13607142bcc05931fc86d969714b339d5a69
"""

QUANTIZATION_DIGESTS: dict[str, dict[TypePair, str]] = {operator: {} for operator in FUNCTIONS}
for _operator, _source, _target, _digest in map(str.split, _TABLE.split("\n")[1:-1]):
    QUANTIZATION_DIGESTS[_operator][_source, _target] = _digest

#: By the operator between types, the member of the conformance document that has its digests.
MEMBERS = {"cast": "casts", "quantize": "quantizations", "dequantize": "dequantizations"}
#: The digests of all operators between types.
PUBLISHED: Mapping[str, Mapping[TypePair, str]] = {"cast": CAST_DIGESTS, **QUANTIZATION_DIGESTS}


def scales_of(operator: str) -> tuple[tuple[str, int], ...]:
    """The types and patterns of an operator's scales; a dequantization takes no ``int32``."""
    return SCALES if operator == "quantize" else SCALES[:-1]


def published(
    operator: str, dtype: str | None = None, to: str | None = None
) -> dict[TypePair, str]:
    """The published digests of an operator, from ``dtype`` and to ``to`` if these are given."""
    return {
        (source, target): digest
        for (source, target), digest in PUBLISHED[operator].items()
        if dtype in (None, source) and to in (None, target)
    }
