/** Conversion between decimals and bit patterns: one rounding in; out the value, or the shortest decimal that reads back. */

/** @import { DType } from "./client/index.js" */

/**
 * The patterns that are no numbers: infinities and NaNs, with all bits of the exponent; the `last`
 * magnitude, a NaN; the `zero` with a sign, a NaN; or `none`.
 *
 * @typedef {"ieee" | "last" | "zero" | "none"} Specials
 */

/**
 * @typedef {object} Format
 * @property {"float" | "int" | "uint"} kind
 * @property {number} bits
 * @property {number} fraction Bits of the fraction; the exponent has the rest but the sign.
 * @property {Specials} specials
 * @property {boolean} isPower Whether the numbers are powers of two alone, without a sign.
 */

/** @type {(bits: number, fraction: number, specials?: Specials, isPower?: boolean) => Format} */
const float = (bits, fraction, specials = "ieee", isPower = false) => ({ kind: "float", bits, fraction, specials, isPower });
/** @type {(kind: "int" | "uint", bits: number) => Format} */
const integer = (kind, bits) => ({ kind, bits, fraction: bits, specials: "none", isPower: false });

/** @type {Readonly<Record<DType, Format>>} */
export const FORMATS = {
  float16: float(16, 10),
  bfloat16: float(16, 7),
  float32: float(32, 23),
  float64: float(64, 52),
  float8_e4m3fn: float(8, 3, "last"),
  float8_e5m2: float(8, 2),
  int8: integer("int", 8),
  int16: integer("int", 16),
  int32: integer("int", 32),
  int64: integer("int", 64),
  uint8: integer("uint", 8),
  uint16: integer("uint", 16),
  uint32: integer("uint", 32),
  uint64: integer("uint", 64),
  float8_e4m3fnuz: float(8, 3, "zero"),
  float8_e5m2fnuz: float(8, 2, "zero"),
  float8_e8m0fnu: float(8, 0, "last", true),
  float4_e2m1fn: float(4, 1, "none"),
  int4: integer("int", 4),
  uint4: integer("uint", 4),
};

/** The input is not a number of the dtype; the message is a sentence for the user. */
export class NotANumber extends Error {}

const DECIMAL = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i;
const PATTERN = /^0x[0-9a-f]+$/i;
/** @type {Readonly<Record<string, string>>} */
const WORDS = { nan: "nan", inf: "infinity", infinity: "infinity" };
/** A power of ten beyond the range of every format. */
const FAR = 1000;

/** @type {(f: Format) => bigint} */
const signBit = (f) => (f.isPower ? 0n : 1n << BigInt(f.bits - 1));
/**
 * All bits but the sign.
 *
 * @type {(f: Format) => bigint}
 */
const magnitudeMask = (f) => (1n << BigInt(f.bits - (f.isPower ? 0 : 1))) - 1n;
/** @type {(f: Format) => number} */
const bias = (f) => 2 ** (f.bits - (f.isPower ? 1 : 2) - f.fraction) - (f.specials === "zero" ? 0 : 1);
/**
 * The exponent of the least numbers, which the subnormal ones have too.
 *
 * @type {(f: Format) => number}
 */
const least = (f) => (f.isPower ? 0 : 1) - bias(f);
/** @type {(f: Format) => bigint} */
const fractionMask = (f) => (1n << BigInt(f.fraction)) - 1n;
/**
 * The largest magnitude that is finite, as a pattern.
 *
 * @type {(f: Format) => bigint}
 */
const largest = (f) => {
  if (f.specials === "ieee") return infinity(f) - 1n;
  return magnitudeMask(f) - (f.specials === "last" ? 1n : 0n);
};
/**
 * The pattern of infinity; where there is none, that of NaN; where there is none, the largest number.
 *
 * @type {(f: Format) => bigint}
 */
const infinity = (f) => {
  if (f.specials === "zero") return signBit(f);
  return f.specials === "ieee" ? magnitudeMask(f) & ~fractionMask(f) : magnitudeMask(f);
};
/** @type {(f: Format) => bigint} */
const nan = (f) => (f.specials === "ieee" ? infinity(f) | (1n << BigInt(f.fraction - 1)) : infinity(f));

/**
 * Parse a decimal, NaN, an infinity, or bits in hexadecimal. Throws {@link NotANumber}.
 *
 * @param {string} text
 * @param {DType} dtype
 * @returns {bigint}
 */
export function parse(text, dtype) {
  const f = FORMATS[dtype];
  if (PATTERN.test(text)) {
    const bits = BigInt(text);
    if (bits >> BigInt(f.bits)) throw new NotANumber(`${text} has more than the ${f.bits} bits of ${dtype}.`);
    return bits;
  }
  const sign = text.startsWith("-");
  const word = WORDS[text.replace(/^[+-]/, "").toLowerCase()];
  if (word !== undefined) {
    if (f.kind !== "float") throw new NotANumber(`${dtype} has no ${text}.`);
    return (word === "nan" ? nan(f) : infinity(f)) | (sign ? signBit(f) : 0n);
  }
  const found = DECIMAL.exec(text);
  const digits = (found?.[2] ?? "") + (found?.[3] ?? "");
  if (!found || digits === "") throw new NotANumber(`“${text.slice(0, 40)}” is not a number.`);
  const power = Number(found[4] ?? 0) - (found[3] ?? "").length;
  return f.kind === "float" ? floatOf(sign, digits, power, f) : integerOf(sign, digits, power, text, dtype);
}

/**
 * @param {boolean} sign
 * @param {string} digits
 * @param {number} power
 * @param {Format} f
 */
function floatOf(sign, digits, power, f) {
  const whole = BigInt(digits);
  if (f.isPower && (sign || whole === 0n)) return nan(f);
  const zero = sign ? signBit(f) : 0n;
  const size = digits.length + power; // the value is below 10 ** size
  if (whole === 0n || size < -FAR) return f.specials === "zero" ? 0n : zero;
  if (size - (digits.length - String(whole).length) > FAR) return zero | infinity(f);
  const [num, den] = power >= 0 ? [whole * 10n ** BigInt(power), 1n] : [whole, 10n ** BigInt(-power)];
  let exponent = bitLength(num) - bitLength(den);
  if (shift(den, exponent) > shift(num, -exponent)) exponent -= 1;
  exponent = Math.max(exponent, least(f));
  const quantum = exponent - f.fraction;
  const significand = divideToEven(shift(num, -quantum), shift(den, quantum));
  // Powers of two have no significand of 0 either: the least one stands for what is below.
  const above = f.isPower ? (significand > 1n ? 1n : 0n) : significand;
  const magnitude = (BigInt(exponent - least(f)) << BigInt(f.fraction)) + above;
  if (magnitude > largest(f)) return zero | infinity(f);
  return magnitude === 0n && f.specials === "zero" ? 0n : zero | magnitude;
}

/**
 * @param {boolean} sign
 * @param {string} digits
 * @param {number} power
 * @param {string} text
 * @param {DType} dtype
 */
function integerOf(sign, digits, power, text, dtype) {
  const f = FORMATS[dtype];
  const most = 1n << BigInt(f.kind === "int" ? f.bits - 1 : f.bits);
  const beyond = new NotANumber(`${text.slice(0, 40)} is beyond the range of ${dtype}.`);
  const zeros = digits.length - digits.replace(/0+$/, "").length;
  if (/^0*$/.test(digits)) return 0n;
  if (-power > zeros) throw new NotANumber(`${dtype} holds integers alone: ${text.slice(0, 40)} is none.`);
  if (digits.length + power > FAR) throw beyond;
  const magnitude = power >= 0 ? BigInt(digits) * 10n ** BigInt(power) : BigInt(digits) / 10n ** BigInt(-power);
  const value = sign ? -magnitude : magnitude;
  if (value >= most || value < (f.kind === "int" ? -most : 0n)) throw beyond;
  return BigInt.asUintN(f.bits, value);
}

/** Integers of half-precision formats below it are shown digit by digit. */
const SHORT = 1e9;

/**
 * The value of a pattern: of floats of 8 bits and fewer as JSON has it, also of short integers of 16
 * bits; of others the shortest decimal that reads back. NaN for every NaN.
 *
 * @param {bigint} bits
 * @param {DType} dtype
 * @returns {string}
 */
export function format(bits, dtype) {
  const f = FORMATS[dtype];
  if (f.kind !== "float") return String(f.kind === "int" ? BigInt.asIntN(f.bits, bits) : bits);
  const value = numberOf(bits, dtype);
  if (Object.is(value, -0)) return "-0";
  const isExact = f.bits <= 8 || f.bits === 64 || (f.bits === 16 && Number.isInteger(value) && Math.abs(value) < SHORT);
  if (!Number.isFinite(value) || isExact) return String(value);
  for (let digits = 0; digits < 17; digits++) {
    const [mantissa = "", power] = value.toExponential(digits).split("e");
    const nearest = BigInt(mantissa.replace(".", ""));
    // The rounding interval is asymmetric at powers of two, so try the adjacent digits too.
    for (const candidate of [nearest, nearest - 1n, nearest + 1n]) {
      const text = `${candidate}e${Number(power) - digits}`;
      if (parse(text, dtype) === bits) return String(Number(text));
    }
  }
  return String(value);
}

/**
 * The value of a pattern as a double: exact for floats, rounded for large integers.
 *
 * @param {bigint} bits
 * @param {DType} dtype
 * @returns {number}
 */
export function numberOf(bits, dtype) {
  const f = FORMATS[dtype];
  if (f.kind !== "float") return Number(f.kind === "int" ? BigInt.asIntN(f.bits, bits) : bits);
  if (f.bits === 64) return /** @type {number} */ (new Float64Array(BigUint64Array.of(bits).buffer)[0]);
  const magnitude = bits & magnitudeMask(f);
  const sign = magnitude === bits ? 1 : -1;
  if (f.specials === "zero" && bits === signBit(f)) return NaN;
  if (magnitude > largest(f)) return f.specials === "ieee" && magnitude === infinity(f) ? sign * Infinity : NaN;
  const exponent = Number(magnitude >> BigInt(f.fraction)) - bias(f);
  const isNormal = exponent >= least(f);
  const significand = Number(magnitude & fractionMask(f)) + (isNormal ? 2 ** f.fraction : 0);
  return sign * significand * 2 ** (Math.max(exponent, least(f)) - f.fraction);
}

/**
 * Whether it is a NaN.
 *
 * @type {(bits: bigint, dtype: DType) => boolean}
 */
export const isNaNPattern = (bits, dtype) => FORMATS[dtype].kind === "float" && Number.isNaN(numberOf(bits, dtype));

/**
 * The pattern that the word NaN stands for.
 *
 * @type {(dtype: DType) => bigint}
 */
export const nanOf = (dtype) => nan(FORMATS[dtype]);

/**
 * The bits as text: sign, exponent and fraction. Integers have a fraction only.
 *
 * @param {bigint} bits
 * @param {DType} dtype
 */
export function parts(bits, dtype) {
  const f = FORMATS[dtype];
  const text = bits.toString(2).padStart(f.bits, "0");
  if (f.kind !== "float") return { sign: "", exponent: "", fraction: text };
  const [start, split] = [f.isPower ? 0 : 1, f.bits - f.fraction];
  return { sign: text.slice(0, start), exponent: text.slice(start, split), fraction: text.slice(split) };
}

/**
 * The index of a finite value among all values of its dtype in ascending order; 0 for both zeros.
 *
 * @param {bigint} bits
 * @param {DType} dtype
 * @returns {bigint}
 */
export function ordinal(bits, dtype) {
  const f = FORMATS[dtype];
  if (f.kind === "uint") return bits;
  if (f.kind === "int") return BigInt.asIntN(f.bits, bits);
  return bits & signBit(f) ? -(bits & magnitudeMask(f)) : bits;
}

/**
 * The inverse of {@link ordinal}, limited to finite values.
 *
 * @param {bigint} at
 * @param {DType} dtype
 * @returns {bigint}
 */
export function atOrdinal(at, dtype) {
  const f = FORMATS[dtype];
  const half = signBit(f);
  /** @type {Record<Format["kind"], [bigint, bigint]>} */
  const ends = { float: [f.isPower ? 0n : -largest(f), largest(f)], int: [-half, half - 1n], uint: [0n, 2n * half - 1n] };
  const [low, high] = ends[f.kind];
  const held = at < low ? low : at > high ? high : at;
  if (f.kind !== "float") return BigInt.asUintN(f.bits, held);
  return held < 0n ? half | -held : held;
}

/** An ordinal beyond those of every dtype. */
const BEYOND = 1n << 64n;

/**
 * The lowest and the highest finite value of a dtype, as doubles.
 *
 * @param {DType} dtype
 * @returns {[number, number]}
 */
export const endsOf = (dtype) => [numberOf(atOrdinal(-BEYOND, dtype), dtype), numberOf(atOrdinal(BEYOND, dtype), dtype)];

/**
 * The finite value of a dtype that is nearest to a double.
 *
 * @param {number} x
 * @param {DType} dtype
 * @returns {bigint}
 */
export function nearest(x, dtype) {
  if (FORMATS[dtype].kind !== "float") return atOrdinal(BigInt(Math.round(x)), dtype);
  const [low, high] = endsOf(dtype);
  return parse(String(Math.min(Math.max(x, low), high)), dtype);
}

/** @param {bigint} value */
function bitLength(value) {
  return value.toString(2).length;
}

/**
 * @param {bigint} value
 * @param {number} by
 */
function shift(value, by) {
  return by > 0 ? value << BigInt(by) : value;
}

/**
 * @param {bigint} num
 * @param {bigint} den
 */
function divideToEven(num, den) {
  const quotient = num / den;
  const twice = 2n * (num - quotient * den);
  return twice > den || (twice === den && quotient & 1n) ? quotient + 1n : quotient;
}
