/** Asks the policy about the calls of a message. Whatever keeps it from answering in time denies them all. */
import {
  callDigestText,
  isPendingCall,
  LIMITS,
  POLICY_UNAVAILABLE,
  readVerdicts,
  type BatchCall,
  type Clock,
  type Digest,
  type Log,
  type RecordedVerdict,
  type ToolBatch,
  type ToolJudge,
  type CallVerdict,
} from "@signalbox/core";

export interface JudgingPorts {
  readonly judge: ToolJudge;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly log: Log;
}

export interface JudgedCall extends BatchCall {
  readonly verdict: RecordedVerdict;
}

const DONE = "done";

/** Verdicts about those calls that may still be made, and the policy they were reached by. */
export async function judgeMessage(
  ports: JudgingPorts,
  batch: ToolBatch,
): Promise<{ readonly policyVersion: string; readonly judged: readonly JudgedCall[] }> {
  const policyVersion = ports.judge.version();
  const verdicts = await verdictsOf(ports, batch);
  const judged = batch.calls.flatMap((call, index): readonly JudgedCall[] => {
    const { server, tool, definitionHash, argumentsJson } = call;
    const verdict = verdicts[index] ?? POLICY_UNAVAILABLE;
    if (server === null || tool === null || !isPendingCall(call.state)) return [];
    const callDigest = ports.digest.sha256Hex(callDigestText({ server, tool, definitionHash, argumentsJson }));
    return [{ ...call, verdict: { ...verdict, callDigest } }];
  });
  return { policyVersion, judged };
}

async function verdictsOf(ports: JudgingPorts, batch: ToolBatch): Promise<readonly CallVerdict[]> {
  const { judge, clock, log } = ports;
  const over = new AbortController();
  const answered = new AbortController();
  try {
    const late = clock.sleep(LIMITS.judgeMs, answered.signal).then(() => null);
    const answer = await Promise.race([judge.judge(batch, over.signal), late]);
    if (answer === null) log.error("the policy did not answer in time", null, { calls: batch.calls.length });
    return readVerdicts(answer, batch.calls.length);
  } catch (thrown) {
    log.error("the policy could not be asked", thrown, { calls: batch.calls.length });
    return readVerdicts(null, batch.calls.length);
  } finally {
    answered.abort(DONE);
    over.abort(DONE);
  }
}
