/** A tensor as packed little-endian bytes. */

import { type DType, DTYPES } from "../client/src/dtypes.ts";
import { format, parse } from "./numbers.ts";

export interface Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The number of elements. */
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

const wordsOf = (text: string): string[] => text.split(/[\s,;[\]()]+/).filter(Boolean);

/** Parse typed numbers, separated by spaces, commas, brackets or line ends. */
export function fromText(text: string, dtype: DType, shape?: readonly number[]): Tensor {
  const words = wordsOf(text);
  return fromPatterns(words.map((word) => parse(word, dtype)), dtype, shape ?? [words.length]);
}

/** The first typed numbers that the dtype does not have, with the values they are read as. */
export function replaced(text: string, dtype: DType, most = 3): [string, string][] {
  const found: [string, string][] = [];
  for (const word of wordsOf(text)) {
    if (found.length === most || word.length > 40 || word.startsWith("0x")) continue;
    const shown = format(parse(word, dtype), dtype);
    if (parse(shown, "float64") !== parse(word, "float64")) found.push([word, shown]);
  }
  return found;
}

/** The first elements of a tensor, as one dimension. */
export function head(x: Tensor, count: number): Tensor {
  const bytes = x.bytes.slice(0, count * DTYPES[x.dtype].bytes);
  return { dtype: x.dtype, shape: [bytes.length / DTYPES[x.dtype].bytes], bytes };
}
