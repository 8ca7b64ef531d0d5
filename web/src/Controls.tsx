/** The choice of operator and dtype, in the words of its dialect. */

import type { DType } from "../client/src/dtypes.ts";
import { type Catalog, type Choice, dialectName, dtypesOf, versionsOf } from "./catalog.ts";
import { mayBe, type NpyFile } from "./npy.ts";

interface Props {
  readonly catalog: Catalog;
  readonly choice: Choice;
  readonly file: NpyFile | undefined;
  readonly onChange: (some: Partial<Choice>) => void;
}

export function Controls({ catalog, choice, file, onChange }: Props) {
  const { version_field, modes } = catalog.dialects[choice.dialect]!;
  const dtypes = dtypesOf(catalog, choice).filter(([, dtype]) => !file || mayBe(file, dtype));
  const named = (name: string, own: string): string => (name === own ? name : `${name} (${own})`);
  return (
    <div class="controls">
      <Select label="Dialect" value={choice.dialect} options={Object.keys(catalog.dialects).map((name) => [name, dialectName(name)])} onChange={(dialect) => onChange({ dialect })} />
      {version_field && (
        <Select label={version_field} value={choice.version} options={versionsOf(catalog, choice.dialect).map((name) => [name, name])} onChange={(version) => onChange({ version })} />
      )}
      {Object.keys(modes).length > 0 && (
        <Select label="Mode" value={choice.mode} options={Object.entries(modes).map(([name, own]) => [name, named(name, own)])} onChange={(mode) => onChange({ mode })} />
      )}
      <Select label="dtype" value={choice.dtype} options={dtypes.map(([name, own]) => [own, named(name, own)])} onChange={(dtype) => onChange({ dtype: dtype as DType })} />
    </div>
  );
}

function Select({ label, value, options, onChange }: { label: string; value: string; options: readonly (readonly [string, string])[]; onChange: (value: string) => void }) {
  const id = `choice-${label}`;
  return (
    <div>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([own, text]) => (
          <option key={own} value={own}>{text}</option>
        ))}
      </select>
    </div>
  );
}
