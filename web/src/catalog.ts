/** The document of `GET /operators`, and choices that are valid according to it. */

import type { DType } from "../client/src/dtypes.ts";
import type { Operator, Rounding } from "../client/src/operators.ts";

interface Version {
  readonly name: string;
  readonly selected_by: readonly (string | number)[];
  readonly dtypes: readonly string[];
  readonly min_rank: number;
}

interface Dialect {
  readonly operator: string;
  readonly version_field: string | null;
  readonly versions: readonly Version[];
  readonly dtypes: Readonly<Record<string, DType>>;
  readonly modes: Readonly<Record<string, Rounding>>;
  readonly default_rounding: Rounding;
}

export interface Catalog {
  readonly dialects: Readonly<Record<string, Dialect>>;
  readonly roundings: readonly Rounding[];
  readonly limits: { readonly max_tensor_bytes: number };
  readonly service: { readonly version: string; readonly api_keys: boolean };
  readonly execution: { readonly backend: string; readonly devices: readonly string[] };
}

/** An operator and a dtype, in the dialect's words; empty where a dialect has no such thing. */
export interface Choice {
  readonly dialect: string;
  readonly version: string;
  readonly mode: string;
  readonly dtype: DType;
}

const NAMES: Readonly<Record<string, string>> = {
  ieee754: "IEEE 754",
  onnx: "ONNX",
  openvino: "OpenVINO",
  directml: "DirectML",
  webnn: "WebNN",
  stablehlo: "StableHLO",
  array_api: "Array API",
};

/** A dialect's name as people write it. */
export const dialectName = (dialect: string): string => NAMES[dialect] ?? dialect;

/** The values that select a version, oldest first. */
export const versionsOf = (catalog: Catalog, dialect: string): string[] =>
  catalog.dialects[dialect]!.versions.flatMap((version) => version.selected_by.map(String));

/** The version that a choice selects. */
export function versionOf(catalog: Catalog, choice: Choice): Version {
  const { versions } = catalog.dialects[choice.dialect]!;
  return versions.find((version) => version.selected_by.map(String).includes(choice.version)) ?? versions.at(-1)!;
}

/** The dtypes of a choice's version: the dialect's names, and ours. */
export const dtypesOf = (catalog: Catalog, choice: Choice): [string, DType][] => {
  const { dtypes } = catalog.dialects[choice.dialect]!;
  return versionOf(catalog, choice).dtypes.map((name) => [name, dtypes[name]!]);
};

/** The valid choice that is closest to the wanted one. */
export function settle(catalog: Catalog, wanted: Partial<Choice>): Choice {
  const dialect = wanted.dialect && wanted.dialect in catalog.dialects ? wanted.dialect : "ieee754";
  const { modes, default_rounding } = catalog.dialects[dialect]!;
  const versions = versionsOf(catalog, dialect);
  const version = wanted.version && versions.includes(wanted.version) ? wanted.version : (versions.at(-1) ?? "");
  const first = Object.keys(modes).find((name) => modes[name] === default_rounding) ?? "";
  const mode = wanted.mode && wanted.mode in modes ? wanted.mode : first;
  const dtype = wanted.dtype ?? "float32";
  const choice = { dialect, version, mode, dtype };
  const offered = dtypesOf(catalog, choice).map(([, own]) => own);
  return offered.includes(dtype) ? choice : { ...choice, dtype: offered.includes("float32") ? "float32" : offered[0]! };
}

/** The direction in which a choice rounds. */
export function roundingOf(catalog: Catalog, { dialect, mode }: Choice): Rounding {
  const { modes, default_rounding } = catalog.dialects[dialect]!;
  return modes[mode] ?? default_rounding;
}

/** The operator of a choice, as the client takes it. */
export function operatorOf({ dialect, version, mode }: Choice): Operator {
  const fields = {
    ieee754: { rounding: mode },
    onnx: { opset_version: Number(version) },
    openvino: { version, mode },
    directml: { feature_level: version, rounding_mode: mode },
    stablehlo: { op: mode },
    array_api: { op: mode },
  }[dialect];
  return { dialect, ...fields } as Operator; // the names come from the service
}

/** The operator in one word, as queries and command lines take it. */
export function wordOf({ dialect, version, mode }: Choice): string {
  switch (dialect) {
    case "onnx":
      return `onnx:${version}`;
    case "openvino":
    case "stablehlo":
    case "array_api":
      return `${dialect}:${mode}`;
    case "webnn":
      return dialect;
    case "directml":
      return `directml:${mode}:${version}`;
    default:
      return mode;
  }
}

/** The operators of the dialects (IEEE 754 excluded) that round a dtype in a direction. */
export function operatorsBy(catalog: Catalog, rounding: Rounding, dtype: DType): string[] {
  return Object.entries(catalog.dialects).flatMap(([name, { modes, dtypes, default_rounding }]) => {
    if (name === "ieee754" || !Object.values(dtypes).includes(dtype)) return [];
    if (Object.keys(modes).length === 0) return default_rounding === rounding ? [dialectName(name)] : [];
    return Object.keys(modes).filter((mode) => modes[mode] === rounding).map((mode) => `${dialectName(name)} ${mode}`);
  });
}
