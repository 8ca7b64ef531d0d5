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
 * What a cast has beside its operator: the target type, and whether a result beyond the range is the largest number.
 *
 * @typedef {{ readonly to?: DType | undefined, readonly saturate?: boolean | undefined }} CastMembers
 */

/**
 * Return the descriptor of an operator on one packed tensor, in its short form.
 *
 * @param {Operator} operator
 * @param {DType} dtype
 * @param {readonly number[]} shape
 * @param {CastMembers} [cast]
 * @returns {Descriptor}
 */
export const descriptorOf = (operator, dtype, shape, { to, saturate } = {}) => ({
  operator,
  dtype,
  shape,
  ...(to === undefined ? {} : { to }),
  ...(saturate === undefined ? {} : { saturate }),
});
