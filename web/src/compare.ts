/** Where the rounding directions differ on a tensor, as a table and as sentences. */

import type { Rounding } from "../client/src/operators.ts";
import { type Catalog, operatorsBy } from "./catalog.ts";
import { format } from "./numbers.ts";
import { length, patternAt, type Tensor } from "./tensor.ts";

export interface Row {
  readonly index: number;
  readonly input: bigint;
  readonly results: ReadonlyMap<Rounding, bigint>;
}

export interface Differences {
  /** The first elements on which not all directions agree. */
  readonly rows: readonly Row[];
  /** How many there are. */
  readonly count: number;
  /** How many elements were compared. */
  readonly of: number;
  /** On how many each direction differs from the chosen one, and the first such inputs. */
  readonly from: ReadonlyMap<Rounding, { readonly count: number; readonly first: readonly string[] }>;
}

const LISTED = 3;

/** Compare the results of every direction on `x`, element by element. */
export function compare(
  x: Tensor,
  results: ReadonlyMap<Rounding, Tensor>,
  chosen: Rounding,
  maxRows: number,
): Differences {
  const rows: Row[] = [];
  const from = new Map([...results.keys()].filter((r) => r !== chosen).map((r) => [r, { count: 0, first: [] as string[] }]));
  const own = results.get(chosen)!;
  let count = 0;
  for (let index = 0; index < length(x); index++) {
    const wanted = patternAt(own, index);
    let differs = false;
    for (const [rounding, tally] of from) {
      if (patternAt(results.get(rounding)!, index) === wanted) continue;
      differs = true;
      tally.count += 1;
      const text = tally.first.length <= LISTED ? format(patternAt(x, index), x.dtype) : "";
      if (text && !tally.first.includes(text)) tally.first.push(text);
    }
    if (!differs) continue;
    count += 1;
    if (rows.length < maxRows) {
      const input = patternAt(x, index);
      rows.push({ index, input, results: new Map(Array.from(results, ([r, y]) => [r, patternAt(y, index)])) });
    }
  }
  return { rows, count, of: length(x), from };
}

/** What a comparison found. */
export function sentences(catalog: Catalog, found: Differences, chosen: Rounding, x: Tensor): string[] {
  const values = (count: number): string => (count === 1 ? "1 value" : `${count.toLocaleString("en")} values`);
  if (found.of === 0) return ["There is nothing to compare."];
  if (found.count === 0) {
    const all = found.of === 1 ? "The value is" : `All ${values(found.of)} are`;
    return [`${all} rounded alike in every direction.`];
  }
  const named = (rounding: Rounding): string => {
    const others = operatorsBy(catalog, rounding, x.dtype);
    return others.length ? `${rounding} (${others.join(", ")})` : rounding;
  };
  const lines = [`The directions differ on ${found.count.toLocaleString("en")} of ${values(found.of)}.`];
  const alike: string[] = [];
  for (const [rounding, { count, first }] of found.from) {
    if (count === 0) alike.push(named(rounding));
    else {
      const more = count > LISTED || first.length > LISTED ? " …" : "";
      lines.push(`${named(rounding)} differs from ${chosen} on ${count.toLocaleString("en")}: ${first.slice(0, LISTED).join(", ")}${more}`);
    }
  }
  if (alike.length) lines.push(`As ${chosen}: ${alike.join("; ")}.`);
  return lines;
}
