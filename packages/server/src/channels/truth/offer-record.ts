/** What living processes offer: runtimes of their workers, providers of their gates. */
import type { RuntimeInfo } from "@signalbox/contract";
import { jsonText, readRows, type Queryable } from "../../store/record-call.ts";
import { READ_OFFERS, TELL_OFFERS } from "../../store/statements/record-statements.ts";

export interface ProviderOffer {
  readonly name: string;
  readonly simulated: boolean;
}

export interface Offer {
  readonly runtimes: readonly RuntimeInfo[];
  readonly providers: readonly ProviderOffer[];
}

export interface OfferRecord {
  tell(process: number, offer: Offer): Promise<void>;
  /** Of every living process but `process`. */
  others(process: number | null): Promise<readonly Offer[]>;
}

/** `database` connects as `signalbox_run`. */
export function createOfferRecord(database: Queryable): OfferRecord {
  return {
    async tell(process, { runtimes, providers }) {
      await readRows(database, TELL_OFFERS, [process, jsonText(runtimes), jsonText(providers)]);
    },
    others: (process) => readRows<Offer & Record<string, unknown>>(database, READ_OFFERS, [process]),
  };
}
