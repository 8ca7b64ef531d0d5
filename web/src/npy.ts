/** .npy files: read as packed little-endian tensors, written with their original header. */

import { type DType, DTYPES } from "../client/src/dtypes.ts";
import { NotANumber } from "./numbers.ts";
import type { Tensor } from "./tensor.ts";

export interface NpyFile {
  readonly name: string;
  readonly shape: readonly number[];
  readonly isFortran: boolean;
  readonly isBigEndian: boolean;
  /** Size of an element in bytes, and its dtype if the file states it. */
  readonly size: number;
  readonly dtype: DType | undefined;
  readonly header: Uint8Array<ArrayBuffer>;
  readonly data: Uint8Array<ArrayBuffer>;
}

const KINDS: Readonly<Record<string, string>> = { f: "float", i: "int", u: "uint" };

/** Parse a file. Throws {@link NotANumber} if it is not a .npy file of numbers. */
export function readNpy(name: string, content: ArrayBuffer): NpyFile {
  const bytes = new Uint8Array(content);
  const text = (from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to));
  if (text(0, 6) !== "\x93NUMPY") throw new NotANumber(`${name} is not a .npy file.`);
  const view = new DataView(content);
  const [start, length] = bytes[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = text(start, Math.min(start + length, bytes.length));
  const descr = /'descr':\s*'([<>|=])([fiuV])(\d+)'/.exec(header);
  const order = /'fortran_order':\s*(True|False)/.exec(header);
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(header);
  if (!descr || !order || !shape) throw new NotANumber(`${name} does not contain an array of numbers.`);
  const size = Number(descr[3]);
  const dtype = `${KINDS[descr[2]!]}${size * 8}`;
  const file = {
    name,
    size,
    shape: shape[1]!.split(",").map((s) => s.trim()).filter(Boolean).map(Number),
    isFortran: order[1] === "True",
    isBigEndian: descr[1] === ">",
    dtype: dtype in DTYPES ? (dtype as DType) : undefined,
    header: bytes.slice(0, start + length),
    data: bytes.slice(start + length),
  };
  if (file.dtype === undefined && (descr[2] !== "V" || size > 2)) throw new NotANumber(`${name} contains ${descr[2]}${size} elements, which the service does not support.`);
  if (file.data.length !== file.shape.reduce((a, b) => a * b, 1) * size) throw new NotANumber(`${name} has the wrong length.`);
  return file;
}

/** Whether a dtype is possible for a file; a void type states the size only. */
export const mayBe = (file: NpyFile, dtype: DType): boolean =>
  file.dtype === undefined ? DTYPES[dtype].bytes === file.size : file.dtype === dtype;

/** The tensor of a file; its transpose if the file is in Fortran order, since rounding is elementwise. */
export const tensorOf = (file: NpyFile, dtype: DType): Tensor => ({
  dtype,
  shape: file.isFortran ? file.shape.toReversed() : file.shape,
  bytes: file.isBigEndian ? swapped(file.data, file.size) : file.data,
});

/** The file with another tensor of its dtype and shape in it. */
export const withTensor = (file: NpyFile, x: Tensor): Blob =>
  new Blob([file.header, file.isBigEndian ? swapped(x.bytes, file.size) : x.bytes]);

function swapped(bytes: Uint8Array<ArrayBuffer>, size: number): Uint8Array<ArrayBuffer> {
  const other = bytes.slice();
  for (let at = 0; at < other.length; at += size) other.subarray(at, at + size).reverse();
  return other;
}
