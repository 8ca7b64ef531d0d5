/** The state of the page, and its encoding as the fragment of the URL. */

import type { DType } from "../client/src/dtypes.ts";
import { FORMATS } from "./numbers.ts";

export interface State {
  readonly values: string;
  readonly shape: string;
  readonly dialect: string;
  readonly version: string;
  readonly mode: string;
  readonly dtype: DType;
  /** Directions in the plot (the chosen one is always plotted), and its range. */
  readonly plotted: readonly string[];
  readonly from: number;
  readonly to: number;
}

export const START: State = {
  values: "-2.5, -1.5, -0.5, -0.3, 0.5, 1.5, 2.5, NaN",
  shape: "",
  dialect: "ieee754",
  version: "",
  mode: "ties_to_even",
  dtype: "float32",
  plotted: ["ties_to_even", "ties_to_away"],
  from: -3.25,
  to: 3.25,
};

/** Decode a fragment. Missing and invalid fields have their initial values. */
export function stateOf(fragment: string): State {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = (name: keyof State): string => fields.get(name) ?? String(START[name]);
  const [from, to] = [Number(text("from")), Number(text("to"))];
  const dtype = text("dtype");
  const hasRange = Number.isFinite(from) && Number.isFinite(to) && from < to;
  return {
    values: text("values"),
    shape: text("shape"),
    dialect: text("dialect"),
    version: text("version"),
    mode: text("mode"),
    dtype: dtype in FORMATS ? (dtype as DType) : START.dtype,
    plotted: text("plotted").split(",").filter(Boolean),
    from: hasRange ? from : START.from,
    to: hasRange ? to : START.to,
  };
}

/** Encode a state, without fields that have their initial values. */
export function fragmentOf(state: State): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (String(value) !== String(START[name as keyof State])) fields.set(name, String(value));
  }
  const text = fields.toString();
  return text && `#${text}`;
}

/** The sizes in a text; undefined if there are none. Throws an error for anything else. */
export function shapeOf(text: string): number[] | undefined {
  const words = text.split(/[\s,x×[\]()]+/).filter(Boolean);
  if (words.length === 0) return undefined;
  if (!words.every((word) => /^\d{1,9}$/.test(word))) throw new Error("The shape must be sizes, as in 2, 3.");
  return words.map(Number);
}
