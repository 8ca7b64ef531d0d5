/** JavaScript client of tensor-round: exact tensor rounding, to the last bit. */

export * from "./client.js";
export { DTYPES, fromWire, toWire } from "./dtypes.js";
export * from "./errors.js";
export * from "./operators.js";

/** @typedef {import("./dtypes.js").DType} DType */
/** @typedef {import("./dtypes.js").TypedArray} TypedArray */
