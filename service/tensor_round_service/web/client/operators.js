/** Operators of all dialects, and their descriptors. */

import { DTYPES } from "./dtypes.js";

/** @import { DType, Names } from "./dtypes.js" */

/**
 * The rounding directions of IEEE 754-2019.
 *
 * @typedef {"ties_to_even" | "ties_to_away" | "toward_zero" | "toward_positive" | "toward_negative"} Rounding
 */

/**
 * An operator; missing members have the default of the dialect. A string is an `ieee754` direction.
 *
 * @typedef {Rounding
 *   | { readonly dialect: "ieee754", readonly rounding?: Rounding }
 *   | { readonly dialect: "onnx", readonly opset_version?: number }
 *   | {
 *       readonly dialect: "openvino",
 *       readonly version?: "opset5",
 *       readonly mode?: "half_to_even" | "half_away_from_zero",
 *     }
 *   | {
 *       readonly dialect: "directml",
 *       readonly feature_level?: string,
 *       readonly rounding_mode?: "HALVES_TO_NEAREST_EVEN" | "TOWARD_ZERO" | "TOWARD_INFINITY",
 *     }
 *   | { readonly dialect: "webnn" }
 *   | { readonly dialect: "stablehlo", readonly op?: "round_nearest_even" | "round_nearest_afz" }
 *   | {
 *       readonly dialect: "mlir",
 *       readonly op?: "math.roundeven" | "math.round" | "math.trunc" | "math.ceil" | "math.floor",
 *     }
 *   | { readonly dialect: "array_api", readonly op?: "round" | "trunc" | "ceil" | "floor" }} Operator
 */

/**
 * An operator descriptor in JSON; docs/descriptors.md lists the members.
 *
 * @typedef {{ readonly dialect: string } & Readonly<Record<string, unknown>>} Descriptor
 */

/**
 * Return the descriptor of an operator on one packed tensor.
 *
 * A dtype without a name in the dialect keeps its canonical name; the refusal of the service lists
 * the dtypes of the dialect.
 *
 * @param {Operator} operator
 * @param {DType} dtype
 * @param {readonly number[]} shape
 * @returns {Descriptor}
 */
export function descriptorOf(operator, dtype, shape) {
  const op = typeof operator === "string" ? { dialect: /** @type {const} */ ("ieee754"), rounding: operator } : operator;
  /** @type {Names} */
  const names = DTYPES[dtype];
  switch (op.dialect) {
    case "ieee754":
      return { dialect: "ieee754", rounding: op.rounding ?? "ties_to_even", input: { dtype, shape } };
    case "onnx":
      return {
        dialect: "onnx",
        op_type: "Round",
        opset_version: op.opset_version ?? 22,
        input: { elem_type: names.onnx ?? dtype, shape },
      };
    case "openvino":
      return {
        dialect: "openvino",
        type: "Round",
        version: op.version ?? "opset5",
        data: { mode: op.mode ?? "half_to_even" },
        input: { element_type: names.openvino, shape },
      };
    case "webnn":
      return { dialect: "webnn", op: "roundEven", input: { dataType: dtype, shape } };
    case "stablehlo": {
      const operand = `tensor<${[...shape, names.stablehlo ?? dtype].join("x")}>`;
      return { dialect: "stablehlo", op: op.op ?? "round_nearest_even", operand };
    }
    case "mlir":
      // MLIR's names, as StableHLO has them too.
      return { dialect: "mlir", op: op.op ?? "math.roundeven", element_type: names.stablehlo ?? dtype, shape };
    case "array_api":
      return { dialect: "array_api", op: op.op ?? "round", x: { dtype, shape } };
    case "directml": {
      const tensor = { DataType: names.directml ?? dtype, Sizes: shape };
      return {
        dialect: "directml",
        feature_level: op.feature_level ?? "6_4",
        type: "DML_OPERATOR_ELEMENT_WISE_ROUND",
        desc: {
          InputTensor: tensor,
          OutputTensor: tensor,
          RoundingMode: op.rounding_mode ?? "HALVES_TO_NEAREST_EVEN",
        },
      };
    }
  }
}
