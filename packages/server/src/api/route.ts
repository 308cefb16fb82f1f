/**
 * A route as data: the server mounts it, `/openapi.json` describes it, the access tests enumerate it. Handlers answer
 * with a value; only streams write to the response themselves.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Caller, Right } from "./caller.ts";

export interface Answer {
  readonly status: number;
  /** Sent as JSON; a `string` is JSON already, or what its content type says; `null`: nothing is sent. */
  readonly body: string | object | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The handler has taken the response over. */
export const HIJACKED = Symbol("hijacked");

export interface RouteCall<Body, Query> {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly body: Body;
  /** The body as it was sent, before any default was filled in. */
  readonly given: unknown;
  readonly headers: FastifyRequest["headers"];
  readonly requestId: string;
  readonly traceId: string;
  /** Path and query as they were asked for. */
  readonly url: string;
  readonly reply: FastifyReply;
}

export interface RouteResponse {
  readonly description: string;
  readonly schema: z.ZodType | null;
  /** The schema is that of the events of a stream. */
  readonly stream?: boolean;
  /** What is answered instead of a stream where the caller asks for a document. */
  readonly document?: z.ZodType;
}

export interface Route {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With `{name}` for parameters, as OpenAPI writes them. */
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  /** `null`: anybody, without a key. */
  readonly right: Right | null;
  readonly query: z.ZodType | null;
  readonly body: z.ZodType | null;
  readonly responses: Readonly<Record<number, RouteResponse>>;
  readonly handle: (call: RouteCall<unknown, unknown>) => Promise<Answer | typeof HIJACKED>;
}

interface TypedRoute<Body extends z.ZodType | null, Query extends z.ZodType | null> extends Omit<
  Route,
  "handle" | "body" | "query"
> {
  readonly body: Body;
  readonly query: Query;
  readonly handle: (call: RouteCall<Output<Body>, Output<Query>>) => Promise<Answer | typeof HIJACKED>;
}

export type Output<T extends z.ZodType | null> = T extends z.ZodType ? z.output<T> : null;

export function route<Body extends z.ZodType | null, Query extends z.ZodType | null>(
  definition: TypedRoute<Body, Query>,
): Route {
  // The server parses body and query with exactly these schemas before it calls the handler.
  return { ...definition, handle: (call) => definition.handle(call as RouteCall<Output<Body>, Output<Query>>) };
}
