/** Programs that make the shown call, with buttons that copy them. */

import { useEffect, useState } from "preact/hooks";
import type { Catalog, Choice } from "./catalog.ts";
import { copy } from "./copy.ts";
import type { NpyFile } from "./npy.ts";
import { BASE } from "./service.ts";
import { type Language, LANGUAGES, snippet } from "./snippets.ts";
import { length, type Tensor } from "./tensor.ts";

/** Snippets contain at most this many numbers. */
const MOST = 1000;

export function Snippets(props: { catalog: Catalog; choice: Choice; x: Tensor; file: NpyFile | undefined }) {
  const [language, setLanguage] = useState<Language>("curl");
  const isLong = !props.file && length(props.x) > MOST;
  const text = isLong ? "" : snippet(language, { url: BASE, ...props });
  return (
    <>
      <div class="tabs" role="radiogroup" aria-label="Language">
        {LANGUAGES.map((name) => (
          <label key={name}>
            <input type="radio" name="language" checked={name === language} onChange={() => setLanguage(name)} />
            {name}
          </label>
        ))}
      </div>
      {isLong ? <p>A program with so many numbers would be too long. Save them as a .npy file and drop it here.</p> : <pre id="snippet" tabIndex={0} aria-label={`${language} program`}>{text}</pre>}
      <p class="buttons">
        <Copy label="Copy the program" text={() => text} />
        <Copy label="Copy a link to this page" text={() => location.href} />
      </p>
    </>
  );
}

function Copy({ label, text }: { label: string; text: () => string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const onClick = (): void => void copy(text()).then(() => setSaid("Copied."), () => setSaid("The browser does not allow it."));
  return (
    <>
      <button type="button" onClick={onClick}>{label}</button> <span role="status">{said}</span>
    </>
  );
}
