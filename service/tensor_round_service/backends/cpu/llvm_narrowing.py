"""The last part of conversions to floats, as LLVM assembly: a work float becomes a narrower one.

Its significand is shifted to the target's last place, after an addition that carries what is
rounded away from zero. The place is lower than an exponent's for numbers below the target's least
normal one, hence a shift by lane. From float32 to the nearest, ties to even, the processor rounds
instead, in two thirds of the time: a sum with a power of two that has the target's last place.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert
from tensor_round.contract.rounding import Rounding

from .conversions import FLOAT32, NEAREST

_TO_WORK = """
  %out = select {choices} %inf, {words} {beyond}, {words} %wide
  %is_nan = bitcast {choices} %nan to {choices}"""

#: To a type with the work float's exponents, whose numbers lose as many bits each.
_SHORTEN = """
  %significand = bitcast {words} %wide to {words}
  %shift = bitcast {words} {dropped} to {words}
  %whole = shl {words} {one}, %shift
  %half = lshr {words} %whole, {one}
{carry}
  %sum = add {words} %significand, %carry
  %rounded = lshr {words} %sum, %shift"""

_NARROW = """
  %field = lshr {words} %wide, {work_fraction}
  %is_normal = icmp ne {words} %field, zeroinitializer
  %lead = select {choices} %is_normal, {words} {work_one}, {words} zeroinitializer
  %fraction = and {words} %wide, {work_fraction_mask}
  %significand = or {words} %fraction, %lead
  %exponent = select {choices} %is_normal, {words} %field, {words} {one}
  %is_below = icmp ult {words} %exponent, {least_field}
  %missing = sub {words} {least_field}, %exponent
  %more = select {choices} %is_below, {words} %missing, {words} zeroinitializer
  %any_shift = add {words} %more, {dropped}
  %is_far = icmp ugt {words} %any_shift, {most_shift}
  %shift = select {choices} %is_far, {words} {most_shift}, {words} %any_shift
  %whole = shl {words} {one}, %shift
  %half = lshr {words} %whole, {one}
{carry}
  %sum = add {words} %significand, %carry
  %units = lshr {words} %sum, %shift
  %places = select {choices} %is_below, {words} {least_field}, {words} %exponent
  %fields = sub {words} %places, {least_field}
  %base = shl {words} %fields, {target_fraction}
  %rounded = add {words} %base, %units"""

#: The last bits of the sum count units of the target, from minus the least exponent in units on.
#: ``beyond_number`` has the value of the pattern after the largest number, or saturated of that.
_ADD = """
  %is_high = icmp ugt {words} %wide, {beyond_number}
  %near = select {choices} %is_high, {words} {beyond_number}, {words} %wide
  %exponents = and {words} %near, {work_exponents}
  %is_below = icmp ult {words} %exponents, {least_exponents}
  %places = select {choices} %is_below, {words} {least_exponents}, {words} %exponents
  %grid_bits = add {words} %places, {grid_offset}
  %grid = bitcast {words} %grid_bits to {floats}
  %bounded_number = bitcast {words} %near to {floats}
  %sum = fadd {floats} %bounded_number, %grid
  %sum_bits = bitcast {floats} %sum to {words}
  %fields = lshr {words} %places, {dropped}
  %above = add {words} %sum_bits, %fields
  %out = and {words} %above, {target_mask}
  %is_nan = bitcast {choices} {other_nan} to {choices}"""

#: To the nearest, numbers beyond the largest are carried to infinity, which stays.
_CARRIED = """
  %out = bitcast {words} %rounded to {words}
  %is_nan = bitcast {choices} %nan to {choices}"""

_BOUND = """
{without_zero}
  %is_over = icmp ugt {words} %numbers, {largest}
  %over = select {choices} {stops}, {words} {largest}, {words} {beyond}
  %bounded = select {choices} %is_over, {words} %over, {words} %numbers
  %out = select {choices} %inf, {words} {beyond}, {words} %bounded"""

#: What is added below the place, so that the sum carries whatever is rounded away from zero.
_CARRY: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: """
  %truncated = lshr {words} %significand, %shift
  %last = and {words} %truncated, {one}
  %below_half = sub {words} %half, {one}
  %carry = add {words} %below_half, %last""",
    Rounding.TIES_TO_AWAY: """
  %carry = bitcast {words} %half to {words}""",
    Rounding.TOWARD_ZERO: """
  %carry = bitcast {words} zeroinitializer to {words}""",
    Rounding.TOWARD_POSITIVE: """
  %all = sub {words} %whole, {one}
  %carry = select {choices} %negative, {words} zeroinitializer, {words} %all""",
    Rounding.TOWARD_NEGATIVE: """
  %all = sub {words} %whole, {one}
  %carry = select {choices} %negative, {words} %all, {words} zeroinitializer""",
}
#: Whether numbers beyond the largest become that.
STOPS: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: "zeroinitializer",
    Rounding.TIES_TO_AWAY: "zeroinitializer",
    Rounding.TOWARD_ZERO: "splat (i1 true)",
    Rounding.TOWARD_POSITIVE: "%negative",
    Rounding.TOWARD_NEGATIVE: "%positive",
}

_WITH_ZERO = """
  %numbers = bitcast {words} %rounded to {words}
  %is_nan = bitcast {choices} %nan to {choices}"""

#: A power of two is one less than its exponent and leading bit.
_WITHOUT_ZERO = """
  %powers = sub {words} %rounded, {one}
  %numbers = select {choices} %is_below, {words} zeroinitializer, {words} %powers
  %is_zero = icmp eq {words} %wide, zeroinitializer
  %is_number = xor {choices} %is_zero, splat (i1 true)
  %is_negative = and {choices} %negative, %is_number
  %is_less = and {choices} %is_below, %is_number
  %less_nan = and {choices} %is_less, {less_is_nan}
  %zero_nan = and {choices} %is_zero, {zero_is_nan}
  %nans = or {choices} %nan, %is_negative
  %more_nans = or {choices} %nans, %less_nan
  %is_nan = or {choices} %more_nans, %zero_nan"""

_SIGN = """
  %magnitudes = select {choices} %is_nan, {words} {target_nan}, {words} %out
  %keeps_sign = {keeps_sign}
  %is_signed = and {choices} %negative, %keeps_sign
  %target_signs = select {choices} %is_signed, {words} {target_sign}, {words} zeroinitializer
  %pattern = or {words} %magnitudes, %target_signs
  %result = {trunc} {words} %pattern to {results}"""


def narrowed(function: Convert, target: DType, work: DType) -> Iterator[str]:
    """The texts from ``%wide``, a magnitude of the work float, to ``%result``."""
    rounding, carry = function.rounding, _CARRY[function.rounding]
    bound = _BOUND.replace("{without_zero}", _WITH_ZERO if target.mantissa_bits else _WITHOUT_ZERO)
    if target is work:
        yield _TO_WORK
    elif target.exponent_bits == work.exponent_bits:
        yield _SHORTEN.replace("{carry}", carry)
        yield _CARRIED if rounding in NEAREST and not function.saturates else bound
    elif work is FLOAT32 and rounding is Rounding.TIES_TO_EVEN:
        yield _ADD
    else:
        yield _NARROW.replace("{carry}", carry)
        yield bound
    yield _SIGN
