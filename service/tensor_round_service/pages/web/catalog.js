/** The document of `GET /operators`, and choices that are valid according to it. */

import { FORMATS } from "./numbers.js";

/** @import { DType, Rounding } from "./client/index.js" */

/**
 * @typedef {object} Version
 * @property {string} name
 * @property {string} model_version
 * @property {readonly (string | number)[]} selected_by
 * @property {readonly string[]} dtypes
 * @property {number} min_rank
 */

/**
 * @typedef {object} Model
 * @property {string} name
 * @property {string} input
 * @property {string} output
 * @property {string | null} mode_parameter
 */

/**
 * One operator of a dialect.
 *
 * @typedef {object} OperatorEntry
 * @property {string} operator
 * @property {"round" | "cast" | "quantize" | "dequantize"} kind
 * @property {string} word The operator in one word, with `{mode}` and `{version}`.
 * @property {Model} model
 * @property {string | null} version_field
 * @property {readonly Version[]} versions Oldest first; there is at least one.
 * @property {Readonly<Record<string, DType>>} dtypes
 * @property {Readonly<Record<string, DType>>} unsigned_dtypes The dtypes of names whose sign the operation tells, where it says unsigned.
 * @property {Readonly<Record<string, Rounding>>} modes
 * @property {Rounding} default_rounding
 * @property {string | null} target_field The field of the target type; null if the result has the operand's type.
 * @property {Readonly<Record<string, string>>} unspecified What the specification leaves open, and what the service gives.
 */

/** @typedef {{ readonly title: string, readonly operators: readonly OperatorEntry[] }} Dialect The first operator is the usual one. */

/**
 * @typedef {object} Catalog
 * @property {Readonly<Record<string, Dialect>>} dialects
 * @property {readonly Rounding[]} roundings
 * @property {{ readonly max_tensor_bytes: number }} limits
 * @property {{ readonly version: string, readonly api_keys: boolean }} service
 * @property {{ readonly backend: string, readonly devices: readonly string[] }} execution
 */

/**
 * An operator and a dtype, in the dialect's words; empty where a dialect has no such thing, and for its first operator.
 *
 * @typedef {object} Choice
 * @property {string} dialect
 * @property {string} operator
 * @property {string} version
 * @property {string} mode
 * @property {DType} dtype
 * @property {DType | ""} target The target type of a cast.
 */

/** @typedef {Pick<Choice, "dialect" | "operator">} Named */

/** The dialects of runtimes, the first one last; all others, which have the index -1, are behind them. */
const RUNTIMES = ["onnx", "openvino", "directml"];

/**
 * The catalog with the dialects that visitors come from before the standards.
 *
 * @param {Catalog} catalog
 * @returns {Catalog}
 */
export function ordered(catalog) {
  const dialects = Object.entries(catalog.dialects).sort(([a], [b]) => RUNTIMES.indexOf(b) - RUNTIMES.indexOf(a));
  return { ...catalog, dialects: Object.fromEntries(dialects) };
}

/**
 * @param {Catalog} catalog
 * @param {string} dialect
 * @returns {Dialect}
 */
export const dialectOf = (catalog, dialect) => /** @type {Dialect} */ (catalog.dialects[dialect]);

/**
 * The operators of one tensor that take no more than a mode, a version and a target type.
 *
 * @param {Catalog} catalog
 * @param {string} dialect
 */
export const operatorsOf = (catalog, dialect) =>
  dialectOf(catalog, dialect).operators.filter(({ kind, word }) => kind === "cast" || (kind === "round" && !/\{(?!mode|version)/.test(word)));

/**
 * The operator of a choice; the first one if it names none.
 *
 * @param {Catalog} catalog
 * @param {Named} choice
 * @returns {OperatorEntry}
 */
export function operatorOf(catalog, { dialect, operator }) {
  const offered = operatorsOf(catalog, dialect);
  return /** @type {OperatorEntry} */ (offered.find((one) => one.operator === operator) ?? offered[0]);
}

/**
 * The values that select a version, oldest first.
 *
 * @param {Catalog} catalog
 * @param {Named} choice
 */
export const versionsOf = (catalog, choice) =>
  operatorOf(catalog, choice).versions.flatMap((version) => version.selected_by.map(String));

/**
 * The version that a choice selects.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function versionOf(catalog, choice) {
  const { versions } = operatorOf(catalog, choice);
  const chosen = versions.find((version) => version.selected_by.map(String).includes(choice.version));
  return chosen ?? /** @type {Version} */ (versions.at(-1));
}

/**
 * The dtypes of a choice's version: the dialect's names, and ours.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 * @returns {[string, DType][]}
 */
export function dtypesOf(catalog, choice) {
  const { dtypes, unsigned_dtypes } = operatorOf(catalog, choice);
  const names = versionOf(catalog, choice).dtypes;
  return [dtypes, unsigned_dtypes].flatMap((table) =>
    names.flatMap((name) => (table[name] ? [/** @type {[string, DType]} */ ([name, table[name]])] : [])),
  );
}

/**
 * The valid choice that is closest to the wanted one.
 *
 * @param {Catalog} catalog
 * @param {Partial<Choice>} wanted
 * @returns {Choice}
 */
export function settle(catalog, wanted) {
  const dialect = wanted.dialect && wanted.dialect in catalog.dialects ? wanted.dialect : "ieee754";
  const [first, ...others] = operatorsOf(catalog, dialect);
  const operator = others.some((one) => one.operator === wanted.operator) ? (wanted.operator ?? "") : "";
  const { modes, default_rounding, target_field } = operatorOf(catalog, { dialect, operator: operator || (first?.operator ?? "") });
  const versions = versionsOf(catalog, { dialect, operator });
  const version = wanted.version && versions.includes(wanted.version) ? wanted.version : (versions.at(-1) ?? "");
  const usual = Object.keys(modes).find((name) => modes[name] === default_rounding) ?? "";
  const mode = wanted.mode && wanted.mode in modes ? wanted.mode : usual;
  /** @type {Choice} */
  const choice = { dialect, operator, version, mode, dtype: wanted.dtype ?? "float32", target: "" };
  const offered = dtypesOf(catalog, choice).map(([, own]) => own);
  /** @type {(...names: (DType | "" | undefined)[]) => DType | undefined} */
  const firstOf = (...names) => offered.find((own) => own === names.find((name) => name && offered.includes(name))) ?? offered[0];
  const dtype = firstOf(choice.dtype, "float32") ?? choice.dtype;
  return { ...choice, dtype, target: target_field === null ? "" : (firstOf(wanted.target, "float8_e4m3fn", "float16") ?? "") };
}

/**
 * The direction in which a choice rounds; undefined for a cast without modes, whose direction depends on its types.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function roundingOf(catalog, choice) {
  const { modes, default_rounding } = operatorOf(catalog, choice);
  return modes[choice.mode] ?? (choice.target ? undefined : default_rounding);
}

const TO_INTEGER = "float to integer";

/**
 * What a specification leaves open of a choice, and what the service gives; empty if there is nothing.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function openOf(catalog, choice) {
  const { dtype, target } = choice;
  if (target === "" || FORMATS[dtype].kind !== "float" || FORMATS[target].kind === "float") return "";
  const found = Object.entries(operatorOf(catalog, choice).unspecified).filter(([name]) => name.startsWith(TO_INTEGER));
  const told = found.map(([name, here]) => `${name.slice(TO_INTEGER.length + 2) || "direction"} (here: ${here})`);
  return told.length ? `${dialectOf(catalog, choice.dialect).title} leaves open, from float to integer: ${told.join(", ")}.` : "";
}

/**
 * The operator of a choice in one word.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function wordOf(catalog, choice) {
  const { word } = operatorOf(catalog, choice);
  return word.replace("{mode}", choice.mode).replace("{version}", choice.version).replace(/:\{.*/, "");
}

/**
 * The operators of the dialects (IEEE 754 excluded) that round a dtype in a direction.
 *
 * @param {Catalog} catalog
 * @param {Rounding} rounding
 * @param {DType} dtype
 * @returns {string[]}
 */
export function operatorsBy(catalog, rounding, dtype) {
  return Object.entries(catalog.dialects).flatMap(([name, { title }]) =>
    operatorsOf(catalog, name).flatMap(({ operator, modes, dtypes, default_rounding, target_field }, at) => {
      if (name === "ieee754" || target_field !== null || !Object.values(dtypes).includes(dtype)) return [];
      if (Object.keys(modes).length === 0) return default_rounding === rounding ? [at ? `${title} ${operator}` : title] : [];
      return Object.keys(modes).filter((mode) => modes[mode] === rounding).map((mode) => `${title} ${mode}`);
    }),
  );
}
