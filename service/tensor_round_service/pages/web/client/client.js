/** The client: tensors over `POST /round`, in any runtime that has `fetch`. */

import { arrayOf, DTYPES, dtypeOf, elementsOf, fromWire, toWire } from "./dtypes.js";
import { ConnectionFailed, NotFound, ProtocolViolation, RequestRefused, refusalOf } from "./errors.js";
import { descriptorOf } from "./operators.js";

/** @import { DType, TypedArray } from "./dtypes.js" */
/** @import { Descriptor, Members, Operator, Rounding } from "./operators.js" */

/**
 * @typedef {object} ClientOptions
 * @property {string} [apiKey] API key, sent as `Authorization: Bearer`.
 * @property {Readonly<Record<string, string>>} [headers] Fields added to every request.
 * @property {number} [retries] Number of retries after a broken connection or a 503; 2 by default.
 * @property {typeof fetch} [fetch] Replacement for the `fetch` of the platform.
 */

/**
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] Aborts the call; use `AbortSignal.timeout(ms)` for a deadline.
 */

/**
 * @typedef {object} TensorOptions
 * @property {DType} [dtype] The type of the bits in a `Uint16Array` or `Uint8Array`: bfloat16, float16, float8_e4m3fn, int4 ...
 * @property {readonly number[]} [shape] The shape of the tensor; one dimension by default.
 */

/** @typedef {CallOptions & TensorOptions} RoundOptions */

/**
 * @typedef {object} SaturateOption
 * @property {boolean} [saturate] Whether a result beyond the range is the largest number; the operator's default.
 */

/** @typedef {RoundOptions & SaturateOption} CastOptions */

/**
 * Scales or zero points: a number for all elements, or one for each index of `axis`, or each block. Numbers are
 * rounded to `float32` as scales, and are of the quantized type as zero points. An array has a type of its own; of
 * a type without a class it has the bits.
 *
 * @typedef {number | readonly number[] | TypedArray} Parameter
 */

/**
 * @typedef {object} LinearOptions
 * @property {DType} [to] The type of the result: int8 by default, of `dequantize` float32.
 * @property {Operator} [operator] ONNX's by default.
 * @property {number} [axis] The dimension along which scales differ; 1 by default.
 * @property {number} [blockSize] Elements along the axis that share a scale.
 */

/** @typedef {RoundOptions & SaturateOption & LinearOptions} QuantizeOptions */

/**
 * Bytes of a tensor. Node uploads a stream as it is read; browsers collect it first.
 *
 * @typedef {ArrayBuffer | ArrayBufferView<ArrayBuffer> | Blob | ReadableStream<Uint8Array>} Data
 */

/**
 * The memory layout of an output; strides are in elements, byte_length is in bytes.
 *
 * @typedef {object} Layout
 * @property {DType} dtype
 * @property {readonly number[]} shape
 * @property {readonly number[]} strides
 * @property {number} byte_length
 */

/**
 * The output of one call.
 *
 * @typedef {object} Result
 * @property {ArrayBuffer} data
 * @property {Layout} layout
 * @property {string} backend
 * @property {Readonly<Record<string, number>>} timing Milliseconds by stage: receive, queue, execute.
 * @property {string} requestId
 */

/**
 * An element: its shortest decimal, and its bits in hexadecimal.
 *
 * @typedef {object} Value
 * @property {string} value
 * @property {string} bits
 */

/**
 * The first elements of a class that differ: index, input, and the result in each direction.
 *
 * @typedef {object} ElementDifference
 * @property {readonly number[]} index
 * @property {Value} x
 * @property {Readonly<Partial<Record<Rounding, Value>>>} results
 */

/**
 * How many elements of one class differ, and the first of them.
 *
 * @typedef {object} ClassDifference
 * @property {string} name
 * @property {number} different
 * @property {readonly ElementDifference[]} first
 */

/**
 * In how many elements two directions differ, by class.
 *
 * @typedef {object} PairDifference
 * @property {readonly [Rounding, Rounding]} roundings
 * @property {number} different
 * @property {Readonly<Record<string, ClassDifference>>} classes
 */

/**
 * The response of `POST /compare`: each pair of directions, and the operators that round in each.
 *
 * @typedef {object} Differences
 * @property {DType} dtype
 * @property {readonly number[]} shape
 * @property {number} elements
 * @property {Readonly<Record<Rounding, readonly string[]>>} operators
 * @property {readonly PairDifference[]} pairs
 */

// Browsers stream uploads over HTTP/2 only, and the service uses HTTP/1.1.
const STREAMS = !(globalThis.navigator?.userAgent ?? "").startsWith("Mozilla/");
const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** A client of one service. It holds no resources, so it has no close method. */
export class Client {
  /** @type {URL} */
  #base;
  /** @type {Readonly<Record<string, string>>} */
  #headers;
  /** @type {number} */
  #retries;
  /** @type {typeof fetch} */
  #fetch;

  /**
   * @param {string | URL} url `http://host:port` or `https://host`, with the path of the service if it has one.
   * @param {ClientOptions} [options]
   */
  constructor(url, options = {}) {
    this.#base = baseOf(url);
    const key = options.apiKey ? { Authorization: `Bearer ${options.apiKey}` } : {};
    this.#headers = { ...options.headers, ...key };
    this.#retries = options.retries ?? 2;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /**
   * Round each element of `x`; return a new array of the same class.
   *
   * @template {TypedArray} T
   * @param {T} x
   * @param {Operator} [operator]
   * @param {RoundOptions} [options]
   * @returns {Promise<T>}
   */
  async round(x, operator = "ties_to_even", options = {}) {
    const data = await this.#results(x, operator, options);
    const Kind = /** @type {new (buffer: ArrayBuffer, at: number, length: number) => T} */ (x.constructor);
    return new Kind(data, 0, x.length); // DirectML's lengths are multiples of 4
  }

  /**
   * Convert each element of `x` to the type `to`; return an array of that type, or of bits if there is none.
   *
   * @param {TypedArray} x
   * @param {DType} to
   * @param {Operator} [operator]
   * @param {CastOptions} [options]
   * @returns {Promise<TypedArray>}
   */
  async cast(x, to, operator = "ties_to_even", options = {}) {
    if (!(to in DTYPES)) throw new TypeError(`to must be a dtype, got ${to}; accepted: ${Object.keys(DTYPES).join(", ")}`);
    return arrayOf(await this.#results(x, operator, options, { to, saturate: options.saturate }), to, x.length);
  }

  /**
   * Quantize each element of `x`, as ONNX does: `saturate(round(x / scale) + zeroPoint)`.
   *
   * @param {TypedArray} x
   * @param {Parameter} scale
   * @param {Parameter} [zeroPoint]
   * @param {QuantizeOptions} [options]
   * @returns {Promise<TypedArray>}
   */
  async quantize(x, scale, zeroPoint, options = {}) {
    const { to = "int8", operator = "onnx:QuantizeLinear" } = options;
    return this.#linear(x, scale, zeroPoint, to, { ...options, to, operator });
  }

  /**
   * Dequantize each element of `x`: `(x - zeroPoint) * scale`, rounded once.
   *
   * @param {TypedArray} x
   * @param {Parameter} scale
   * @param {Parameter} [zeroPoint]
   * @param {QuantizeOptions} [options]
   * @returns {Promise<TypedArray>}
   */
  async dequantize(x, scale, zeroPoint, options = {}) {
    const { to = "float32", operator = "onnx:DequantizeLinear" } = options;
    return this.#linear(x, scale, zeroPoint, dtypeOf(x, options.dtype), { ...options, to, operator });
  }

  /**
   * @param {TypedArray} x
   * @param {Parameter} scale
   * @param {Parameter | undefined} zeroPoint
   * @param {DType} codes The type of zero points.
   * @param {QuantizeOptions & { to: DType, operator: Operator }} options
   */
  async #linear(x, scale, zeroPoint, codes, options) {
    const { to, operator, saturate, axis, blockSize, shape = [x.length] } = options;
    const count = Math.max(...[scale, zeroPoint].map((each) => (typeof each === "object" ? each.length : 1)));
    const isNumber = typeof scale === "number" && (zeroPoint === undefined || typeof zeroPoint === "number");
    const along = (axis ?? 1) < 0 ? shape.length + (axis ?? 1) : (axis ?? 1);
    const blocks = shape.map((size, at) => (at === along ? Math.ceil(size / (blockSize || 1)) : size));
    const counts = isNumber ? [] : blockSize ? blocks : [count];
    const parameter = (/** @type {Parameter} */ given, /** @type {DType} */ dtype, /** @type {string} */ name) => {
      const numbers = typeof given === "number" ? new Array(isNumber ? 1 : count).fill(given) : given;
      const isTyped = !Array.isArray(numbers);
      const elements = isTyped ? /** @type {TypedArray} */ (numbers) : elementsOf(numbers, dtype, name);
      return { elements, members: { dtype: isTyped ? typeOf(elements, dtype) : dtype, shape: counts } };
    };
    const scales = parameter(scale, "float32", "scale");
    const points = zeroPoint === undefined ? undefined : parameter(zeroPoint, codes, "zeroPoint");
    const members = { to, saturate, axis, block_size: blockSize, scale: scales.members, zero_point: points?.members };
    const behind = [scales, ...(points ? [points] : [])].map(({ elements, members }) => toWire(bytesOf(elements), members.dtype));
    return arrayOf(await this.#results(x, operator, options, members, behind), to, x.length);
  }

  /**
   * The elements of the result, in memory that may be longer.
   *
   * @param {TypedArray} x
   * @param {Operator} operator
   * @param {RoundOptions} options
   * @param {Members} [members]
   * @param {Uint8Array<ArrayBuffer>[]} [behind] Further tensors.
   * @returns {Promise<ArrayBuffer>}
   */
  async #results(x, operator, { dtype, shape, signal }, members = {}, behind = []) {
    if (!IS_LITTLE_ENDIAN) throw new TypeError("typed arrays are big-endian here: use execute");
    const kind = dtypeOf(x, dtype);
    const bytes = toWire(bytesOf(x), kind);
    const data = behind.length > 0 ? new Blob([bytes, ...behind]) : bytes;
    const descriptor = descriptorOf(operator, kind, shape ?? [x.length], members);
    const result = await this.execute(descriptor, data, signal ? { signal } : {});
    return fromWire(new Uint8Array(result.data), members.to ?? kind, x.length).buffer;
  }

  /**
   * Execute any descriptor, strides and lengths included, on the bytes of its input.
   *
   * @param {Descriptor} descriptor
   * @param {Data} data
   * @param {CallOptions} [options]
   * @returns {Promise<Result>}
   */
  async execute(descriptor, data, options = {}) {
    const init = await posted(descriptor, data);
    const { response, content } = await this.#send("round", init, options, (r) => r.arrayBuffer());
    const stated = response.headers.get("Output-Descriptor");
    /** @type {Layout | undefined} */
    const layout = stated === null ? undefined : JSON.parse(stated);
    if (layout?.byte_length !== content.byteLength) {
      throw new ProtocolViolation("the response is not as long as its Output-Descriptor says");
    }
    return {
      data: content,
      layout,
      backend: response.headers.get("Execution-Backend") ?? "",
      timing: timingOf(response.headers.get("Server-Timing") ?? ""),
      requestId: response.headers.get("X-Request-ID") ?? "",
    };
  }

  /**
   * Compare the rounding directions on a tensor that a descriptor describes.
   *
   * @param {Descriptor} descriptor
   * @param {Data} data
   * @param {CallOptions} [options]
   * @returns {Promise<Differences>}
   */
  async compare(descriptor, data, options = {}) {
    const init = await posted(descriptor, data);
    return (await this.#send("compare", init, options, (r) => r.json())).content;
  }

  /**
   * Get a JSON document of the service: `operators`, `conformance`, `readyz` ...
   *
   * @template [T=unknown]
   * @param {string} path
   * @param {CallOptions} [options]
   * @returns {Promise<T>}
   */
  async get(path, options = {}) {
    const init = { headers: { Accept: "application/json" } };
    return (await this.#send(path, init, options, (r) => r.json())).content;
  }

  /**
   * Return whether the service accepts requests; false if it cannot be reached.
   *
   * @param {CallOptions} [options]
   * @returns {Promise<boolean>}
   */
  async ready(options = {}) {
    try {
      /** @type {{ status: string }} */
      const { status } = await this.get("readyz", options);
      return status === "ready";
    } catch {
      options.signal?.throwIfAborted();
      return false;
    }
  }

  /**
   * @template T
   * @param {string} path
   * @param {RequestInit} init
   * @param {CallOptions} options
   * @param {(response: Response) => Promise<T>} read
   * @returns {Promise<{ response: Response, content: T }>}
   */
  async #send(path, init, { signal }, read) {
    const url = new URL(path, this.#base);
    const headers = { ...this.#headers, .../** @type {Record<string, string>} */ (init.headers) };
    const tries = init.body instanceof ReadableStream ? 0 : this.#retries;
    for (let failed = 0; ; failed++) {
      const error = await (async () => {
        try {
          const response = await this.#fetch(url, { ...init, headers, signal: signal ?? null });
          if (response.ok) return { response, content: await read(response) };
          const refusal = await refusalOf(response);
          if (refusal instanceof NotFound) refusal.message += wherePathIs(url);
          return refusal;
        } catch (cause) {
          signal?.throwIfAborted();
          return new ConnectionFailed(`no response from ${url.origin}${foreignOriginHint(url)}`, { cause });
        }
      })();
      if (!(error instanceof Error)) return error;
      const after = error instanceof RequestRefused ? error.retryAfter : 0.1 * 2 ** failed;
      if (error instanceof ProtocolViolation || after === undefined || failed >= tries) throw error;
      await pause(after * 1000, signal);
    }
  }
}

/**
 * The type of an array: `wanted` if it can hold its bits.
 *
 * @param {TypedArray} x
 * @param {DType} wanted
 */
function typeOf(x, wanted) {
  const own = dtypeOf(x);
  return own.startsWith("uint") && DTYPES[wanted].bytes === x.BYTES_PER_ELEMENT ? wanted : own;
}

/**
 * The memory of an array.
 *
 * @param {TypedArray} x
 */
const bytesOf = (x) => new Uint8Array(/** @type {ArrayBuffer} */ (x.buffer), x.byteOffset, x.byteLength);

/**
 * The URL of a service, with the slash that other paths are relative to.
 *
 * @param {string | URL} url
 */
function baseOf(url) {
  const base = URL.canParse(url) ? new URL(url) : undefined;
  // "localhost:8000" is a URL too: of the scheme "localhost".
  if (base?.protocol !== "http:" && base?.protocol !== "https:") {
    const got = url === undefined ? "none" : JSON.stringify(String(url));
    throw new TypeError(`the URL of a service begins with http:// or https://, as "http://127.0.0.1:8000"; got ${got}`);
  }
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  return base;
}

/**
 * Which path was not found, and where the URL of the client should end, if it ends with a service's path.
 *
 * @param {URL} url
 */
function wherePathIs({ pathname }) {
  const [, end] = /(\/(?:round|compare|operators|conformance|readyz|docs|v2))\/[^/]+$/.exec(pathname) ?? [];
  return `: ${pathname}${end === undefined ? "" : `; the URL should end before ${end}`}`;
}

/**
 * What else to check in a page of another origin: browsers do not say why they withhold a response.
 *
 * @param {URL} url
 */
function foreignOriginHint(url) {
  const page = globalThis.location?.origin;
  return !page || page === url.origin ? "" : ` (if the service runs: is ${page} in its CORS_ORIGINS?)`;
}

/**
 * @param {Descriptor} descriptor
 * @param {Data} data
 * @returns {Promise<RequestInit>}
 */
async function posted(descriptor, data) {
  const headers = {
    "Content-Type": "application/octet-stream",
    "Operator-Descriptor": JSON.stringify(descriptor),
  };
  /** @type {RequestInit & { duplex?: "half" }} */
  const init = { method: "POST", headers };
  if (!(data instanceof ReadableStream)) init.body = data;
  else if (STREAMS) Object.assign(init, { body: data, duplex: "half" });
  else init.body = await new Response(data).blob();
  return init;
}

/**
 * @param {string} field
 * @returns {Record<string, number>}
 */
function timingOf(field) {
  const stages = field.matchAll(/([\w-]+);dur=([\d.]+)/g);
  return Object.fromEntries(Array.from(stages, ([, name, ms]) => [name, Number(ms)]));
}

/**
 * @param {number} ms
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<void>}
 */
function pause(ms, signal) {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
