/// <reference types="node" />
import type { EventEmitter } from 'events';
import type { IncomingMessage, ServerResponse } from 'http';
import type { Socket } from 'net';

/** What a request of a pilotlight service has besides Node's own. */
export interface Request extends IncomingMessage {
  /** The gateway's request id. */
  id: string;
  /** When the answer must be there, in milliseconds as of Date.now(); null if there is no deadline. */
  deadline: number | null;
  /** Aborted when the client has gone or the deadline is over. */
  readonly signal: AbortSignal;
}

export type Handler = (req: Request, res: ServerResponse) => unknown;

/** What the gateway knows of a request besides what a Request has. */
export interface Context {
  /** The gateway's request id. */
  readonly id: string;
  /** When the answer must be there, in milliseconds as of Date.now(); null if there is no deadline. */
  readonly deadline: number | null;
  /** The client's, as Deno tells it; undefined if it has none. */
  readonly remoteAddr: { transport: 'tcp'; hostname: string; port: number } | undefined;
  /** An instance that is to end waits for `promise`. */
  waitUntil(promise: Promise<unknown>): void;
}

/**
 * What Hono, Elysia and others make, and what Workers, Deno and Bun take as a module's default export. `fetch` gets the
 * context a second time as its third argument, where Workers have theirs. Nothing is returned after `refuse` and its like.
 */
export interface FetchHandler {
  fetch(request: globalThis.Request, context: any, again: any): Answer | Promise<Answer>;
}
export type Answer = globalThis.Response | void;

export interface Options {
  /** Exchanges at once on a shared connection, 1–4096; 64 if not given. */
  exchanges?: number;
  /** Connections for streams, 1–4096; 64 if not given. */
  maxOwn?: number;
  /** Connections that have switched to another protocol; 1,024 if not given. Clients beyond get 503. */
  maxUpgraded?: number;
  /**
   * Whether, for a FetchHandler, the names Headers, Request and Response mean quick classes of the SDK, which do the same
   * as those of the platform: true on Node, false on Deno and Bun if not given.
   */
  globals?: boolean;
}

export interface Service extends EventEmitter {
  /**
   * A client asks for another protocol, as with Node's http.Server: `new WebSocketServer({ server })` of the package `ws`
   * takes a Service. Without a listener such a request goes to the handler.
   */
  on(event: 'upgrade', listener: (req: Request, socket: Socket, head: Buffer) => void): this;
  /** The instance is to end: open WebSockets should be closed. It ends with the last of them, or is killed. */
  on(event: 'draining', listener: () => void): this;
  /** Finishes what is open, refuses the rest, exits with code 0; as SIGTERM does. */
  close(): void;
}

/**
 * Answers the requests that the gateway sends. `handler` may be anything that takes `(req, res)`, an Express application
 * say: if it throws, or its promise is rejected, the client gets 502. Or an object with `fetch(request, context)`, a Hono
 * application say: an error there is answered with 500, and Response.error() with 502.
 * Not started by the gateway, it says how to do that and exits with code 2.
 */
export function serve(handler: FetchHandler, options?: Options): Service;
export function serve(handler: Handler, options?: Options): Service;
export function serve(handler: (req: IncomingMessage, res: ServerResponse) => unknown, options?: Options): Service;
/** Nothing has happened: the gateway may send the request, whatever its method, to another instance. Throws once headers were sent. */
export function refuse(it: ServerResponse | Context, text?: string): void;
/** As `refuse`, and the service has too much to do for `retryAfterMs` (1,000 if not given). */
export function overloaded(it: ServerResponse | Context, retryAfterMs?: number, text?: string): void;
/** The request's body is larger than the service takes: the client gets 413. Throws once headers were sent. */
export function tooLarge(it: ServerResponse | Context, text?: string): void;
