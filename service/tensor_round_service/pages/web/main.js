/** The page: its state, what is made of it, and the sections that show it. */

import { openOf, roundingOf, settle, versionOf, wordOf } from "./catalog.js";
import { ChoiceLists } from "./choice.js";
import { descriptorOf } from "./client/index.js";
import { COMPARED, DifferencesSection } from "./differences.js";
import { find } from "./elements.js";
import { Input } from "./input.js";
import { Latest } from "./latest.js";
import { tensorOf } from "./npy.js";
import { Plot } from "./plot.js";
import { Programs } from "./programs.js";
import { Results } from "./results.js";
import { about, BASE, clientWith, differences, execute, ofEach, sentenceOf, wantsKey } from "./service.js";
import { fragmentOf, shapeOf, stateOf } from "./state.js";
import { fromText, head, length, notes, ofRank } from "./tensor.js";

/** @import { Catalog, Choice } from "./catalog.js" */
/** @import { Client } from "./client/index.js" */
/** @import { NpyFile } from "./npy.js" */
/** @import { State } from "./state.js" */
/** @import { Tensor } from "./tensor.js" */

/** Browsers limit the rate of history changes. */
const HISTORY_DELAY = 200;
/** A pause in typing, after which the service is asked. */
const TYPING_DELAY = 120;

/** Shows the state. A section that is used changes the state, and then all sections show it. */
class Page {
  #client;
  #catalog;
  #state = stateOf(location.hash);
  /** @type {NpyFile | undefined} */
  #file;
  /** Number of times that a file was opened or closed: another file of the same name is another. */
  #opened = 0;
  #unreadable = "";
  #work = new Latest();
  /** What the results are of, or will be. */
  #calculated = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #remembering;

  #fault = find("fault", HTMLElement);
  #notes = find("notes", HTMLElement);
  #done = find("done", HTMLElement);
  #leftOpen = find("left-open", HTMLElement);
  #about = find("about", HTMLElement);
  #resultsSection = find("results", HTMLElement);
  #differencesSection = find("differences", HTMLElement);
  #programsSection = find("programs", HTMLElement);
  #input;
  #choice;
  #results = new Results();
  #differences;
  #plot;
  #programs = new Programs();

  /**
   * @param {Client} client
   * @param {Catalog} catalog
   */
  constructor(client, catalog) {
    this.#client = client;
    this.#catalog = catalog;
    /** @param {Partial<State>} some */
    const change = (some) => this.#change(some);
    this.#input = new Input(catalog.limits.max_tensor_bytes, {
      onTyped: change,
      onFile: (file) => this.#open(file),
      onUnreadable: (sentence) => {
        this.#open(undefined);
        this.#unreadable = sentence;
        this.#show();
      },
      onClosed: () => this.#open(undefined),
    });
    this.#choice = new ChoiceLists(catalog, change);
    this.#differences = new DifferencesSection(catalog);
    this.#plot = new Plot(client, catalog, change);
    this.#tellBackend(catalog.execution.backend);
    addEventListener("hashchange", () => this.#change(stateOf(location.hash)));
    addEventListener("online", () => {
      if (!this.#fault.textContent) return;
      this.#work.stop();
      this.#calculated = "";
      this.#show();
    });
    this.#show();
  }

  /** @param {Partial<State>} some */
  #change(some) {
    if ("values" in some || "shape" in some) this.#unreadable = "";
    this.#state = { ...this.#state, ...some };
    this.#show();
  }

  /** @param {NpyFile | undefined} file */
  #open(file) {
    this.#file = file;
    this.#opened += 1;
    this.#unreadable = "";
    this.#change(file ? choiceFor(file, this.#catalog, settle(this.#catalog, this.#state)) : {});
  }

  #show() {
    const state = this.#state;
    const choice = settle(this.#catalog, state);
    this.#input.show(state, this.#file);
    this.#choice.show(choice, this.#file);
    this.#plot.show(state, choice);
    this.#calculate(choice);
    clearTimeout(this.#remembering);
    this.#remembering = setTimeout(() => {
      const fragment = fragmentOf({ ...state, ...choice });
      history.replaceState(null, "", fragment || location.pathname + location.search);
    }, HISTORY_DELAY);
  }

  /**
   * Read the tensor, and have it rounded unless it has been already.
   *
   * @param {Choice} choice
   */
  #calculate(choice) {
    const { values, shape } = this.#state;
    const file = this.#file;
    const key = JSON.stringify([values, shape, choice, this.#opened, this.#unreadable]);
    if (key === this.#calculated) return;
    this.#calculated = key;
    let x;
    /** @type {Field} */
    let field = "file";
    try {
      if (this.#unreadable) throw new Error(this.#unreadable);
      if (file) x = tensorOf(file, choice.dtype);
      else {
        field = "values";
        x = fromText(values, choice.dtype);
        field = "shape";
        x = shaped(x, shapeOf(shape), versionOf(this.#catalog, choice).min_rank);
      }
    } catch (error) {
      this.#work.stop();
      this.#programsSection.hidden = true;
      return this.#clear({ fault: sentenceOf(error), field });
    }
    this.#notes.textContent = file ? "" : notes(values, choice.dtype).join(" ");
    this.#programsSection.hidden = length(x) === 0;
    if (length(x) === 0) {
      this.#work.stop();
      return this.#clear({ done: file ? `${file.name} has no elements.` : "Type numbers, or drop a .npy file." });
    }
    this.#programs.show({ url: BASE, catalog: this.#catalog, choice, x, file });
    this.#complain("");
    this.#resultsSection.ariaBusy = "true";
    return this.#work.start(
      key,
      TYPING_DELAY,
      (signal) => this.#rounded(x, choice, signal),
      ({ y, backend, ms, found, some, results }) => {
        this.#resultsSection.ariaBusy = "false";
        this.#tellBackend(backend);
        this.#results.show(x, y, file);
        this.#leftOpen.textContent = openOf(this.#catalog, choice);
        this.#differencesSection.hidden = false;
        const chosen = roundingOf(this.#catalog, choice);
        if (found && chosen) this.#differences.show(found, some, results, chosen);
        else this.#differences.showNone();
        const count = length(x).toLocaleString("en");
        this.#done.textContent = `${backend} ${choice.target ? "converted" : "rounded"} ${count} ${length(x) === 1 ? "value" : "values"} in ${ms.toFixed(3)} ms.`;
      },
      (error) => this.#clear({ fault: sentenceOf(error) }),
    );
  }

  /**
   * @param {Tensor} x
   * @param {Choice} choice
   * @param {AbortSignal} signal
   */
  async #rounded(x, choice, signal) {
    const descriptor = descriptorOf(wordOf(this.#catalog, choice), x.dtype, x.shape, { to: choice.target || undefined });
    const done = await execute(this.#client, descriptor, x, signal);
    const some = head(x, COMPARED);
    // The service compares roundings to integral values alone.
    if (choice.target) return { ...done, some, found: undefined, results: new Map() };
    const [found, results] = await Promise.all([
      differences(this.#client, x, signal),
      ofEach(this.#client, new Map(this.#catalog.roundings.map((rounding) => [rounding, rounding])), some, signal),
    ]);
    return { ...done, some, found, results };
  }

  /**
   * Show no results, and why there are none.
   *
   * @param {{ fault?: string, field?: Field, done?: string }} why
   */
  #clear({ fault = "", field, done = "" }) {
    this.#resultsSection.ariaBusy = "false";
    this.#results.clear();
    this.#leftOpen.textContent = "";
    this.#differencesSection.hidden = true;
    this.#complain(fault, field);
    this.#done.textContent = done;
    if (fault) this.#notes.textContent = "";
  }

  /**
   * Say what is wrong, below the field that it is about.
   *
   * @param {string} fault
   * @param {Field} [field]
   */
  #complain(fault, field = "choice") {
    for (const name of /** @type {const} */ (["values", "shape"])) find(name, HTMLElement).ariaInvalid = String(fault !== "" && name === field);
    const place = find(field, HTMLElement);
    (place.closest("label") ?? place).after(this.#fault);
    this.#fault.textContent = fault;
  }

  /** @param {string} backend */
  #tellBackend(backend) {
    const { service, execution } = this.#catalog;
    this.#about.textContent = `Version ${service.version}, ${backend} on ${execution.devices.join(", ")}`;
  }
}

/** @typedef {"values" | "shape" | "file" | "choice"} Field What an error is about. */

/**
 * The typed tensor in its shape. Without one it has the lowest rank that the operator allows, at least 1.
 *
 * @param {Tensor} x
 * @param {number[] | undefined} shape
 * @param {number} minRank
 * @returns {Tensor}
 */
function shaped(x, shape, minRank) {
  if (!shape) return ofRank(x, minRank);
  const wanted = shape.reduce((a, b) => a * b, 1);
  if (wanted !== length(x)) throw new Error(`The shape has room for ${wanted}, and there are ${length(x)} numbers.`);
  return { ...x, shape };
}

/**
 * The choice for an opened file: the dtype that it states, or one of its size.
 *
 * @param {NpyFile} file
 * @param {Catalog} catalog
 * @param {Choice} choice
 * @returns {Partial<State>}
 */
function choiceFor({ dtype, size }, catalog, choice) {
  if (dtype) return settle(catalog, { ...choice, dtype }).dtype === dtype ? { dtype } : { dialect: "ieee754", dtype };
  if (size === 1 && !/^float[48]|4$/.test(choice.dtype)) return { dialect: "ieee754", dtype: "float8_e4m3fn" };
  return size === 2 ? { dialect: "ieee754", dtype: "bfloat16" } : {};
}

/**
 * Get the catalog and open the page; ask for an API key if the service requires one.
 *
 * @param {string} apiKey
 */
async function start(apiKey) {
  const client = clientWith(apiKey);
  let catalog;
  try {
    catalog = await about(client);
  } catch (error) {
    form.hidden = !wantsKey(error);
    find("start-fault", HTMLElement).textContent = wantsKey(error) ? (apiKey && "The service did not accept this key.") : sentenceOf(error);
    return;
  }
  find("start", HTMLElement).hidden = true;
  find("page", HTMLElement).hidden = false;
  new Page(client, catalog);
}

addEventListener("online", () => {
  if (find("page", HTMLElement).hidden && form.hidden) start("");
});
const form = find("key-form", HTMLFormElement);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  start(find("key", HTMLInputElement).value);
});
await start("");
