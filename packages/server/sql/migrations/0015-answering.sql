-- What a message sent to this conversation would be answered with today: its agent at the current revision, and the pins
-- of the tools which that revision names, and whose the conversation is. Null when the viewer may not see it. One
-- statement, because a request waits for it before anything is recorded.
create function signalbox.answering(p_tenant text, p_user text, p_conversation text) returns json
language plpgsql as $$
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  return (
    select json_build_object('agentId', a.id, 'name', a.name, 'revision', r.revision, 'runtime', r.runtime,
      'definition', r.definition, 'createdAtMs', signalbox.unix_ms(a.created_at), 'participant', c.participant,
      'pins', coalesce((
        select json_agg(json_build_object('server', t.server, 'tool', t.tool, 'title', t.title, 'effect', t.effect,
                                          'definition', t.definition, 'definitionHash', t.definition_hash))
        from jsonb_array_elements_text(r.definition -> 'tools') as named(reference)
        join signalbox.tool t on t.tenant_id = p_tenant
          and t.server = split_part(named.reference, '/', 1)
          and t.tool = substr(named.reference, strpos(named.reference, '/') + 1)), '[]'::json))
    from signalbox.conversation c
    join signalbox.agent a on a.id = c.agent_id and a.tenant_id = p_tenant
    join signalbox.agent_revision r on r.agent_id = a.id and r.revision = a.revision
    where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user));
end $$;
