/** The document of `GET /operators`, and choices that are valid according to it. */

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
 * @typedef {object} Dialect
 * @property {string} title
 * @property {string} operator
 * @property {string} word The operator in one word, with `{mode}` and `{version}`.
 * @property {Model} model
 * @property {string | null} version_field
 * @property {readonly Version[]} versions Oldest first; there is at least one.
 * @property {Readonly<Record<string, DType>>} dtypes
 * @property {Readonly<Record<string, Rounding>>} modes
 * @property {Rounding} default_rounding
 */

/**
 * @typedef {object} Catalog
 * @property {Readonly<Record<string, Dialect>>} dialects
 * @property {readonly Rounding[]} roundings
 * @property {{ readonly max_tensor_bytes: number }} limits
 * @property {{ readonly version: string, readonly api_keys: boolean }} service
 * @property {{ readonly backend: string, readonly devices: readonly string[] }} execution
 */

/**
 * An operator and a dtype, in the dialect's words; empty where a dialect has no such thing.
 *
 * @typedef {object} Choice
 * @property {string} dialect
 * @property {string} version
 * @property {string} mode
 * @property {DType} dtype
 */

/**
 * @param {Catalog} catalog
 * @param {string} dialect
 * @returns {Dialect}
 */
export const dialectOf = (catalog, dialect) => /** @type {Dialect} */ (catalog.dialects[dialect]);

/**
 * The values that select a version, oldest first.
 *
 * @param {Catalog} catalog
 * @param {string} dialect
 */
export const versionsOf = (catalog, dialect) =>
  dialectOf(catalog, dialect).versions.flatMap((version) => version.selected_by.map(String));

/**
 * The version that a choice selects.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function versionOf(catalog, choice) {
  const { versions } = dialectOf(catalog, choice.dialect);
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
  const { dtypes } = dialectOf(catalog, choice.dialect);
  return versionOf(catalog, choice).dtypes.map((name) => [name, /** @type {DType} */ (dtypes[name])]);
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
  const { modes, default_rounding } = dialectOf(catalog, dialect);
  const versions = versionsOf(catalog, dialect);
  const version = wanted.version && versions.includes(wanted.version) ? wanted.version : (versions.at(-1) ?? "");
  const first = Object.keys(modes).find((name) => modes[name] === default_rounding) ?? "";
  const mode = wanted.mode && wanted.mode in modes ? wanted.mode : first;
  const dtype = wanted.dtype ?? "float32";
  const choice = { dialect, version, mode, dtype };
  const offered = dtypesOf(catalog, choice).map(([, own]) => own);
  if (offered.includes(dtype)) return choice;
  return { ...choice, dtype: offered.find((own) => own === "float32") ?? offered[0] ?? dtype };
}

/**
 * The direction in which a choice rounds.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function roundingOf(catalog, { dialect, mode }) {
  const { modes, default_rounding } = dialectOf(catalog, dialect);
  return modes[mode] ?? default_rounding;
}

/**
 * The operator of a choice in one word.
 *
 * @param {Catalog} catalog
 * @param {Choice} choice
 */
export function wordOf(catalog, { dialect, version, mode }) {
  return dialectOf(catalog, dialect).word.replace("{mode}", mode).replace("{version}", version);
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
  return Object.entries(catalog.dialects).flatMap(([name, { title, modes, dtypes, default_rounding }]) => {
    if (name === "ieee754" || !Object.values(dtypes).includes(dtype)) return [];
    if (Object.keys(modes).length === 0) return default_rounding === rounding ? [title] : [];
    return Object.keys(modes).filter((mode) => modes[mode] === rounding).map((mode) => `${title} ${mode}`);
  });
}
