/** Data types: sizes, and typed arrays. */

/**
 * Every data type of the service, with the size of an element in an array. Those of 4 bits have a
 * byte each there, and half of one on the wire.
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
  float8_e4m3fnuz: { bytes: 1 },
  float8_e5m2fnuz: { bytes: 1 },
  float8_e8m0fnu: { bytes: 1 },
  float4_e2m1fn: { bytes: 1 },
  int4: { bytes: 1 },
  uint4: { bytes: 1 },
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
 * (bfloat16, float16) or a `Uint8Array` (8-bit floats, types of 4 bits); `stated` names their type.
 *
 * @param {TypedArray} x
 * @param {DType} [stated]
 * @returns {DType}
 */
export function dtypeOf(x, stated) {
  const own = OF_ARRAY[x?.[Symbol.toStringTag]];
  if (own === undefined) throw new TypeError(`x must be a typed array, got ${x === null ? "null" : typeof x}`);
  if (stated === undefined || stated === own) return own;
  const holdsBits = own.startsWith("uint") && stated in DTYPES;
  if (!holdsBits || DTYPES[stated].bytes !== x.BYTES_PER_ELEMENT) {
    throw new TypeError(`a ${x[Symbol.toStringTag]} cannot hold ${stated}`);
  }
  return stated;
}

/**
 * Return `length` elements in memory as a typed array of their type, or as bits if the platform has none.
 *
 * @param {ArrayBuffer} buffer
 * @param {DType} dtype
 * @param {number} length
 * @returns {TypedArray}
 */
export function arrayOf(buffer, dtype, length) {
  /** @type {Record<string, unknown>} */
  const platform = globalThis;
  const names = Object.keys(OF_ARRAY).filter((name) => OF_ARRAY[name] === dtype && name in platform);
  const bits = DTYPES[dtype].bytes === 1 ? Uint8Array : Uint16Array;
  const Kind = /** @type {new (buffer: ArrayBuffer, at: number, length: number) => TypedArray} */ (platform[names[0] ?? bits.name]);
  return new Kind(buffer, 0, length);
}

/** @type {ReadonlySet<DType>} */
const OF_4_BITS = new Set(["float4_e2m1fn", "int4", "uint4"]);

/**
 * Return the bytes of elements on the wire: of two of 4 bits in a byte, the first is the low half.
 *
 * @param {Uint8Array<ArrayBuffer>} elements
 * @param {DType} dtype
 */
export function toWire(elements, dtype) {
  if (!OF_4_BITS.has(dtype)) return elements;
  const half = (/** @type {number} */ at) => (elements[at] ?? 0) & 15;
  return Uint8Array.from({ length: Math.ceil(elements.length / 2) }, (_, at) => half(2 * at) | (half(2 * at + 1) << 4));
}

/**
 * Return `length` elements in their bytes on the wire.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {DType} dtype
 * @param {number} length
 */
export function fromWire(bytes, dtype, length) {
  if (!OF_4_BITS.has(dtype)) return bytes.subarray(0, length * DTYPES[dtype].bytes);
  return Uint8Array.from({ length }, (_, at) => ((bytes[at >> 1] ?? 0) >> (4 * (at & 1))) & 15);
}

/** @type {Partial<Record<DType, readonly [number, number]>>} */
const RANGES_OF_4_BITS = { int4: [-8, 7], uint4: [0, 15] };

/**
 * Return numbers as elements of a type: of `float32` the nearest, of integers the same, of other types 0 alone.
 *
 * @param {readonly number[]} numbers
 * @param {DType} dtype
 * @param {string} name
 * @returns {TypedArray}
 */
export function elementsOf(numbers, dtype, name) {
  const elements = arrayOf(new ArrayBuffer(numbers.length * DTYPES[dtype].bytes), dtype, numbers.length);
  const range = RANGES_OF_4_BITS[dtype];
  numbers.forEach((number, at) => {
    elements[at] = number;
    const isThere = range ? Number.isInteger(number) && number >= range[0] && number <= range[1] : elements[at] === number;
    if (dtype !== "float32" && !(dtype.includes("float") ? number === 0 : isThere)) {
      throw new RangeError(`${name} must be of ${dtype}, got ${number}`);
    }
  });
  return elements;
}
