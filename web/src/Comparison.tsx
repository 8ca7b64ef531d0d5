/** Where the directions differ: in sentences, and element by element. */

import { useMemo } from "preact/hooks";
import type { Rounding } from "../client/src/operators.ts";
import { type Catalog, operatorsBy } from "./catalog.ts";
import { compare, sentences } from "./compare.ts";
import { format } from "./numbers.ts";
import type { Tensor } from "./tensor.ts";

const LISTED = 32;

interface Props {
  readonly catalog: Catalog;
  readonly x: Tensor;
  readonly results: ReadonlyMap<Rounding, Tensor>;
  readonly chosen: Rounding;
}

export function Comparison({ catalog, x, results, chosen }: Props) {
  const found = useMemo(() => compare(x, results, chosen, LISTED), [x, results, chosen]);
  const [first, ...rest] = sentences(catalog, found, chosen, x);
  return (
    <>
      <p id="verdict">{first}</p>
      <ul>{rest.map((line) => <li key={line}>{line}</li>)}</ul>
      {found.rows.length > 0 && (
        <div class="scroll" role="region" aria-label="Where directions differ" tabIndex={0}>
          <table id="differences-table">
            <thead>
              <tr>
                <th scope="col">Input</th>
                {[...results.keys()].map((rounding) => (
                  <th key={rounding} scope="col">
                    {rounding}
                    {operatorsBy(catalog, rounding, x.dtype).map((name) => <small key={name}>{name}</small>)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {found.rows.map(({ index, input, results: row }) => (
                <tr key={index}>
                  <th scope="row" class="number">{format(input, x.dtype)}</th>
                  {Array.from(row, ([rounding, bits]) => (
                    <td key={rounding} class={bits === row.get(chosen) ? "number" : "number differs"}>{format(bits, x.dtype)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.count > found.rows.length && <p>The first {found.rows.length} of {found.count.toLocaleString("en")}.</p>}
    </>
  );
}
