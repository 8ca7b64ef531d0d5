/** .npy files: read as packed little-endian tensors, written with their original header. */

import { DTYPES } from "./client/index.js";
import { NotANumber } from "./numbers.js";

/** @import { DType } from "./client/index.js" */
/** @import { Tensor } from "./tensor.js" */

/**
 * @typedef {object} NpyFile
 * @property {string} name
 * @property {readonly number[]} shape
 * @property {boolean} isFortran
 * @property {boolean} isBigEndian
 * @property {number} size Bytes of an element.
 * @property {DType | undefined} dtype The dtype of an element, if the file states it.
 * @property {Uint8Array<ArrayBuffer>} header
 * @property {Uint8Array<ArrayBuffer>} data
 */

/** @type {Readonly<Record<string, string>>} */
const KINDS = { f: "float", i: "int", u: "uint" };

/** @type {Readonly<Record<string, string>>} */
const OTHER_KINDS = { c: "complex", b: "bool" };

/**
 * Parse a file. Throws {@link NotANumber} if it is not a .npy file of numbers.
 *
 * @param {string} name
 * @param {ArrayBuffer} content
 * @returns {NpyFile}
 */
export function readNpy(name, content) {
  const bytes = new Uint8Array(content);
  /** @type {(from: number, to: number) => string} */
  const text = (from, to) => String.fromCharCode(...bytes.subarray(from, to));
  if (text(0, 6) !== "\x93NUMPY") throw new NotANumber(`${name} is not a .npy file.`);
  const view = new DataView(content);
  const [start, length] = bytes[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = text(start, Math.min(start + length, bytes.length));
  const [, order = "", kind = "", digits] = /'descr':\s*'([<>|=])([A-Za-z])(\d*)'/.exec(header) ?? [];
  const [, isFortran] = /'fortran_order':\s*(True|False)/.exec(header) ?? [];
  const [, sizes] = /'shape':\s*\(([\d,\s]*)\)/.exec(header) ?? [];
  if (digits === undefined || isFortran === undefined || sizes === undefined) {
    throw new NotANumber(`${name} does not contain an array of numbers.`);
  }
  const size = Number(digits);
  const dtype = `${KINDS[kind]}${size * 8}`;
  const file = {
    name,
    size,
    shape: sizes.split(",").map((s) => s.trim()).filter(Boolean).map(Number),
    isFortran: isFortran === "True",
    isBigEndian: order === ">",
    dtype: dtype in DTYPES ? /** @type {DType} */ (dtype) : undefined,
    header: bytes.slice(0, start + length),
    data: bytes.slice(start + length),
  };
  if (file.dtype === undefined && (kind !== "V" || size > 2)) {
    const other = OTHER_KINDS[kind] ? `${OTHER_KINDS[kind]} ('${order}${kind}${digits}')` : `'${order}${kind}${digits}'`;
    throw new NotANumber(`${name} has elements of type ${other}, which is not supported.`);
  }
  if (file.data.length !== file.shape.reduce((a, b) => a * b, 1) * size) throw new NotANumber(`${name} has the wrong length.`);
  return file;
}

/**
 * Whether a dtype is possible for a file; a void type states the size only.
 *
 * @param {NpyFile} file
 * @param {DType} dtype
 */
export const mayBe = (file, dtype) => (file.dtype === undefined ? DTYPES[dtype].bytes === file.size : file.dtype === dtype);

/**
 * The tensor of a file; its transpose if the file is in Fortran order, since rounding is elementwise.
 *
 * @param {NpyFile} file
 * @param {DType} dtype
 * @returns {Tensor}
 */
export const tensorOf = (file, dtype) => ({
  dtype,
  shape: file.isFortran ? file.shape.toReversed() : file.shape,
  bytes: file.isBigEndian ? swapped(file.data, file.size) : file.data,
});

/**
 * The file with another tensor of its shape in it; of another dtype than `own`, it is little-endian.
 *
 * @param {NpyFile} file
 * @param {Tensor} x
 * @param {DType} own
 */
export function withTensor(file, x, own) {
  if (x.dtype !== own) return new Blob([headerOf(x.dtype, file), x.bytes]);
  return new Blob([file.header, file.isBigEndian ? swapped(x.bytes, file.size) : x.bytes]);
}

/**
 * The header of a file of another dtype. NumPy has no name for bfloat16 and types of 8 bits and less.
 *
 * @param {DType} dtype
 * @param {NpyFile} file
 */
function headerOf(dtype, { shape, isFortran }) {
  const size = DTYPES[dtype].bytes;
  const [, kind = ""] = /^(u?int|float)(8|16|32|64)$/.exec(dtype) ?? [];
  const descr = `${size === 1 ? "|" : "<"}${kind.at(0) ?? "V"}${size}`;
  const sizes = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const text = `{'descr': '${descr}', 'fortran_order': ${isFortran ? "True" : "False"}, 'shape': ${sizes}, }`;
  const length = Math.ceil((10 + text.length + 1) / 64) * 64 - 10;
  const start = Uint8Array.of(0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, length & 255, length >> 8);
  return new Blob([start, `${text.padEnd(length - 1)}\n`]);
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} size
 */
function swapped(bytes, size) {
  const other = bytes.slice();
  for (let at = 0; at < other.length; at += size) other.subarray(at, at + size).reverse();
  return other;
}
