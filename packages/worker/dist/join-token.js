/** Who may call a worker: whoever holds the join token, on every call, compared in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";
import { PlatformError } from "@signalbox/contract";
import { toConnectError } from "./rpc-errors.js";
/** Refuses a call without the token; tells `onHeard` of every call that has it. */
export function requireJoinToken(joinToken, onHeard) {
    const expected = digest(`Bearer ${joinToken}`);
    return (next) => (request) => {
        // Digests have one length, so the comparison says nothing about the token's.
        if (!timingSafeEqual(digest(request.header.get("authorization") ?? ""), expected)) {
            throw toConnectError(new PlatformError("unauthenticated", "A worker is called with the join token it registered with."));
        }
        onHeard();
        return next(request);
    };
}
/** Presents a bearer token on every call of a transport. */
export function bearer(token) {
    return (next) => (request) => {
        request.header.set("authorization", `Bearer ${token}`);
        return next(request);
    };
}
function digest(text) {
    return createHash("sha256").update(text).digest();
}
//# sourceMappingURL=join-token.js.map