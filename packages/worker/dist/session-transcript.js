import { PlatformError } from "@signalbox/contract";
/**
 * The record gate under the fence of one session. The first answer that says another owner has the conversation ends
 * the session at once, here and not in the engine: an engine may swallow or retry what its store throws.
 */
export function fencedTranscript(log, onLost) {
    let stale = null;
    const guarded = async (call) => {
        if (stale !== null) {
            throw stale;
        }
        try {
            return await call();
        }
        catch (thrown) {
            if (thrown instanceof PlatformError && (thrown.code === "stale_generation" || thrown.code === "slot_unknown")) {
                stale ??= thrown;
                onLost(thrown.code, thrown.detail);
            }
            throw thrown;
        }
    };
    return {
        append: (entries) => guarded(() => log.append(entries)),
        load: () => guarded(() => log.load()),
    };
}
//# sourceMappingURL=session-transcript.js.map