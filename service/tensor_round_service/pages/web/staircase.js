/** Sampling a rounding direction over a range, and the levels of its staircase. */

import { atOrdinal, FORMATS, largest, nearest, numberOf, ordinal } from "./numbers.js";

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
const TREND_POINTS = 300;

/**
 * The places where roundings to integral values change: integers and ties.
 *
 * @param {number} from
 * @param {number} to
 */
export function halves(from, to) {
  /** @type {number[]} */
  const found = [];
  if (to - from <= MOST_UNITS) for (let half = Math.ceil(from * 2); half <= to * 2; half++) found.push(half / 2);
  return found;
}

/**
 * The places where conversions to a type change: its values, and the middles between them.
 *
 * @param {number} from
 * @param {number} to
 * @param {DType} target
 */
export function middles(from, to, target) {
  const [first, last] = [ordinal(nearest(from, target), target), ordinal(nearest(to, target), target)];
  /** @type {number[]} */
  const found = [];
  if (last - first > BigInt(2 * MOST_UNITS)) return found;
  for (let at = first; at <= last; at++) {
    const [value, next] = [numberOf(atOrdinal(at, target), target), numberOf(atOrdinal(at + 1n, target), target)];
    found.push(value, (value + next) / 2);
  }
  return found;
}

/**
 * The values to round. A direction is constant between two values that have the same result.
 *
 * @param {number} from
 * @param {number} to
 * @param {DType} dtype
 * @param {readonly number[]} [edges] Where results change; none if there are too many.
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
  for (const edge of edges) {
    // Or at a neighbour of it.
    const at = ordinal(nearest(edge, dtype), dtype);
    for (const near of [at - 1n, at, at + 1n]) if (first <= near && near <= last) ordinals.add(near);
  }
  if (edges.length === 0) {
    for (let i = 1; i < TREND_POINTS; i++) {
      const x = from + ((to - from) * i) / TREND_POINTS;
      ordinals.add(ordinal(nearest(x, dtype), dtype));
    }
  }
  const ordered = [...ordinals].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return { kind: edges.length ? "steps" : "trend", patterns: ordered.map((at) => atOrdinal(at, dtype)) };
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
    if (i < xs.length) {
      // The change lies between two neighbours; the one that is an edge ends both levels.
      const [end, next] = [value(xs, i - 1), value(xs, i)];
      const at = isEdge(end) ? end : next;
      marks.push({ x: at, y: value(ys, i - 1), isOpen: at === next }, { x: at, y: value(ys, i), isOpen: at === end });
    }
    start = i;
  }
  return { segments, marks };
}

/**
 * Limit a range to the finite values of a dtype, and its width to at least four spacings.
 *
 * @param {number} from
 * @param {number} to
 * @param {DType} dtype
 * @returns {[number, number]}
 */
export function heldRange(from, to, dtype) {
  const f = FORMATS[dtype];
  const end = f.kind === "float" ? numberOf(largest(f), dtype) : 2 ** f.bits;
  const most = Math.min(end, 1e300);
  const middle = Math.min(Math.max((from + to) / 2, -most), most);
  const at = ordinal(nearest(middle, dtype), dtype);
  const least = numberOf(atOrdinal(at + 2n, dtype), dtype) - numberOf(atOrdinal(at - 2n, dtype), dtype);
  const width = Math.min(Math.max(to - from, Math.abs(least)), 2 * most);
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
