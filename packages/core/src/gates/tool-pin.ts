/**
 * Whether a tool may be used as its server lists it. A definition counts once somebody has looked at it; what differs
 * from that, or comes from elsewhere, is blocked until somebody has looked again. Trust belongs to one definition, of one
 * tool, of one server, at one address. Pure: the record keeps the states and whoever lists brings the facts.
 */

import type { PinState, Posture } from "@signalbox/contract";

/**
 * How what is listed is met: `dev` trusts what it sees first, `production` nobody, and `program` is the program's own
 * functions, which come with the code that was deployed and are trusted as often as they change.
 */
export type ListingTrust = Posture | "program";

/**
 * `trust`: first use under a posture that allows it, or the program's own. `hold`: kept for somebody to look at. `approve`: somebody did.
 * `drift`: listed in another form. `restore`: listed again as it was approved. `move`: listed from another address.
 */
export const PIN_EVENTS = ["trust", "hold", "approve", "drift", "restore", "move"] as const;
export type PinEvent = (typeof PIN_EVENTS)[number];

type Row = Readonly<Record<PinEvent, PinState | null>>;

const NOTHING: Row = { trust: null, hold: null, approve: null, drift: null, restore: null, move: null };

export const PIN_TRANSITIONS: Readonly<Record<PinState, Row>> = {
  new: { ...NOTHING, trust: "approved", hold: "quarantined" },
  quarantined: { ...NOTHING, trust: "approved", hold: "quarantined", approve: "approved", move: "quarantined" },
  approved: { ...NOTHING, trust: "approved", approve: "approved", drift: "drifted", move: "quarantined" },
  drifted: {
    ...NOTHING,
    trust: "approved",
    approve: "approved",
    drift: "drifted",
    restore: "approved",
    move: "quarantined",
  },
};

export interface PinnedForm {
  readonly state: PinState;
  /** What was approved; of a tool that never was, what was listed last. */
  readonly definitionHash: string;
  /** The address it is trusted at; `null` in rows of an older release, which adopt the first they see. */
  readonly origin: string | null;
  /** What its server listed last, where that is not what is pinned. */
  readonly seen: { readonly definitionHash: string; readonly origin: string } | null;
}

export interface ListedForm {
  readonly definitionHash: string;
  readonly origin: string;
  /** Whether something in the definition forbids that it is trusted unseen. */
  readonly isBlocked: boolean;
}

export interface PinChange {
  readonly event: PinEvent;
  readonly state: PinState;
}

/** What a listing changes for a tool, or `null`. `pin` is `null` for a tool that was never listed. */
export function judgeListing(pin: PinnedForm | null, listed: ListedForm, trust: ListingTrust): PinChange | null {
  const isTrusted = trust !== "production" && !listed.isBlocked;
  if (pin === null) return changeOf("new", isTrusted ? "trust" : "hold");
  const before = pin.seen ?? { definitionHash: pin.definitionHash, origin: pin.origin ?? listed.origin };
  const isNews = before.definitionHash !== listed.definitionHash || before.origin !== listed.origin;
  const isAtHome = pin.origin === null || pin.origin === listed.origin;
  const isPinned = pin.definitionHash === listed.definitionHash;
  if (trust === "program" && isTrusted) {
    return isAtHome && isPinned && pin.state === "approved" ? null : changeOf(pin.state, "trust");
  }
  if (!isAtHome) return isNews ? changeOf(pin.state, "move") : null;
  if (pin.state === "quarantined") return isNews ? changeOf("quarantined", "hold") : null;
  if (isPinned) return pin.state === "drifted" ? changeOf("drifted", "restore") : null;
  return isNews || pin.state === "approved" ? changeOf(pin.state, "drift") : null;
}

function changeOf(from: PinState, event: PinEvent): PinChange | null {
  const state = PIN_TRANSITIONS[from][event];
  return state === null ? null : { event, state };
}
