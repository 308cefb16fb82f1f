import { z } from "zod";

/** A time as it stands in every document: RFC 3339, UTC, with milliseconds (`2026-03-01T12:00:00.000Z`). */
export const timeSchema = z.iso.datetime({ precision: 3 });
