/** The staircase plot of rounding directions: drag to pan, wheel or pinch to zoom. */

import { dialectOf, operatorOf, operatorsBy, roundingOf, versionOf, wordOf } from "./catalog.js";
import { draw, plotLeft, plotWidth } from "./draw.js";
import { find, make } from "./elements.js";
import { Latest } from "./latest.js";
import { numberOf } from "./numbers.js";
import { ofEach, sentenceOf } from "./service.js";
import { halves, heldRange, middles, sample } from "./staircase.js";
import { START } from "./state.js";
import { fromPatterns, ofRank, patternAt } from "./tensor.js";

/** @import { Catalog, Choice } from "./catalog.js" */
/** @import { Client, DType, Rounding } from "./client/index.js" */
/** @import { CurveName, View } from "./draw.js" */
/** @import { State } from "./state.js" */
/** @import { Tensor } from "./tensor.js" */

const SAID = {
  every: "Each point is one value of the dtype; there are no values in between.",
  steps: "A filled point belongs to its step, an open one does not.",
  trend: "The steps are too narrow to show; zoom in to see them.",
};

const GAPS = " Where a curve is missing, its results are NaN or infinite.";

/** The section with the plot. */
export class Plot {
  #client;
  #catalog;
  #onChange;
  #title = find("staircase-title", HTMLElement);
  #canvas = find("staircase", HTMLCanvasElement);
  #said = find("staircase-said", HTMLElement);
  #latest = new Latest();
  /** @type {DType} */
  #dtype = START.dtype;
  /** @type {readonly string[]} */
  #plotted = [];
  #range = [START.from, START.to];
  /** @type {View | undefined} */
  #view;
  /** The name of the chosen operator, if it has none of the directions. */
  #operator = make("span", { className: "direction operator" });
  /** A checkbox for each direction, and the names of its operators beside it. */
  #directions;

  /**
   * @param {Client} client
   * @param {Catalog} catalog
   * @param {(some: Partial<State>) => void} onChange
   */
  constructor(client, catalog, onChange) {
    this.#client = client;
    this.#catalog = catalog;
    this.#onChange = onChange;
    find("directions", HTMLFieldSetElement).append(this.#operator);
    this.#directions = new Map(catalog.roundings.map((rounding) => [rounding, this.#direction(rounding)]));
    new ResizeObserver(() => this.#draw()).observe(this.#canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    /** @type {Record<string, () => void>} */
    const moves = {
      left: () => this.#pan(-0.25),
      right: () => this.#pan(0.25),
      in: () => this.#zoom(0.5),
      out: () => this.#zoom(2),
      reset: () => this.#show(START.from, START.to),
    };
    for (const [name, move] of Object.entries(moves)) find(`staircase-${name}`, HTMLButtonElement).addEventListener("click", move);
    this.#followKeys();
    this.#followPointers();
  }

  /**
   * @param {State} state
   * @param {Choice} choice
   */
  show({ plotted, from: wantedFrom, to: wantedTo }, choice) {
    const { dtype, target } = choice;
    const chosen = roundingOf(this.#catalog, choice);
    const [from, to] = heldRange(wantedFrom, wantedTo, dtype);
    this.#dtype = dtype;
    this.#range = [from, to];
    this.#plotted = plotted;
    const types = target ? `${dtype} to ${target}` : dtype;
    this.#title.textContent = `The staircase of ${types}`;
    // The chosen operator is executed itself; the others are those of IEEE 754.
    /** @type {Map<CurveName, string>} */
    const words = new Map([[chosen ?? "operator", wordOf(this.#catalog, choice)]]);
    this.#operator.hidden = chosen !== undefined;
    this.#operator.textContent = `${dialectOf(this.#catalog, choice.dialect).title} ${operatorOf(this.#catalog, choice).operator}`;
    for (const [rounding, { box, operators }] of this.#directions) {
      if (rounding !== chosen && plotted.includes(rounding)) words.set(rounding, rounding);
      box.checked = words.has(rounding);
      box.disabled = rounding === chosen;
      operators.textContent = target ? "IEEE 754" : operatorsBy(this.#catalog, rounding, dtype).join(", ");
    }
    const shown = Array.from(words.keys(), (name) => (name === "operator" ? this.#operator.textContent : name));
    const what = `${types} from ${from} to ${to}: ${shown.join(", ")}`;
    this.#canvas.ariaLabel = `Staircase of ${what}. Arrow keys move it, plus and minus zoom, Home resets the range.`;
    Object.assign(this.#canvas.dataset, { from, to });
    this.#draw();
    this.#latest.start(
      JSON.stringify([types, from, to, [...words]]),
      60,
      (signal) => this.#sampled(from, to, choice, words, signal),
      (view) => {
        this.#view = view;
        this.#canvas.dataset["kind"] = view.kind;
        const hasGaps = view.curves.some(({ ys }) => !ys.every(Number.isFinite));
        this.#said.textContent = SAID[view.kind] + (hasGaps ? GAPS : "");
        this.#draw();
      },
      (error) => (this.#said.textContent = sentenceOf(error)),
    );
  }

  /**
   * @param {number} from
   * @param {number} to
   * @param {Choice} choice
   * @param {ReadonlyMap<CurveName, string>} words
   * @param {AbortSignal} signal
   * @returns {Promise<View>}
   */
  async #sampled(from, to, choice, words, signal) {
    const { dtype, target } = choice;
    // Include a margin, so that a drag shows no empty area.
    const margin = (to - from) / 4;
    const [first, last] = [from - margin, to + margin];
    const edges = target ? middles(first, last, target) : halves(first, last);
    const { kind, patterns } = sample(first, last, dtype, edges);
    const x = ofRank(fromPatterns(patterns, dtype), versionOf(this.#catalog, choice).min_rank);
    const results = await ofEach(this.#client, words, x, signal, target);
    /** @param {Tensor} of */
    const values = (of) => patterns.map((_, at) => numberOf(patternAt(of, at), of.dtype));
    const places = new Set(edges);
    /** @param {number} at */
    const isEdge = (at) => places.has(at);
    return { from, to, kind, isEdge, xs: values(x), curves: Array.from(results, ([name, y]) => ({ name, ys: values(y) })) };
  }

  #draw() {
    const [from = 0, to = 1] = this.#range;
    if (this.#view) draw(this.#canvas, { ...this.#view, from, to });
  }

  /** @param {Rounding} rounding */
  #direction(rounding) {
    const box = make("input", { type: "checkbox" });
    const operators = make("small");
    box.addEventListener("change", () => {
      const others = this.#plotted.filter((other) => other !== rounding);
      this.#onChange({ plotted: box.checked ? [...others, rounding] : others });
    });
    find("directions", HTMLFieldSetElement).append(make("label", { className: `direction ${rounding}` }, box, ` ${rounding} `, operators));
    return { box, operators };
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  #show(from, to) {
    const [low, high] = heldRange(from, to, this.#dtype);
    this.#onChange({ from: low, to: high });
  }

  /** @param {number} by */
  #pan(by) {
    const [from = 0, to = 1] = this.#range;
    this.#show(from + (to - from) * by, to + (to - from) * by);
  }

  /**
   * @param {number} by
   * @param {number} [at]
   */
  #zoom(by, at) {
    const [from = 0, to = 1] = this.#range;
    const middle = at ?? (from + to) / 2;
    this.#show(middle - (middle - from) * by, middle + (to - middle) * by);
  }

  #followKeys() {
    /** @type {Readonly<Record<string, () => void>>} */
    const keys = {
      ArrowLeft: () => this.#pan(-0.1),
      ArrowRight: () => this.#pan(0.1),
      "+": () => this.#zoom(0.5),
      "=": () => this.#zoom(0.5),
      "-": () => this.#zoom(2),
      Home: () => this.#show(START.from, START.to),
    };
    this.#canvas.addEventListener("keydown", (event) => {
      const move = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
      if (!move) return;
      event.preventDefault();
      move();
    });
  }

  /** Handle drags, the wheel and pinches on the canvas. */
  #followPointers() {
    const canvas = this.#canvas;
    /**
     * The last x coordinate of each pressed pointer, by its id.
     *
     * @type {Map<number, number>}
     */
    const pressed = new Map();
    /** @param {number} clientX */
    const valueAt = (clientX) => {
      const [from = 0, to = 1] = this.#range;
      return from + ((to - from) * (clientX - canvas.getBoundingClientRect().left - plotLeft)) / plotWidth(canvas);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pressed.set(event.pointerId, event.clientX);
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pressed.get(event.pointerId);
      if (before === undefined) return;
      pressed.set(event.pointerId, event.clientX);
      const [other] = Array.from(pressed).filter(([id]) => id !== event.pointerId);
      if (other === undefined) return this.#pan((before - event.clientX) / plotWidth(canvas));
      const by = Math.max(Math.abs(before - other[1]), 1) / Math.max(Math.abs(event.clientX - other[1]), 1);
      return this.#zoom(by, valueAt((event.clientX + other[1]) / 2));
    });
    for (const end of /** @type {const} */ (["pointerup", "pointercancel"])) {
      canvas.addEventListener(end, (event) => pressed.delete(event.pointerId));
    }
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.deltaY === 0) return;
        event.preventDefault();
        this.#zoom(event.deltaY < 0 ? 0.8 : 1.25, valueAt(event.clientX));
      },
      { passive: false },
    );
  }
}
