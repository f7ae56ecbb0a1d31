/// <reference types="node" />
import type { IncomingMessage, Server, ServerResponse } from 'http';

/** What a request of a pilotlight service has besides Node's own. */
export interface Request extends IncomingMessage {
  /** The gateway's request id. */
  id: string;
  /** When the answer must be there, in milliseconds as of Date.now(); null if there is no deadline. */
  deadline: number | null;
  /** Aborted when the client has gone or the deadline is over. */
  readonly signal: AbortSignal;
}

/** What a response of a pilotlight service has besides Node's own. All three throw once headers were sent. */
export interface Response extends ServerResponse {
  /** Nothing has happened: the gateway may send the request, whatever its method, to another instance. */
  refuse(text?: string): void;
  /** As `refuse`, and the service has too much to do for `retryAfterMs` (1,000 if not given). */
  overloaded(retryAfterMs?: number, text?: string): void;
  /** The request's body is larger than the service takes: the client gets 413. */
  tooLarge(text?: string): void;
}

export type Handler = (req: Request, res: Response) => unknown;

export interface Options {
  /** Exchanges at once on a shared connection, 1–4096; 64 if not given. */
  exchanges?: number;
  /** Connections for streams, 1–4096; 64 if not given. */
  maxOwn?: number;
}

export interface Service {
  /** Finishes what is open, refuses the rest, exits with code 0; as SIGTERM does. */
  close(): void;
}

/**
 * Answers the requests that the gateway sends. `handler` may be anything that takes `(req, res)`, an Express application
 * say, or an http.Server that does not listen. A handler that throws, or whose promise is rejected, is answered with 502.
 * Not started by the gateway, it says how to do that and exits with code 2.
 */
export function serve(handler: Handler | ((req: IncomingMessage, res: ServerResponse) => unknown) | Server, options?: Options): Service;
export function refuse(res: ServerResponse, text?: string): void;
export function overloaded(res: ServerResponse, retryAfterMs?: number, text?: string): void;
export function tooLarge(res: ServerResponse, text?: string): void;
/** A log line that belongs to this request (at most 341 characters are sent). */
export function log(req: IncomingMessage, text: string, level?: 'error' | 'warn' | 'info' | 'debug' | 'trace'): void;

declare const pilotlight: {
  serve: typeof serve;
  refuse: typeof refuse;
  overloaded: typeof overloaded;
  tooLarge: typeof tooLarge;
  log: typeof log;
};
export default pilotlight;
