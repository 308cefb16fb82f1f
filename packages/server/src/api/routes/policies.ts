/** Policies of the tool gate: versions that never change, the one in place, and what it decides and why. */
import {
  activationSchema,
  backTestQuerySchema,
  backTestSchema,
  createPolicySchema,
  explainCallSchema,
  explainedCallSchema,
  keptPolicySchema,
  pageQuerySchema,
  PlatformError,
  policyPageSchema,
  simulatedCallSchema,
  type KeptPolicy,
} from "@signalbox/contract";
import type { z } from "zod";
import type { Caller } from "../caller.ts";
import { createOnce, postKey, replay } from "../idempotency.ts";
import { answerOf, keyed } from "../keyed-command.ts";
import { route, type Output, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";

const POLICY = { 200: { description: "The policy", schema: keptPolicySchema } };
const EXPLAINED = { 200: { description: "The decision and what it rests on", schema: explainedCallSchema } };

export function policyRoutes(services: ApiServices): readonly Route[] {
  const { policies } = services;
  return [
    createPolicy(services),
    listPolicies(services),
    getPolicy(services),
    activatePolicy(services),
    question(services, {
      path: "/v1/policies/{policy}/explain",
      operationId: "explainPolicy",
      summary: "Why a policy decides as it does about a recorded call, and what would change it",
      body: explainCallSchema,
      responses: EXPLAINED,
      answer: ({ caller, params, body }) => policies.explain(caller.scope, nameOf(params.policy), body.toolCallId),
    }),
    question(services, {
      path: "/v1/policies/{policy}/simulate",
      operationId: "simulatePolicy",
      summary: "What a policy would decide about a call and a run that need not exist",
      body: simulatedCallSchema,
      responses: EXPLAINED,
      answer: ({ caller, params, body }) => policies.simulate(caller.scope, nameOf(params.policy), body),
    }),
    question(services, {
      path: "/v1/policies/{policy}/back-test",
      operationId: "backTestPolicy",
      summary: "What a policy would have decided otherwise about recorded calls than the one in place",
      body: backTestQuerySchema,
      responses: { 200: { description: "What would be otherwise", schema: backTestSchema } },
      answer: ({ caller, params, body }) => policies.backTest(caller.scope, nameOf(params.policy), body),
    }),
  ];
}

function createPolicy({ policies, digest, newPolicyId }: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/policies",
    operationId: "createPolicy",
    summary: "Keep a version of the policy; it judges nothing until it is put in place",
    right: "operate",
    query: null,
    body: createPolicySchema,
    responses: { 201: { description: "The policy", schema: keptPolicySchema } },
    async handle({ caller, body, given, headers }) {
      const { scope, actor } = ofTenant(caller);
      const header = headers["idempotency-key"];
      const key = postKey({ header, route: "createPolicy", body: given, scope, digest });
      return createOnce<KeptPolicy>(key, {
        create: (once) => policies.create(scope, { id: newPolicyId(), document: body.document, actor }, once),
        show: (policy) => policy,
        addressOf: (id) => `/v1/policies/${id}`,
      });
    },
  });
}

function listPolicies({ policies }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/policies",
    operationId: "listPolicies",
    summary: "List the versions of the policy",
    right: "operate",
    query: pageQuerySchema,
    body: null,
    responses: { 200: { description: "A page of policies", schema: policyPageSchema } },
    async handle({ caller, query }) {
      const page = await policies.policies(ofTenant(caller).scope, query);
      return { status: 200, body: { data: [...page.data], nextCursor: page.nextCursor } };
    },
  });
}

function getPolicy({ policies }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/policies/{policy}",
    operationId: "getPolicy",
    summary: "Get a policy by id, the one in place as current, the one the platform ships with as default",
    right: "operate",
    query: null,
    body: null,
    responses: POLICY,
    handle: async ({ caller, params }) => ({
      status: 200,
      body: await policies.policy(ofTenant(caller).scope, nameOf(params.policy)),
    }),
  });
}

function activatePolicy({ policies, digest }: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/policies/{policy}/activate",
    operationId: "activatePolicy",
    summary: "Put a policy in place: from within a second on, calls are judged by it and by no other",
    right: "operate",
    query: null,
    body: activationSchema,
    responses: POLICY,
    async handle(call) {
      const { scope, actor } = ofTenant(call.caller);
      const command = { name: nameOf(call.params.policy), replaces: call.body.replaces, actor };
      const once = keyed<KeptPolicy>(call, { route: "activatePolicy", digest });
      return answerOf(await policies.activate(scope, command, once));
    },
  });
}

interface Question<Body extends z.ZodType, T extends object> extends Pick<
  Route,
  "path" | "operationId" | "summary" | "responses"
> {
  readonly body: Body;
  readonly answer: (call: RouteCall<Output<Body>, null>) => Promise<T>;
}

/** A POST that changes nothing. With a key, what was answered first is answered again. */
function question<Body extends z.ZodType, T extends object>(
  { policies, record, digest }: ApiServices,
  { answer, ...shown }: Question<Body, T>,
): Route {
  return route<Body, null>({
    ...shown,
    method: "POST",
    right: "operate",
    query: null,
    async handle(call) {
      const { scope } = ofTenant(call.caller);
      const once = keyed<T>(call, { route: shown.operationId, digest });
      if (once === null) return { status: 200, body: await answer(call) };
      const before = await record.answered(scope, once);
      return before === null ? answerOf(await policies.keep(scope, once, await answer(call))) : replay(before);
    },
  });
}

/** A policy is about every end user of a tenant, so a key that speaks for one of them does not see it. */
function ofTenant(caller: Caller): Pick<Caller, "scope" | "actor"> {
  if (caller.scope.user === null) return caller;
  throw new PlatformError("permission_denied", "A key that speaks for an end user has nothing to do with policies.");
}

function nameOf(name: string | undefined): string {
  if (name === undefined) throw new PlatformError("not_found");
  return name;
}
