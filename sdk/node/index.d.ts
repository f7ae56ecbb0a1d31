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

export interface Options {
  /** Exchanges at once on a shared connection, 1–4096; 64 if not given. */
  exchanges?: number;
  /** Connections for streams, 1–4096; 64 if not given. */
  maxOwn?: number;
  /** Connections that have switched to another protocol; 1,024 if not given. Clients beyond get 503. */
  maxUpgraded?: number;
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
 * say. A handler that throws, or whose promise is rejected, is answered with 502.
 * Not started by the gateway, it says how to do that and exits with code 2.
 */
export function serve(handler: Handler | ((req: IncomingMessage, res: ServerResponse) => unknown), options?: Options): Service;
/** Nothing has happened: the gateway may send the request, whatever its method, to another instance. Throws once headers were sent. */
export function refuse(res: ServerResponse, text?: string): void;
/** As `refuse`, and the service has too much to do for `retryAfterMs` (1,000 if not given). */
export function overloaded(res: ServerResponse, retryAfterMs?: number, text?: string): void;
/** The request's body is larger than the service takes: the client gets 413. Throws once headers were sent. */
export function tooLarge(res: ServerResponse, text?: string): void;
