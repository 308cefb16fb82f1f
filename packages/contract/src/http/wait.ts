import { z } from "zod";
import { HOLD_KINDS } from "../run.ts";

/** One thing a run waits for: the hold, and since when. */
export const waitSchema = z.object({ holdId: z.string(), kind: z.enum(HOLD_KINDS), since: z.string() });

/** One thing a run waits for. */
export type Wait = z.infer<typeof waitSchema>;
