-- What a dead generation left of its turn, and how its successor goes on with it: calls are waited for or closed, items
-- that were said to their end stay, and the transcript's tail is adopted before anybody reads it.

-- A transcript of this turn that an earlier generation left, in the order it was appended.
create function signalbox.orphaned_generation(p_conversation text, p_generation bigint) returns bigint
language plpgsql as $$
begin
  return (
    select max(t.generation)
    from signalbox.conversation c join signalbox.transcript_entry t
      on t.conversation_id = c.id and t.position > c.leaf_position
    where c.id = p_conversation and not t.cut and t.generation < p_generation);
end $$;

-- Makes the tail this generation's. Whoever wrote it is refused by the fence, before this statement and after it, so
-- nothing is added to what is counted here. Answers the tail's last entry of the main stream, or null. Repeated, it
-- answers the same: no session is opened in between, so what this generation has behind the leaf is what it adopted.
create function signalbox.adopt_transcript(p_run signalbox.run, p_generation bigint) returns text
language plpgsql as $$
declare
  v_position bigint;
  v_from bigint := signalbox.orphaned_generation(p_run.conversation_id, p_generation);
  v_leaf text;
  v_count bigint;
begin
  select c.leaf_position into strict v_position from signalbox.conversation c
  where c.id = p_run.conversation_id for no key update;
  if v_from is not null and not exists (
       select from signalbox.transcript_entry t
       where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = p_generation)
  then
    update signalbox.transcript_entry t set generation = p_generation
    where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = v_from
      and not t.cut;
    get diagnostics v_count = row_count;
    perform signalbox.audit(p_run.tenant_id, 'transcript_adopted', p_run.actor, p_run.conversation_id, p_run.id,
      p_generation, '{"entryCount":' || v_count || ',"fromGeneration":' || v_from || '}');
  end if;
  select t.entry_id into v_leaf from signalbox.transcript_entry t
  where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = p_generation
    and t.stream = '' and not t.cut
  order by t.position desc limit 1;
  return v_leaf;
end $$;

-- Items of this run that were said to their end and are still visible.
create function signalbox.closed_items(p_run signalbox.run) returns json
language plpgsql as $$
begin
  return (
    select coalesce(json_agg(json_build_object('itemId', last.item_id, 'kind', split_part(last.type, '.', 1),
                                               'text', last.data::json ->> 'text') order by last.sequence), '[]')
    from (select distinct on (e.item_id) e.item_id, e.type, e.data, e.sequence
          from signalbox.event e
          where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
            and e.type in ('text.delta', 'text.completed', 'text.retracted', 'thinking.delta', 'thinking.completed')
          order by e.item_id, e.revision desc, e.sequence desc) as last
    where last.type in ('text.completed', 'thinking.completed'));
end $$;

-- What earlier generations left to this one. While a call of theirs is open at a live gate nothing is adopted: its
-- outcome belongs to the turn, and to its transcript.
create function signalbox.take_over(p_conversation text, p_generation bigint, p_adopt boolean) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_open bigint;
  v_leaf text;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'take_over');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for no key update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  perform signalbox.close_lost_calls(v_run);
  v_open := (select count(*) from signalbox.model_call m where m.run_id = v_run.id and m.state = 'executing')
    + (select count(*) from signalbox.tool_call t where t.run_id = v_run.id and t.state = 'executing');
  if p_adopt and v_open = 0 then
    v_leaf := signalbox.adopt_transcript(v_run, p_generation);
  end if;
  return json_build_object(
    'openCallCount', v_open,
    'outcomeUnknown', exists (select from signalbox.tool_call t
      where t.run_id = v_run.id and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown')),
    'leaf', v_leaf,
    'closedItems', signalbox.closed_items(v_run));
end $$;

-- What was adopted cannot be continued: the turn is run again without it.
create function signalbox.drop_tail(p_conversation text, p_generation bigint) returns json
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
  update signalbox.transcript_entry t set cut = true
  where t.conversation_id = p_conversation and t.position > v_position and t.generation = p_generation and not t.cut;
  return json_build_object('kind', 'dropped');
end $$;

-- Appends behind an entry of this generation, or behind the leaf: what stands behind it is cut in the same transaction.
create function signalbox.append_behind(p_token_hash text, p_behind text, p_kinds text[], p_entries text[],
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
  update signalbox.transcript_entry t set cut = true
  where t.conversation_id = v_run.conversation_id and t.position > v_position and t.generation = v_run.generation
    and not t.cut;
  return signalbox.append_transcript(p_token_hash, p_kinds, p_entries, p_streams, p_bodies);
end $$;

-- What became of calls of the bound run.
create function signalbox.call_outcomes(p_token_hash text, p_tool_uses text[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  return json_build_object('outcomes', (
    select coalesce(json_agg(json_build_object('toolUseId', t.tool_use_id, 'state', t.state, 'resultJson', t.result)
                             order by t.proposed_at, t.ordinal), '[]')
    from signalbox.tool_call t
    where t.run_id = v_run.id and t.tool_use_id = any (p_tool_uses)));
end $$;

-- As before, and whether the run was owned before.
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
