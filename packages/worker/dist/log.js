import { inspect } from "node:util";
const CAUSES_MAX = 8;
/** One JSON object a line, handed to `write`. */
export function lineLog(write, nowMs) {
    const line = (level, message, facts) => {
        write(`${JSON.stringify({ at: new Date(nowMs()).toISOString(), level, message, ...facts })}\n`);
    };
    return {
        info: (message, facts = {}) => line("info", message, facts),
        warn: (message, facts = {}) => line("warn", message, facts),
        error: (message, error, facts = {}) => line("error", message, { ...facts, error: chainOf(error) }),
    };
}
/** What each error of the chain says, from the outermost to the first cause. */
export function chainOf(error) {
    const chain = [];
    let next = error;
    while (next !== undefined && next !== null && chain.length < CAUSES_MAX) {
        chain.push(next instanceof Error ? (next.stack ?? `${next.name}: ${next.message}`) : inspect(next));
        next = next instanceof Error ? next.cause : undefined;
    }
    return chain;
}
//# sourceMappingURL=log.js.map