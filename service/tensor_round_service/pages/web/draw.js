/** Drawing the staircase on a canvas. */

import { levels, ticks } from "./staircase.js";

/** @import { Rounding } from "./client/index.js" */
/** @import { Sample } from "./staircase.js" */

/** @typedef {Rounding | "operator"} CurveName A direction, or an operator that has none of them. */

/**
 * Samples in a range, and their results.
 *
 * @typedef {object} View
 * @property {number} from
 * @property {number} to
 * @property {Sample["kind"]} kind
 * @property {(x: number) => boolean} isEdge Whether results change at a value.
 * @property {readonly number[]} xs
 * @property {readonly { readonly name: CurveName, readonly ys: readonly number[] }[]} curves
 */

const LEFT = 46;
const BOTTOM = 22;
/** @type {Readonly<Record<CurveName, number[]>>} */
const DASHES = {
  operator: [],
  ties_to_even: [],
  ties_to_away: [7, 3],
  toward_zero: [2, 3],
  toward_positive: [9, 3, 2, 3],
  toward_negative: [4, 4],
};

/**
 * The width of the plot itself, in CSS pixels.
 *
 * @param {HTMLCanvasElement} canvas
 */
export const plotWidth = (canvas) => Math.max(1, canvas.clientWidth - LEFT);
export const plotLeft = LEFT;

/**
 * Draw a view at the size of the canvas, in the colours of the page.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {View} view
 */
export function draw(canvas, view) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * scale;
  canvas.height = height * scale;
  const c = canvas.getContext("2d");
  if (!c || width <= LEFT) return;
  const style = getComputedStyle(canvas);
  /** @type {(name: string) => string} */
  const colour = (name) => style.getPropertyValue(`--${name}`);
  c.scale(scale, scale);
  c.clearRect(0, 0, width, height);
  c.font = `12px ${style.fontFamily}`;
  const span = view.to - view.from;
  const [low, high] = heights(view);
  /** @type {(x: number) => number} */
  const px = (x) => LEFT + ((x - view.from) / span) * (width - LEFT);
  /** @type {(y: number) => number} */
  const py = (y) => (height - BOTTOM) * (1 - (y - low) / (high - low));

  c.strokeStyle = colour("line");
  c.fillStyle = colour("dim");
  c.lineWidth = 1;
  /** @type {(x: number, y: number, toX: number, toY: number) => void} */
  const rule = (x, y, toX, toY) => {
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(toX, toY);
    c.stroke();
  };
  const widest = Math.max(...ticks(view.from, view.to, 4).map(({ text }) => c.measureText(text).width));
  for (const { at, text } of ticks(view.from, view.to, Math.max(2, Math.min(12, (width - LEFT) / (widest + 24))))) {
    rule(px(at), 0, px(at), height - BOTTOM);
    const half = c.measureText(text).width / 2;
    c.fillText(text, Math.min(Math.max(px(at) - half, LEFT), width - 2 * half - 2), height - 6);
  }
  for (const { at, text } of ticks(low, high, Math.max(2, height / 36))) {
    rule(LEFT, py(at), width, py(at));
    c.fillText(text, Math.max(2, LEFT - 8 - c.measureText(text).width), py(at) + 4, LEFT - 10);
  }
  c.save();
  c.beginPath();
  c.rect(LEFT - 5, 0, width, height - BOTTOM + 5);
  c.clip();
  view.curves.forEach(({ name, ys }, place) => {
    // Offset the curves, so that equal ones remain visible.
    const shift = (place - (view.curves.length - 1) / 2) * 5;
    /** @type {(x: number, y: number | undefined) => [number, number]} */
    const at = (x, y = NaN) => [px(x), py(y) + shift];
    c.strokeStyle = c.fillStyle = colour(name);
    c.lineWidth = 2;
    c.setLineDash(DASHES[name]);
    c.beginPath();
    if (view.kind === "trend") view.xs.forEach((x, i) => (i ? c.lineTo(...at(x, ys[i])) : c.moveTo(...at(x, ys[i]))));
    const { segments, marks } = view.kind === "trend" ? { segments: [], marks: [] } : levels(view.xs, ys, view.isEdge);
    for (const { from, to, y } of segments) {
      c.moveTo(...at(from, y));
      c.lineTo(...at(to, y));
    }
    c.stroke();
    c.setLineDash([]);
    const points = view.kind === "every" ? view.xs.map((x, i) => ({ x, y: ys[i], isOpen: false })) : marks;
    const radius = Math.min(4, Math.max(1, width / points.length / 3));
    for (const { x, y, isOpen } of points) {
      c.beginPath();
      c.arc(...at(x, y), radius, 0, 2 * Math.PI);
      c.fillStyle = isOpen ? colour("back") : colour(name);
      c.fill();
      if (isOpen) c.stroke();
    }
  });
  c.restore();
}

/**
 * The range of the results that are in sight, with a margin, at least as high as the view is wide.
 *
 * @param {View} view
 * @returns {[number, number]}
 */
function heights({ from, to, xs, curves }) {
  /** @type {(at: number) => boolean} */
  const isSeen = (at) => (xs[at + 1] ?? Infinity) >= from && (xs[at - 1] ?? -Infinity) <= to;
  const seen = curves.flatMap(({ ys }) => ys.filter((y, at) => Number.isFinite(y) && isSeen(at)));
  const [low, high] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [from, to];
  const half = Math.max(high - low, to - from) * 0.55;
  return [(low + high) / 2 - half, (low + high) / 2 + half];
}
