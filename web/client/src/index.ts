/** JavaScript client of tensor-round: exact tensor rounding, to the last bit. */

export * from "./client.ts";
export type * from "./differences.ts";
export { type DType, DTYPES, type TypedArray } from "./dtypes.ts";
export * from "./errors.ts";
export { type Descriptor, descriptorOf, type Operator, type Rounding } from "./operators.ts";
