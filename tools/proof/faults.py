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
    """A change of the text of one way, dtype and rounding."""

    way: str
    dtype: str
    rounding: str
    old: str
    new: str

    def plant(self, text: str) -> str:
        """The text with the fault. It is refused if there is no place for the fault."""
        if self.old not in text:
            raise Refused(f"no {self.old!r} in this text")
        return text.replace(self.old, self.new)


_AWAY = "t += f - t == half ? unit : 0;"
FAULTS: dict[str, Fault] = {
    "trunc(x + 0.5)": Fault(
        *("CUDA C", "float64", "ties_to_away", _AWAY),
        "t = (f + half + magic) - magic; t -= t > f + half ? unit : 0;",
    ),
    "one pattern of 2^64": Fault(
        *("CUDA C", "float64", "toward_positive", "w & sign | rounded(w)"),
        "w & sign | rounded(w) ^ (w == 0x4059b3333333f00d)",
    ),
    "kept one binade too late": Fault(
        *("CUDA C", "float64", "ties_to_even", "m < integral ?"), "m < integral + (1ull << 52) ?"
    ),
    "kept one pattern too early": Fault(
        *("CUDA C", "float32", "toward_zero", "m < integral ?"), "m < integral - 1 ?"
    ),
    "NaNs quieted": Fault(
        *("CUDA C", "float64", "ties_to_even", ": m;"),
        ": m | (m > 0x7ff0000000000000 ? 1ull << 51 : 0);",
    ),
    "subnormals flushed": Fault(
        *("CUDA C -ftz", "float32", "toward_positive", "lift = 0x20000000"), "lift = 0"
    ),
    "zero is taken for its sliver": Fault(
        *("CUDA C -ftz", "float32", "toward_positive", "t + sliver < f"), "t < f"
    ),
    "the upper lane loses its sign": Fault(
        *("CUDA C -ftz", "float16", "toward_zero", "w & 0x80008000"), "w & 0x00008000"
    ),
    "lanes exchanged": Fault(*("CUDA C -ftz", "float8_e5m2", "ties_to_even", "0x4441"), "0x4442"),
    "away in place of toward zero": Fault(
        *("LLVM IR", "float64", "toward_zero", "llvm.trunc."), "llvm.round."
    ),
    "a signalling NaN is no NaN": Fault(
        *(
            "LLVM IR",
            "float64",
            "ties_to_even",
            f"ugt <8 x i64> %magnitude, splat (i64 {0x7FF << 52})",
        ),
        f"ugt <8 x i64> %magnitude, splat (i64 {(0x7FF << 52) + 1})",
    ),
    "ties compared the wrong way": Fault(
        *("LLVM IR -O3", "float16", "ties_to_away", "fcmp oeq"), "fcmp ole"
    ),
    "a flag that is not kept": Fault(
        *("LLVM IR", "float16", "ties_to_even", "%x = zext"), "%x = zext nneg"
    ),
    "0.5 in place of its predecessor": Fault(
        *("NumPy", "float64", "ties_to_away"),
        "np.nextafter(values.dtype.type(0.5), values.dtype.type(0))",
        "values.dtype.type(0.5)",
    ),
    "the fast way for larger values": Fault(
        *("NumPy", "float64", "ties_to_away", "(2.0 ** (dtype.mantissa_bits - 1))"),
        "(2.0 ** dtype.mantissa_bits)",
    ),
    "NaNs not restored": Fault(
        *("NumPy", "float32", "toward_zero", "np.copyto(bits, kept, where=nans)"), "pass"
    ),
    "a grid of half the size": Fault(
        *("NumPy words", "float16", "ties_to_even", "unit * 2.0**float32.mantissa_bits"),
        "unit * 2.0**(float32.mantissa_bits - 1)",
    ),
    "one entry of a table": Fault(
        *("NumPy tables", "float8_e4m3fn", "toward_zero", "entries.flags.writeable = False"),
        "entries[0x35] ^= 1",
    ),
    "a reference with ties up": Fault(
        *(
            "reference",
            "float32",
            "ties_to_even",
            "rest + (integer & integer.dtype.type(1))) > half",
        ),
        "rest + integer.dtype.type(1)) > half",
    ),
    "PTX keeps from one pattern later on": Fault(
        *("PTX sm_90 -ftz", "float64", "ties_to_even", "4841369599423283200"), "4841369599423283201"
    ),
    "PTX adds another constant": Fault(
        *("PTX sm_90 -ftz", "float64", "ties_to_even", "0dC330000000000000"), "0dC330000000000001"
    ),
    "PTX without the carry of a comparison": Fault(
        *("PTX sm_90 -ftz", "float64", "ties_to_even", "setp.lt.u64"), "setp.le.u64"
    ),
}
