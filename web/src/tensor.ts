/** A tensor as the page has it: packed little-endian bytes. */

import { type DType, DTYPES } from "../client/src/dtypes.ts";
import { parse } from "./numbers.ts";

export interface Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** How many elements. */
export const length = (x: Tensor): number => x.bytes.length / DTYPES[x.dtype].bytes;

/** The pattern of one element. */
export function patternAt(x: Tensor, index: number): bigint {
  const size = DTYPES[x.dtype].bytes;
  let bits = 0n;
  for (let at = size - 1; at >= 0; at--) bits = (bits << 8n) | BigInt(x.bytes[index * size + at]!);
  return bits;
}

/** A tensor of these patterns. */
export function fromPatterns(patterns: readonly bigint[], dtype: DType, shape: readonly number[] = [patterns.length]): Tensor {
  const size = DTYPES[dtype].bytes;
  const bytes = new Uint8Array(patterns.length * size);
  patterns.forEach((pattern, index) => {
    for (let at = 0; at < size; at++) bytes[index * size + at] = Number((pattern >> BigInt(8 * at)) & 255n);
  });
  return { dtype, shape, bytes };
}

/** The tensor that was typed: numbers with spaces, commas, brackets or line ends between. */
export function fromText(text: string, dtype: DType, shape?: readonly number[]): Tensor {
  const words = text.split(/[\s,;[\]()]+/).filter(Boolean);
  return fromPatterns(words.map((word) => parse(word, dtype)), dtype, shape ?? [words.length]);
}

/** The first elements of a tensor, as one dimension. */
export function head(x: Tensor, count: number): Tensor {
  const bytes = x.bytes.slice(0, count * DTYPES[x.dtype].bytes);
  return { dtype: x.dtype, shape: [bytes.length / DTYPES[x.dtype].bytes], bytes };
}
