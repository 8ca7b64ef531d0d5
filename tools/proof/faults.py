"""Faults to plant in the texts: each must be found, by an operand that it rounds wrong.

They are what goes wrong in kernels like these: a constant beside the right one, a comparison that
takes one value more or less, a lane or sign lost, the shortcut ``trunc(x + 0.5)``, and one pattern
of 2^64.
"""

from __future__ import annotations

from dataclasses import dataclass

from .smt import Refused


@dataclass(frozen=True)
class Fault:
    """A change of the text of one way, of types and a manner: the words of a case."""

    way: str
    types: str
    manner: str
    old: str
    new: str

    def plant(self, text: str) -> str:
        """The text with the fault. It is refused if there is no place for the fault."""
        if self.old not in text:
            raise Refused(f"no {self.old!r} in this text")
        return text.replace(self.old, self.new)


_TABLE: dict[tuple[str, str, str], dict[str, tuple[str, str]]] = {
    ("CUDA C", "float32", "ties_to_away"): {
        "trunc(x + 0.5)": (
            "t += f - t == half ? unit : 0;",
            "t = (f + half + magic) - magic; t -= t > f + half ? unit : 0;",
        ),
    },
    ("CUDA C", "float64", "toward_positive"): {
        "one pattern of 2^64": ("| rounded(w)", "| rounded(w) ^ (w == 0x4059b3333333f00d)"),
    },
    ("CUDA C", "float64", "ties_to_even"): {
        "kept one binade too late": ("m < integral", "m < integral + (1ull << 52)"),
        "NaNs quieted": (": m;", ": m | (m > 0x7ff0000000000000 ? 1ull << 51 : 0);"),
    },
    ("CUDA C", "float32", "toward_zero"): {
        "kept one pattern too early": ("m < integral", "m < integral - 1"),
    },
    ("CUDA C -ftz", "float32", "toward_positive"): {
        "subnormals flushed": ("lift = 0x20000000", "lift = 0"),
        "zero is taken for its sliver": ("t + sliver < f", "t < f"),
    },
    ("CUDA C -ftz", "float16", "toward_zero"): {
        "the upper lane loses its sign": ("w & 0x80008000", "w & 0x00008000"),
    },
    ("CUDA C -ftz", "float8_e5m2", "ties_to_even"): {"lanes exchanged": ("0x4441", "0x4442")},
    ("CUDA C -ftz", "float8_e4m3fnuz", "toward_zero"): {
        "a negative zero": ("s & (r +", "s | 0 & (r +"),
    },
    ("CUDA C -ftz", "float4_e2m1fn", "ties_to_even"): {
        "2 is taken for a half": ("w & ~(w >> 2)", "w & ~(w >> 3)"),
    },
    ("LLVM IR", "float8_e5m2fnuz", "ties_to_even"): {
        "the NaN without a sign": ("%is_sign = icmp eq", "%is_sign = icmp ne"),
    },
    ("casts: CUDA C", "float32 to float8_e4m3fn", "ties_to_even"): {
        "truncated as bfloat16 was": ("rest > (half - (kept & 1))", "rest > most"),
        "saturated unasked": ("y > 0x7e ? 0x7f", "y > 0x7e ? 0x7e"),
    },
    ("casts: CUDA C", "float64 to int64", "toward_negative"): {
        "the least integer takes part of its neighbour": ("exponent >= bits", "exponent > bits"),
        "one operand of 2^64 converted wrong": (
            "& 0xffffffffffffffff",
            "& 0xffffffffffffffff ^ (x == 0x40c3880000000000)",
        ),
    },
    ("casts: CUDA C", "int64 to float32", "ties_to_even"): {
        "64-bit integers through float64": ("top = s << up", "top = s << up >> 11 << 11"),
    },
    ("codes: CUDA C", "float32 to int8", "ties_to_even by float32"): {
        "codes: saturated before the zero point": ("= 127 - point", "= 127"),
        "codes: ties away": ("rest > (half - (kept & 1))", "rest > (half - 1)"),
    },
    ("codes: CUDA C", "float32 to uint16", "ties_to_even by bfloat16"): {
        "codes: the least is another": ("= 0 - point", "= 1 - point"),
    },
    ("casts: LLVM IR", "float32 to float16", "ties_to_away"): {
        "conversions: half a place lost": ("lshr <32 x i32> %whole", "ashr <32 x i32> %fields"),
    },
    ("casts: LLVM IR -O3", "float32 to int8", "ties_to_even"): {
        "conversions: another range": ("i8 127", "i8 126"),
    },
    ("casts: NumPy", "float32 to float8_e5m2", "toward_zero"): {
        "what is lost not kept in the last bit": ("words |= block\n", "words = block\n"),
    },
    ("LLVM IR", "float64", "toward_zero"): {
        "ties away in place of truncation": ("@llvm.trunc.", "@llvm.round."),
    },
    ("LLVM IR", "float64", "ties_to_even"): {
        "one signalling NaN is no NaN": (
            f"%magnitude, splat (i64 {0x7FF << 52})",
            f"%magnitude, splat (i64 {(0x7FF << 52) + 1})",
        ),
    },
    ("LLVM IR", "float16", "ties_to_even"): {
        "poison for negative operands": ("%x = zext", "%x = zext nneg"),
    },
    ("LLVM IR -O3", "float16", "ties_to_away"): {
        "ties compared the wrong way": ("fcmp oeq", "fcmp ole"),
    },
    ("NumPy", "float64", "ties_to_away"): {
        "0.5 in place of its predecessor": (
            "np.nextafter(values.dtype.type(0.5), values.dtype.type(0))",
            "values.dtype.type(0.5)",
        ),
        "the fast way for larger values": ("mantissa_bits - 1", "mantissa_bits"),
    },
    ("NumPy", "float32", "toward_zero"): {
        "NaNs not restored": ("np.copyto(bits, kept, where=nans)", "pass"),
    },
    ("NumPy words", "float16", "ties_to_even"): {
        "a grid of half the size": ("float32.mantissa_bits)", "float32.mantissa_bits / 2)"),
    },
    ("NumPy tables", "float8_e4m3fn", "toward_zero"): {
        "one entry of a table": ("entries.flags.writeable = False", "entries[0x35] ^= 1"),
    },
    ("reference", "float32", "ties_to_even"): {
        "every tie up": ("(integer & integer.dtype.type(1))", "integer.dtype.type(1)"),
    },
    ("PTX sm_90 -ftz", "float64", "ties_to_even"): {
        "PTX: kept two patterns later": ("4841369599423283200", "4841369599423283202"),
        "PTX: another constant": ("0dC330000000000000", "0dC330000000000001"),
        "PTX: the last bit lost": ("9223372036854775807", "9223372036854775806"),
        "PTX: additions rounded toward zero": ("add.f64", "add.rz.f64"),
    },
    ("casts: PTX sm_90 -ftz", "float32 to float8_e4m3fn", "ties_to_even"): {
        "PTX: a shift by one more": (", 28;", ", 29;"),
        "PTX: a choice exchanged": ("%r281, %r280, 0,", "%r281, 0, %r280,"),
        "PTX: two elements exchanged": ("{%r258, %r259,", "{%r259, %r258,"),
        "PTX: results beside their place": ("[%rd57]", "[%rd57+4]"),
        "PTX: a result that depends on its thread": ("%r297, %r299;", "%r297, %r3;"),
    },
}
FAULTS: dict[str, Fault] = {
    name: Fault(*place, *change)
    for place, changes in _TABLE.items()
    for name, change in changes.items()
}
