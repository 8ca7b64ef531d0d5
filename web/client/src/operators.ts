/** Operators in their dialects' own words, and the descriptors that name them to the service. */

import { DTYPES, type DType } from "./dtypes.ts";

/** The rounding directions of IEEE 754-2019. */
export type Rounding =
  | "ties_to_even"
  | "ties_to_away"
  | "toward_zero"
  | "toward_positive"
  | "toward_negative";

/** An operator; what is left out is the dialect's default. A direction stands for IEEE 754's. */
export type Operator =
  | Rounding
  | { readonly dialect: "ieee754"; readonly rounding?: Rounding }
  | { readonly dialect: "onnx"; readonly opset_version?: number }
  | {
      readonly dialect: "openvino";
      readonly version?: "opset5";
      readonly mode?: "half_to_even" | "half_away_from_zero";
    }
  | {
      readonly dialect: "directml";
      readonly feature_level?: string;
      readonly rounding_mode?: "HALVES_TO_NEAREST_EVEN" | "TOWARD_ZERO" | "TOWARD_INFINITY";
    };

/** An operator descriptor as the service takes it; docs/descriptors.md has all its members. */
export type Descriptor = { readonly dialect: string } & Readonly<Record<string, unknown>>;

/**
 * The descriptor of an operator on one packed tensor.
 *
 * A dtype that the dialect has no name for goes under our own name: the service's refusal says
 * which ones there are.
 */
export function descriptorOf(
  operator: Operator,
  dtype: DType,
  shape: readonly number[],
): Descriptor {
  const op = typeof operator === "string" ? ({ dialect: "ieee754", rounding: operator } as const) : operator;
  const names: { openvino: string; onnx?: string; directml?: string } = DTYPES[dtype];
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
