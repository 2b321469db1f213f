create unlogged table coordination_return (
    only_row boolean primary key default true check (only_row),
    server_started_at timestamptz not null,
    seen_at timestamptz not null
);
insert into coordination_return (server_started_at, seen_at) values (pg_postmaster_start_time(), '-infinity');
comment on table coordination_return is
    'when a broker first saw the server since it came back; a crash, with or without a start, and a promotion empty it';

-- No lease ends earlier: whoever has one has come back by then, if it can.
create function coordination_leases_last_until() returns timestamptz language plpgsql as $$
declare
    found_at timestamptz;
begin
    if pg_is_in_recovery() then
        raise exception 'the server is a standby' using errcode = 'read_only_sql_transaction';
    end if;
    loop
        select seen_at into found_at from coordination_return where server_started_at = pg_postmaster_start_time();
        if found then
            return found_at + interval '6 seconds';
        end if;
        insert into coordination_return as r (server_started_at, seen_at)
        values (pg_postmaster_start_time(), clock_timestamp())
        on conflict (only_row) do update
            set server_started_at = excluded.server_started_at, seen_at = excluded.seen_at
            where r.server_started_at <> excluded.server_started_at;
    end loop;
end
$$;

-- A lease is there until somebody ends it, so it can be renewed although its time is up.
create or replace function coordination_commit(
    expected_keys text[], expected_revisions bigint[],
    put_keys text[], put_values bytea[], put_lease_ids bigint[], deleted_keys text[],
    kept_revisions bigint,
    out succeeded boolean, out at_revision bigint, out missing_lease_id bigint
) language plpgsql as $$
begin
    select revision into strict at_revision from coordination for update;
    missing_lease_id := 0;
    succeeded := not exists (
        select from unnest(expected_keys, expected_revisions) as e (key, revision)
        left join coordination_entry as c on c.key = e.key collate "C"
        where coalesce(c.revision, 0) <> e.revision
    );
    if not succeeded then
        return;
    end if;
    missing_lease_id := coalesce((
        select p.lease_id from unnest(put_lease_ids) as p (lease_id)
        where p.lease_id <> 0 and not exists (select from coordination_lease as l where l.id = p.lease_id)
        limit 1
    ), 0);
    if missing_lease_id <> 0 then
        succeeded := false;
        return;
    end if;
    at_revision := coordination_change_keys(put_keys, put_values, put_lease_ids, deleted_keys, kept_revisions);
end
$$;

create or replace function coordination_end_leases(ended_lease_id bigint, kept_revisions bigint)
returns void language plpgsql as $$
declare
    ended bigint;
begin
    perform revision from coordination for update;
    if ended_lease_id is null and coordination_leases_last_until() > clock_timestamp() then
        return;
    end if;
    for ended in
        delete from coordination_lease
        where case when ended_lease_id is null then ends_at <= clock_timestamp() else id = ended_lease_id end
        returning id
    loop
        perform coordination_change_keys(
            '{}', '{}', '{}',
            array(select key::text from coordination_entry where lease_id = ended), kept_revisions
        );
    end loop;
end
$$;
