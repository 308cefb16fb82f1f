import type { Interceptor } from "@connectrpc/connect";
/** Refuses a call without the token; tells `onHeard` of every call that has it. */
export declare function requireJoinToken(joinToken: string, onHeard: () => void): Interceptor;
/** Presents a bearer token on every call of a transport. */
export declare function bearer(token: string): Interceptor;
