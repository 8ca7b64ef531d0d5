/** Where the rounding directions differ on a tensor, as sentences and as rows of a table. */

import { type DType, DTYPES } from "../client/src/dtypes.ts";
import type { Differences, PairDifference } from "../client/src/differences.ts";
import type { Rounding } from "../client/src/operators.ts";
import { type Catalog, operatorsBy } from "./catalog.ts";
import { format } from "./numbers.ts";
import { length, patternAt, type Tensor } from "./tensor.ts";

export interface Row {
  readonly index: number;
  readonly input: bigint;
  readonly results: ReadonlyMap<Rounding, bigint>;
}

/** The first elements whose results differ between directions, and the number of such elements. */
export function differingRows(x: Tensor, results: ReadonlyMap<Rounding, Tensor>, most: number): { rows: Row[]; count: number } {
  const rows: Row[] = [];
  let count = 0;
  const [first, ...others] = Array.from(results.values(), ({ bytes }) => bytes);
  const size = DTYPES[x.dtype].bytes;
  const differs = (index: number): boolean => {
    for (let at = index * size; at < (index + 1) * size; at++) {
      for (const bytes of others) if (bytes[at] !== first![at]) return true;
    }
    return false;
  };
  for (let index = 0; index < length(x); index++) {
    if (!differs(index)) continue;
    count += 1;
    if (rows.length === most) continue;
    const row = new Map(Array.from(results, ([rounding, y]) => [rounding, patternAt(y, index)]));
    rows.push({ index, input: patternAt(x, index), results: row });
  }
  return { rows, count };
}

/** Describe a comparison: how each direction differs from the chosen one. */
export function sentences(catalog: Catalog, { elements, pairs }: Differences, chosen: Rounding, dtype: DType): string[] {
  if (elements === 0) return ["There is nothing to compare."];
  const values = elements === 1 ? "the value" : `all ${elements.toLocaleString("en")} values`;
  if (pairs.every(({ different }) => different === 0)) return [`The directions agree on ${values}.`];
  const own = pairs.filter(({ roundings }) => roundings.includes(chosen));
  const other = ({ roundings: [a, b] }: PairDifference): Rounding => (a === chosen ? b : a);
  const named = (pair: PairDifference): string => {
    const others = operatorsBy(catalog, other(pair), dtype);
    return others.length ? `${other(pair)} (${others.join(", ")})` : other(pair);
  };
  const agreeing = own.filter(({ different }) => different === 0).map(named);
  return [
    ...(agreeing.length ? [`The same as ${chosen} on ${values}: ${agreeing.join("; ")}.`] : []),
    ...own.filter(({ different }) => different > 0).map((pair) => `${named(pair)} differs from ${chosen} on ${pair.different.toLocaleString("en")} of ${elements.toLocaleString("en")}: ${which(pair)}.`),
  ];

  function which(pair: PairDifference): string {
    const kinds = Object.values(pair.classes).map(({ name, different, first: [first] }) => {
      const result = (rounding: Rounding): string => format(BigInt(first!.results[rounding]!.bits), dtype);
      return `${name} (${different.toLocaleString("en")}), for example ${format(BigInt(first!.x.bits), dtype)} → ${result(other(pair))} instead of ${result(chosen)}`;
    });
    return kinds.join("; ");
  }
}
