/** Data types: sizes, and typed arrays. */

/**
 * Every data type of the service, with its size in bytes.
 *
 * @satisfies {Record<string, { bytes: number }>}
 */
export const DTYPES = /** @type {const} */ ({
  float16: { bytes: 2 },
  bfloat16: { bytes: 2 },
  float32: { bytes: 4 },
  float64: { bytes: 8 },
  float8_e4m3fn: { bytes: 1 },
  float8_e5m2: { bytes: 1 },
  int8: { bytes: 1 },
  int16: { bytes: 2 },
  int32: { bytes: 4 },
  int64: { bytes: 8 },
  uint8: { bytes: 1 },
  uint16: { bytes: 2 },
  uint32: { bytes: 4 },
  uint64: { bytes: 8 },
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
