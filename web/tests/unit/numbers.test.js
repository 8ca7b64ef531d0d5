/** Numbers and their bits: parsed exactly, shown as their value or the shortest decimal that reads back. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { atOrdinal, format, FORMATS, isNaNPattern, nearest, NotANumber, numberOf, ordinal, parse, parts } from "../../../service/tensor_round_service/pages/web/numbers.js";
import { TREE } from "../service.js";

/** @import { DType } from "../../../service/tensor_round_service/pages/web/client/index.js" */

const DTYPES = /** @type {DType[]} */ (Object.keys(FORMATS));
const FLOATS = DTYPES.filter((name) => FORMATS[name].kind === "float");
const SMALL = FLOATS.filter((dtype) => FORMATS[dtype].bits <= 16);

/**
 * Patterns of a wide type: ends of every binade, and some between.
 *
 * @param {DType} dtype
 * @param {number} count
 */
function hard(dtype, count) {
  const { bits, fraction } = FORMATS[dtype];
  /** @type {bigint[]} */
  const found = [];
  for (let e = 0n; e < 1n << BigInt(bits - 1 - fraction); e++) {
    const base = e << BigInt(fraction);
    found.push(base, base + 1n, base + (1n << BigInt(fraction)) - 1n);
  }
  let seed = 0x9e3779b97f4a7c15n;
  for (let i = 0; i < count; i++) {
    seed = BigInt.asUintN(64, seed * 6364136223846793005n + 1442695040888963407n);
    found.push(seed >> BigInt(64 - bits));
  }
  return found;
}

/** @param {DType} dtype */
const patterns = (dtype) =>
  SMALL.includes(dtype) ? Array.from({ length: 2 ** FORMATS[dtype].bits }, (_, i) => BigInt(i)) : hard(dtype, 3000);

for (const dtype of FLOATS) {
  test(`${dtype}: what is shown reads back`, () => {
    for (const bits of patterns(dtype)) {
      if (isNaNPattern(bits, dtype)) assert.equal(format(bits, dtype), "NaN");
      else assert.equal(parse(format(bits, dtype), dtype), bits, `${bits.toString(16)}: ${format(bits, dtype)}`);
    }
  });

  test(`${dtype}: values are NumPy's, and so are shortest decimals where values are not shown`, () => {
    const unsigned = FORMATS[dtype].bits;
    const code = `
import sys, numpy as np, ml_dtypes
bits = np.array([int(s, 16) for s in sys.stdin.read().split()], "<u${Math.ceil(unsigned / 8)}")
x = bits.view(${["float16", "float32", "float64"].includes(dtype) ? `np.${dtype}` : `ml_dtypes.${dtype}`})
short = lambda v: np.format_float_scientific(v, unique=True, trim="-", exp_digits=1) if v.dtype.type.__module__ == "numpy" and np.isfinite(v) else ""
for v in x: print(float(v).hex(), short(v))`;
    const all = patterns(dtype).filter((bits) => !isNaNPattern(bits, dtype));
    const input = all.map((bits) => bits.toString(16)).join(" ");
    const lines = execFileSync(`${TREE}.venv/bin/python`, ["-W", "ignore", "-c", code], { input, encoding: "utf8", maxBuffer: 1 << 26 }).split("\n");
    all.forEach((bits, i) => {
      const [hex, shortest] = lines[i].split(" ");
      const value = numberOf(bits, dtype);
      assert.ok(Object.is(value, fromHex(hex)), `${bits.toString(16)}: ${value} ${hex}`);
      const isShown = FORMATS[dtype].bits <= 8 || (FORMATS[dtype].bits === 16 && Number.isInteger(value) && Math.abs(value) < 1e9);
      if (isShown) assert.ok(Object.is(Number(format(bits, dtype)), value), `${format(bits, dtype)} ${value}`);
      else if (shortest) assert.equal(digitsOf(format(bits, dtype)), digitsOf(shortest), bits.toString(16));
    });
  });
}

/**
 * How many digits count.
 *
 * @param {string} text
 */
function digitsOf(text) {
  return text.replace(/e.*/i, "").replace(/[-+.]/g, "").replace(/^0+|0+$/g, "").length;
}

/** @param {string} text */
function fromHex(text) {
  if (/inf/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  const [, sign, whole = "", fraction = "", power] = /^(-?)0x(\d)\.?([0-9a-f]*)p([+-]\d+)$/.exec(text) ?? [];
  const magnitude = (parseInt(whole + fraction.padEnd(13, "0"), 16) / 2 ** 52) * 2 ** Math.max(Number(power), -1022);
  return sign ? -magnitude : magnitude;
}

test("decimals are rounded once", () => {
  // Twice rounded, by way of a double, both would be 0x4b800000.
  assert.equal(parse("16777217.00000000000000001", "float32"), 0x4b800001n);
  assert.equal(parse("16777216.99999999999999999", "float32"), 0x4b800000n);
  assert.equal(parse("16777217", "float32"), 0x4b800000n); // a tie: to even
  assert.equal(parse("2049.0000000000000001", "float16"), 0x6801n);
  assert.equal(parse("0.1", "float64"), 0x3fb999999999999an);
  assert.equal(parse("1e-400", "float64"), 0n);
  assert.equal(parse("4.9e-324", "float64"), 1n);
  assert.equal(parse("2.4703282292062327e-324", "float64"), 0n);
  assert.equal(parse("2.4703282292062328e-324", "float64"), 1n);
});

test("the ends of the range", () => {
  assert.equal(parse("65519.999", "float16"), 0x7bffn);
  assert.equal(parse("65520", "float16"), 0x7c00n);
  assert.equal(parse("-1e999999999", "float32"), 0xff800000n);
  assert.equal(parse("-1e-999999999", "float32"), 0x80000000n);
  assert.equal(parse("0e999999999", "float32"), 0n);
  assert.equal(parse(`0.${"0".repeat(2000)}1`, "float64"), 0n);
  assert.equal(parse(`${"0".repeat(2000)}1`, "float64"), parse("1", "float64"));
  assert.equal(parse("448", "float8_e4m3fn"), 0x7en);
  assert.equal(parse("464", "float8_e4m3fn"), 0x7en);
  assert.equal(parse("465", "float8_e4m3fn"), 0x7fn); // no infinity there: NaN
  assert.equal(parse("Infinity", "float8_e5m2"), 0x7cn);
});

test("formats without infinity, without -0, without a NaN, and of powers of two", () => {
  for (const [text, bits] of /** @type {const} */ ([["-0", 0n], ["-1e-9", 0n], ["248", 0x80n], ["-inf", 0x80n], ["nan", 0x80n], ["240", 0x7fn]])) {
    assert.equal(parse(text, "float8_e4m3fnuz"), bits, text);
  }
  for (const [text, bits] of /** @type {const} */ ([["-0", 8n], ["5", 6n], ["5.1", 7n], ["-1e9", 15n], ["inf", 7n], ["NaN", 7n], ["0.25", 0n], ["0.75", 2n]])) {
    assert.equal(parse(text, "float4_e2m1fn"), bits, text);
  }
  for (const [text, bits] of /** @type {const} */ ([["1", 127n], ["1.5", 128n], ["1.49", 127n], ["1e-60", 0n], ["0", 255n], ["-1", 255n], ["1e39", 255n], ["NaN", 255n]])) {
    assert.equal(parse(text, "float8_e8m0fnu"), bits, text);
  }
  assert.equal(format(0x80n, "float8_e5m2fnuz"), "NaN");
  assert.deepEqual(parts(0x7fn, "float8_e8m0fnu"), { sign: "", exponent: "01111111", fraction: "" });
  assert.deepEqual(parts(0xbn, "float4_e2m1fn"), { sign: "1", exponent: "01", fraction: "1" });
});

test("zeros, NaN, infinities and bits", () => {
  assert.equal(parse("-0", "float32"), 0x80000000n);
  assert.equal(parse("-.0e5", "float16"), 0x8000n);
  assert.equal(format(0x8000n, "float16"), "-0");
  assert.equal(parse("nan", "float32"), 0x7fc00000n);
  assert.equal(parse("-NaN", "float64"), 0xfff8000000000000n);
  assert.equal(parse("0x7f800001", "float32"), 0x7f800001n);
  assert.equal(parse("-inf", "bfloat16"), 0xff80n);
  assert.equal(format(0xff80n, "bfloat16"), "-Infinity");
  assert.equal(format(1n, "float32"), "1e-45");
  assert.equal(format(1n, "float16"), "6e-8");
  assert.equal(format(0x7bffn, "float16"), "65504");
  assert.equal(format(0x7en, "float8_e4m3fn"), "448");
  assert.equal(format(0xf0n, "float8_e4m3fn"), "-128");
  assert.deepEqual(parts(0xbf800000n, "float32"), { sign: "1", exponent: "01111111", fraction: "0".repeat(23) });
  assert.deepEqual(parts(5n, "int8"), { sign: "", exponent: "", fraction: "00000101" });
});

test("integers", () => {
  assert.equal(parse("-1", "int8"), 255n);
  assert.equal(parse("-8", "int4"), 8n);
  assert.equal(format(15n, "int4"), "-1");
  assert.equal(format(15n, "uint4"), "15");
  assert.equal(parse("1.5e1", "uint8"), 15n);
  assert.equal(parse("1.0", "int64"), 1n);
  assert.equal(parse("0.000", "uint8"), 0n);
  assert.equal(parse("9223372036854775807", "int64"), 2n ** 63n - 1n);
  assert.equal(format(2n ** 63n, "int64"), "-9223372036854775808");
  for (const [text, dtype] of /** @type {const} */ ([["128", "int8"], ["8", "int4"], ["16", "uint4"], ["-1", "uint8"], ["18446744073709551616", "uint64"], ["1e99999", "int32"], ["0.5", "int32"], ["NaN", "int32"], ["0x100", "uint8"]])) {
    assert.throws(() => parse(text, dtype), NotANumber, text);
  }
});

test("what is no number is told in a sentence", () => {
  for (const text of ["", "x", ".", "1e", "1.2.3", "--1", "0x", "1_000", "e5"]) {
    assert.throws(() => parse(text, "float32"), { message: `“${text}” is not a number.` }, text);
  }
  assert.throws(() => parse("0x1ffffffff", "float32"), { message: "0x1ffffffff has more than the 32 bits of float32." });
  assert.throws(() => parse("0.5", "int32"), { message: "int32 holds integers alone: 0.5 is none." });
});

test("values in their order", () => {
  for (const dtype of SMALL) {
    let last = -Infinity;
    for (let at = ordinal(atOrdinal(-(10n ** 6n), dtype), dtype); at <= ordinal(atOrdinal(10n ** 6n, dtype), dtype); at++) {
      const value = numberOf(atOrdinal(at, dtype), dtype);
      assert.ok(value > last && Number.isFinite(value));
      last = value;
    }
  }
  assert.equal(ordinal(0x80000000n, "float32"), 0n);
  assert.equal(atOrdinal(-1n, "float32"), 0x80000001n);
  assert.equal(atOrdinal(-1n, "int8"), 255n);
  assert.equal(nearest(1e300, "float32"), 0x7f7fffffn);
  assert.equal(nearest(2.5, "uint8"), 3n);
  assert.equal(nearest(-7, "uint8"), 0n);
  assert.equal(nearest(-7, "float8_e8m0fnu"), 0n);
  assert.equal(nearest(1e300, "float8_e8m0fnu"), 254n);
  assert.equal(nearest(-1e300, "float8_e4m3fnuz"), 0xffn);
});
