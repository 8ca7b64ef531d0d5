/** Where the rounding directions differ: sentences about the tensor, and a table of elements. */

import { operatorsBy } from "./catalog.js";
import { DTYPES } from "./client/index.js";
import { find, hintAtWidth, make, Rows } from "./elements.js";
import { format } from "./numbers.js";
import { length, patternAt } from "./tensor.js";

/** @import { Catalog } from "./catalog.js" */
/** @import { ClassDifference, Differences, DType, PairDifference, Rounding } from "./client/index.js" */
/** @import { Tensor } from "./tensor.js" */

/** The table covers at most this many elements. */
export const COMPARED = 1 << 16;

/** The section on differences. */
export class DifferencesSection {
  #catalog;
  #verdict = find("verdict", HTMLUListElement);
  #table = find("differences-table", HTMLTableElement);
  #listing = find("differences-listing", HTMLElement);
  #rows = new Rows(/** @type {HTMLTableSectionElement} */ (this.#table.tBodies[0]), find("differences-more", HTMLElement));

  /** @param {Catalog} catalog */
  constructor(catalog) {
    this.#catalog = catalog;
    hintAtWidth("differences");
  }

  /**
   * @param {Differences} found
   * @param {Tensor} x The first elements.
   * @param {ReadonlyMap<Rounding, Tensor>} results Their results.
   * @param {Rounding} chosen
   */
  show(found, x, results, chosen) {
    this.#verdict.replaceChildren(...sentences(found, chosen, x.dtype).map((line) => make("li", {}, line)));
    const differing = differingElements(x, [...results.values()]);
    this.#listing.hidden = differing.length === 0;
    this.#table.tHead?.rows[0]?.replaceChildren(
      make("th", { scope: "col" }, "Index"),
      make("th", { scope: "col" }, "Input"),
      ...Array.from(results.keys(), (rounding) =>
        make(
          "th",
          { scope: "col" },
          rounding === chosen ? `${rounding}, chosen` : rounding,
          make("small", {}, operatorsBy(this.#catalog, rounding, x.dtype).join(", ")),
        ),
      ),
    );
    const part = found.elements > length(x) ? ` among the first ${length(x).toLocaleString("en")}` : "";
    this.#rows.show(differing.length, (row) => rowOf(differing[row] ?? 0, x, results, chosen), part);
  }

  /** Say that casts are not compared. */
  showNone() {
    this.#verdict.replaceChildren(make("li", {}, "Roundings to integral values alone are compared. To compare casts, choose another dialect."));
    this.#listing.hidden = true;
  }
}

/**
 * @param {number} at
 * @param {Tensor} x
 * @param {ReadonlyMap<Rounding, Tensor>} results
 * @param {Rounding} chosen
 */
function rowOf(at, x, results, chosen) {
  const own = results.get(chosen);
  const cells = Array.from(results.values(), (y) => {
    const bits = patternAt(y, at);
    const differs = own !== undefined && bits !== patternAt(own, at);
    return make("td", { className: differs ? "number differs" : "number" }, format(bits, x.dtype));
  });
  return make(
    "tr",
    {},
    make("th", { scope: "row", className: "index" }, String(at)),
    make("td", { className: "number" }, format(patternAt(x, at), x.dtype)),
    ...cells,
  );
}

/**
 * The places of the elements whose results differ.
 *
 * @param {Tensor} x
 * @param {readonly Tensor[]} results
 */
function differingElements(x, [first, ...others]) {
  /** @type {number[]} */
  const found = [];
  const size = DTYPES[x.dtype].bytes;
  /** @param {number} index */
  const differs = (index) => {
    for (let at = index * size; at < (index + 1) * size; at++) {
      for (const { bytes } of others) if (bytes[at] !== first?.bytes[at]) return true;
    }
    return false;
  };
  for (let index = 0; index < length(x); index++) if (differs(index)) found.push(index);
  return found;
}

/**
 * Describe a comparison: how each direction differs from the chosen one.
 *
 * @param {Differences} differences
 * @param {Rounding} chosen
 * @param {DType} dtype
 * @returns {string[]}
 */
function sentences({ elements, pairs }, chosen, dtype) {
  const values = elements === 1 ? "the value" : `all ${elements.toLocaleString("en")} values`;
  if (pairs.every(({ different }) => different === 0)) return [`The directions agree on ${values}.`];
  const own = pairs.filter(({ roundings }) => roundings.includes(chosen));
  /** @param {PairDifference} pair */
  const other = ({ roundings: [a, b] }) => (a === chosen ? b : a);
  /** @type {(kind: ClassDifference, pair: PairDifference) => string} */
  const described = ({ name, different, first: [first] }, pair) => {
    /** @param {{ bits: string } | undefined} value */
    const text = (value) => (value ? format(BigInt(value.bits), dtype) : "");
    const results = `${text(first?.results[other(pair)])} instead of ${text(first?.results[chosen])}`;
    return `${name} (${different.toLocaleString("en")}), for example ${text(first?.x)} → ${results}`;
  };
  const agreeing = own.filter(({ different }) => different === 0).map(other);
  return [
    ...(agreeing.length ? [`The same as ${chosen} on ${values}: ${agreeing.join(", ")}.`] : []),
    ...own
      .filter(({ different }) => different > 0)
      .map((pair) => {
        const count = `${pair.different.toLocaleString("en")} of ${elements.toLocaleString("en")}`;
        const kinds = Object.values(pair.classes).map((kind) => described(kind, pair));
        return `${other(pair)} differs from ${chosen} on ${count}: ${kinds.join("; ")}.`;
      }),
  ];
}
