-- A transcript belongs to the runtime that wrote it: another one starts over from the history. And what no turn can
-- continue from any more is removed, not marked, so that nothing reads past it.

-- Null: written before an agent's runtime could change, so by the runtime the conversation still has.
alter table signalbox.conversation add column leaf_runtime text;

-- What a release without this migration, or this one before its upkeep ran, marked as cut.
create index transcript_entry_cut on signalbox.transcript_entry (conversation_id, position) where cut;

-- Whether the finalized transcript was written by another runtime than the run's.
create function signalbox.leaf_is_foreign(p_run signalbox.run) returns boolean
language plpgsql as $$
begin
  return (select c.leaf_entry is not null and c.leaf_runtime <> p_run.runtime
          from signalbox.conversation c where c.id = p_run.conversation_id) is true;
end $$;

-- The rung as the transcript sees it: behind another runtime's entries every turn begins a chain of its own, also one
-- that was continued after a crash.
create function signalbox.transcript_rung(p_run signalbox.run, p_rung text) returns text
language plpgsql as $$
begin
  return case when signalbox.leaf_is_foreign(p_run) then 'rebuilt' else p_rung end;
end $$;

-- Where the readable transcript begins and ends, for the owner the slot is bound to. Another runtime's entries are not
-- read.
create or replace function signalbox.transcript_head(p_token_hash text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_foreign boolean;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_foreign := signalbox.leaf_is_foreign(v_run);
  return (select json_build_object('conversationId', c.id, 'generation', v_run.generation,
                                   'after', case when v_foreign then c.leaf_position else 0 end,
                                   'leafPosition', c.leaf_position,
                                   'leafDigest', case when not v_foreign then encode(c.leaf_digest, 'hex') end)
          from signalbox.conversation c where c.id = v_run.conversation_id);
end $$;

-- As before, by the rung the transcript sees.
create or replace function signalbox.seal(p_conversation text, p_generation bigint, p_conclusion jsonb) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_tip record;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'seal');
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run set state = 'finalizing', conclusion = coalesce(conclusion, p_conclusion)
  where conversation_id = p_conversation and state in ('running', 'finalizing') and generation = p_generation
  returning * into v_run;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select t.leaf, t.digest into strict v_tip
  from signalbox.transcript_tip(p_conversation, (v_run.conclusion ->> 'generation')::bigint,
                                signalbox.transcript_rung(v_run, v_run.conclusion ->> 'rung')) t;
  return json_build_object(
    'leaf', v_tip.leaf,
    'digest', encode(v_tip.digest, 'hex'),
    'openModelCallCount', (select count(*) from signalbox.model_call m
                           where m.run_id = v_run.id and m.state = 'executing'),
    'openToolCallCount', (select count(*) from signalbox.tool_call t
                          where t.run_id = v_run.id and t.state = 'executing'),
    'unknownToolCallCount', (select count(*) from signalbox.tool_call t
                             where t.run_id = v_run.id and t.state = 'unknown'
                               and t.effect in ('write', 'irreversible')),
    'cancelRequested', v_run.cancel_requested_at is not null,
    'cancelCause', case when v_run.cancel_requested_at is not null
                        then coalesce(v_run.cancel_cause, 'user_cancel') end,
    'strikes', v_run.cancel_strikes and not signalbox.has_effect(v_run.id));
end $$;

-- As before, and says whose transcript it is that the next turn finds.
create or replace function signalbox.finish(
  p_conversation text, p_generation bigint, p_outcome text, p_reason text, p_error json, p_answer text,
  p_answer_text text, p_partial boolean, p_rung text, p_continuity text, p_leaf text, p_digest text,
  p_served_model text) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_tip record;
  v_turn bigint;
  v_rung text;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'finish');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'finalizing' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  v_turn := (v_run.conclusion ->> 'generation')::bigint;
  v_rung := signalbox.transcript_rung(v_run, v_run.conclusion ->> 'rung');
  if p_continuity = 'moved' then
    select t.leaf, t.digest into strict v_tip
    from signalbox.transcript_tip(p_conversation, v_turn, v_rung) t;
    if v_tip.leaf is distinct from p_leaf or encode(v_tip.digest, 'hex') is distinct from p_digest then
      return json_build_object('code', 'transcript_not_durable');
    end if;
  end if;
  if p_answer is not null then
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (p_answer, v_run.tenant_id, p_conversation, v_run.id, 'assistant', p_answer_text, p_partial,
            signalbox.answer_position(v_run));
  end if;
  v_run.rung := p_rung;
  v_run.served_model := p_served_model;
  v_run := signalbox.end_run(v_run, p_generation, p_outcome,
    -- The release before this one knows one cause only.
    case when p_outcome = 'cancelled' and p_reason = 'user_cancel' then coalesce(v_run.cancel_cause, p_reason)
         else p_reason end, p_error, p_answer);
  perform signalbox.settle_transcript(p_conversation, v_turn, p_continuity, v_rung, p_leaf, decode(p_digest, 'hex'));
  if p_continuity = 'moved' then
    update signalbox.conversation set leaf_runtime = v_run.runtime
    where id = p_conversation and leaf_runtime is distinct from v_run.runtime;
  end if;
  perform signalbox.unbind_slots(p_conversation);
  perform signalbox.withdraw_proposals(v_run.id);
  return json_build_object('nextRunId', signalbox.hand_over(p_conversation), 'sequence', signalbox.newest(p_conversation));
end $$;

-- As before; the audit entry says also on which rung the turn stood.
create or replace function signalbox.end_run(p_run signalbox.run, p_generation bigint, p_outcome text, p_reason text,
                                             p_error json, p_answer text) returns signalbox.run
language plpgsql as $$
declare
  v_run signalbox.run;
  v_merged signalbox.run;
begin
  perform signalbox.withdraw_holds(p_run);
  update signalbox.run
  set state = p_outcome, reason = p_reason, error = p_error::jsonb, answer_message_id = p_answer, rung = p_run.rung,
      served_model = p_run.served_model, finished_at = signalbox.clock(), conclusion = null
  where id = p_run.id
  returning * into strict v_run;
  if p_outcome = 'rolled_back' then
    update signalbox.message m set struck = true
    where m.conversation_id = v_run.conversation_id
      and m.run_id in (select v_run.id union all
                       select r.id from signalbox.run r
                       where r.conversation_id = v_run.conversation_id and r.state = 'queued'
                         and r.steer_into = v_run.id and r.consumed_at is not null);
  end if;
  perform signalbox.tell_still_open(v_run);
  perform signalbox.write_event(v_run, p_generation, 1048575, v_run.id, 'run.finished',
    case when v_run.cancel_strikes then
      json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer,
                        'rollback', case p_outcome when 'rolled_back' then 'struck' else 'interrupted' end)
    else json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer) end);
  perform signalbox.audit(v_run.tenant_id, 'message_completed', v_run.actor, v_run.conversation_id, v_run.id,
    p_generation,
    '{"answerMessageId":' || signalbox.quoted(p_answer)
    || ',"errorCode":' || signalbox.quoted(p_error ->> 'code')
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"reason":' || signalbox.quoted(p_reason)
    || ',"rung":' || signalbox.quoted(v_run.rung) || '}');
  for v_merged in
    select r.* from signalbox.run r
    where r.conversation_id = v_run.conversation_id and r.state = 'queued' and r.steer_into = v_run.id
      and r.consumed_at is not null
    order by r.position
  loop
    perform signalbox.end_run(v_merged, p_generation, 'completed', 'merged', null, p_answer);
  end loop;
  return v_run;
end $$;

-- As before. What the next turn cannot continue from is deleted: each entry once, by the turn that leaves it behind.
create or replace function signalbox.settle_transcript(
  p_conversation text, p_generation bigint, p_continuity text, p_rung text, p_leaf text, p_digest bytea) returns void
language plpgsql as $$
declare
  v_leaf_position bigint;
  v_end bigint;
begin
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  select greatest(max(t.position), v_leaf_position) into v_end
  from signalbox.transcript_entry t where t.conversation_id = p_conversation;
  if p_continuity = 'broken' or (p_continuity = 'moved' and p_rung = 'rebuilt') then
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and (p_continuity = 'broken' or t.generation <> p_generation);
  else
    -- Only what stands behind the leaf is looked at, however long the transcript is.
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and
      (p_continuity = 'kept' or t.generation <> p_generation);
  end if;
  if p_continuity = 'moved' then
    update signalbox.conversation
    set leaf_entry = p_leaf, leaf_position = v_end, leaf_digest = p_digest
    where id = p_conversation;
  elsif p_continuity = 'broken' then
    update signalbox.conversation set leaf_entry = null, leaf_digest = null where id = p_conversation;
  end if;
  -- Of states, only the newest of each stream below the leaf is worth keeping.
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.kind = 'state'
    and exists (select from signalbox.transcript_entry n
                where n.conversation_id = p_conversation and n.kind = 'state' and n.stream = t.stream
                  and n.position > t.position and not n.cut);
end $$;

-- As before. An entry that is marked would still stand in the way of its own id, appended again by the same generation.
create or replace function signalbox.drop_tail(p_conversation text, p_generation bigint) returns json
language plpgsql as $$
declare
  v_position bigint;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'drop_tail');
    return json_build_object('code', 'stale_generation');
  end if;
  perform from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for no key update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select c.leaf_position into strict v_position from signalbox.conversation c
  where c.id = p_conversation for no key update;
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.position > v_position and t.generation = p_generation;
  return json_build_object('kind', 'dropped');
end $$;

-- As before, for the same reason.
create or replace function signalbox.append_behind(p_token_hash text, p_behind text, p_kinds text[], p_entries text[],
                                        p_streams text[], p_bodies bytea[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_position bigint;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  perform from signalbox.conversation c where c.id = v_run.conversation_id for no key update;
  select t.position into v_position
  from signalbox.conversation c join signalbox.transcript_entry t on t.conversation_id = c.id
  where c.id = v_run.conversation_id and t.stream = '' and t.entry_id = p_behind and not t.cut
    and ((t.position > c.leaf_position and t.generation = v_run.generation)
         or (t.position <= c.leaf_position and t.entry_id = c.leaf_entry))
  order by t.position desc limit 1;
  if not found then
    return json_build_object('code', 'transcript_corrupt');
  end if;
  delete from signalbox.transcript_entry t
  where t.conversation_id = v_run.conversation_id and t.position > v_position and t.generation = v_run.generation;
  return signalbox.append_transcript(p_token_hash, p_kinds, p_entries, p_streams, p_bodies);
end $$;

-- As before. Another runtime's transcript is no leaf to continue from; what it was about is in the history.
create or replace function signalbox.claim_facts(p_run signalbox.run, p_cause text, p_again boolean) returns json
language plpgsql as $$
declare
  v_at timestamptz := signalbox.clock();
  v_message signalbox.message;
  v_before signalbox.message;
  v_leaf text;
  v_sequence bigint;
  v_history boolean;
  v_visible json := '[]';
  v_unknown boolean := false;
begin
  select m.* into strict v_message from signalbox.message m
  where m.conversation_id = p_run.conversation_id and m.position = p_run.position * 2;
  select m.* into v_before from signalbox.message m
  where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and m.role = 'user'
    and not m.struck
  order by m.position desc limit 1;
  v_history := signalbox.has_history(p_run);
  select c.leaf_entry, c.last_sequence into strict v_leaf, v_sequence from signalbox.conversation c where c.id = p_run.conversation_id;
  if signalbox.leaf_is_foreign(p_run) then
    v_leaf := null;
    v_history := true;
  end if;
  if p_again then
    select coalesce(json_agg(json_build_object('itemId', last.item_id, 'kind', split_part(last.type, '.', 1))
                             order by last.item_id), '[]')
    into v_visible
    from (select distinct on (e.item_id) e.item_id, e.type
          from signalbox.event e
          where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
            and e.type in ('text.delta', 'text.completed', 'text.retracted', 'thinking.delta', 'thinking.completed')
          order by e.item_id, e.revision desc, e.sequence desc) as last
    where last.type <> 'text.retracted';
    v_unknown := exists (select from signalbox.tool_call t
      where t.run_id = p_run.id and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown'));
  end if;
  return json_build_object(
    'tenantId', p_run.tenant_id, 'conversationId', p_run.conversation_id, 'runId', p_run.id,
    'messageId', p_run.message_id, 'generation', p_run.generation, 'attempt', p_run.attempt, 'cause', p_cause,
    'actor', p_run.actor::json, 'snapshotHash', p_run.snapshot_hash, 'traceId', p_run.trace_id,
    'text', v_message.text, 'metadata', v_message.metadata,
    'acceptedAtMs', signalbox.unix_ms(p_run.accepted_at), 'nowMs', signalbox.unix_ms(v_at),
    'startedAtMs', signalbox.unix_ms(p_run.started_at),
    'lastUserMessageAgeMs', signalbox.unix_ms(v_message.created_at) - signalbox.unix_ms(v_before.created_at),
    'lastUserSnippet', left(v_before.text, 400),
    'leaf', v_leaf, 'hasHistory', v_history, 'cancelRequested', p_run.cancel_requested_at is not null,
    'ownedBefore', p_again, 'visibleItems', v_visible, 'takenIn', signalbox.taken_in(p_run),
    'outcomeUnknown', v_unknown, 'sealed', p_run.conclusion, 'sequence', v_sequence);
end $$;

-- Entries that are marked as cut: what an earlier release left. What stands behind the leaf of a conversation whose run
-- is open belongs to the run.
create function signalbox.prune_transcripts(p_limit integer) returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  delete from signalbox.transcript_entry t
  using (
    select e.conversation_id, e.position
    from signalbox.transcript_entry e join signalbox.conversation c on c.id = e.conversation_id
    where e.cut and (e.position <= c.leaf_position or not exists (
      select from signalbox.run r
      where r.conversation_id = e.conversation_id
        and r.state in ('admitted', 'running', 'suspended', 'finalizing')))
    order by e.conversation_id, e.position limit p_limit
    for update of e skip locked) as gone
  where t.conversation_id = gone.conversation_id and t.position = gone.position;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
