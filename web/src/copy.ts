/** Copying to the clipboard. Pages loaded over plain HTTP have no `navigator.clipboard`. */

export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const holder = document.createElement("textarea");
  holder.value = text;
  document.body.append(holder);
  holder.select();
  document.execCommand("copy");
  holder.remove();
}
