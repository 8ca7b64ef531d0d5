/** Data types: sizes, names in each dialect, and typed arrays. */

/**
 * Size in bytes, and the name in each dialect that has one.
 *
 * @typedef {object} Names
 * @property {number} bytes
 * @property {string} openvino
 * @property {string} [onnx]
 * @property {string} [directml]
 * @property {string} [stablehlo]
 */

/**
 * Every data type of the service.
 *
 * @satisfies {Record<string, Names>}
 */
export const DTYPES = /** @type {const} */ ({
  float16: { bytes: 2, openvino: "f16", onnx: "FLOAT16", directml: "FLOAT16", stablehlo: "f16" },
  bfloat16: { bytes: 2, openvino: "bf16", onnx: "BFLOAT16", stablehlo: "bf16" },
  float32: { bytes: 4, openvino: "f32", onnx: "FLOAT", directml: "FLOAT32", stablehlo: "f32" },
  float64: { bytes: 8, openvino: "f64", onnx: "DOUBLE", stablehlo: "f64" },
  float8_e4m3fn: { bytes: 1, openvino: "f8e4m3", stablehlo: "f8E4M3FN" },
  float8_e5m2: { bytes: 1, openvino: "f8e5m2", stablehlo: "f8E5M2" },
  int8: { bytes: 1, openvino: "i8" },
  int16: { bytes: 2, openvino: "i16" },
  int32: { bytes: 4, openvino: "i32" },
  int64: { bytes: 8, openvino: "i64" },
  uint8: { bytes: 1, openvino: "u8" },
  uint16: { bytes: 2, openvino: "u16" },
  uint32: { bytes: 4, openvino: "u32" },
  uint64: { bytes: 8, openvino: "u64" },
});

/** @typedef {keyof typeof DTYPES} DType */

/**
 * The arrays that `round` accepts; `Float16Array` if the platform has it.
 *
 * @typedef {Int8Array | Int16Array | Int32Array | BigInt64Array | Uint8Array | Uint8ClampedArray
 *   | Uint16Array | Uint32Array | BigUint64Array | Float32Array | Float64Array
 *   | (typeof globalThis extends { Float16Array: { prototype: infer T } } ? T : never)} TypedArray
 */

/** @type {Readonly<Record<string, DType>>} */
const OF_ARRAY = {
  Float16Array: "float16",
  Float32Array: "float32",
  Float64Array: "float64",
  Int8Array: "int8",
  Int16Array: "int16",
  Int32Array: "int32",
  BigInt64Array: "int64",
  Uint8Array: "uint8",
  Uint8ClampedArray: "uint8",
  Uint16Array: "uint16",
  Uint32Array: "uint32",
  BigUint64Array: "uint64",
};

/**
 * Return the dtype of an array. Types without a typed array are given as bits in a `Uint16Array`
 * (bfloat16, float16) or a `Uint8Array` (8-bit floats); `stated` names their type.
 *
 * @param {TypedArray} x
 * @param {DType} [stated]
 * @returns {DType}
 */
export function dtypeOf(x, stated) {
  const own = OF_ARRAY[x[Symbol.toStringTag]];
  if (own === undefined) throw new TypeError("x must be a typed array");
  if (stated === undefined || stated === own) return own;
  const holdsBits = own.startsWith("uint") && stated in DTYPES;
  if (!holdsBits || DTYPES[stated].bytes !== x.BYTES_PER_ELEMENT) {
    throw new TypeError(`a ${x[Symbol.toStringTag]} cannot hold ${stated}`);
  }
  return stated;
}
