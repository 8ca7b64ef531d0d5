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
 * A tensor's type and shape.
 *
 * @typedef {{ readonly dtype: DType, readonly shape: readonly number[] }} TensorMembers
 */

/**
 * What a cast or a quantization has beside its operator: the type of the result, whether a result beyond the
 * range is the largest number, which elements share a scale, and the further tensors.
 *
 * @typedef {object} Members
 * @property {DType | undefined} [to]
 * @property {boolean | undefined} [saturate]
 * @property {number | undefined} [axis]
 * @property {number | undefined} [block_size]
 * @property {TensorMembers | undefined} [scale]
 * @property {TensorMembers | undefined} [zero_point]
 */

/**
 * Return the descriptor of an operator on packed tensors, in its short form.
 *
 * @param {Operator} operator
 * @param {DType} dtype
 * @param {readonly number[]} shape
 * @param {Members} [members]
 * @returns {Descriptor}
 */
export const descriptorOf = (operator, dtype, shape, members = {}) => ({
  operator,
  dtype,
  shape,
  ...Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)),
});
