/**
 * Messages for a turn that is running. Its owner is told of them again and again; each is handed to the engine once,
 * and belongs to the turn when the record knows that the engine took it in.
 */
import type { MessageId } from "@signalbox/contract";
import type { Ownership, SteeredMessage } from "../ports/ownership-record.ts";
import type { Seat } from "../ports/worker.ts";

/** From the drive, which hears of messages, to whichever attempt is running. */
export interface SteeringLine {
  offer(messages: readonly SteeredMessage[]): void;
  /** Messages go to this receiver from now on; to nobody, with `null`. */
  attach(receiver: ((messages: readonly SteeredMessage[]) => void) | null): void;
}

export function createSteeringLine(): SteeringLine {
  let receiver: ((messages: readonly SteeredMessage[]) => void) | null = null;
  return {
    offer: (messages) => receiver?.(messages),
    attach: (next) => {
      receiver = next;
    },
  };
}

export interface Steering {
  offer(messages: readonly SteeredMessage[]): void;
  /** The engine says that it took this message in. */
  consumed(messageId: string): Promise<void>;
}

/** Hands each message to the step of this seat, in order, until the engine has accepted it. */
export function steeringOf(seat: Seat, ownership: Ownership): Steering {
  const handed = new Map<string, MessageId>();
  let busy = false;
  const hand = async (messages: readonly SteeredMessage[]): Promise<void> => {
    for (const message of messages) {
      if (handed.has(message.messageId)) {
        continue;
      }
      // Before the answer: the engine may have taken it in by then.
      handed.set(message.messageId, message.messageId);
      const accepted = await seat.deliver(message).catch(() => false);
      if (!accepted) {
        handed.delete(message.messageId);
        break;
      }
    }
    busy = false;
  };
  return {
    offer(messages) {
      if (busy) {
        return;
      }
      busy = true;
      // Handing over cannot fail: what a worker refuses is offered again.
      hand(messages).catch(() => undefined);
    },
    async consumed(messageId) {
      const known = handed.get(messageId);
      if (known !== undefined) {
        await ownership.takeIn(known);
      }
    },
  };
}
