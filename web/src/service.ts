/** Calls of the service that served the page. */

import { Client } from "../client/src/client.ts";
import { ConnectionFailed, RequestRefused } from "../client/src/errors.ts";
import { type Descriptor, descriptorOf, type Rounding } from "../client/src/operators.ts";
import type { Differences } from "../client/src/differences.ts";
import type { Catalog } from "./catalog.ts";
import type { Tensor } from "./tensor.ts";

/** The URL of the service: the folder of the page. */
export const BASE = new URL(".", location.href).href.replace(/#.*/, "");

/** A client with this API key; without one if it is empty. */
export const clientWith = (apiKey: string): Client => new Client(BASE, { retries: 1, ...(apiKey ? { apiKey } : {}) });

/** The catalog of the service. */
export const about = (client: Client): Promise<Catalog> => client.get<Catalog>("operators");

/** A tensor, rounded. */
export async function execute(client: Client, descriptor: Descriptor, x: Tensor, signal: AbortSignal): Promise<{ y: Tensor; backend: string; ms: number }> {
  const result = await client.execute(descriptor, x.bytes, { signal });
  const bytes = new Uint8Array(result.data, 0, x.bytes.length); // DirectML's lengths are multiples of 4
  return { y: { ...x, bytes }, backend: result.backend, ms: result.timing["execute"] ?? 0 };
}

/** A tensor rounded in each of these directions. */
export async function inEach(client: Client, roundings: readonly Rounding[], x: Tensor, signal: AbortSignal): Promise<Map<Rounding, Tensor>> {
  const results = roundings.map(async (rounding) => {
    const descriptor = descriptorOf(rounding, x.dtype, x.shape);
    return [rounding, (await execute(client, descriptor, x, signal)).y] as const;
  });
  return new Map(await Promise.all(results));
}

/** Where directions differ on a whole tensor. */
export const differences = (client: Client, descriptor: Descriptor, x: Tensor, signal: AbortSignal): Promise<Differences> =>
  client.compare(descriptor, x.bytes, { signal });

/** Describe an error in a sentence. */
export function sentenceOf(error: unknown): string {
  if (error instanceof ConnectionFailed) return "The service does not respond. Check that it is running.";
  const text = error instanceof Error ? error.message : String(error);
  const end = /[.!?]$/.test(text) ? "" : ".";
  return error instanceof RequestRefused ? `The service refused: ${text}${end}` : `${text}${end}`;
}

/** Whether an API key is missing or wrong. */
export const wantsKey = (error: unknown): boolean => error instanceof RequestRefused && error.status === 401;
