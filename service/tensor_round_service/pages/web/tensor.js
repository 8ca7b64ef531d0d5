/** A tensor as little-endian bytes, at least one an element, and tensors that are typed. */

import { DTYPES } from "./client/index.js";
import { format, FORMATS, NotANumber, numberOf, parse } from "./numbers.js";

/** @import { DType } from "./client/index.js" */

/**
 * @typedef {object} Tensor
 * @property {DType} dtype
 * @property {readonly number[]} shape
 * @property {Uint8Array<ArrayBuffer>} bytes
 */

/**
 * The number of elements.
 *
 * @type {(x: Tensor) => number}
 */
export const length = (x) => x.bytes.length / DTYPES[x.dtype].bytes;

/**
 * The pattern of one element.
 *
 * @param {Tensor} x
 * @param {number} at
 */
export function patternAt(x, at) {
  const size = DTYPES[x.dtype].bytes;
  let bits = 0n;
  for (const byte of x.bytes.subarray(at * size, (at + 1) * size).toReversed()) bits = (bits << 8n) | BigInt(byte);
  return bits;
}

/**
 * A flat tensor of these patterns.
 *
 * @param {readonly bigint[]} patterns
 * @param {DType} dtype
 * @returns {Tensor}
 */
export function fromPatterns(patterns, dtype) {
  const size = DTYPES[dtype].bytes;
  const bytes = new Uint8Array(patterns.length * size);
  patterns.forEach((pattern, index) => {
    for (let at = 0; at < size; at++) bytes[index * size + at] = Number((pattern >> BigInt(8 * at)) & 255n);
  });
  return { dtype, shape: [patterns.length], bytes };
}

/**
 * The first elements of a tensor, as one dimension.
 *
 * @param {Tensor} x
 * @param {number} count
 * @returns {Tensor}
 */
export function head(x, count) {
  const bytes = x.bytes.slice(0, count * DTYPES[x.dtype].bytes);
  return { dtype: x.dtype, shape: [bytes.length / DTYPES[x.dtype].bytes], bytes };
}

/**
 * A flat tensor with leading dimensions of size 1, if an operator takes no lower rank.
 *
 * @param {Tensor} x
 * @param {number} minRank
 * @returns {Tensor}
 */
export const ofRank = (x, minRank) => ({ ...x, shape: [...Array(Math.max(0, minRank - 1)).fill(1), length(x)] });

/**
 * The index of an element in each dimension, from its place in C order.
 *
 * @param {number} at
 * @param {readonly number[]} shape
 */
export function indexAt(at, shape) {
  /** @type {number[]} */
  const index = [];
  for (const size of shape.toReversed()) {
    index.unshift(at % size);
    at = Math.floor(at / size);
  }
  return index;
}

/** @type {(text: string) => string[]} */
const wordsOf = (text) => text.split(/[\s,;[\]()]+/).filter(Boolean);

/**
 * Parse typed numbers, separated by spaces, commas, brackets or line ends. Throws {@link NotANumber},
 * also for what may be a decimal comma.
 *
 * @param {string} text
 * @param {DType} dtype
 */
export function fromText(text, dtype) {
  // A list with brackets, or without a space, has commas between its numbers.
  const comma = /[[\](]/.test(text) ? undefined : text.split(/[\s;]+/).find((word) => /^[-+]?\d+,\d+$/.test(word));
  if (comma) throw new NotANumber(`Is ${comma} one number or two? Write ${comma.replace(",", ".")} or ${comma.replace(",", ", ")}.`);
  return fromPatterns(wordsOf(text).map((word) => parse(word, dtype)), dtype);
}

/** The most numbers that {@link notes} names. */
const NAMED = 3;

/**
 * What is read otherwise than it looks: numbers that the dtype does not have, and how many more there are.
 *
 * @param {string} text
 * @param {DType} dtype
 * @returns {string[]}
 */
export function notes(text, dtype) {
  const found = [];
  for (const word of FORMATS[dtype].kind === "float" ? wordsOf(text) : []) {
    if (word.length > 40 || /^0x/i.test(word)) continue;
    const bits = parse(word, dtype);
    const [own, value] = [format(bits, dtype), numberOf(bits, dtype)];
    // It may be typed as it is, or as it is shown.
    const isThere = [own, String(value)].some((text) => parse(text, "float64") === parse(word, "float64"));
    if (!isThere || isBeyond(word, value)) {
      found.push(`${dtype} has no ${word}: it is read as ${own}.`);
    }
  }
  const more = found.length - NAMED;
  return more > 0 ? [...found.slice(0, NAMED), `And ${more.toLocaleString("en")} more.`] : found;
}

/**
 * Whether a finite decimal other than zero became an infinity, NaN or zero.
 *
 * @param {string} word
 * @param {number} value
 */
function isBeyond(word, value) {
  if (!/^[-+]?[\d.]/.test(word)) return false;
  return !Number.isFinite(value) || (value === 0 && /[1-9]/.test(word.replace(/e.*/i, "")));
}
