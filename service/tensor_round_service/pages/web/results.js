/** Inputs and results, as decimals and as bits. */

import { find, hintAtWidth, make, Rows } from "./elements.js";
import { format, FORMATS, parts } from "./numbers.js";
import { withTensor } from "./npy.js";
import { indexAt, length, patternAt } from "./tensor.js";

/** @import { DType } from "./client/index.js" */
/** @import { NpyFile } from "./npy.js" */
/** @import { Tensor } from "./tensor.js" */

/** The table of results, and the link to download them. */
export class Results {
  #table = find("values-table", HTMLTableElement);
  #listing = find("listing", HTMLElement);
  #legend = find("bits-legend", HTMLElement);
  #download = find("download", HTMLAnchorElement);
  #rows = new Rows(/** @type {HTMLTableSectionElement} */ (this.#table.tBodies[0]), find("values-more", HTMLElement));

  constructor() {
    hintAtWidth("values");
  }

  /**
   * @param {Tensor} x
   * @param {Tensor} y
   * @param {NpyFile | undefined} file
   */
  show(x, y, file) {
    this.#listing.hidden = false;
    this.#legend.hidden = FORMATS[x.dtype].kind !== "float";
    this.#rows.show(length(x), (at) => {
      const [a, b] = [patternAt(x, at), patternAt(y, at)];
      const index = indexAt(at, x.shape);
      return make(
        "tr",
        {},
        make("th", { scope: "row", className: "index" }, (file?.isFortran ? index.reverse() : index).join(", ")),
        make("td", { className: "number" }, shown(a, x)),
        make("td", { className: shown(a, x) === shown(b, y) ? "number" : "number changed" }, shown(b, y)),
        make("td", { className: "bits" }, bitsOf(a, x.dtype)),
        make("td", { className: "bits" }, bitsOf(b, y.dtype)),
      );
    });
    this.#offer(file && { name: file.name.replace(/(\.npy)?$/, "-rounded.npy"), content: withTensor(file, y, x.dtype) });
  }

  /** Show nothing. */
  clear() {
    this.#listing.hidden = true;
    this.#legend.hidden = true;
    this.#rows.show(0, () => make("tr"));
    this.#offer(undefined);
  }

  /** @param {{ name: string, content: Blob } | undefined} result */
  #offer(result) {
    URL.revokeObjectURL(this.#download.href);
    this.#download.hidden = result === undefined;
    if (!result) return this.#download.removeAttribute("href");
    this.#download.href = URL.createObjectURL(result.content);
    this.#download.download = result.name;
  }
}

/** @type {(bits: bigint, tensor: Tensor) => string} */
const shown = (bits, { dtype }) => format(bits, dtype);

/**
 * @param {bigint} bits
 * @param {DType} dtype
 */
function bitsOf(bits, dtype) {
  const hex = bits.toString(16).padStart(FORMATS[dtype].bits / 4, "0");
  const spans = Object.entries(parts(bits, dtype)).filter(([, text]) => text);
  return make("code", { title: `0x${hex}` }, ...spans.map(([className, text]) => make("span", { className }, text)));
}
