/** Sampling a rounding direction over a range, and the levels of its staircase. */

import { atOrdinal, endsOf, FORMATS, nearest, numberOf, ordinal } from "./numbers.js";

/** @import { DType } from "./client/index.js" */

/**
 * `every` value of the dtype in the range; every `step`; or the `trend` of a wide range.
 *
 * @typedef {object} Sample
 * @property {"every" | "steps" | "trend"} kind
 * @property {readonly bigint[]} patterns
 */

const MOST_VALUES = 400n;
const MOST_UNITS = 60;
/** All values of a type of 8 bits have a step. */
const MOST_STEPS = 256n;
const TREND_POINTS = 300;

/**
 * The places where roundings to integral values change: integers and ties; undefined if there are too many.
 *
 * @param {number} from
 * @param {number} to
 */
export function halves(from, to) {
  if (to - from > MOST_UNITS) return undefined;
  /** @type {number[]} */
  const found = [];
  for (let half = Math.ceil(from * 2); half <= to * 2; half++) found.push(half / 2);
  return found;
}

/**
 * The places where conversions to a type change: its values, the middles between them, and those behind the last
 * ones, as if there were one more. Undefined if there are too many.
 *
 * @param {number} from
 * @param {number} to
 * @param {DType} target
 */
export function middles(from, to, target) {
  const [first, last] = [ordinal(nearest(from, target), target), ordinal(nearest(to, target), target)];
  if (last - first > MOST_STEPS) return undefined;
  /** @param {bigint} at */
  const value = (at) => numberOf(atOrdinal(at, target), target);
  /** @type {(at: bigint, by: bigint) => number} */
  const next = (at, by) => {
    if (atOrdinal(at + by, target) !== atOrdinal(at, target)) return value(at + by);
    const [end, inner] = [value(at), value(at - by)];
    return FORMATS[target].isPower ? end ** 2 / inner : 2 * end - inner;
  };
  const found = [(next(first, -1n) + value(first)) / 2];
  for (let at = first; at <= last; at++) found.push(value(at), (value(at) + next(at, 1n)) / 2);
  return found;
}

/**
 * The values to round. A direction is constant between two values that have the same result.
 *
 * @param {number} from
 * @param {number} to
 * @param {DType} dtype
 * @param {readonly number[]} [edges] Where results change; undefined if there are too many.
 * @returns {Sample}
 */
export function sample(from, to, dtype, edges = halves(from, to)) {
  const first = ordinal(nearest(from, dtype), dtype);
  const last = ordinal(nearest(to, dtype), dtype);
  if (last - first <= MOST_VALUES) {
    const patterns = [];
    for (let at = first; at <= last; at++) patterns.push(atOrdinal(at, dtype));
    return { kind: "every", patterns };
  }
  const ordinals = new Set([first, last]);
  for (const edge of edges ?? []) {
    // Or at a neighbour of it.
    const at = ordinal(nearest(edge, dtype), dtype);
    for (const near of [at - 1n, at, at + 1n]) if (first <= near && near <= last) ordinals.add(near);
  }
  if (!edges) {
    for (let i = 1; i < TREND_POINTS; i++) {
      const x = from + ((to - from) * i) / TREND_POINTS;
      ordinals.add(ordinal(nearest(x, dtype), dtype));
    }
  }
  const ordered = [...ordinals].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return { kind: edges ? "steps" : "trend", patterns: ordered.map((at) => atOrdinal(at, dtype)) };
}

/** @typedef {{ from: number, to: number, y: number }} Segment A level of the staircase. */

/**
 * An end of a level: closed if the value at x is on this level, open otherwise.
 *
 * @typedef {{ x: number, y: number, isOpen: boolean }} Mark
 */

/**
 * The levels of a staircase, and the marks at their ends.
 *
 * @param {readonly number[]} xs
 * @param {readonly number[]} ys
 * @param {(x: number) => boolean} [isEdge] Whether results change at a value.
 */
export function levels(xs, ys, isEdge = (x) => Number.isInteger(x * 2)) {
  /** @type {Segment[]} */
  const segments = [];
  /** @type {Mark[]} */
  const marks = [];
  /** @type {(values: readonly number[], at: number) => number} */
  const value = (values, at) => values[at] ?? NaN;
  let start = 0;
  for (let i = 1; i <= xs.length; i++) {
    if (i < xs.length && ys[i] === ys[start]) continue;
    segments.push({ from: value(xs, start), to: value(xs, i - 1), y: value(ys, start) });
    const [end, next] = [value(xs, i - 1), value(xs, i)];
    // The change lies between two neighbours; the one that is an edge ends both levels.
    if (i < xs.length && (isEdge(end) || isEdge(next))) {
      const at = isEdge(end) ? end : next;
      marks.push({ x: at, y: value(ys, i - 1), isOpen: at === next }, { x: at, y: value(ys, i), isOpen: at === end });
    }
    start = i;
  }
  return { segments, marks };
}

/** The least width of a range, in parts of its middle: four spacings of the doubles that it consists of. */
const FINEST = 2 ** -50;

/**
 * Limit a range to the finite values of a dtype, and its width to at least four spacings.
 *
 * @param {number} from
 * @param {number} to
 * @param {DType} dtype
 * @returns {[number, number]}
 */
export function heldRange(from, to, dtype) {
  const ends = endsOf(dtype);
  const [low, high] = [Math.max(ends[0], -1e300), Math.min(ends[1], 1e300)];
  const middle = Math.min(Math.max((from + to) / 2, low), high);
  const at = ordinal(nearest(middle, dtype), dtype);
  const least = numberOf(atOrdinal(at + 2n, dtype), dtype) - numberOf(atOrdinal(at - 2n, dtype), dtype);
  const width = Math.min(Math.max(to - from, least, Math.abs(middle) * FINEST), high - low);
  return [middle - width / 2, middle + width / 2];
}

/**
 * At most about `most` round numbers in a range, with their labels.
 *
 * @param {number} from
 * @param {number} to
 * @param {number} most
 */
export function ticks(from, to, most) {
  const raw = (to - from) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? raw;
  /** @type {{ at: number, text: string }[]} */
  const found = [];
  const digits = Math.min(17, Math.max(1, Math.ceil(Math.log10(Math.max(Math.abs(from), Math.abs(to)) / step)) + 1));
  for (let n = Math.ceil(from / step); n * step <= to; n++) {
    const at = n * step;
    if (at !== found.at(-1)?.at) found.push({ at, text: n === 0 ? "0" : String(Number(at.toPrecision(digits))) });
    if (found.length > most + 1) break;
  }
  return found;
}
