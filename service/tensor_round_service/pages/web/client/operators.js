/** Operators of all dialects, and their descriptors. */

/** @import { DType } from "./dtypes.js" */

/**
 * The rounding directions of IEEE 754-2019.
 *
 * @typedef {"ties_to_even" | "ties_to_away" | "toward_zero" | "toward_positive" | "toward_negative"} Rounding
 */

/**
 * An operator: one word, such as `"ties_to_away"`, `"onnx:13"` or `"directml:TOWARD_ZERO"`, or an
 * object with its dialect and its attributes. The service has the defaults of what is missing.
 *
 * @typedef {Rounding | (string & {}) | { readonly dialect: string, readonly [attribute: string]: string | number }} Operator
 */

/**
 * An operator descriptor in JSON; docs/descriptors.md lists the members.
 *
 * @typedef {Readonly<Record<string, unknown>>} Descriptor
 */

/**
 * Return the descriptor of an operator on one packed tensor, in its short form.
 *
 * @param {Operator} operator
 * @param {DType} dtype
 * @param {readonly number[]} shape
 * @returns {Descriptor}
 */
export const descriptorOf = (operator, dtype, shape) => ({ operator, dtype, shape });
