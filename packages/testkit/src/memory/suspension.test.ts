import type { HoldId } from "@signalbox/contract";
import { beforeEach, describe, expect, it } from "vitest";
import { stagedCommand } from "../simulation/staged-command.ts";
import { createVirtualTime, type VirtualTime } from "../simulation/virtual-time.ts";
import { memoryAdmissionRecord } from "./admission-record.ts";
import { MemoryDatabase } from "./database.ts";
import { memoryOwnershipRecord } from "./ownership-record.ts";
import { memoryProcessRecord } from "./process-record.ts";
import { memoryHoldRecord } from "./suspension.ts";

const HOLD = "hld_1" as HoldId;
const ACTOR = { keyId: "key_1", user: null, roles: [], units: [] };

let time: VirtualTime;
let db: MemoryDatabase;

beforeEach(async () => {
  time = createVirtualTime();
  db = new MemoryDatabase({ nowMs: () => time.clock.nowMs() });
  db.createConversation({ id: "cnv_1", tenantId: "default" });
  const { process } = await memoryProcessRecord(db).register([]);
  const command = stagedCommand(time.digest, { claimFor: process });
  const ownership = memoryOwnershipRecord(db).adopt((await memoryAdmissionRecord(db).admit(command)).claim!);
  await ownership.bindSlot({ tokenHash: "t1", workerId: "w1" });
  const asked = { kind: "approval", subject: {}, digest: null, expiresInMs: 1_000 } as const;
  await memoryHoldRecord(db).openHold({ tokenHash: "t1", process, holdId: HOLD, ...asked });
  await ownership.suspend();
});

const approve = () =>
  memoryHoldRecord(db).decide({
    tenantId: "default",
    actor: ACTOR,
    holdId: HOLD,
    decision: "approve",
    response: null,
    digest: null,
  });
const states = () => ({ hold: db.holds.must(HOLD).state, run: db.runsOf("cnv_1")[0]?.state });

describe("a hold that expires", () => {
  it("is decided until then", async () => {
    await time.until(time.clock.sleep(999));
    expect(await approve()).toEqual({ kind: "decided", ready: true });
    expect(states()).toEqual({ hold: "decided", run: "admitted" });
  });

  it("is decided no more from then on, though no sweep came, and its run goes on", async () => {
    await time.until(time.clock.sleep(1_000));
    await expect(approve()).rejects.toMatchObject({ code: "hold_closed" });
    expect(states()).toEqual({ hold: "expired", run: "admitted" });
  });
});
