/** Calls of the service that served the page. */

import { Client, ConnectionFailed, descriptorOf, fromWire, RequestRefused, toWire } from "./client/index.js";
import { ordered } from "./catalog.js";
import { length } from "./tensor.js";

/** @import { Descriptor, Differences, DType } from "./client/index.js" */
/** @import { Catalog } from "./catalog.js" */
/** @import { Tensor } from "./tensor.js" */

/** The URL of the service: the folder of the page. */
export const BASE = new URL(".", location.href).href.replace(/#.*/, "");

/**
 * A client with this API key; without one if it is empty.
 *
 * @param {string} apiKey
 */
export const clientWith = (apiKey) => new Client(BASE, { retries: 1, ...(apiKey ? { apiKey } : {}) });

/**
 * The catalog of the service.
 *
 * @param {Client} client
 * @returns {Promise<Catalog>}
 */
export const about = async (client) => ordered(await client.get("operators"));

/**
 * The result of an operator on a tensor.
 *
 * @param {Client} client
 * @param {Descriptor} descriptor
 * @param {Tensor} x
 * @param {AbortSignal} signal
 * @returns {Promise<{ y: Tensor, backend: string, ms: number }>}
 */
export async function execute(client, descriptor, x, signal) {
  const result = await client.execute(descriptor, toWire(x.bytes, x.dtype), { signal });
  const { dtype } = result.layout;
  const bytes = fromWire(new Uint8Array(result.data), dtype, length(x)); // DirectML's lengths are multiples of 4
  return { y: { ...x, dtype, bytes }, backend: result.backend, ms: result.timing["execute"] ?? 0 };
}

/**
 * The results of operators on a tensor, of casts to a type if one is given.
 *
 * @template {string} K
 * @param {Client} client
 * @param {ReadonlyMap<K, string>} words The operators, each as one word.
 * @param {Tensor} x
 * @param {AbortSignal} signal
 * @param {DType | ""} [to]
 * @returns {Promise<Map<K, Tensor>>}
 */
export async function ofEach(client, words, x, signal, to) {
  const results = Array.from(words, async ([name, word]) => {
    const descriptor = descriptorOf(word, x.dtype, x.shape, { to: to || undefined });
    const { y } = await execute(client, descriptor, x, signal);
    return /** @type {[K, Tensor]} */ ([name, y]);
  });
  return new Map(await Promise.all(results));
}

/**
 * Where directions differ on a whole tensor.
 *
 * @param {Client} client
 * @param {Tensor} x
 * @param {AbortSignal} signal
 * @returns {Promise<Differences>}
 */
export const differences = (client, x, signal) =>
  client.compare(descriptorOf("ties_to_even", x.dtype, x.shape), toWire(x.bytes, x.dtype), { signal });

/**
 * Describe an error in a sentence.
 *
 * @param {unknown} error
 */
export function sentenceOf(error) {
  if (error instanceof ConnectionFailed) return "The service does not respond. Check that it is running.";
  const text = error instanceof Error ? error.message : String(error);
  const end = /[.!?]$/.test(text) ? "" : ".";
  return error instanceof RequestRefused ? `The service refused: ${text}${end}` : `${text}${end}`;
}

/**
 * Whether an API key is missing or wrong.
 *
 * @param {unknown} error
 */
export const wantsKey = (error) => error instanceof RequestRefused && error.status === 401;
