/** Errors of the client. An aborted call throws the reason of its signal instead. */

/** Base class of all errors of this package. */
export class TensorRoundError extends Error {
  /** @override */
  get name() {
    return this.constructor.name;
  }
}

/** No response: not reachable, connection lost, or the origin of the page is not in CORS_ORIGINS. */
export class ConnectionFailed extends TensorRoundError {}

/** The response violates the protocol: it comes from another server or a proxy. */
export class ProtocolViolation extends TensorRoundError {}

/**
 * One fault of a request: its location and the reason.
 *
 * @typedef {object} Fault
 * @property {readonly (string | number)[]} loc
 * @property {string} msg
 */

/**
 * A problem document (RFC 9457).
 *
 * @typedef {object} Problem
 * @property {string} type
 * @property {string} title
 * @property {number} status
 * @property {string} detail
 * @property {string} code
 * @property {readonly Fault[]} [errors]
 * @property {number} [limit_bytes]
 * @property {number} [got_bytes]
 */

/** The service refused the request; `code` names the rule. */
export class RequestRefused extends TensorRoundError {
  /**
   * @param {Problem} problem
   * @param {number} [retryAfter]
   * @param {string} [requestId]
   */
  constructor(problem, retryAfter, requestId) {
    super(problem.detail);
    /** @readonly */
    this.problem = problem;
    /** @readonly */
    this.status = problem.status;
    /** @readonly */
    this.code = problem.code;
    /** @readonly @type {readonly Fault[]} */
    this.faults = problem.errors ?? [];
    /**
     * Seconds to wait before a retry; undefined if a retry is pointless.
     *
     * @readonly
     */
    this.retryAfter = retryAfter;
    /**
     * The X-Request-ID, which the log of the service contains too.
     *
     * @readonly
     */
    this.requestId = requestId;
  }
}

export class MissingDescriptor extends RequestRefused {}
export class DuplicateDescriptor extends RequestRefused {}
export class InvalidDescriptor extends RequestRefused {}
export class MalformedJSON extends RequestRefused {}
export class MalformedNpy extends RequestRefused {}
export class MalformedEncoding extends RequestRefused {}
export class PayloadSizeMismatch extends RequestRefused {}
export class DigestMismatch extends RequestRefused {}
export class InvalidHost extends RequestRefused {}
export class Unauthorized extends RequestRefused {}
export class NotFound extends RequestRefused {}
export class MethodNotAllowed extends RequestRefused {}
export class ReceiveTimeout extends RequestRefused {}
export class TensorTooLarge extends RequestRefused {}
export class UnsupportedMediaType extends RequestRefused {}
export class UnsupportedEncoding extends RequestRefused {}
export class MisdirectedHost extends RequestRefused {}
export class HeadersTooLarge extends RequestRefused {}
export class Overloaded extends RequestRefused {}
export class Draining extends RequestRefused {}
export class DeviceOutOfMemory extends RequestRefused {}
export class BackendFailed extends RequestRefused {}
export class InternalError extends RequestRefused {}
export class Unimplemented extends RequestRefused {}

/**
 * The class of each code.
 *
 * @type {Readonly<Record<string, typeof RequestRefused>>}
 */
export const REFUSALS = {
  missing_descriptor: MissingDescriptor,
  duplicate_descriptor: DuplicateDescriptor,
  invalid_descriptor: InvalidDescriptor,
  malformed_json: MalformedJSON,
  malformed_npy: MalformedNpy,
  malformed_encoding: MalformedEncoding,
  payload_size_mismatch: PayloadSizeMismatch,
  digest_mismatch: DigestMismatch,
  invalid_host: InvalidHost,
  unauthorized: Unauthorized,
  not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  receive_timeout: ReceiveTimeout,
  tensor_too_large: TensorTooLarge,
  unsupported_media_type: UnsupportedMediaType,
  unsupported_encoding: UnsupportedEncoding,
  misdirected_host: MisdirectedHost,
  headers_too_large: HeadersTooLarge,
  overloaded: Overloaded,
  draining: Draining,
  device_out_of_memory: DeviceOutOfMemory,
  backend_failed: BackendFailed,
  internal_error: InternalError,
  unimplemented: Unimplemented,
};

/**
 * Return the error for a response that is not a success.
 *
 * @param {Response} response
 * @returns {Promise<TensorRoundError>}
 */
export async function refusalOf(response) {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("application/problem+json")) {
    return new ProtocolViolation(`no tensor-round service answers here: status ${response.status}, ${type || "no type"}`);
  }
  /** @type {Problem} */
  const problem = await response.json();
  const retryAfter = response.headers.get("retry-after");
  const Refusal = REFUSALS[problem.code] ?? RequestRefused;
  return new Refusal(
    problem,
    retryAfter === null ? undefined : Number(retryAfter),
    response.headers.get("x-request-id") ?? undefined,
  );
}
