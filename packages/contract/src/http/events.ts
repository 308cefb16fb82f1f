import { z } from "zod";
import { platformEventSchema } from "../events.ts";

/**
 * A page of `GET /v1/events`: events of all conversations in the order of their transactions, those of a conversation in
 * the order of their sequences. Parts of items are left out; their closing event has the whole.
 */
export const eventPageSchema = z
  .object({
    data: z.array(platformEventSchema),
    /** Where to go on, also when there is nothing more yet; `null` while there has never been anything. Opaque. */
    nextCursor: z.string().nullable(),
    /** Whether the next page is there already. */
    more: z.boolean(),
  })
  .meta({ id: "EventPage" });

/** Events of many conversations. */
export type EventPage = z.infer<typeof eventPageSchema>;
