-- The end of an owned run: the seal closes the gates, finish decides and hands over.

create function signalbox.chain_start() returns bytea
language sql immutable parallel safe
return decode(repeat('00', 32), 'hex');

-- Where the transcript would end if the turn of `p_generation` became true, and the digest of the visible items of the
-- main stream up to there. Only the turn's own entries are read: what was before is in the leaf's digest, unless the
-- turn was rebuilt and begins a new chain.
create function signalbox.transcript_tip(p_conversation text, p_generation bigint, p_rung text,
                                         out leaf text, out digest bytea)
language plpgsql as $$
declare
  v_entry record;
  v_chain bytea;
  v_leaf_position bigint;
  v_own boolean := false;
begin
  select c.leaf_entry, c.leaf_digest, c.leaf_position into strict leaf, digest, v_leaf_position
  from signalbox.conversation c where c.id = p_conversation;
  v_chain := case when p_rung = 'rebuilt' then signalbox.chain_start()
                  else coalesce(digest, signalbox.chain_start()) end;
  for v_entry in
    select t.entry_id, t.kind, t.digest
    from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and t.generation = p_generation
      and t.stream = '' and not t.cut
    order by t.position
  loop
    v_own := true;
    leaf := v_entry.entry_id;
    if v_entry.kind = 'item' then
      v_chain := sha256(v_chain || convert_to(v_entry.entry_id, 'UTF8') || v_entry.digest);
    end if;
  end loop;
  if v_own then
    digest := v_chain;
  end if;
end $$;

-- Closes the gates for the run. The exclusive lock waits for intents that are being recorded; later ones find the run
-- no longer running. Repeated, it answers with the facts as they are now and keeps the first conclusion.
create function signalbox.seal(p_conversation text, p_generation bigint, p_conclusion jsonb) returns json
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
                                v_run.conclusion ->> 'rung') t;
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
    'cancelRequested', v_run.cancel_requested_at is not null);
end $$;

-- Moves, keeps or breaks the continuity of the transcript. `p_generation` ran the turn. Of states, only the newest of
-- each stream below the leaf is worth keeping.
create function signalbox.settle_transcript(p_conversation text, p_generation bigint, p_continuity text, p_rung text,
                                            p_leaf text, p_digest bytea) returns void
language plpgsql as $$
declare
  v_leaf_position bigint;
begin
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  if p_continuity = 'broken' or (p_continuity = 'moved' and p_rung = 'rebuilt') then
    update signalbox.transcript_entry t set cut = true
    where t.conversation_id = p_conversation and not t.cut
      and (p_continuity = 'broken' or t.generation <> p_generation);
  else
    -- Only what stands behind the leaf is looked at, however long the transcript is.
    update signalbox.transcript_entry t set cut = true
    where t.conversation_id = p_conversation and t.position > v_leaf_position and not t.cut
      and (p_continuity = 'kept' or t.generation <> p_generation);
  end if;
  if p_continuity = 'moved' then
    select coalesce(max(t.position), v_leaf_position) into v_leaf_position
    from signalbox.transcript_entry t where t.conversation_id = p_conversation;
    update signalbox.conversation
    set leaf_entry = p_leaf, leaf_position = v_leaf_position, leaf_digest = p_digest
    where id = p_conversation;
  elsif p_continuity = 'broken' then
    update signalbox.conversation set leaf_entry = null, leaf_digest = null where id = p_conversation;
  end if;
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.kind = 'state'
    and (t.cut or exists (select from signalbox.transcript_entry n
                          where n.conversation_id = p_conversation and n.kind = 'state' and n.stream = t.stream
                            and n.position > t.position and not n.cut));
end $$;

-- Decides, in one transaction: history, continuity, terminal state and event, audit, release, next message.
create function signalbox.finish(
  p_conversation text, p_generation bigint, p_outcome text, p_reason text, p_error json, p_answer text,
  p_answer_text text, p_partial boolean, p_rung text, p_continuity text, p_leaf text, p_digest text,
  p_served_model text) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_tip record;
  v_turn bigint;
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
  if p_continuity = 'moved' then
    select t.leaf, t.digest into strict v_tip
    from signalbox.transcript_tip(p_conversation, v_turn, v_run.conclusion ->> 'rung') t;
    if v_tip.leaf is distinct from p_leaf or encode(v_tip.digest, 'hex') is distinct from p_digest then
      return json_build_object('code', 'transcript_not_durable');
    end if;
  end if;
  if p_answer is not null then
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (p_answer, v_run.tenant_id, p_conversation, v_run.id, 'assistant', p_answer_text, p_partial,
            v_run.position * 2 + 1);
  end if;
  v_run.rung := p_rung;
  v_run.served_model := p_served_model;
  v_run := signalbox.end_run(v_run, p_generation, p_outcome, p_reason, p_error, p_answer);
  perform signalbox.settle_transcript(p_conversation, v_turn, p_continuity, p_rung, p_leaf, decode(p_digest, 'hex'));
  perform signalbox.unbind_slots(p_conversation);
  perform signalbox.withdraw_proposals(v_run.id);
  return json_build_object('nextRunId', signalbox.hand_over(p_conversation), 'sequence', signalbox.newest(p_conversation));
end $$;

-- What was said before this run, oldest first: the last `p_limit` messages of the history.
create function signalbox.history_before(p_run text, p_limit integer)
returns table (role text, text text)
language sql stable
begin atomic
  select recent.role, recent.text
  from (select m.role, m.text, m.position
        from signalbox.run r join signalbox.message m
          on m.conversation_id = r.conversation_id and m.position < r.position * 2
        where r.id = p_run
        order by m.position desc limit p_limit) as recent
  order by recent.position;
end;
