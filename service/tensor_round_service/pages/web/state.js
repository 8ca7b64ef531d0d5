/** The state of the page, and its encoding as the fragment of the URL. */

import { FORMATS } from "./numbers.js";

/** @import { DType } from "./client/index.js" */

/**
 * Everything that a link to the page contains.
 *
 * @typedef {object} State
 * @property {string} values
 * @property {string} shape
 * @property {string} dialect
 * @property {string} operator
 * @property {string} version
 * @property {string} mode
 * @property {DType} dtype
 * @property {DType | ""} target
 * @property {readonly string[]} plotted Directions in the plot; the chosen one is always plotted.
 * @property {number} from
 * @property {number} to
 */

/** @type {State} */
export const START = {
  values: "-2.5, -0.5, -0.0, 0.49999997, 0.5, 1.5, 2.5, 8388609",
  shape: "",
  dialect: "openvino",
  operator: "",
  version: "",
  mode: "half_away_from_zero",
  dtype: "float32",
  target: "",
  plotted: ["ties_to_even", "ties_to_away"],
  from: -3.25,
  to: 3.25,
};

/**
 * Decode a fragment. Missing and invalid fields have their initial values.
 *
 * @param {string} fragment
 * @returns {State}
 */
export function stateOf(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  /** @type {(name: keyof State) => string} */
  const text = (name) => fields.get(name) ?? String(START[name]);
  const [from, to] = [Number(text("from")), Number(text("to"))];
  const [dtype, target] = [text("dtype"), text("target")];
  const hasRange = Number.isFinite(from) && Number.isFinite(to) && from < to;
  return {
    values: text("values"),
    shape: text("shape"),
    dialect: text("dialect"),
    operator: text("operator"),
    version: text("version"),
    mode: text("mode"),
    dtype: dtype in FORMATS ? /** @type {DType} */ (dtype) : START.dtype,
    target: target in FORMATS ? /** @type {DType} */ (target) : "",
    plotted: text("plotted").split(",").filter(Boolean),
    from: hasRange ? from : START.from,
    to: hasRange ? to : START.to,
  };
}

/**
 * Encode a state, without fields that have their initial values.
 *
 * @param {State} state
 */
export function fragmentOf(state) {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (String(value) !== String(START[/** @type {keyof State} */ (name)])) fields.set(name, String(value));
  }
  const text = fields.toString();
  return text && `#${text}`;
}

/**
 * The sizes in a text; undefined if there are none. Throws an error for anything else.
 *
 * @param {string} text
 * @returns {number[] | undefined}
 */
export function shapeOf(text) {
  const words = text.split(/[\s,x×[\]()]+/).filter(Boolean);
  if (words.length === 0) return undefined;
  if (!words.every((word) => /^\d{1,9}$/.test(word))) throw new Error("The shape must be sizes, as in 2, 3.");
  return words.map(Number);
}
