/** Where the rounding directions differ: sentences about the tensor, and a table of elements. */

import { useMemo } from "preact/hooks";
import type { Rounding } from "../client/src/operators.ts";
import type { Catalog } from "./catalog.ts";
import type { Differences } from "../client/src/differences.ts";
import { differingRows, sentences } from "./compare.ts";
import { format } from "./numbers.ts";
import { length, type Tensor } from "./tensor.ts";

const LISTED = 32;

interface Props {
  readonly catalog: Catalog;
  readonly found: Differences;
  /** The first elements, and their results. */
  readonly x: Tensor;
  readonly results: ReadonlyMap<Rounding, Tensor>;
  readonly chosen: Rounding;
}

export function Comparison({ catalog, found, x, results, chosen }: Props) {
  const { rows, count } = useMemo(() => differingRows(x, results, LISTED), [x, results]);
  return (
    <>
      <ul id="verdict">{sentences(catalog, found, chosen, x.dtype).map((line) => <li key={line}>{line}</li>)}</ul>
      {rows.length > 0 && (
        <div class="scroll" role="region" aria-label="Differences, value by value" tabIndex={0}>
          <table id="differences-table">
            <thead>
              <tr>
                <th scope="col">Input</th>
                {[...results.keys()].map((rounding) => (
                  <th key={rounding} scope="col">{rounding}{rounding === chosen && <small>chosen</small>}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ index, input, results: row }) => (
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
      {count > rows.length && <p>The first {rows.length} of {count.toLocaleString("en")}{found.elements > length(x) && ` among the first ${length(x).toLocaleString("en")}`}.</p>}
    </>
  );
}
